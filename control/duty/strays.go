package duty

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// stray is an attempt that is RUNNING in the log but that the engine did not execute at the first look.
type stray struct {
	head  run.Seq
	since time.Time
}

// checkStrays ends attempts of a stopping run that the engine does not execute. Nothing else would end them, and the
// run would stay open forever.
func (w *pass) checkStrays(ctx context.Context, r store.QuietRun) error {
	if len(r.Running) == 0 || r.Head.Gate&run.GateStopped == 0 {
		return nil
	}
	d, err := w.engine.Debug(ctx, r.Identity)
	if err != nil {
		return err
	}
	for _, step := range r.Running {
		a := step.Attempts[len(step.Attempts)-1]
		if _, err := w.endStray(ctx, r, step.StepID, a.LogicalAttempt, d); err != nil {
			return err
		}
	}
	return nil
}

// endStray ends an attempt that is missing in d, the engine's description of the run, once two looks agree and the log
// has not moved between them. It reports whether the engine does not execute the attempt.
func (w *pass) endStray(
	ctx context.Context, r store.QuietRun, stepID string, logicalAttempt int, d engine.Debug,
) (bool, error) {
	subject := fmt.Sprintf("%s/%d", stepID, logicalAttempt)
	id := control.AlertID(r.RunID, subject, stepStray)
	for _, p := range d.Pending {
		if strings.HasPrefix(p.ID, subject+".") {
			delete(w.strays, id)
			return false, nil
		}
	}
	now := w.s.background.Now()
	if x, ok := w.strays[id]; !ok || x.head != r.Head.LastSeq {
		if len(w.strays) < maxSuspects {
			w.strays[id] = stray{head: r.Head.LastSeq, since: now}
		}
		return true, nil
	} else if now.Sub(x.since) < w.cfg.Confirm {
		return true, nil
	}
	delete(w.strays, id)
	f := run.FailurePayload{
		ErrorCode: string(run.CodeTimeout), Retryable: true, FailureCategory: run.CategoryTimeout, FailureSource: "engine",
		ErrorMessage: "the engine no longer executes this attempt",
	}
	gate := run.GateFailing
	if r.Head.Gate&run.GateStopped != 0 {
		f.ErrorCode, f.Retryable, f.FailureCategory, gate = string(run.CodeCancelled), false, run.CategoryUser, 0
	}
	payload, err := json.Marshal(f)
	if err != nil {
		return true, err
	}
	ended := false
	err = w.s.runs.InRun(ctx, r.RunID, func(tx store.RunTx) error {
		ended = tx.Head().LastSeq == r.Head.LastSeq
		if !ended {
			return nil
		}
		_, err := tx.Append(ctx, store.Append{RunID: r.RunID, SetGate: gate, IfStarted: true, Events: []run.Draft{{
			Type: run.StepFailedEvent, StepID: stepID, LogicalAttempt: logicalAttempt, EngineAttempt: 1, EmittedAt: now.UTC(),
			EmittedBy: run.ByEngine, Payload: payload,
		}}})
		return err
	})
	if err != nil || !ended {
		return true, err
	}
	w.done(ctx, r.RunID, stepStray, didFail, fmt.Sprintf(
		"Attempt %d of step %s was RUNNING in the log, and the engine did not execute it.", logicalAttempt, stepID))
	// An empty signal wakes the workflow, which then reads the log.
	return true, w.engine.Signal(ctx, r.Identity, engine.Signal{})
}
