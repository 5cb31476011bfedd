package authority

import (
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Start is the validated StepStarted of one StartAttempt.
type Start struct {
	attempt  store.StartAttempt
	batch    Batch
	overlaid bool // see WithOverlays
}

// PrepareStart validates a and computes the key of its StepStarted. The error is a *run.SchemaError when a is invalid.
func PrepareStart(id run.Identity, a store.StartAttempt) (Start, error) {
	payload, err := json.Marshal(run.StepStartedPayload{ParamsSeq: a.ParamsSeq, SignalID: a.SignalID, State: a.State})
	if err != nil {
		return Start{}, err
	}
	batch, err := Prepare(id, store.Append{RunID: a.RunID, Events: []run.Draft{{
		Type: run.StepStartedEvent, StepID: a.StepID,
		LogicalAttempt: a.LogicalAttempt, EngineAttempt: a.EngineAttempt,
		EmittedAt: a.EmittedAt, EmittedBy: run.ByEngine, Payload: payload,
	}}})
	return Start{attempt: a, batch: batch}, err
}

// WithOverlays returns s for a caller that has read the overlays of the run under the lock, so that run.GateOverlaid
// does not park it (contract T197).
func (s Start) WithOverlays() Start {
	s.overlaid = true
	return s
}

// minWait is the shortest wait of a step without a token. unknownWait is the wait when the bucket will never have a
// token under the present quota, because the quota may be raised.
const (
	minWait     = 100 * time.Millisecond
	unknownWait = time.Minute
)

// ThrottledResult returns the result of a StartAttempt that would insert its StepStarted but whose bucket has no token
// for the time wait; a negative wait means that it will never have one. Nothing is written.
func ThrottledResult(head store.Head, wait time.Duration) store.AttemptStarted {
	if wait < 0 {
		wait = unknownWait
	}
	return store.AttemptStarted{Verdict: store.StartThrottled, Head: head, RetryAfter: max(wait, minWait)}
}

// Batch returns the batch of the StepStarted, which names the stored events that DecideStart needs.
func (s Start) Batch() Batch { return s.batch }

// ParkingGates returns the bits of the gate that park the start.
func (s Start) ParkingGates() run.Gate {
	g := ^run.Gate(0)
	if s.attempt.PassFailing {
		g &^= run.GateFailing
	}
	if s.overlaid {
		g &^= run.GateOverlaid
	}
	return g
}

// DecideStart decides a StartAttempt on a locked head. It checks in this order: the terminal of the attempt, the end of
// the run, the StepStarted of the attempt, the gate. An attempt that has started before the gate closed may go on
// (contract T52). If none applies, the StepStarted is inserted. If nothing must be written, only Head and At of the
// Plan are set.
func DecideStart(head store.Head, s Start, f Facts, now time.Time) (Plan, store.AttemptStarted) {
	d := newDecision(head, s.batch.id, f, now)
	var log attemptRecord
	if r := d.attempts[Attempt{s.attempt.StepID, s.attempt.LogicalAttempt}]; r != nil {
		log = *r
	}
	answer := store.AttemptStarted{}
	switch {
	case log.terminal != nil:
		answer.Verdict, answer.Terminal = store.StartDone, log.terminal
	case head.Terminal:
		answer.Verdict = store.StartRunTerminal
	case log.started != nil:
		answer.Verdict, answer.StartedSeq = store.StartGranted, log.started.Seq
	case head.Gate&s.ParkingGates() != 0:
		answer.Verdict = store.StartParked
	default:
		e := d.insert(s.batch.append.Events[0], s.batch.keys[0])
		answer.Verdict, answer.StartedSeq = store.StartGranted, e.Seq
	}
	if answer.Verdict == store.StartGranted && s.attempt.SignalID != "" {
		d.plan.Moves = []Move{{SignalID: s.attempt.SignalID, Application: run.SignalApplied, AppliedSeq: answer.StartedSeq}}
	}
	answer.Head = d.plan.Head
	return d.plan, answer
}
