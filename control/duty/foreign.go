package duty

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// reportForeign logs an execution under the id of a run that dvt did not start, and writes one audit row for it. A
// failure to write the row is only logged.
func (s *Reconciler) reportForeign(ctx context.Context, id run.Identity, f engine.ForeignExecution) {
	const held = "An execution that dvt did not start held the id of the run in the engine (%s): %s."
	why := fmt.Sprintf(held, f.EngineRunID, f.Why)
	s.help.Metrics.done.WithLabelValues(workflowForeign, didTerminate).Inc()
	s.background.Log.WarnContext(ctx, "dvt did not start an execution under the id of a run",
		slog.String("runId", id.RunID), slog.String("engineRunId", f.EngineRunID), slog.String("why", f.Why))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), control.RefusalAuditTime)
	defer cancel()
	if err := s.runs.Audit(ctx, store.AuditRow{
		ID: control.AlertID(id.RunID, f.EngineRunID, workflowForeign), TenantID: id.TenantID, Actor: string(run.ByEngine),
		Action: "ENGINE_FORGERY", RunID: id.RunID, Outcome: "REJECTED", Code: run.CodeTicketRefused,
		Reason: run.Text(why, control.MaxAuditedReason),
	}); err != nil {
		s.background.Log.WarnContext(ctx, "an audit row was not written; the audit may lack it", slog.Any("error", err))
	}
}

// oust terminates the foreign execution that d describes, so that it releases the run's id. It does nothing when the
// execution has already ended.
func (w *pass) oust(ctx context.Context, id run.Identity, d engine.Description) error {
	w.s.reportForeign(ctx, id, engine.ForeignExecution{EngineRunID: d.Ref.EngineRunID, Why: d.Foreign})
	err := w.engine.TerminateForeign(ctx, id, "dvt: this execution held the id of a run, and dvt did not start it: "+d.Foreign)
	if errors.Is(err, engine.ErrNotStarted) || errors.Is(err, engine.ErrClosed) {
		return nil
	}
	return err
}

// checkLeftovers terminates executions of runs whose log has ended. Either the engine did not answer when dvt ended
// the run, or somebody started the execution later. Each call reads one page of the engine's index.
func (w *pass) checkLeftovers(ctx context.Context) error {
	open, next, err := w.engine.ListOpen(ctx, w.runningPage)
	w.runningPage = next
	if err != nil || len(open) == 0 {
		return err
	}
	ids := make([]string, len(open))
	for i, id := range open {
		ids[i] = id.RunID
	}
	heads, err := w.s.runs.Heads(ctx, ids)
	if err != nil {
		return err
	}
	return control.ForEach(ctx, open, func(id run.Identity) error {
		h, ok := heads.ByRun[id.RunID]
		if !ok || !h.Terminal || heads.Now.Sub(h.LastAt) < max(w.cfg.Quiet, leftoverQuiet) {
			return nil // the workflow of the run may be closing by itself
		}
		return w.s.background.DoForRun(ctx, control.DutyReconcile, id.RunID, func() error {
			err := w.engine.Terminate(ctx, id, "dvt: the run has ended")
			if errors.Is(err, engine.ErrNotStarted) || errors.Is(err, engine.ErrClosed) {
				return nil
			}
			if err == nil {
				w.done(ctx, id.RunID, workflowLeftover, didTerminate,
					"The run had ended, and an execution of it was still open in the engine.")
			}
			return err
		})
	})
}

// leftoverQuiet is the minimum time between the end of a run and the termination of its execution. The workflow that
// wrote the end usually closes by itself within seconds.
const leftoverQuiet = 10 * time.Second
