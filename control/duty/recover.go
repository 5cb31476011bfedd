package duty

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/forecast"
	"github.com/dvt-engine/dvt/store"
)

// RecoveryHelp has what a Reconciler needs to find and retry attempts that hang.
type RecoveryHelp struct {
	Rights    *control.Rights
	Signaller *runs.Signaller
	Durations Durations
	Receipts  ReceiptStore
	Ends      *StepEnds
	Incidents IncidentStore
}

// Durations reads how long earlier runs of plans took.
type Durations interface {
	Before(ctx context.Context, h run.Header) (forecast.History, error)
}

// ReceiptStore reads receipts of signals.
type ReceiptStore interface {
	Receipt(ctx context.Context, runID, signalID string) (run.SignalReceipt, error)
}

// Limits of the recovery.
const (
	maxHungLooks   = 100 // attempts whose heartbeats one round asks the engine about
	maxUsualReads  = 20  // plans whose earlier runs one round reads
	maxUsualPlans  = 10_000
	usualLife      = time.Hour // how long the usual duration of a plan is reused
	actionRecovery = "RECOVER"
)

// usualRuns is the usual duration of the runs of a plan.
type usualRuns struct {
	took  time.Duration // 99th percentile
	runs  int
	until time.Time // when it is read again
}

// checkHung finds what hangs in a run and reports it. With RecoveryAct it retries a hung attempt once, and ends the run
// when the retried attempt hangs too (contract H06). A run costs no query until something is wrong with it. Each run
// with a finding is looked at once a minute.
func (w *pass) checkHung(ctx context.Context, r store.QuietRun) error {
	mode := w.s.admission.Modes.Recovery(r.TenantID)
	now := w.s.background.Now()
	if mode == admission.RecoveryOff || now.Before(w.hungDue[r.RunID]) {
		return nil
	}
	f, err := w.hungFactsOf(ctx, r)
	if err != nil {
		return err
	}
	found := findHung(w.rules, f)
	if len(found) > 0 && len(w.hungDue) < maxSuspects {
		w.hungDue[r.RunID] = now.Add(w.cfg.RecoverEvery)
	}
	for _, x := range found {
		w.hung[x.kind]++
		if x.kind == runOverdue {
			err = w.raiseHung(ctx, r, x, store.AlertMedium, x.why)
		} else {
			err = w.recoverAttempt(ctx, r, x, mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hungFactsOf collects the facts of a run. It asks the engine only about attempts that run longer than their timeout:
// the worker ends every other one by itself, or the engine gives it up.
func (w *pass) hungFactsOf(ctx context.Context, r store.QuietRun) (f hungFacts, err error) {
	f.Held = r.Head.Gate&(run.GatePaused|run.GateStopped) != 0 || r.StartedAt == nil
	f.Manual = r.Manual > 0
	if f.Held {
		return f, nil
	}
	f.Age = r.Now.Sub(*r.StartedAt)
	if c := r.RootCause; c != nil {
		f.Failed = &attemptFacts{StepID: c.StepID, LogicalAttempt: c.LogicalAttempt, Error: c.Error}
		return f, nil
	}
	if f.Usual, f.Runs, err = w.usualOf(ctx, r); err != nil {
		return f, err
	}
	var d *engine.Debug
	for _, step := range r.Running {
		a := step.Attempts[len(step.Attempts)-1]
		one := attemptFacts{StepID: step.StepID, LogicalAttempt: a.LogicalAttempt}
		if a.StartedAt != nil && r.Now.Sub(*a.StartedAt) > w.timeoutOf(ctx, r, step.StepID)+2*w.rules.Heartbeat {
			if d == nil {
				if w.hungLooks == maxHungLooks {
					continue
				}
				w.hungLooks++
				got, err := w.engine.Debug(ctx, r.Identity)
				if err != nil {
					return f, err
				}
				d = &got
			}
			one.Silent = silenceOf(*d, one, w.s.background.Now())
		}
		f.Running = append(f.Running, one)
	}
	return f, nil
}

// timeoutOf returns the timeout of a step. That of a plan that cannot be read counts as endless.
func (w *pass) timeoutOf(ctx context.Context, r store.QuietRun, stepID string) time.Duration {
	facts, err := w.s.help.Plans.PlanFacts(ctx, r.PlanRef)
	if f, ok := facts[stepID]; err == nil && ok {
		return f.Timeout
	}
	return 365 * 24 * time.Hour
}

// silenceOf returns the age of the last heartbeat of an attempt; 0 when a worker does not have it.
func silenceOf(d engine.Debug, a attemptFacts, now time.Time) time.Duration {
	for _, p := range d.Pending {
		if strings.HasPrefix(p.ID, fmt.Sprintf("%s/%d.", a.StepID, a.LogicalAttempt)) && p.LastHeartbeat != nil {
			return now.Sub(*p.LastHeartbeat)
		}
	}
	return 0
}

// usualOf returns the usual duration of the runs of a plan, and the number of runs that it rests on. It reads a plan
// once in usualLife, and at most maxUsualReads plans in a round.
func (w *pass) usualOf(ctx context.Context, r store.QuietRun) (time.Duration, int, error) {
	key := store.PlanKey{TenantID: r.TenantID, ProjectID: r.ProjectID, EnvironmentID: r.EnvironmentID, PlanID: r.PlanID}
	now, name := w.s.background.Now(), fmt.Sprint(key)
	if u, ok := w.usual.Get(name); ok && now.Before(u.until) {
		return u.took, u.runs, nil
	}
	if w.usualReads == maxUsualReads {
		return 0, 0, nil
	}
	w.usualReads++
	before, err := w.s.help.Recovery.Durations.Before(ctx, run.Header{Identity: r.Identity, CreatedAt: r.Now})
	if err != nil {
		return 0, 0, err
	}
	took := before.TookSince(r.Now.Add(-w.rules.Window))
	u := usualRuns{took: forecast.Percentile(took, 0.99), runs: len(took), until: now.Add(usualLife)}
	w.usual.Add(name, u)
	return u.took, u.runs, nil
}

// raiseHung raises the alert about a finding.
func (w *pass) raiseHung(ctx context.Context, r store.QuietRun, x hungFinding, level store.AlertLevel,
	note string) error {
	_, err := w.raiseHungState(ctx, r, x, level, note)
	return err
}

// raiseHungState is raiseHung, and returns when the finding was made first; zero when the store was not told.
func (w *pass) raiseHungState(ctx context.Context, r store.QuietRun, x hungFinding, level store.AlertLevel,
	note string) (time.Time, error) {
	a := store.Alert{TenantID: r.TenantID, ProjectID: r.ProjectID, RunID: r.RunID, StepID: x.stepID, Level: level,
		Code: run.CodeStepStuck, Note: note, Actor: control.EngineActor}
	if x.kind == runOverdue {
		a.Code = run.CodeRunOverdue
	} else {
		a.Subject = fmt.Sprintf("attempt %d", x.logicalAttempt)
	}
	raised, err := w.s.background.Alerts.Raise(ctx, a)
	if raised.Opened {
		w.metrics.done.WithLabelValues(x.kind, didEscalate).Inc()
	}
	return raised.State.At, err
}

// recoverAttempt does what the mode says about an attempt that hangs.
func (w *pass) recoverAttempt(ctx context.Context, r store.QuietRun, x hungFinding, mode admission.RecoveryMode) error {
	what := fmt.Sprintf("Attempt %d of step %s hangs: %s. ", x.logicalAttempt, x.stepID, x.why)
	p := authz.Principal{ID: authz.Recovery, TenantID: r.TenantID}
	may, err := w.mayRecover(p, r)
	switch {
	case err != nil:
		return err
	case mode == admission.RecoveryObserve:
		return w.raiseHung(ctx, r, x, store.AlertHigh, what+"With `recovery: act` dvt would retry it once and end the run "+
			"when it hangs again. Check its worker, then retry or cancel.")
	case !may:
		return w.raiseHung(ctx, r, x, store.AlertHigh, what+"dvt may not retry it: give "+authz.Recovery+
			" the role ENGINEER in the policy of the tenant, or retry or cancel by hand.")
	case !x.ended:
		return w.raiseHung(ctx, r, x, store.AlertMedium, what+"dvt retries it as soon as the engine has given it up.")
	}
	late := "It was not retried within an hour, so that it is left to people. Retry or cancel the run."
	key := fmt.Sprintf("%s/%s/%d", r.RunID, x.stepID, x.logicalAttempt)
	if since, ok := w.hungSince[key]; ok && r.Now.Sub(since) > w.rules.ActWithin {
		return w.raiseHung(ctx, r, x, store.AlertHigh, what+late)
	}
	raised, err := w.raiseHungState(ctx, r, x, store.AlertMedium, what+"dvt retries it once, as "+authz.Recovery+".")
	if err != nil {
		return err
	}
	if !raised.IsZero() {
		w.hungSince[key] = raised
		if r.Now.Sub(raised) > w.rules.ActWithin {
			return nil // the next look says so
		}
	}
	before, err := w.recoveryOf(ctx, r, x.stepID, x.logicalAttempt-1)
	if err != nil {
		return err
	}
	if before != nil {
		return w.endHung(ctx, r, x, what+"It is the retry of an attempt that hung as well.")
	}
	own, err := w.recoveryOf(ctx, r, x.stepID, x.logicalAttempt)
	if err != nil {
		return err
	}
	if own == nil {
		return w.retryHung(ctx, p, r, x, what)
	}
	// The retry is under way. Nobody takes it when the queue of the step has no worker.
	if own.AppliedAt != nil && r.Now.Sub(*own.AppliedAt) > w.rules.Unpolled && w.isUnpolled(ctx, r, x.stepID) {
		return w.endHung(ctx, r, x, what+fmt.Sprintf("No worker of its queue has taken the retry for %s.",
			plan.DurationWords(w.rules.Unpolled)))
	}
	return nil
}

// mayRecover reports whether the policy of the tenant lets the recovery retry steps of a run and end it.
func (w *pass) mayRecover(p authz.Principal, r store.QuietRun) (bool, error) {
	for _, action := range []authz.Action{authz.RetryStep, authz.Cancel} {
		d, err := w.s.help.Recovery.Rights.Authz.Decide(p, action, control.ObjectOf(r.Identity))
		if err != nil || !d.Allowed {
			return false, err
		}
	}
	return true, nil
}

// isUnpolled reports whether tasks wait in the queue of a step that no worker polls.
func (w *pass) isUnpolled(ctx context.Context, r store.QuietRun, stepID string) bool {
	facts, err := w.s.help.Plans.PlanFacts(ctx, r.PlanRef)
	if err != nil {
		return false
	}
	sight, ok := w.s.help.Pollers.Look(ctx, facts[stepID].Queue)
	return ok && sight.Waiting > 0 && w.silence(sight) >= w.rules.Unpolled
}

// recoveryOf returns the receipt of the recovery's retry of an attempt; nil without one.
func (w *pass) recoveryOf(ctx context.Context, r store.QuietRun, stepID string,
	attempt int) (*run.SignalReceipt, error) {
	if attempt < 1 {
		return nil, nil
	}
	rc, err := w.s.help.Recovery.Receipts.Receipt(ctx, r.RunID, recoverySignalID(r.RunID, stepID, attempt))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return &rc, err
}

// recoverySignalID returns the same id for every retry of one attempt, so that an attempt has at most one, whichever
// servers send it.
func recoverySignalID(runID, stepID string, logicalAttempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s|%s|%d", runID, stepID, logicalAttempt))
	return store.RecoverySignalPrefix + hex.EncodeToString(sum[:16])
}

// retryHung sends the retry as an ordinary signal, with the rights of the recovery, so that it is judged, counted and
// audited like that of a person. A retry that the state of the run refuses for good ends the run.
func (w *pass) retryHung(ctx context.Context, p authz.Principal, r store.QuietRun, x hungFinding, what string) error {
	out, err := w.s.help.Recovery.Signaller.SignalAs(ctx, p, runs.SignalRun{RunID: r.RunID, Reason: control.Clip(what),
		Signal: run.Signal{ID: recoverySignalID(r.RunID, x.stepID, x.logicalAttempt), Type: run.RetryStep,
			StepID: x.stepID, ExpectedAttempt: x.logicalAttempt, Force: true}})
	var own *control.Error
	if errors.As(err, &own) && (own.RetryAfter > 0 || own.Code == run.CodeSignalRate) {
		return nil // the next round tries again
	}
	if err != nil {
		return err
	}
	switch {
	case !out.Rejected:
		w.done(ctx, r.RunID, attemptHung, didRetry, what)
		return nil
	case out.Rejection == run.CodeRunTerminal, out.Rejection == run.CodeRunFinalizing,
		out.Rejection == run.CodeStepNotFailed, out.Rejection == run.CodeInvalidRunState:
		return nil // others decided about the attempt meanwhile
	}
	return w.endHung(ctx, r, x, what+"Its retry was refused: "+out.RejectText)
}

// endHung ends a run whose recovery failed. Its log and the state of its steps stay, so that a rerun can take over what
// was done. It raises the alert from which an incident is opened.
func (w *pass) endHung(ctx context.Context, r store.QuietRun, x hungFinding, why string) error {
	ended := false
	err := w.s.runs.InRun(ctx, r.RunID, func(tx store.RunTx) error {
		ended = false
		if tx.Head().Terminal || tx.Head().LastSeq != r.Head.LastSeq {
			return nil // the run makes progress
		}
		st, err := tx.State(ctx)
		if err != nil {
			return err
		}
		if err := w.fail(ctx, tx, st, run.CodeEngineTerminated, why); err != nil {
			return err
		}
		ended = true
		return tx.Audit(ctx, store.AuditRow{ID: control.AlertID(r.RunID, x.stepID, actionRecovery), TenantID: r.TenantID,
			Actor: authz.Recovery, Action: actionRecovery, RunID: r.RunID, Outcome: "ACCEPTED", Code: run.CodeStepStuck,
			Reason: control.Clip(why)})
	})
	if err != nil || !ended {
		return err
	}
	w.done(ctx, r.RunID, attemptHung, didFail, why)
	within, cancel := context.WithTimeout(ctx, terminateWait)
	defer cancel()
	if err := w.engine.Terminate(within, r.Identity, "dvt: the run was ended, because its step "+x.stepID+" hangs"); err !=
		nil && !errors.Is(err, engine.ErrNotStarted) && !errors.Is(err, engine.ErrClosed) && ctx.Err() == nil {
		w.s.background.Log.WarnContext(ctx, "the execution of an ended run is still open; it is ended once the engine "+
			"answers", slog.String("runId", r.RunID), slog.Any("error", err))
	}
	_, err = w.s.background.Alerts.Raise(ctx, store.Alert{TenantID: r.TenantID, ProjectID: r.ProjectID, RunID: r.RunID,
		StepID: x.stepID, Level: store.AlertHigh, Code: run.CodeRecoveryFailed, Subject: r.RunID, Shared: true,
		Note:  why + " dvt ended the run; its log and the results of its steps are kept. Find out why, then rerun it.",
		Actor: control.EngineActor})
	return err
}

// checkFailures reports the types of steps that fail more often than usual, by what this server saw.
func (w *pass) checkFailures(ctx context.Context) error {
	if w.s.admission.Modes.Installed == admission.RecoveryOff || w.s.admission.Modes.Installed == "" {
		return nil
	}
	failing := map[string]bool{}
	for _, kind := range w.s.help.Recovery.Ends.types() {
		recent, before := w.s.help.Recovery.Ends.count(kind, w.rules.FailureWindow)
		if !failsTooOften(w.rules, recent, before) {
			continue
		}
		failing[kind] = true
		_, err := w.s.background.Alerts.Raise(ctx, store.Alert{Level: store.AlertHigh, Code: run.CodeStepFailures,
			Subject: kind, Shared: true, Actor: control.EngineActor, Note: fmt.Sprintf(
				"%d of %d steps of type %s failed within %s, and %.0f %% in the day before. Look for what they share: "+
					"`dvt run list --status FAILED` and `dvt doctor`.", recent.failed, recent.all, kind,
				plan.DurationWords(w.rules.FailureWindow), 100*before.rate())})
		if err != nil {
			return err
		}
	}
	w.metrics.open.WithLabelValues(failuresHigh).Set(float64(len(failing)))
	return w.resolveOpen(ctx, "The steps fail no more often than usual.", func(a store.AlertState) bool {
		return !failing[a.Subject] && w.s.background.Now().Sub(a.LastSeen) > 2*time.Minute
	}, run.CodeStepFailures)
}
