package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Judge decides about signals under the head lock of a run. It is safe for concurrent use.
type Judge struct {
	stopper    *Stopper
	allowances *admission.Allowances
	limits     Limits
	denials    *control.PerMinuteLimiter
	Deliveries chan struct{}
	// Rates counts accepted signals; nil counts none.
	Rates *SignalRates
}

// NewJudge makes a Judge.
func NewJudge(stopper *Stopper, allowances *admission.Allowances, limits Limits) *Judge {
	return &Judge{stopper: stopper, allowances: allowances, limits: limits,
		denials:    control.NewPerMinuteLimiter(stopper.now),
		Deliveries: make(chan struct{}, 1)}
}

// acceptAlert raises an alert. The state of the run does not change (contract T197, R260).
func (j *judging) acceptAlert(ctx context.Context, tx store.RunTx) error {
	p, err := run.PayloadOf[escalateAlert](j.in.Payload)
	if err != nil {
		return err
	}
	// Each signal is an alert of its own, so that no note of a person replaces another.
	a := store.Alert{
		ID: uuid.NewString(), TenantID: j.run.TenantID, ProjectID: j.run.ProjectID, RunID: j.run.RunID,
		SignalID: j.in.Signal.ID, Subject: j.in.Signal.ID, Level: p.Level, Note: p.Note, Actor: j.p.ID,
	}
	if err := tx.Raise(ctx, a); err != nil {
		return err
	}
	j.raised = &a
	return j.appendApplied(ctx, tx, 0)
}

// refusalInLog reports whether one more denial of a principal may be written to the log of a run, and otherwise how
// long to wait. The limit exists because each event wakes every viewer of the run (contract T102).
func (s *Judge) refusalInLog(p authz.Principal) (bool, time.Duration) {
	w, known := s.denials.Add(p.TenantID + "/" + p.ID)
	if known && w.N <= s.limits.DenialsPerMinute {
		return true, 0
	}
	if !known {
		return false, time.Minute
	}
	return false, w.Began.Add(time.Minute).Sub(s.stopper.now())
}

// judging is one decision about one signal, while it is made.
type judging struct {
	s      *Judge
	p      authz.Principal
	in     SignalRun // with the payload in the form of the receipt
	rights authz.Decision
	run    store.Run
	bulk   *store.Bulk // the bulk that sends the signal, or nil

	out     SignalReceipt
	refusal *control.Error // a refusal that leaves at most an audit row
	why     string         // reason of the refusal, for the audit
	raised  *store.Alert   // the alert that was raised, or nil
	notes   string         // of the completion of a manual step, for the audit
	nodes   chosenNodes    // of a RETRY_STEP
}

func (j *judging) judge(ctx context.Context, tx store.RunTx) error {
	j.out, j.refusal, j.raised = SignalReceipt{}, nil, nil
	old, err := tx.Receipt(ctx, j.in.Signal.ID)
	switch {
	case err == nil:
		return j.answerKnown(old)
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	if j.bulk != nil {
		if err := tx.HoldBulk(ctx, *j.bulk); err != nil {
			return err
		}
	}
	if !j.rights.Allowed {
		return j.rejectForbidden(ctx, tx)
	}
	if err := j.checkLimits(ctx, tx); err != nil || j.refusal != nil {
		return err
	}
	st, err := tx.State(ctx)
	if err != nil {
		return err
	}
	if moved := movedAt(st, j.in.Signal); j.in.ExpectedRunSeq != nil && moved > *j.in.ExpectedRunSeq {
		j.refusal = control.Refuse(
			run.CodeRunMoved, "The part of the run that this signal affects changed at seq %d, after the state you "+
				"saw. Look again and decide again.", moved)
		j.refusal.RunSeq = st.Seq
		return j.auditTx(ctx, tx, "REJECTED", run.CodeRunMoved)
	}
	d := run.Judge(st, j.in.Signal)
	if d.Outcome == run.Reject {
		return j.reject(ctx, tx, d.Code, d.Message)
	}
	if decided, err := j.judgeNodes(ctx, tx, st); decided || err != nil {
		return err
	}
	return j.accept(ctx, tx, st)
}

// movedAt returns the seq at which the part of the run that the signal concerns last changed (contract T193).
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

// answerKnown answers a repeated signal with its stored receipt (contract T94, T95). A different signal with the same
// id is SIGNAL_ID_CONFLICT.
func (j *judging) answerKnown(old run.SignalReceipt) error {
	sig := j.in.Signal
	if old.Signal.Type != sig.Type || old.Signal.StepID != sig.StepID || old.Signal.Force != sig.Force ||
		!bytes.Equal(old.Payload, j.in.Payload) {
		j.refusal = control.Refuse(run.CodeSignalConflict,
			"The signalId %s was already used for another signal. Use a new id.",
			j.in.Signal.ID)
		return nil
	}
	j.out = SignalReceipt{SignalReceipt: old, Duplicate: true}
	return nil
}

func (j *judging) rejectForbidden(ctx context.Context, tx store.RunTx) error {
	if ok, wait := j.s.refusalInLog(j.p); !ok {
		j.refusal, j.why = control.Refuse(run.CodeSignalRate, "Too many refused signals. Wait a minute."),
			"more denials than the log of the run accepts"
		j.refusal.RetryAfter = wait
		return nil
	}
	return j.reject(ctx, tx, run.CodeForbidden, "The role of the sender does not allow this.")
}

// checkLimits checks the limit of the run and then that of its tenant (contract T96). Only signals that the caller may
// send are counted, so that other callers cannot use the limits up.
func (j *judging) checkLimits(ctx context.Context, tx store.RunTx) error {
	var wait time.Duration
	var err error
	if most := j.s.limits.SignalsPerMinute; most > 0 {
		j.why = fmt.Sprintf("more than %d signals a minute to one run", most)
		wait, err = tx.RecentSignals(ctx, most, time.Minute)
	}
	if bucket := j.s.allowances.SignalBucket(j.run.TenantID, j.run.ProjectID); err == nil && wait == 0 &&
		bucket.PerMinute >= 0 {
		j.why = "more signals than the quota allows"
		wait, err = tx.Take(ctx, bucket)
	}
	if err != nil || wait == 0 {
		return err
	}
	j.refusal = control.Refuse(run.CodeSignalRate, "There were too many signals: %s. Nothing was done.", j.why)
	j.refusal.RetryAfter = max(0, wait)
	return nil
}

func (j *judging) reject(ctx context.Context, tx store.RunTx, code run.Code, message string) error {
	out, err := j.decide(ctx, tx, run.SignalRejected, code, 0)
	if err != nil {
		return err
	}
	stored, err := tx.PutReceipt(ctx, run.SignalReceipt{
		RunID: j.in.RunID, Signal: j.in.Signal, Payload: j.in.Payload, Actor: j.p.ID, Reason: j.in.Reason,
		Rejected: true, Rejection: code, RejectText: message, AcceptedSeq: out.Seq,
	}, false)
	if err != nil {
		return err
	}
	j.out = SignalReceipt{SignalReceipt: stored}
	return j.auditMade(ctx, tx, "REJECTED", stored)
}

func (j *judging) accept(ctx context.Context, tx store.RunTx, st run.State) error {
	sig := j.in.Signal
	if step, ok := st.Step(sig.StepID); ok && sig.Type == run.RetryStep && sig.ExpectedAttempt == 0 {
		sig.ExpectedAttempt = step.LogicalAttempt // a retry without an attempt means the latest one (contract T58)
	}
	switch {
	case sig.Type.Stops():
		return j.acceptStop(ctx, tx, st)
	case sig.Type.Overlays():
		return j.acceptOverlay(ctx, tx)
	case sig.Type == run.EscalateAlert:
		return j.acceptAlert(ctx, tx)
	case sig.Type == run.Pause:
		return j.acceptPause(ctx, tx, st)
	}
	return j.appendAccepted(ctx, tx, sig, 0, true)
}

// appendAccepted appends SignalAccepted with the receipt. deliver is false for a signal that the engine need not see.
func (j *judging) appendAccepted(ctx context.Context, tx store.RunTx, sig run.Signal, gate run.Gate,
	deliver bool) error {
	out, err := j.decide(ctx, tx, run.SignalAccepted, "", gate)
	if err != nil {
		return err
	}
	rc := run.SignalReceipt{Signal: sig, Application: run.SignalPending, AcceptedSeq: out.Seq}
	return j.storeReceipt(ctx, tx, rc, deliver)
}

// appendApplied appends SignalAccepted and a receipt that is already APPLIED by this event, because acceptance is the
// whole effect of the signal (contract T197).
func (j *judging) appendApplied(ctx context.Context, tx store.RunTx, gate run.Gate) error {
	out, err := j.decide(ctx, tx, run.SignalAccepted, "", gate)
	if err != nil {
		return err
	}
	return j.storeReceipt(ctx, tx, run.SignalReceipt{
		Signal: j.in.Signal, Application: run.SignalApplied, AcceptedSeq: out.Seq, AppliedSeq: out.Seq,
		AppliedAt: &out.PersistedAt,
	}, false)
}

func (j *judging) storeReceipt(ctx context.Context, tx store.RunTx, rc run.SignalReceipt, deliver bool) error {
	rc.RunID, rc.Payload, rc.Actor, rc.Reason = j.in.RunID, j.in.Payload, j.p.ID, j.in.Reason
	stored, err := tx.PutReceipt(ctx, rc, deliver)
	if err != nil {
		return err
	}
	j.out = SignalReceipt{SignalReceipt: stored}
	return j.auditMade(ctx, tx, "ACCEPTED", stored)
}

// decide appends the event of the decision about the signal.
func (j *judging) decide(ctx context.Context, tx store.RunTx, t run.EventType, code run.Code,
	gate run.Gate) (store.EventOutcome, error) {
	content := run.SignalPayload{
		SignalID: j.in.Signal.ID, SignalType: j.in.Signal.Type, StepID: j.in.Signal.StepID, Actor: j.p.ID,
		Reason: j.in.Reason, Code: code,
	}
	if t == run.SignalAccepted {
		content.Nodes = j.nodes.event
	}
	payload, err := json.Marshal(content)
	if err != nil {
		return store.EventOutcome{}, err
	}
	out, err := tx.Append(ctx, store.Append{
		RunID: j.in.RunID, SetGate: gate,
		Events: []run.Draft{{
			Type: t, SignalID: j.in.Signal.ID, LogicalAttempt: 1, EngineAttempt: 1,
			EmittedAt: j.s.stopper.now(), EmittedBy: run.ByAuthz, Payload: payload,
		}},
	})
	if err != nil {
		return store.EventOutcome{}, err
	}
	if refused := out.Outcomes[0].Refused; refused != "" {
		return store.EventOutcome{}, fmt.Errorf("control: %s was refused: %s", t, refused)
	}
	return out.Outcomes[0], nil
}

// auditTx writes the audit row of a decision without a receipt.
func (j *judging) auditTx(ctx context.Context, tx store.RunTx, outcome string, code run.Code) error {
	return tx.Audit(ctx, j.auditRow(outcome, code))
}

// auditMade writes the audit row of a decision with a receipt. CheckAudit compares the receipt with it.
func (j *judging) auditMade(ctx context.Context, tx store.RunTx, outcome string, stored run.SignalReceipt) error {
	return tx.Audit(ctx, store.AuditRowOfSignal(j.auditRow(outcome, stored.Rejection), stored))
}

func (j *judging) auditRow(outcome string, code run.Code) store.AuditRow {
	row := store.AuditRow{
		ID: uuid.NewString(), Action: string(j.in.Signal.Type), RunID: j.in.RunID,
		SignalID: j.in.Signal.ID, Outcome: outcome, Code: code, Reason: j.in.Reason, Detail: j.auditDetail(),
	}
	control.NameActor(j.p, &row)
	return row
}

// auditDetail names the step of the signal in its audit row, how many nodes a retry chose and how, and the outcome and
// the notes of a completion, so that an auditor need not read the receipt. It is nil when the signal has none of them.
func (j *judging) auditDetail() json.RawMessage {
	detail := struct {
		StepID  string            `json:"stepId,omitempty"`
		Force   bool              `json:"force,omitempty"`
		Outcome run.ManualOutcome `json:"outcome,omitempty"`
		Notes   string            `json:"notes,omitempty"`
		Nodes   string            `json:"nodes,omitempty"`
		Count   int               `json:"nodeCount,omitempty"`
	}{StepID: j.in.Signal.StepID, Force: j.in.Signal.Force, Outcome: j.in.Signal.Outcome,
		Notes: run.Text(j.notes, control.MaxAuditedReason)}
	if req, asked := nodesOf(j.in); asked {
		detail.Nodes, detail.Count = string(req.Mode), len(j.nodes.set.Nodes)
	}
	if detail.StepID == "" && !detail.Force && detail.Outcome == "" && detail.Notes == "" {
		return nil
	}
	out, err := json.Marshal(detail)
	if err != nil {
		return nil // strings and booleans always encode
	}
	return out
}
