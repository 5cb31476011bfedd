package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// SignalRun accepts or rejects one signal under the run's head lock and returns
// its receipt (T93, T96, T222). Order: visibility, size, dedupe, authorisation,
// RUN_MOVED, the state of the run. What it accepts is durable, numbered and will
// be delivered in order, whatever crashes next. It is safe to repeat.
func (s *Service) SignalRun(ctx context.Context, p authz.Principal, in SignalRun) (Receipt, error) {
	action := authz.Action(in.Signal.Type)
	r, err := s.visible(ctx, p, action, in.RunID)
	if err != nil {
		return Receipt{}, err
	}
	if err := s.checkSignal(in); err != nil {
		return Receipt{}, err
	}
	object := objectOf(r.Identity)
	rights, err := s.cfg.Authz.Decide(p, action, object)
	if err != nil {
		return Receipt{}, translate(err)
	}
	j := &judging{s: s, p: p, in: in, rights: rights}
	if err := s.cfg.Store.InRun(ctx, in.RunID, func(tx store.RunTx) error { return j.judge(ctx, tx) }); err != nil {
		return Receipt{}, translate(err)
	}
	if j.refusal != nil {
		if j.refusal.Code == run.CodeSignalRate {
			s.auditDenied(ctx, p, store.AuditRow{
				Action: string(action), RunID: in.RunID, SignalID: in.Signal.ID, Code: run.CodeSignalRate, Reason: "denied more often than the log takes",
			})
		}
		return Receipt{}, j.refusal
	}
	if j.out.Rejection == run.CodeForbidden {
		return Receipt{}, s.denied(action, object, rights)
	}
	kick(s.signals)
	return j.out, nil
}

func (s *Service) checkSignal(in SignalRun) error {
	switch in.Signal.Type {
	case run.Pause, run.Resume, run.RetryStep, run.Cancel:
	default:
		return refuse(run.CodeNotSupported, "%q is not a signal that this version knows.", in.Signal.Type)
	}
	vs := checkID(nil, "signalId", in.Signal.ID)
	if in.Signal.Type == run.RetryStep {
		vs = checkID(vs, "signal.retryStep.stepId", in.Signal.StepID)
	}
	if len(vs) > 0 {
		return badInput(vs)
	}
	if size := max(len(in.Payload), len(in.Reason)); size > s.cfg.Limits.MaxSignalBytes {
		e := refuse(run.CodeSignalTooLarge, "The signal has %d bytes; at most %d are allowed.", size, s.cfg.Limits.MaxSignalBytes)
		e.Limit = int64(s.cfg.Limits.MaxSignalBytes)
		return e
	}
	return nil
}

// judging is one decision about one signal.
type judging struct {
	s      *Service
	p      authz.Principal
	in     SignalRun
	rights authz.Decision

	out     Receipt
	refusal *Error // answered without a trace but the audit row
}

func (j *judging) judge(ctx context.Context, tx store.RunTx) error {
	j.out, j.refusal = Receipt{}, nil
	old, err := tx.Receipt(ctx, j.in.Signal.ID)
	switch {
	case err == nil:
		return j.known(old)
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	if !j.rights.Allowed {
		return j.forbidden(ctx, tx)
	}
	st, err := tx.State(ctx)
	if err != nil {
		return err
	}
	if moved := movedAt(st, j.in.Signal); j.in.ExpectedRunSeq != nil && moved > *j.in.ExpectedRunSeq {
		j.refusal = refuse(run.CodeRunMoved, "What this signal concerns changed at seq %d, after the state you saw. Look again and decide anew.", moved)
		j.refusal.RunSeq = st.Seq
		return j.auditTx(ctx, tx, "REJECTED", run.CodeRunMoved)
	}
	d := run.Judge(st, j.in.Signal)
	if d.Outcome == run.Reject {
		return j.reject(ctx, tx, d.Code, d.Message)
	}
	return j.accept(ctx, tx, st)
}

// movedAt is the seq at which what the signal concerns last changed (T193).
func movedAt(st run.State, sig run.Signal) run.Seq {
	switch sig.Type {
	case run.Pause, run.Resume:
		return st.StatusSeq
	case run.RetryStep, run.SkipStep:
		if step, ok := st.Step(sig.StepID); ok {
			return step.ChangedSeq
		}
	}
	return st.Seq
}

// known answers a repeated signal with its stored receipt (T94, T95).
func (j *judging) known(old run.Receipt) error {
	sig := j.in.Signal
	if old.Signal.Type != sig.Type || old.Signal.StepID != sig.StepID || old.Signal.Force != sig.Force || !bytes.Equal(old.Payload, j.in.Payload) {
		j.refusal = refuse(run.CodeSignalConflict, "The signalId %s was already used for another signal. Use a new id.", j.in.Signal.ID)
		return nil
	}
	j.out = Receipt{Receipt: old, Duplicate: true}
	return nil
}

func (j *judging) forbidden(ctx context.Context, tx store.RunTx) error {
	if ok, wait := j.s.refusalInLog(j.p); !ok {
		j.refusal = refuse(run.CodeSignalRate, "Too many refused signals. Wait a minute.")
		j.refusal.RetryAfter = wait
		return nil
	}
	return j.reject(ctx, tx, run.CodeForbidden, "The role of the caller does not allow this.")
}

func (j *judging) reject(ctx context.Context, tx store.RunTx, code run.Code, message string) error {
	seq, err := j.decide(ctx, tx, run.SignalRejected, code, 0)
	if err != nil {
		return err
	}
	stored, err := tx.PutReceipt(ctx, run.Receipt{
		RunID: j.in.RunID, Signal: j.in.Signal, Payload: j.in.Payload, Actor: j.p.ID, Reason: j.in.Reason,
		Rejected: true, Rejection: code, RejectText: message, AcceptedSeq: seq,
	}, false)
	if err != nil {
		return err
	}
	j.out = Receipt{Receipt: stored}
	return j.auditTx(ctx, tx, "REJECTED", code)
}

func (j *judging) accept(ctx context.Context, tx store.RunTx, st run.State) error {
	sig := j.in.Signal
	if step, ok := st.Step(sig.StepID); ok && sig.Type == run.RetryStep && sig.ExpectedAttempt == 0 {
		sig.ExpectedAttempt = step.LogicalAttempt // T58
	}
	here := false // applied here, without the engine
	gate := run.Gate(0)
	if sig.Type == run.Cancel {
		q, err := tx.Queue(ctx)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		// A start that failed may have reached the engine all the same: a run that
		// began is stopped there, whatever its queue row says.
		here = err == nil && q.Status == store.QueuePending && st.Status != run.Running && st.Status != run.Paused
		if !here {
			gate = run.GateStopped // the intent, before the engine is touched (T192)
		} else {
			q.Status = store.QueueCancelled
			if err := tx.SetQueue(ctx, q); err != nil {
				return err
			}
		}
	}
	seq, err := j.decide(ctx, tx, run.SignalAccepted, "", gate)
	if err != nil {
		return err
	}
	stored, err := tx.PutReceipt(ctx, run.Receipt{
		RunID: j.in.RunID, Signal: sig, Payload: j.in.Payload, Actor: j.p.ID, Reason: j.in.Reason,
		Application: run.SignalPending, AcceptedSeq: seq,
	}, !here)
	if err != nil {
		return err
	}
	if here {
		if stored, err = j.cancelQueued(ctx, tx); err != nil {
			return err
		}
	}
	j.out = Receipt{Receipt: stored}
	return j.auditTx(ctx, tx, "ACCEPTED", "")
}

// cancelQueued ends a run that no engine has seen (T100).
func (j *judging) cancelQueued(ctx context.Context, tx store.RunTx) (run.Receipt, error) {
	payload, err := json.Marshal(run.RunCancelledPayload{SignalID: j.in.Signal.ID, Actor: j.p.ID, Reason: j.in.Reason})
	if err != nil {
		return run.Receipt{}, err
	}
	_, err = tx.Append(ctx, store.Append{
		RunID: j.in.RunID,
		Events: []run.Draft{{
			Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: j.s.cfg.Now(), EmittedBy: run.ByControl, Payload: payload,
		}},
		Outcomes: []store.SignalOutcome{{SignalID: j.in.Signal.ID, Application: run.SignalApplied, AppliedBy: 0}},
	})
	if err != nil {
		return run.Receipt{}, err
	}
	return tx.Receipt(ctx, j.in.Signal.ID)
}

// decide appends the decision about the signal and returns its seq.
func (j *judging) decide(ctx context.Context, tx store.RunTx, t run.EventType, code run.Code, gate run.Gate) (run.Seq, error) {
	payload, err := json.Marshal(run.SignalPayload{
		SignalID: j.in.Signal.ID, SignalType: j.in.Signal.Type, StepID: j.in.Signal.StepID, Actor: j.p.ID, Reason: j.in.Reason, Code: code,
	})
	if err != nil {
		return 0, err
	}
	out, err := tx.Append(ctx, store.Append{
		RunID: j.in.RunID, SetGate: gate,
		Events: []run.Draft{{
			Type: t, SignalID: j.in.Signal.ID, LogicalAttempt: 1, EngineAttempt: 1,
			EmittedAt: j.s.cfg.Now(), EmittedBy: run.ByAuthz, Payload: payload,
		}},
	})
	if err != nil {
		return 0, err
	}
	if refused := out.Outcomes[0].Refused; refused != "" {
		return 0, fmt.Errorf("control: %s was refused: %s", t, refused)
	}
	return out.Outcomes[0].Seq, nil
}

func (j *judging) auditTx(ctx context.Context, tx store.RunTx, outcome string, code run.Code) error {
	return tx.Audit(ctx, store.AuditRow{
		ID: uuid.NewString(), TenantID: j.p.TenantID, Actor: j.p.ID, Action: string(j.in.Signal.Type), RunID: j.in.RunID,
		SignalID: j.in.Signal.ID, Outcome: outcome, Code: code, Reason: j.in.Reason,
	})
}
