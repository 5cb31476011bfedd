package mock

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

// logKeys are the keys shared by a Log and its Engine. A simulation has no secrets.
func logKeys() ticket.Keys {
	keys, err := ticket.ParseKeys([]string{"simulation:" + base64.StdEncoding.EncodeToString(make([]byte, 32))})
	if err != nil {
		panic(err) // unreachable: the keys are a constant
	}
	return keys
}

var _ engine.Journal = (*Log)(nil)

// StartAttempt implements engine.AttemptJournal.
func (l *Log) StartAttempt(_ context.Context, b engine.StartAttempt) (engine.AttemptStarted, error) {
	t, err := logKeys().Check(b.Ticket, b.EmittedAt)
	if err != nil {
		return engine.AttemptStarted{}, fmt.Errorf("%w: %w", engine.ErrRefused, err)
	}
	start, err := authority.PrepareStart(l.id, store.StartAttempt{
		RunID: b.RunID, StepID: b.StepID, LogicalAttempt: b.LogicalAttempt, EngineAttempt: b.EngineAttempt,
		EmittedAt:   b.EmittedAt,
		PassFailing: t.PassFailing, SignalID: t.SignalID,
	})
	if err != nil {
		return engine.AttemptStarted{}, err
	}
	p, begun := authority.DecideStart(l.head, start, l.facts(start.Batch()), l.now())
	l.carryOut(p)
	begun.Head = l.head
	out := engine.AttemptStarted{AttemptStarted: begun, Identity: l.id}
	if t := begun.Terminal; t != nil {
		r := l.receiptOf(engine.Receipt{Type: t.Type, Seq: t.Seq, At: t.EmittedAt}, b.RunID, t.StepID, t.LogicalAttempt,
			false)
		out.Receipt = &r
	}
	return out, nil
}

// End implements engine.AttemptJournal.
func (l *Log) End(ctx context.Context, e engine.End) (engine.Receipt, error) {
	a, err := l.endOf(e)
	if err != nil {
		return engine.Receipt{}, err
	}
	done, err := l.Append(ctx, a)
	if err != nil {
		return engine.Receipt{}, err
	}
	o := done.Outcomes[0]
	r := engine.Receipt{Type: a.Events[0].Type, Seq: o.Seq, At: o.EmittedAt}
	switch {
	case o.Existing != nil:
		r = engine.Receipt{Type: o.Existing.Type, Seq: o.Existing.Seq, At: o.Existing.EmittedAt}
	case o.Refused != "":
		return engine.Receipt{}, fmt.Errorf("%w: %s", engine.ErrRefused, o.Refused)
	}
	return l.receiptOf(r, e.RunID, e.StepID, e.LogicalAttempt, e.Hook), nil
}

// receiptOf adds the state of the log and the proof to a receipt.
func (l *Log) receiptOf(r engine.Receipt, runID, stepID string, logicalAttempt int, hook bool) engine.Receipt {
	r.Head, r.Running, r.Gate = l.head.LastSeq, l.head.Running, l.head.Gate
	r.Proof = logKeys().Seal(engine.ReceiptPurpose, r.Text(runID, stepID, logicalAttempt, hook))
	return r
}

// endOf returns the Append of an end. It returns *run.SchemaError for a payload that JSON cannot encode.
func (l *Log) endOf(e engine.End) (store.Append, error) {
	d := run.Draft{StepID: e.StepID, LogicalAttempt: e.LogicalAttempt, EngineAttempt: e.EngineAttempt, EmittedAt: l.now(),
		EmittedBy: run.ByEngine}
	a := store.Append{RunID: l.id.RunID, IfStarted: !e.Hook}
	var payload any
	switch {
	case e.Hook:
		d.Type = run.StepCompensated
		p := run.CompensationPayload{
			StepID: e.StepID, IdempotencyKey: e.RunID + ":" + e.StepID + ":compensate", Attempts: e.EngineAttempt,
			Compensated: e.Failed == nil,
		}
		if e.Failed != nil {
			d.Type = run.StepCompensationFailed
			p.ErrorCode, p.ErrorMessage = cmp.Or(e.Failed.ErrorCode, string(run.CodeInternal)), e.Failed.ErrorMessage
		} else {
			p.Result = e.Completed.Result
		}
		payload = p
	case e.Failed != nil:
		d.Type, payload, a.SetGate = run.StepFailedEvent, e.Failed, run.GateFailing
	default:
		d.Type, payload = run.StepCompletedEvent, e.Completed
	}
	if window := l.policy.RetryWindowMS; window > 0 && !e.Hook {
		a.RetryDeadline = l.now().Add(time.Duration(window) * time.Millisecond)
	}
	var err error
	if d.Payload, err = json.Marshal(payload); err != nil {
		return a, &run.SchemaError{}
	}
	a.Events = []run.Draft{d}
	return a, nil
}

// Evidence implements engine.AttemptJournal. It stores nothing, because a simulation has no log lines.
func (l *Log) Evidence(context.Context, engine.Evidence) error { return nil }

// SecretReads implements engine.AttemptJournal. It stores nothing, because a simulation reads no secrets.
func (l *Log) SecretReads(context.Context, engine.SecretReads) error { return nil }

// Compensation implements engine.AttemptJournal. It checks no ticket and returns no key.
func (l *Log) Compensation(_ context.Context, b engine.StartAttempt) (engine.Hook, error) {
	for _, s := range l.plan.Steps {
		if s.StepID != b.StepID || s.Compensation == nil {
			continue
		}
		s.Type, s.Inputs, s.Timeout = s.Compensation.Operation, s.Compensation.Input, s.Compensation.Timeout
		s.Compensation, s.Retry = nil, plan.Retry{}
		return engine.Hook{Identity: l.id, Step: s}, nil
	}
	return engine.Hook{}, fmt.Errorf("%w: compensation of step %s", store.ErrNotFound, b.StepID)
}

// Tail implements engine.Journal.
func (l *Log) Tail(_ context.Context, _ string, after run.Seq) (engine.Tail, error) {
	t := engine.Tail{Seq: l.head.LastSeq, Head: l.head}
	for i := range l.events {
		if e := &l.events[i]; e.Seq > after && !e.Type.OfSignal() {
			t.Events = append(t.Events, engine.LogEvent{
				Seq: e.Seq, Type: e.Type, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt, EngineAttempt: e.EngineAttempt,
				At: e.EmittedAt, Payload: e.Payload,
			})
		}
	}
	return t, nil
}
