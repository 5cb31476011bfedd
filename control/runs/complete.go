package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// CompletionStore decides about completions under the head lock of a run.
type CompletionStore interface {
	InRun(ctx context.Context, runID string, f func(tx store.RunTx) error) error
	Receipt(ctx context.Context, runID string, signalID string) (run.SignalReceipt, error)
}

// Completer completes steps that wait for people. It is safe for concurrent use.
type Completer struct {
	rights *control.Rights
	store  CompletionStore
	judge  *Judge
	tasks  *TaskReader
	views  *Views
}

// NewCompleter makes a Completer.
func NewCompleter(rights *control.Rights, store CompletionStore, judge *Judge, tasks *TaskReader,
	views *Views) *Completer {
	return &Completer{rights: rights, store: store, judge: judge, tasks: tasks, views: views}
}

// isExcluded reports whether p must not complete a step because the step asks for another person than those who
// requested and approved the run. wanted is the rule of the step in the plan (contract O4, T87).
func (s *Completer) isExcluded(ctx context.Context, wanted bool, runID, triggeredBy string, p authz.Principal) (bool,
	error) {
	if triggeredBy == p.ID || !s.rights.IsInvolved(wanted, true, p) {
		return s.rights.IsInvolved(wanted, true, p), nil
	}
	at, err := s.views.approvalOf(ctx, runID)
	return s.rights.IsInvolved(wanted, at != nil && HasApproved(*at, p), p), err
}

// Limits of a completion.
const (
	maxEvidenceRefs = 50
	maxEvidenceRef  = 2048
	maxManualToken  = 256
	clockSkew       = time.Minute // maximum that a caller's clock may be ahead
)

// CompleteManualStep completes a step that waits for a person (contract R166, R177 to R181). An accepted completion is
// a signal like any other: it is durable, numbered, and delivered in order in spite of crashes. The first outcome for
// an attempt stands: a repetition with the token of the attempt returns the first receipt, whatever its content. A
// refusal writes an audit row and nothing to the log.
//
// Checks in this order: visibility (NOT_FOUND), input (BAD_USER_INPUT, SIGNAL_TOO_LARGE), authorisation (FORBIDDEN),
// whether this server has keys (NOT_SUPPORTED), the token (MANUAL_TOKEN_INVALID), an earlier completion of the attempt,
// separation of duties (SOD_VIOLATION), RUN_MOVED, the state of the run (contract T84, T86, T87).
func (s *Completer) CompleteManualStep(ctx context.Context, p authz.Principal, in CompleteManualStep) (SignalReceipt,
	error) {
	r, err := s.rights.GetVisible(ctx, p, authz.CompleteManual, in.RunID)
	if err != nil {
		return SignalReceipt{}, err
	}
	if err := s.checkCompletion(in); err != nil {
		return SignalReceipt{}, err
	}
	if err := s.authorizeCompletion(ctx, p, r, in); err != nil {
		return SignalReceipt{}, err
	}
	if len(s.tasks.Keys) == 0 {
		return SignalReceipt{}, control.Refuse(run.CodeNotSupported, noManualKeys)
	}
	facts, err := s.tasks.ManualFacts(ctx, r.PlanRef, in.StepID)
	if err != nil {
		return SignalReceipt{}, control.Translate(err)
	}
	sameOne, err := s.isExcluded(ctx, facts.Sod, in.RunID, r.TriggeredBy, p)
	if err != nil {
		return SignalReceipt{}, control.Translate(err)
	}
	c := &completing{
		s: s, in: in, sameOne: sameOne,
		judging: judging{s: s.judge, p: p, notes: in.Notes, in: SignalRun{RunID: in.RunID,
			Signal: run.Signal{Type: run.CompleteManual, StepID: in.StepID, Outcome: in.Outcome}}},
	}
	if err := s.store.InRun(ctx, in.RunID, func(tx store.RunTx) error { return c.decideIn(ctx, tx) }); err != nil {
		return SignalReceipt{}, control.Translate(err)
	}
	if c.refusal != nil {
		if c.refusal.Code == run.CodeManualToken {
			s.rights.AuditDenied(ctx, p, store.AuditRow{Action: string(authz.CompleteManual), RunID: in.RunID,
				Code: c.refusal.Code})
		}
		return SignalReceipt{}, c.refusal
	}
	control.Wake(s.judge.Deliveries)
	return c.out, nil
}

// checkCompletion checks the input and returns every violation.
func (s *Completer) checkCompletion(in CompleteManualStep) error {
	vs := control.CheckID(nil, "stepId", in.StepID)
	bad := func(path, code, format string, args ...any) {
		vs = append(vs, plan.Violation{Path: path, Code: code, Message: fmt.Sprintf(format, args...)})
	}
	if in.Token == "" || len(in.Token) > maxManualToken {
		bad("token", "INVALID", "must be the token of the task, of at most %d characters", maxManualToken)
	}
	switch in.Outcome {
	case run.ManualSucceeded, run.ManualFailed, run.ManualCancelled:
	default:
		bad("outcome", "INVALID", "must be one of %s, %s and %s", run.ManualSucceeded, run.ManualFailed,
			run.ManualCancelled)
	}
	if len(in.EvidenceRefs) > maxEvidenceRefs {
		bad("evidenceRefs", "RANGE", "must be at most %d", maxEvidenceRefs)
	}
	for i, ref := range in.EvidenceRefs[:min(len(in.EvidenceRefs), maxEvidenceRefs)] {
		if ref == "" || len(ref) > maxEvidenceRef {
			bad(fmt.Sprintf("evidenceRefs[%d]", i), "INVALID", "must have 1 to %d characters", maxEvidenceRef)
		}
		vs = control.CheckText(vs, fmt.Sprintf("evidenceRefs[%d]", i), ref)
	}
	if in.CompletedAt.After(s.rights.Now().Add(clockSkew)) {
		bad("completedAt", "RANGE", "must not be in the future")
	}
	if vs = control.CheckText(vs, "notes", in.Notes); len(vs) > 0 {
		return control.BadInput(vs)
	}
	if most := s.judge.limits.MaxSignalBytes; len(in.Notes) > most {
		e := control.Refuse(run.CodeSignalTooLarge, "The notes have %d bytes; at most %d are allowed.", len(in.Notes),
			most)
		e.Limit = int64(most)
		return e
	}
	return nil
}

// authorizeCompletion checks the policy, and that the caller does not act in the name of somebody else (contract T84).
func (s *Completer) authorizeCompletion(ctx context.Context, p authz.Principal, r store.Run,
	in CompleteManualStep) error {
	object := control.ObjectOf(r.Identity)
	d, err := s.rights.Authz.Decide(p, authz.CompleteManual, object)
	if err != nil {
		return control.Translate(err)
	}
	spoofed := in.Actor != "" && in.Actor != p.ID
	if d.Allowed && !spoofed {
		return nil
	}
	s.rights.AuditDenied(ctx, p, store.AuditRow{Action: string(authz.CompleteManual), RunID: in.RunID,
		Code: run.CodeForbidden})
	if !d.Allowed {
		return s.rights.DenialError(p, authz.CompleteManual, object, d)
	}
	e := control.Refuse(run.CodeForbidden,
		"You cannot complete a step for somebody else: leave actor out, or give your own id.")
	e.Denial = &control.Denial{Action: authz.CompleteManual}
	return e
}

// completing is one decision about one completion, while it is made.
type completing struct {
	judging
	s       *Completer
	in      CompleteManualStep
	sameOne bool // separation of duties excludes the caller
}

func (c *completing) decideIn(ctx context.Context, tx store.RunTx) error {
	c.out, c.refusal = SignalReceipt{}, nil
	st, err := tx.State(ctx)
	if err != nil {
		return err
	}
	sig := &c.judging.in.Signal
	step, ok := st.Step(c.in.StepID)
	if !ok || step.LogicalAttempt == 0 { // no attempt had a token
		return c.refuse(ctx, tx, run.Judge(st, *sig))
	}
	sig.ExpectedAttempt = step.LogicalAttempt
	sig.ID = manualSignalID(c.in.RunID, c.in.StepID, step.LogicalAttempt)
	if !tokenFits(c.s.tasks.Keys, c.in.Token, c.in.RunID, c.in.StepID, step.LogicalAttempt) {
		c.refusal = control.Refuse(
			run.CodeManualToken, "This is not the token of the step's latest attempt. Read the task again: each retry "+
				"has a new token.")
		return nil
	}
	switch old, err := tx.Receipt(ctx, sig.ID); {
	case err == nil:
		c.out = SignalReceipt{SignalReceipt: old, Duplicate: true}
		return nil
	case !errors.Is(err, store.ErrNotFound):
		return err
	}
	if c.sameOne {
		return c.refuse(ctx, tx, run.Decision{Code: run.CodeSOD, Message: sodReason})
	}
	if at := c.in.ExpectedRunSeq; at != nil && step.ChangedSeq > *at {
		c.refusal = control.Refuse(
			run.CodeRunMoved, "The step changed at seq %d, after the state you saw. Look again and decide again.",
			step.ChangedSeq)
		c.refusal.RunSeq = st.Seq
		return c.auditTx(ctx, tx, "REJECTED", run.CodeRunMoved)
	}
	if d := run.Judge(st, *sig); d.Outcome != run.Accept {
		return c.refuse(ctx, tx, d)
	}
	return c.take(ctx, tx)
}

func (c *completing) refuse(ctx context.Context, tx store.RunTx, d run.Decision) error {
	c.refusal = control.Refuse(d.Code, "%s", d.Message)
	return c.auditTx(ctx, tx, "REJECTED", d.Code)
}

func (c *completing) take(ctx context.Context, tx store.RunTx) error {
	payload := Completion{
		StepID: c.in.StepID, LogicalAttempt: c.judging.in.Signal.ExpectedAttempt, Outcome: c.in.Outcome, Notes: c.in.Notes,
		EvidenceRefs: c.in.EvidenceRefs,
	}
	if !c.in.CompletedAt.IsZero() {
		at := c.in.CompletedAt.UTC()
		payload.CompletedAt = &at
	}
	var err error
	if c.judging.in.Payload, err = json.Marshal(payload); err != nil {
		return err
	}
	return c.appendAccepted(ctx, tx, c.judging.in.Signal, 0, true)
}

// Completion is the payload of the receipt. The interpreter writes these facts to the log when it applies the signal.
type Completion struct {
	StepID         string            `json:"stepId"`
	LogicalAttempt int               `json:"logicalAttemptId"`
	Outcome        run.ManualOutcome `json:"outcome"`
	Notes          string            `json:"notes,omitempty"`
	EvidenceRefs   []string          `json:"evidenceRefs,omitempty"`
	CompletedAt    *time.Time        `json:"completedAt,omitempty"`
}

// manualIDs is the prefix of the signalIds of completions. Clients may not use it.
const manualIDs = "manual."

// checkNotReserved adds a violation for a client's signalId that could be the id of a completion or of a bulk's signal.
func checkNotReserved(vs []plan.Violation, signalID string) []plan.Violation {
	for prefix, whose := range map[string]string{manualIDs: "the completions of manual steps have",
		store.BulkSignalPrefix: "the signals of bulks have", store.RecoverySignalPrefix: "the retries of the recovery have"} {
		if strings.HasPrefix(signalID, prefix) {
			return append(vs, plan.Violation{Path: "signalId", Code: "INVALID", Message: "must not begin with " + prefix +
				", which " + whose})
		}
	}
	return vs
}

// manualSignalID returns the same id for every completion of one attempt, so that an attempt has at most one (contract
// T86).
func manualSignalID(runID, stepID string, logicalAttempt int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s|%s|%d", runID, stepID, logicalAttempt))
	return manualIDs + hex.EncodeToString(sum[:16])
}

// outcomeOf returns the outcome that a person gave to a MANUAL step; "" for other receipts.
func outcomeOf(r run.SignalReceipt) run.ManualOutcome {
	if r.Signal.Type != run.CompleteManual {
		return ""
	}
	var c Completion
	_ = json.Unmarshal(r.Payload, &c) // take wrote it, so it decodes
	return c.Outcome
}

// CompleteManualStep asks to complete a step that waits for a person.
type CompleteManualStep struct {
	RunID, StepID  string
	Token          string
	Outcome        run.ManualOutcome
	Notes          string
	EvidenceRefs   []string
	CompletedAt    time.Time // zero means now
	Actor          string    // "" or the id of the caller; others are FORBIDDEN (contract T84)
	ExpectedRunSeq *run.Seq
}
