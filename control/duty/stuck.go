package duty

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// checkStarts frees overdue starts. Any dispatcher takes a lease that has expired, so an overdue row means that no
// dispatcher works.
func (w *pass) checkStarts(ctx context.Context) error {
	if w.s.admission.Modes.HoldsStarts() {
		return nil
	}
	rows, err := w.s.waits.ListStuckStarts(ctx, w.cfg.StartAge, w.cfg.Batch)
	if err != nil {
		return err
	}
	w.metrics.open.WithLabelValues(startStuck).Set(float64(len(rows)))
	if len(rows) > 0 {
		control.Wake(w.s.admission.Waker.Starts)
	}
	broken := control.ForEach(ctx, rows, func(q store.QueueRow) error {
		return w.s.background.DoForRun(ctx, control.DutyReconcile, q.RunID, func() error {
			return w.freeLease(ctx, q,
				describeStuckStart(q))
		})
	})
	if broken != nil && control.IsOutage(ctx, broken) {
		return broken
	}
	waits := map[string]bool{}
	for _, q := range rows {
		if waits[q.TenantID] {
			continue // one alert of a tenant is enough: the cause is the same for all
		}
		waits[q.TenantID] = true
		r, err := w.s.runs.Get(ctx, q.RunID)
		if err == nil {
			err = w.escalate(ctx, store.Alert{Code: run.CodeEngineUnavailable, Subject: subjectStarts, Shared: true,
				Note: describeStuckStart(q)}, r.Identity, startStuck)
		}
		if err != nil {
			return err
		}
	}
	if len(rows) == w.cfg.Batch {
		return broken // starts of other tenants may wait as well
	}
	return cmp.Or(broken, w.resolveOpen(ctx, "No start is overdue any more.", func(a store.AlertState) bool {
		return a.Subject == subjectStarts && !waits[a.TenantID]
	}, run.CodeEngineUnavailable))
}

// subjectStarts is the subject of the alert about starts that no server makes.
const subjectStarts = "starts"

// describeStuckStart returns a sentence about a start that no server makes.
func describeStuckStart(q store.QueueRow) string {
	why := fmt.Sprintf(
		"The run waits for its start since %s and no server with the duty dispatch takes it; it was tried %d times.",
		q.CreatedAt.UTC().Format(time.RFC3339), q.Attempts)
	if q.LastError != "" {
		why += " The last error: " + q.LastError
	}
	return why
}

// freeLease ends the lease of a row, unless it changed since it was read.
func (w *pass) freeLease(ctx context.Context, q store.QueueRow, why string) error {
	if q.Status != store.QueueLocked {
		return nil
	}
	freed := false
	err := w.s.runs.InRun(ctx, q.RunID, func(tx store.RunTx) error {
		now, err := tx.Queue(ctx)
		freed = err == nil && now.Generation == q.Generation && now.Status == store.QueueLocked
		if !freed {
			return err
		}
		now.Status = store.QueuePending
		return tx.SetQueue(ctx, now)
	})
	if err == nil && freed {
		w.done(ctx, q.RunID, startStuck, didWake, why)
	}
	return err
}

// checkSteps reports attempts that run for longer than all their tries may take. The engine itself detects a lost
// worker by heartbeats and a slow step by its timeout (contract T57), so an attempt that is still running points to a
// fault of another kind.
func (w *pass) checkSteps(ctx context.Context, r store.QuietRun) error {
	if len(r.Running) == 0 || r.Head.Gate&run.GatePaused != 0 {
		return nil
	}
	facts, err := w.s.help.Plans.PlanFacts(ctx, r.PlanRef)
	var broken *plan.InvalidError
	if errors.Is(err, store.ErrNotFound) || errors.As(err, &broken) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, step := range r.Running {
		a := step.Attempts[len(step.Attempts)-1]
		f, ok := facts[step.StepID]
		if !ok || a.StartedAt == nil || r.Now.Sub(*a.StartedAt) <= f.Patience+w.cfg.StepSlack {
			continue
		}
		w.stuck++
		if err := w.reportStuckStep(ctx, r, step, a, f); err != nil {
			return err
		}
	}
	return nil
}

func (w *pass) reportStuckStep(ctx context.Context, r store.QuietRun, step *run.Step, a run.Attempt,
	f runs.StepFacts) error {
	subject := fmt.Sprintf("%s/%d", step.StepID, a.LogicalAttempt)
	alert := store.Alert{TenantID: r.TenantID, ProjectID: r.ProjectID, RunID: r.RunID, StepID: step.StepID,
		Code: run.CodeTimeout}
	if w.s.background.Alerts.IsRecent(alert) {
		return nil // the engine need not be asked again
	}
	d, err := w.engine.Debug(ctx, r.Identity)
	if err != nil {
		return err
	}
	if unknown, err := w.endStray(ctx, r, step.StepID, a.LogicalAttempt, d); unknown || err != nil {
		return err
	}
	alert.Note = fmt.Sprintf("Step %s runs as attempt %d since %s, for longer than its %d tries of %s may take: %s",
		step.StepID, a.LogicalAttempt, a.StartedAt.UTC().Format(time.RFC3339), f.Tries, plan.DurationWords(f.Timeout),
		diagnosis(d, subject, f.Queue))
	return w.escalate(ctx, alert, r.Identity, stepStuck)
}

// diagnosis returns a sentence with the engine's knowledge of an attempt.
func diagnosis(d engine.Debug, subject, queue string) string {
	for _, p := range d.Pending {
		if !strings.HasPrefix(p.ID, subject+".") {
			continue
		}
		switch {
		case p.LastHeartbeat == nil:
			return fmt.Sprintf(
				"the engine waits for a worker of %s to take try %d (%s). Check whether a worker serves that queue.",
				queue, p.Attempt, p.State)
		case p.LastFailure != "":
			return fmt.Sprintf("try %d (%s) gave its last sign of life at %s, and the one before failed: %s", p.Attempt,
				p.State,
				p.LastHeartbeat.UTC().Format(time.RFC3339), p.LastFailure)
		default:
			return fmt.Sprintf(
				"a worker of %s has try %d (%s) and gave its last sign of life at %s. Check what the step does.",
				queue, p.Attempt, p.State, p.LastHeartbeat.UTC().Format(time.RFC3339))
		}
	}
	return "the engine does not execute it."
}
