package duty

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// errMoved means that the log moved since it was read. A run that makes progress must not be repaired.
var errMoved = errors.New("control: the log moved")

// checkSuspects checks each suspect whose next check is due.
func (w *pass) checkSuspects(ctx context.Context) error {
	now := w.s.background.Now()
	ids := make([]string, 0, len(w.suspects))
	for id, x := range w.suspects {
		if !now.Before(x.next) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	heads, err := w.s.runs.Heads(ctx, ids)
	if err != nil {
		return err
	}
	w.asOf = heads.Now
	return control.ForEach(ctx, ids, func(id string) error {
		head, ok := heads.ByRun[id]
		if !ok || head.Terminal {
			delete(w.suspects, id)
			return nil
		}
		return w.s.background.DoForRun(ctx, control.DutyReconcile, id, func() error {
			return w.checkSuspect(ctx, w.suspects[id],
				head)
		})
	})
}

// checkSuspect asks the engine about a run. It repairs or reports the run when two checks agree.
func (w *pass) checkSuspect(ctx context.Context, x *suspect, head store.Head) error {
	d, err := w.engine.Describe(ctx, x.id)
	kind := workflowGone
	switch {
	case errors.Is(err, engine.ErrNotStarted):
		kind = workflowMissing
	case err != nil:
		return err
	case d.Foreign != "":
		kind = workflowForeign
	case d.Open:
		delete(w.suspects, x.id.RunID)
		return w.resolveSuspect(ctx, x.id)
	}
	now := w.s.background.Now()
	if x.kind != kind && x.kind != logRegressed || x.head != head.LastSeq {
		x.kind, x.head, x.since = kind, head.LastSeq, now
		return nil
	}
	if now.Sub(x.since) < w.cfg.Confirm {
		return nil
	}
	if (kind == workflowMissing || kind == workflowForeign) && w.isEngineDoubtful(kind) {
		x.next = now.Add(regressedPause)
		why := "The engine does not know this run, nor most others: rather than all of them being lost, " +
			"the engine came back without its data, or is another one. Nothing was ended."
		if kind == workflowForeign {
			why = "The engine executes this run and most others without a seal that this server knows: rather than all of them " +
				"being forged, ticket-keys lacks a key that is in use. Nothing was ended."
		}
		return w.escalate(ctx, store.Alert{Code: run.CodeEngineLost, Note: why}, x.id, kind)
	}
	known := run.Seq(0)
	if kind == workflowForeign { // its history is not that of the run
		err = w.oust(ctx, x.id, d)
	} else {
		known, err = w.knownHead(ctx, x.id)
	}
	if err != nil {
		return err
	}
	if known > head.LastSeq {
		x.kind, x.next = logRegressed, now.Add(regressedPause)
		return w.escalate(ctx, store.Alert{Code: run.CodeStoreRegressed, Note: fmt.Sprintf(
			"The log ends at seq %d, but the engine knows of seq %d: the store came back from an older state. Run `dvt store "+
				"repair`; nothing was ended.", head.LastSeq, known)}, x.id, logRegressed)
	}
	err = w.heal(ctx, x, kind, d)
	if errors.Is(err, errMoved) {
		x.kind = ""
		return nil
	}
	if err == nil {
		delete(w.suspects, x.id.RunID)
	}
	return err
}

// isEngineDoubtful reports whether too many runs have the same finding. Then the engine or the keys of this server are
// probably wrong, rather than all these runs.
func (w *pass) isEngineDoubtful(kind string) bool {
	missing := 0
	for _, x := range w.suspects {
		if x.kind == kind {
			missing++
		}
	}
	return missing > maxForgotten && missing > max(w.known, w.knows)
}

// knownHead returns the highest seq of a run's log that its engine was told.
func (w *pass) knownHead(ctx context.Context, id run.Identity) (known run.Seq, err error) {
	for r, err := range w.engine.History(ctx, id) {
		if errors.Is(err, engine.ErrNotStarted) {
			return known, nil
		}
		if err != nil {
			return 0, err
		}
		known = max(known, r.Head)
	}
	return known, nil
}

// heal ends a run that no execution belongs to, or starts it again, under the head lock. It completes an open stop
// first (contract T192).
func (w *pass) heal(ctx context.Context, x *suspect, kind string, d engine.Description) error {
	stop, stopping, err := w.s.stopper.OpenStop(ctx, x.id.RunID)
	if err != nil {
		return err
	}
	var action, why string
	err = w.s.runs.InRun(ctx, x.id.RunID, func(tx store.RunTx) error {
		action, why = "", ""
		if tx.Head().Terminal {
			return nil
		}
		if tx.Head().LastSeq != x.head {
			return errMoved // for example by a stop
		}
		if stopping {
			action, why = didCancel, fmt.Sprintf("Nobody executes the run any more (%s), and the stop %s was open.",
				describeFinding(kind, d), stop.Signal.ID)
			reason := "dvt ended the run by itself, because " + describeFinding(kind, d)
			if err := w.s.stopper.CompleteStop(ctx, tx, stop, cutByStop(stop), reason); err != nil {
				return err
			}
			return w.trail(ctx, tx, x.id, run.CodeTerminated, why)
		}
		st, err := tx.State(ctx)
		if err != nil {
			return err
		}
		if kind != workflowGone && st.StartedAt == nil {
			action = didRestart
			why = fmt.Sprintf("The run was handed to the engine and never began, and %s: it is started again.",
				describeFinding(kind, d))
			return w.restart(ctx, tx, why)
		}
		action = didFail
		code := run.CodeEngineTerminated
		if kind == workflowMissing {
			code = run.CodeEngineLost
		}
		why = fmt.Sprintf("Nobody executes the run any more: %s.", describeFinding(kind, d))
		if err := w.fail(ctx, tx, st, code, why); err != nil {
			return err
		}
		return w.trail(ctx, tx, x.id, code, why)
	})
	if err == nil && action != "" {
		w.done(ctx, x.id.RunID, kind, action, why)
		if action == didRestart {
			control.Wake(w.s.admission.Waker.Starts)
		}
	}
	return err
}

func describeFinding(kind string, d engine.Description) string {
	switch kind {
	case workflowMissing:
		return "the engine does not know it"
	case workflowForeign:
		return "an execution that dvt did not start held its id in the engine"
	}
	return fmt.Sprintf("its execution in the engine closed as %s, and the log has no end of the run", d.ClosedAs)
}

// restart makes the start of the run due again.
func (w *pass) restart(ctx context.Context, tx store.RunTx, why string) error {
	q, err := tx.Queue(ctx)
	if err != nil {
		return err
	}
	q.Status, q.NotBefore, q.LastError = store.QueuePending, w.asOf, why
	return tx.SetQueue(ctx, q)
}

// fail ends the running attempts and then the run.
func (w *pass) fail(ctx context.Context, tx store.RunTx, st run.State, code run.Code, why string) error {
	cut := runs.CutByKill()
	cut.ErrorMessage = "the attempt was cut off: nobody executes the run any more"
	events, err := w.s.stopper.CutOff(st, cut)
	if err != nil {
		return err
	}
	failed, err := json.Marshal(run.RunFailedPayload{FailurePayload: run.FailurePayload{
		ErrorCode: string(code), ErrorMessage: why, Retryable: true, FailureCategory: run.CategoryPlatform,
		FailureSource: string(run.ByControl),
	}})
	if err != nil {
		return err
	}
	q, err := tx.Queue(ctx)
	if err == nil && q.Status == store.QueuePending { // the run must not start any more
		q.Status = store.QueueFailed
		err = tx.SetQueue(ctx, q)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return runs.EndRun(ctx, tx, st.RunID, append(events, run.Draft{
		Type: run.RunFailed, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.s.background.Now(), EmittedBy: run.ByControl,
		Payload: failed,
	}))
}

// trail writes, in the same transaction, the audit row of a run that the Reconciler ended.
func (w *pass) trail(ctx context.Context, tx store.RunTx, id run.Identity, code run.Code, why string) error {
	return tx.Audit(ctx, store.AuditRow{
		ID: control.AlertID(id.RunID, "",
			"end"), TenantID: id.TenantID, Actor: control.EngineActor, Action: "SWEEP", RunID: id.RunID,
		Outcome: "ACCEPTED", Code: code, Reason: why,
	})
}

// escalate raises an alert about a run and writes an audit row, once for each opening: the id of the row is that of the
// alert, so that other rounds and other servers write the same one.
func (w *pass) escalate(ctx context.Context, a store.Alert, id run.Identity, kind string) error {
	a.TenantID, a.ProjectID, a.RunID = id.TenantID, id.ProjectID, id.RunID
	a.Level, a.Actor = store.AlertHigh, control.EngineActor
	raised, err := w.s.background.Alerts.Raise(ctx, a)
	if err != nil || raised.State.ID == "" {
		return err
	}
	if raised.Opened {
		w.metrics.done.WithLabelValues(kind, didEscalate).Inc()
	}
	return w.s.runs.Audit(ctx, store.AuditRow{
		ID: raised.State.ID, TenantID: id.TenantID, Actor: control.EngineActor, Action: "SWEEP", RunID: id.RunID,
		Outcome: "ESCALATED", Code: a.Code, Reason: a.Note,
	})
}
