package control

import (
	"context"
	"errors"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// SignalStore decides about signals under the head lock of a run.
type SignalStore interface {
	InRun(ctx context.Context, runID string, f func(tx store.RunTx) error) error
}

// Signaller accepts and rejects signals to runs. It is safe for concurrent use.
type Signaller struct {
	rights  *Rights
	store   SignalStore
	judge   *Judge
	checker *SignalChecker
	blobs   artifact.Blobs
	alerts  *Alerts
}

// NewSignaller makes a Signaller.
func NewSignaller(rights *Rights, store SignalStore, judge *Judge, checker *SignalChecker, blobs artifact.Blobs,
	alerts *Alerts) *Signaller {
	return &Signaller{rights: rights, store: store, judge: judge, checker: checker, blobs: blobs, alerts: alerts}
}

// SignalRun accepts or rejects one signal under the run's head lock and returns
// its receipt (T93, T96, T222). Order: visibility, size, dedupe, authorisation, the
// limits of the run and of its tenant, RUN_MOVED, the state of the run. What is over a limit is
// SIGNAL_RATE_LIMITED and leaves no trace but an audit row; what the state refuses costs as much as
// what it accepts. What it accepts is durable, numbered and will
// be delivered in order, whatever crashes next. It is safe to repeat.
func (s *Signaller) SignalRun(ctx context.Context, p authz.Principal, in SignalRun) (Receipt, error) {
	action := authz.Action(in.Signal.Type)
	r, err := s.rights.visible(ctx, p, action, in.RunID)
	if err != nil {
		return Receipt{}, err
	}
	rights, err := s.rights.authz.Decide(p, action, objectOf(r.Identity))
	if err != nil {
		return Receipt{}, translate(err)
	}
	if err := s.checkWithID(ctx, r, in, rights.Allowed); err != nil {
		return Receipt{}, err
	}
	return s.decideSignal(ctx, p, r, in, rights, nil)
}

// decideSignal is SignalRun for what was seen to be visible and well-formed. One that is of a bulk
// is decided under the fence of that: store.ErrConflict when it is held no more.
func (s *Signaller) decideSignal(ctx context.Context, p authz.Principal, r store.Run, in SignalRun,
	rights authz.Decision,
	bulk *store.Bulk) (Receipt, error) {
	action := authz.Action(in.Signal.Type)
	var err error
	j := &judging{s: s.judge, p: p, in: in, rights: rights, run: r, bulk: bulk}
	if j.in.Payload, err = compactPayload(r.Identity, in.Payload, s.judge.limits.MaxSignalBytes); err != nil {
		return Receipt{}, translate(err)
	}
	if rights.Allowed && len(in.Payload) > s.judge.limits.MaxSignalBytes {
		if err := putPayload(ctx, s.blobs, r.Identity, in.Payload); err != nil {
			return Receipt{}, translate(err)
		}
	}
	if err := s.store.InRun(ctx, in.RunID, func(tx store.RunTx) error { return j.judge(ctx, tx) }); err != nil {
		return Receipt{}, translate(err)
	}
	if j.refusal != nil {
		if j.refusal.Code == run.CodeSignalRate {
			s.rights.auditDenied(ctx, p, store.AuditRow{
				Action: string(action), RunID: in.RunID, SignalID: in.Signal.ID, Code: run.CodeSignalRate, Reason: j.why,
			})
		}
		return Receipt{}, j.refusal
	}
	if j.out.Rejection == run.CodeForbidden {
		return Receipt{}, s.rights.denialError(p, action, objectOf(r.Identity), rights)
	}
	if j.raised != "" {
		s.alerts.count(j.raised)
	}
	wake(s.judge.deliveries)
	j.out.Receipt = s.judge.stopper.receipts.withStopDeadline(j.out.Receipt)
	return j.out, nil
}

// checkWithID is checkSignal with the signalId, all violations at once.
func (s *Signaller) checkWithID(ctx context.Context, r store.Run, in SignalRun, whole bool) error {
	vs := checkNotReserved(checkID(nil, "signalId", in.Signal.ID), in.Signal.ID)
	err := s.checker.checkSignal(ctx, r, in, whole)
	var own *Error
	if err == nil || errors.As(err, &own) && own.Code == run.CodeBadInput {
		if own != nil {
			vs = append(vs, own.Violations...)
		}
		if len(vs) > 0 {
			return badInput(vs)
		}
	}
	return err
}
