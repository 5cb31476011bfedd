package mock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// Log is the log of one run in memory, decided by the authority that all stores use, and a Journal for the engine that
// executes the run. Make it with NewLog. It is not safe for concurrent use; one Engine may use it, because an Engine
// calls its Journal under a lock.
type Log struct {
	id     run.Identity
	plan   plan.Plan
	ref    plan.Ref
	queues plan.Queues
	policy run.Policy
	now    func() time.Time

	head     store.Head
	state    run.State
	events   []run.Event
	byKey    map[run.Key]int
	attempts map[authority.Attempt][]int
	ended    int // index of the event that ended the run, plus one
	receipts []run.SignalReceipt
	bySignal map[string]int
}

// NewLog makes the log of a new run of a plan. Its first event is RunApproved; the run is not started. doc is the
// document of pl, and now is the clock of the events.
func NewLog(pl plan.Plan, doc []byte, q plan.Queues, policy run.Policy, now func() time.Time) (*Log, error) {
	l := &Log{
		id: run.Identity{
			RunID: "run", TenantID: pl.Scope.TenantID, ProjectID: pl.Scope.ProjectID, EnvironmentID: pl.Scope.EnvironmentID,
			PlanID: pl.Metadata.PlanID, PlanVersion: pl.Metadata.PlanVersion,
		},
		plan: pl, ref: plan.RefOf(doc, pl, ""), queues: q, policy: policy, now: now,
		byKey: map[run.Key]int{}, attempts: map[authority.Attempt][]int{}, bySignal: map[string]int{},
	}
	l.head.RunID = l.id.RunID
	l.state.Identity = l.id
	_, err := l.Append(
		context.Background(), store.Append{
			Events: []run.Draft{l.draft(run.RunApproved, run.ByPlanner, run.RunApprovedPayload{})}})
	return l, err
}

// Identity returns the identity of the run.
func (l *Log) Identity() run.Identity { return l.id }

// Events returns the events in order. The caller must not change them.
func (l *Log) Events() []run.Event { return l.events }

// State returns the fold of the log.
func (l *Log) State() run.State { return l.state }

// Receipts returns the receipts of the signals in the order of their arrival.
func (l *Log) Receipts() []run.SignalReceipt { return l.receipts }

func (l *Log) draft(t run.EventType, by run.Producer, payload any) run.Draft {
	return run.Draft{Type: t, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: l.now(), EmittedBy: by,
		Payload: encode(payload)}
}

// Signal judges a signal like a dvt server and appends SignalAccepted or SignalRejected. The caller delivers an
// accepted signal to the engine.
func (l *Log) Signal(sig run.Signal, actor, reason string) (engine.Signal, run.Decision, error) {
	if step, ok := l.state.Step(sig.StepID); ok && sig.ExpectedAttempt == 0 {
		sig.ExpectedAttempt = step.LogicalAttempt
	}
	d := run.Judge(l.state, sig)
	payload := run.SignalPayload{SignalID: sig.ID, SignalType: sig.Type, StepID: sig.StepID, Actor: actor, Reason: reason}
	t := run.SignalAccepted
	if d.Outcome == run.Reject {
		t, payload.Code = run.SignalRejected, d.Code
	}
	draft := l.draft(t, run.ByAuthz, payload)
	draft.SignalID = sig.ID
	done, err := l.Append(context.Background(), store.Append{Events: []run.Draft{draft}})
	if err != nil {
		return engine.Signal{}, d, err
	}
	r := run.SignalReceipt{
		RunID: l.id.RunID, Signal: sig, Actor: actor, Reason: reason, AcceptedSeq: done.Outcomes[0].Seq, ReceivedAt: l.now(),
		Rejected: d.Outcome == run.Reject, Rejection: payload.Code, RejectText: d.Message, Application: run.SignalPending,
	}
	if !r.Rejected {
		l.head.SignalNo++
		r.No = l.head.SignalNo
	}
	l.bySignal[sig.ID] = len(l.receipts)
	l.receipts = append(l.receipts, r)
	return signalOf(r), d, nil
}

func signalOf(r run.SignalReceipt) engine.Signal {
	return engine.Signal{
		No: r.No, ID: r.Signal.ID, Type: r.Signal.Type, StepID: r.Signal.StepID, LogicalAttempt: r.Signal.ExpectedAttempt,
		Force: r.Signal.Force, Outcome: r.Signal.Outcome,
	}
}

// Append implements engine.Journal.
func (l *Log) Append(_ context.Context, a store.Append) (store.Appended, error) {
	for i := range a.Events {
		if err := l.complete(&a.Events[i]); err != nil {
			return store.Appended{}, err
		}
	}
	b, err := authority.Prepare(l.id, a)
	if err != nil {
		return store.Appended{}, err
	}
	p, err := authority.Decide(l.head, b, l.facts(b), l.now())
	if err != nil {
		return store.Appended{}, err
	}
	l.carryOut(p)
	return p.Result(l.head), nil
}

// AppendUnlessPaused implements engine.Journal.
func (l *Log) AppendUnlessPaused(ctx context.Context, a store.Append) (store.Appended, error) {
	if slices.ContainsFunc(a.Events, l.state.HoldsBack) {
		return store.Appended{}, engine.ErrPaused
	}
	return l.Append(ctx, a)
}

// Signals implements engine.Journal.
func (l *Log) Signals(_ context.Context, _ string, after int64) ([]engine.Signal, error) {
	var out []engine.Signal
	for _, r := range l.receipts {
		if r.No > after {
			out = append(out, signalOf(r))
		}
	}
	return out, nil
}

// Skeleton implements engine.Journal.
func (l *Log) Skeleton(_ context.Context, runID string) (engine.Skeleton, error) {
	if runID != l.id.RunID {
		return engine.Skeleton{}, fmt.Errorf("%w: run %s", store.ErrNotFound, runID)
	}
	b, err := l.plan.Skeleton(l.queues).MarshalBinary()
	return engine.Skeleton{Identity: l.id, SHA256: l.ref.SHA256, Binary: b, Policy: l.policy}, err
}

// complete adds the fields that only the log has, like every Journal.
func (l *Log) complete(d *run.Draft) error {
	switch d.Type {
	case run.RunStarted:
		return fill(d, func(p *run.RunStartedPayload) {
			p.PlanRef = run.PlanRef{
				SHA256: l.ref.SHA256, SchemaVersion: l.ref.SchemaVersion, PlanID: l.ref.PlanID, PlanVersion: l.ref.PlanVersion,
			}
			p.Policy, p.Steps = l.policy, run.Outline(l.plan, l.queues)
		})
	case run.RunPaused, run.RunResumed:
		return fill(d, func(p *run.PausePayload) {
			if r, ok := l.receipt(p.SignalID); ok {
				p.PauseRequestedBy, p.Reason = r.Actor, r.Reason
			}
		})
	case run.RunCancelled:
		return fill(d, func(p *run.RunCancelledPayload) {
			if r, ok := l.receipt(p.SignalID); ok {
				p.Actor, p.Reason = r.Actor, r.Reason
			}
		})
	}
	return nil
}

// receipt returns the receipt of a signal, or false if there is none.
func (l *Log) receipt(signalID string) (run.SignalReceipt, bool) {
	i, ok := l.bySignal[signalID]
	if !ok {
		return run.SignalReceipt{}, false
	}
	return l.receipts[i], true
}

// facts returns the events of the log that concern a batch.
func (l *Log) facts(b authority.Batch) (f authority.Facts) {
	for _, k := range b.Keys() {
		if i, ok := l.byKey[k]; ok {
			f.Events = append(f.Events, l.events[i])
		}
	}
	for _, a := range b.Attempts() {
		for _, i := range l.attempts[a] {
			f.Events = append(f.Events, l.events[i])
		}
	}
	if l.ended > 0 {
		f.End = &l.events[l.ended-1]
	}
	return f
}

// carryOut applies a decision of the authority: it inserts the events, folds the state and updates the receipts.
func (l *Log) carryOut(p authority.Plan) {
	for _, e := range p.Insert {
		i := len(l.events)
		l.events = append(l.events, e)
		l.byKey[e.Key] = i
		switch {
		case e.Type.OfStep():
			a := authority.Attempt{StepID: e.StepID, Logical: e.LogicalAttempt}
			l.attempts[a] = append(l.attempts[a], i)
		case e.Type.EndsRun():
			l.ended = i + 1
		}
	}
	l.state, _, _ = run.Fold(l.state, p.Insert)
	p.Head.SignalNo = l.head.SignalNo
	l.head = p.Head
	for _, m := range p.Moves {
		if i, ok := l.bySignal[m.SignalID]; ok && !l.receipts[i].Application.Final() {
			r := &l.receipts[i]
			r.Application, r.ApplicationReason, r.AppliedSeq = m.Application, m.Reason, m.AppliedSeq
		}
	}
	if p.EndsRun {
		for i := range l.receipts {
			if r := &l.receipts[i]; !r.Rejected && !r.Application.Final() {
				r.Application, r.ApplicationReason = run.SignalNotApply, string(run.CodeRunTerminal)
			}
		}
	}
}
