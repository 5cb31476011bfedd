package runs

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// SignalRun asks for one signal. cancelRun is also one, with the type CANCEL.
type SignalRun struct {
	RunID          string
	Signal         run.Signal
	Payload        json.RawMessage // the chosen @oneOf member as compact JSON
	Reason         string
	ExpectedRunSeq *run.Seq
}

// EngineSignal converts a receipt to the form of the signal that the engine gets. It never contains the payload, which
// stays in the store (contract T196).
func EngineSignal(r run.SignalReceipt) engine.Signal {
	return engine.Signal{
		No: r.No, ID: r.Signal.ID, Type: r.Signal.Type, StepID: r.Signal.StepID, LogicalAttempt: r.Signal.ExpectedAttempt,
		Force:   r.Signal.Force,
		Outcome: outcomeOf(r), Applied: r.Signal.Type == run.Pause && r.Application == run.SignalApplied,
		Ineffective: r.Application == run.SignalNoop || r.Application == run.SignalNotApply,
	}
}

// Limits bound what one request may ask for. A zero field takes the default that its comment names.
type Limits struct {
	MaxSteps         int // of a plan that this version runs; plan.MaxSteps, 5,000
	MaxSignalBytes   int // of a signal's payload as compact JSON; 65,536 (contract T96)
	MaxOverlayBytes  int // the same for UPDATE_PARAMS and INJECT_OVERRIDE; 1 MiB (contract T97)
	MaxParamsBytes   int // 65,536
	DenialsPerMinute int // written to a run's log, per principal; 10 (contract T102)
	SignalsPerMinute int // of one run; 60; a negative value sets no limit (contract T96)
}

// SignalStore decides about signals under the head lock of a run.
type SignalStore interface {
	InRun(ctx context.Context, runID string, f func(tx store.RunTx) error) error
}

// Signaller accepts and rejects signals to runs. It is safe for concurrent use.
type Signaller struct {
	rights  *control.Rights
	store   SignalStore
	judge   *Judge
	Checker *SignalChecker
	blobs   artifact.Blobs
	alerts  *control.Alerts
}

// NewSignaller makes a Signaller.
func NewSignaller(rights *control.Rights, store SignalStore, judge *Judge, checker *SignalChecker, blobs artifact.Blobs,
	alerts *control.Alerts) *Signaller {
	return &Signaller{rights: rights, store: store, judge: judge, Checker: checker, blobs: blobs, alerts: alerts}
}

// SignalRun accepts or rejects one signal under the run's head lock and returns its receipt (contract T93, T96, T222).
// An accepted signal is durable, numbered, and delivered in order in spite of crashes. The call is safe to repeat: the
// same signalId returns the stored receipt.
//
// Checks in this order: visibility (NOT_FOUND), content and size (BAD_USER_INPUT, SIGNAL_TOO_LARGE, NOT_SUPPORTED), a
// stored receipt of the id (SIGNAL_ID_CONFLICT if it is of another signal), authorisation (FORBIDDEN), the limits of
// the run and of its tenant, RUN_MOVED, the state of the run. A signal over a limit is SIGNAL_RATE_LIMITED and leaves
// only an audit row. A signal that the state refuses has a receipt with Rejected and counts against the limits like an
// accepted one.
func (s *Signaller) SignalRun(ctx context.Context, p authz.Principal, in SignalRun) (SignalReceipt, error) {
	action := authz.Action(in.Signal.Type)
	r, err := s.rights.GetVisible(ctx, p, action, in.RunID)
	if err != nil {
		return SignalReceipt{}, err
	}
	rights, err := s.rights.Authz.Decide(p, action, control.ObjectOf(r.Identity))
	if err != nil {
		return SignalReceipt{}, control.Translate(err)
	}
	if err := s.checkWithID(ctx, r, in, rights.Allowed); err != nil {
		return SignalReceipt{}, err
	}
	return s.DecideSignal(ctx, p, r, in, rights, nil)
}

// SignalAs is SignalRun for a duty of dvt, whose signal ids clients may not use.
func (s *Signaller) SignalAs(ctx context.Context, p authz.Principal, in SignalRun) (SignalReceipt, error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Action(in.Signal.Type), in.RunID)
	if err != nil {
		return SignalReceipt{}, err
	}
	rights, err := s.rights.Authz.Decide(p, authz.Action(in.Signal.Type), control.ObjectOf(r.Identity))
	if err != nil {
		return SignalReceipt{}, control.Translate(err)
	}
	return s.DecideSignal(ctx, p, r, in, rights, nil)
}

// DecideSignal is SignalRun without the checks of visibility and content, which the caller has made. A signal of a bulk
// is decided under the fence of the bulk: the error matches store.ErrConflict when the caller no longer holds the bulk.
func (s *Signaller) DecideSignal(ctx context.Context, p authz.Principal, r store.Run, in SignalRun,
	rights authz.Decision,
	bulk *store.Bulk) (SignalReceipt, error) {
	action := authz.Action(in.Signal.Type)
	var err error
	j := &judging{s: s.judge, p: p, in: in, rights: rights, run: r, bulk: bulk}
	if rights.Allowed {
		if j.nodes, err = s.Checker.choose(ctx, r, in, true); err != nil {
			return SignalReceipt{}, control.Translate(err)
		}
	}
	if j.in.Payload, err = compactPayload(r.Identity, in.Payload, s.judge.limits.MaxSignalBytes); err != nil {
		return SignalReceipt{}, control.Translate(err)
	}
	if rights.Allowed && len(in.Payload) > s.judge.limits.MaxSignalBytes {
		if err := putPayload(ctx, s.blobs, r.Identity, in.Payload); err != nil {
			return SignalReceipt{}, control.Translate(err)
		}
	}
	if err := s.store.InRun(ctx, in.RunID, func(tx store.RunTx) error { return j.judge(ctx, tx) }); err != nil {
		return SignalReceipt{}, control.Translate(err)
	}
	if j.refusal != nil {
		if j.refusal.Code == run.CodeSignalRate {
			s.rights.AuditDenied(ctx, p, store.AuditRow{
				Action: string(action), RunID: in.RunID, SignalID: in.Signal.ID, Code: run.CodeSignalRate, Reason: j.why,
			})
		}
		return SignalReceipt{}, j.refusal
	}
	if j.out.Rejection == run.CodeForbidden {
		return SignalReceipt{}, s.rights.DenialError(p, action, control.ObjectOf(r.Identity), rights)
	}
	if !j.out.Duplicate && !j.out.Rejected {
		s.judge.Rates.note(r.TenantID, r.RunID)
	}
	if j.raised != nil {
		s.alerts.NoteOpened(ctx, *j.raised)
	}
	control.Wake(s.judge.Deliveries)
	j.out.SignalReceipt = s.judge.stopper.receipts.WithStopDeadline(j.out.SignalReceipt)
	return j.out, nil
}

// checkWithID is CheckSignal together with the check of the signalId. It returns all violations at once.
func (s *Signaller) checkWithID(ctx context.Context, r store.Run, in SignalRun, whole bool) error {
	vs := checkNotReserved(control.CheckID(nil, "signalId", in.Signal.ID), in.Signal.ID)
	err := s.Checker.CheckSignal(ctx, r, in, whole)
	var own *control.Error
	if err == nil || errors.As(err, &own) && own.Code == run.CodeBadInput {
		if own != nil {
			vs = append(vs, own.Violations...)
		}
		if len(vs) > 0 {
			return control.BadInput(vs)
		}
	}
	return err
}
