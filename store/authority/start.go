package authority

import (
	"encoding/json"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Start is the validated StepStarted of one StartAttempt.
type Start struct {
	begin    store.StartAttempt
	batch    Batch
	overlaid bool
}

// PrepareStart validates b and computes the key of its StepStarted.
func PrepareStart(id run.Identity, b store.StartAttempt) (Start, error) {
	payload, err := json.Marshal(run.StepStartedPayload{ParamsSeq: b.ParamsSeq, SignalID: b.SignalID})
	if err != nil {
		return Start{}, err
	}
	batch, err := Prepare(id, store.Append{RunID: b.RunID, Events: []run.Draft{{
		Type: run.StepStartedEvent, StepID: b.StepID,
		LogicalAttempt: b.LogicalAttempt, EngineAttempt: b.EngineAttempt,
		EmittedAt: b.EmittedAt, EmittedBy: run.ByEngine, Payload: payload,
	}}})
	return Start{begin: b, batch: batch}, err
}

// WithOverlays is b for a caller that has read the overlays of the run under the
// lock: run.GateOverlaid does not park it (T197).
func (b Start) WithOverlays() Start {
	b.overlaid = true
	return b
}

// leastWait is the least that a step without a token waits, and unknownWait what one
// waits of whose bucket nobody knows when it has one: an empty quota may be raised.
const (
	leastWait   = 100 * time.Millisecond
	unknownWait = time.Minute
)

// Throttled answers a StartAttempt that would insert its StepStarted but whose bucket has no
// token for so long; negative: it never has (T113). Nothing is written.
func Throttled(head store.Head, wait time.Duration) store.AttemptStarted {
	if wait < 0 {
		wait = unknownWait
	}
	return store.AttemptStarted{Verdict: store.StartThrottled, Head: head, RetryAfter: max(wait, leastWait)}
}

// Batch is what to look up for the beginning.
func (b Start) Batch() Batch { return b.batch }

// Parked is the members of the gate that park it.
func (b Start) Parked() run.Gate {
	g := ^run.Gate(0)
	if b.begin.PassFailing {
		g &^= run.GateFailing
	}
	if b.overlaid {
		g &^= run.GateOverlaid
	}
	return g
}

// DecideStart answers a StartAttempt on a locked head (T185, T217): the terminal of the
// attempt wins, then the end of the run, then its StepStarted whatever the gate
// (T52), then the gate; else StepStarted is inserted. The Plan is empty but for
// Head and At unless something is to be written.
func DecideStart(head store.Head, b Start, f Facts, now time.Time) (Plan, store.AttemptStarted) {
	d := newDecision(head, b.batch.id, f, now)
	var log record
	if r := d.attempts[Attempt{b.begin.StepID, b.begin.LogicalAttempt}]; r != nil {
		log = *r
	}
	begun := store.AttemptStarted{}
	switch {
	case log.terminal != nil:
		begun.Verdict, begun.Terminal = store.StartDone, log.terminal
	case head.Terminal:
		begun.Verdict = store.StartRunTerminal
	case log.started != nil:
		begun.Verdict, begun.StartedSeq = store.StartGranted, log.started.Seq
	case head.Gate&b.Parked() != 0:
		begun.Verdict = store.StartParked
	default:
		e := d.insert(b.batch.append.Events[0], b.batch.keys[0])
		begun.Verdict, begun.StartedSeq = store.StartGranted, e.Seq
	}
	if begun.Verdict == store.StartGranted && b.begin.SignalID != "" {
		d.plan.Moves = []Move{{SignalID: b.begin.SignalID, Application: run.SignalApplied, AppliedSeq: begun.StartedSeq}}
	}
	begun.Head = d.plan.Head
	return d.plan, begun
}
