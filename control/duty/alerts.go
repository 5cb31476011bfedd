package duty

import (
	"context"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// resolveOpen resolves those open alerts with these codes whose state is left.
func (w *pass) resolveOpen(ctx context.Context, why string, left func(store.AlertState) bool, codes ...run.Code) error {
	open, err := w.s.background.Alerts.Open(ctx, codes...)
	if err != nil {
		return err
	}
	var gone []store.Alert
	for _, a := range open {
		if left(a) {
			gone = append(gone, a.Alert)
		}
	}
	return w.s.background.Alerts.Resolve(ctx, why, gone...)
}

// silentAfter are the times without a new finding after which alerts with these codes are resolved. Their raisers
// find the state again each minute while it lasts, and a panic at least every ten minutes.
func silentAfter() map[run.Code]time.Duration {
	return map[run.Code]time.Duration{
		run.CodeInternal: time.Hour, run.CodeCausalViolation: time.Hour, run.CodeDeliveryFailed: time.Hour,
		run.CodeAlertsOverflow: 10 * time.Minute, run.CodeLagHigh: 2 * time.Minute,
		run.CodeRunOverdue: 10 * time.Minute, run.CodeRecoveryFailed: 24 * time.Hour,
		run.CodeLogLinesLost:   24 * time.Hour,
		run.CodeDependencyDown: 3 * time.Minute, run.CodeWorkerDenied: 2 * time.Minute,
		run.CodeQueueFull: 5 * time.Minute, run.CodePlanFetchFailed: 15 * time.Minute,
	}
}

// maxLoaded bounds the runs with stuck steps that one round reads.
const maxLoaded = 100

// checkAlerts resolves the alerts whose state is left, whichever process raised them: those of runs that have ended, of
// pauses that have drained, of attempts that have ended, and of findings that nobody makes any more. A run that the
// engine did not know is suspected again, so that the next look decides.
func (w *pass) checkAlerts(ctx context.Context) error {
	alerts := w.s.background.Alerts
	if err := alerts.ResolveEnded(ctx); err != nil {
		return err
	}
	codes := []run.Code{run.CodePauseDrain, run.CodeTimeout, run.CodeEngineLost, run.CodeStoreRegressed,
		run.CodeStepStuck}
	silent := silentAfter()
	for code := range silent {
		codes = append(codes, code)
	}
	open, err := alerts.Open(ctx, codes...)
	if err != nil || len(open) == 0 {
		return err
	}
	var ids []string
	for _, a := range open {
		if a.RunID != "" {
			ids = append(ids, a.RunID)
		}
	}
	heads, err := w.s.runs.Heads(ctx, ids)
	if err != nil {
		return err
	}
	var drained, ended, quiet []store.Alert
	loaded := 0
	for _, a := range open {
		head, known := heads.ByRun[a.RunID]
		switch a.Code {
		case run.CodePauseDrain:
			if known && (head.Gate&run.GatePaused == 0 || head.Running == 0) {
				drained = append(drained, a.Alert)
			}
		case run.CodeTimeout, run.CodeStepStuck:
			if loaded == maxLoaded || !known {
				continue
			}
			loaded++
			over, err := w.isOver(ctx, a)
			if err != nil {
				return err
			}
			if over {
				ended = append(ended, a.Alert)
			}
		case run.CodeEngineLost, run.CodeStoreRegressed:
			if known && w.suspects[a.RunID] == nil {
				r, err := w.s.runs.Get(ctx, a.RunID)
				if err != nil {
					return err
				}
				w.suspect(r.Identity)
			}
		default:
			if heads.Now.Sub(a.LastSeen) > silent[a.Code] {
				quiet = append(quiet, a.Alert)
			}
		}
	}
	if err := alerts.Resolve(ctx, "The pause has drained, or the run was resumed.", drained...); err != nil {
		return err
	}
	if err := alerts.Resolve(ctx, "The attempt has ended, or the run is paused.", ended...); err != nil {
		return err
	}
	return alerts.Resolve(ctx, "The state was not found any more.", quiet...)
}

// isOver reports whether the state of an alert about an attempt is left.
func (w *pass) isOver(ctx context.Context, a store.AlertState) (bool, error) {
	if a.Code == run.CodeStepStuck {
		return w.isHangOver(ctx, a)
	}
	return w.isAttemptOver(ctx, a)
}

// isHangOver reports whether the attempt that hung is no longer the newest one of its step, or has ended otherwise.
func (w *pass) isHangOver(ctx context.Context, a store.AlertState) (bool, error) {
	l, err := w.s.runs.Load(ctx, a.RunID)
	if err != nil {
		return false, err
	}
	step, ok := l.State.Step(a.StepID)
	return !ok || a.Subject != fmt.Sprintf("attempt %d", step.LogicalAttempt) ||
		step.Status != run.StepRunning && step.Status != run.StepFailed, nil
}

// isAttemptOver reports whether the step of an alert has no running attempt that started before the alert was raised.
func (w *pass) isAttemptOver(ctx context.Context, a store.AlertState) (bool, error) {
	l, err := w.s.runs.Load(ctx, a.RunID)
	if err != nil {
		return false, err
	}
	step, ok := l.State.Step(a.StepID)
	if !ok || step.Status != run.StepRunning || l.State.Pause != nil || len(step.Attempts) == 0 {
		return true, nil
	}
	started := step.Attempts[len(step.Attempts)-1].StartedAt
	return started == nil || started.After(a.At), nil
}

// resolveSuspect resolves the alerts about a run that the engine executes after all.
func (w *pass) resolveSuspect(ctx context.Context, id run.Identity) error {
	of := func(code run.Code) store.Alert {
		return store.Alert{TenantID: id.TenantID, ProjectID: id.ProjectID, RunID: id.RunID, Code: code}
	}
	return w.s.background.Alerts.Resolve(ctx, "The engine executes the run.", of(run.CodeEngineLost),
		of(run.CodeStoreRegressed))
}
