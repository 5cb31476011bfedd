package interp_test

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/authority"
)

type dispatch struct {
	ord               run.Ord
	logicalAttempt, n int
}

// flight is a dispatch that the engine executes.
type flight struct {
	dispatch
	stepID    string
	passes    bool
	signalID  string
	spent     int
	began     bool // the Journal has let its worker start the attempt
	ended     bool // its worker wrote the end
	cancelled bool // it was asked to stop

	back  *engine.Return // its return; a workflow task that is tried again gets it again
	since int            // the workflow task that dispatched it
	asked int            // the workflow task that asked it to stop
}

// startAttempt asks the Journal to start the attempt of a dispatch.
func (w *world) startAttempt(f *flight) store.AttemptStarted {
	w.tb.Helper()
	b, err := authority.PrepareStart(w.id, store.StartAttempt{
		RunID: w.id.RunID, StepID: f.stepID, LogicalAttempt: f.logicalAttempt, EngineAttempt: 1 + f.spent,
		EmittedAt: w.now, PassFailing: f.passes, SignalID: f.signalID,
	})
	if err != nil {
		w.tb.Fatalf("start the attempt: %v", err)
	}
	p, begun := authority.DecideStart(w.head, b, w.facts(), w.now)
	if w.throttle != nil && len(p.Insert) > 0 {
		if wait := w.throttle(f.stepID); wait > 0 {
			return store.AttemptStarted{Verdict: store.StartThrottled, RetryAfter: wait}
		}
	}
	w.carryOut(p)
	f.began = begun.Verdict == store.StartGranted
	return begun
}

// arrive lets a worker receive a dispatch: the attempt starts, or the dispatch returns.
func (w *world) arrive(f *flight) {
	w.tb.Helper()
	w.needTask(f.since)
	switch begun := w.startAttempt(f); begun.Verdict {
	case store.StartThrottled:
		w.comeBack(f, engine.Return{Kind: engine.ReturnThrottled, RetryAfter: begun.RetryAfter})
	case store.StartParked:
		w.comeBack(f, engine.Return{Kind: engine.ReturnParked})
	case store.StartRunTerminal:
		w.comeBack(f, engine.Return{Kind: engine.ReturnRunTerminal})
	case store.StartDone:
		w.comeBack(f, engine.Return{Kind: engine.ReturnEnded})
	}
}

// writeEnd writes the end of an attempt as Journal.End does.
func (w *world) writeEnd(f *flight, end engine.End) {
	w.tb.Helper()
	d := run.Draft{
		Type: run.StepCompletedEvent, StepID: f.stepID, LogicalAttempt: f.logicalAttempt, EngineAttempt: 1 + f.spent,
		EmittedAt: w.now, EmittedBy: run.ByEngine,
	}
	payload := any(end.Completed)
	if end.Failed != nil {
		d.Type, payload = run.StepFailedEvent, end.Failed
	}
	var err error
	d.Payload, err = json.Marshal(payload)
	// When the log refuses a result, the worker writes a failure instead (contract T190).
	if (err != nil || w.refuse != nil && w.refuse(d)) && end.Completed != nil {
		w.writeEnd(f, engine.End{Failed: &run.FailurePayload{ErrorCode: string(run.CodeEventRejected),
			FailureCategory: run.CategoryPlatform}})
		return
	}
	a := store.Append{Events: []run.Draft{d}, IfStarted: true}
	if d.Type == run.StepFailedEvent {
		a.SetGate = run.GateFailing
	}
	if ms := w.cfg.Policy.RetryWindowMS; ms > 0 {
		a.RetryDeadline = w.now.Add(time.Duration(ms) * time.Millisecond)
	}
	w.write(a)
	f.ended = true
}

// report lets a worker write the end of its attempt and the engine report it, by a receipt or by a return.
func (w *world) report(f *flight, end engine.End) {
	w.tb.Helper()
	w.needTask(f.since)
	w.writeEnd(f, end)
	others := slices.ContainsFunc(w.log[w.knownSeq:], func(e run.Event) bool {
		return e.StepID != f.stepID || e.LogicalAttempt != f.logicalAttempt
	})
	// A receipt does not show other events, but deliverReceipt extends known to the head of the log.
	if !others && w.useReceipts != nil && w.useReceipts() {
		w.deliverReceipt(f)
		return
	}
	w.comeBack(f, engine.Return{Kind: engine.ReturnEnded})
}

// deliverReceipt gives the machine the Journal's receipt of an end that the log has, and no other event.
func (w *world) deliverReceipt(f *flight) {
	w.tb.Helper()
	w.needTask(f.since)
	w.beginTask()
	w.flights = slices.DeleteFunc(w.flights, func(o *flight) bool { return o == f })
	f.back = &engine.Return{StepID: f.stepID, LogicalAttempt: f.logicalAttempt, N: f.n, Kind: engine.ReturnEnded}
	w.past[f.dispatch] = true
	r := engine.Receipt{Head: w.head.LastSeq, Running: w.head.Running, Gate: w.head.Gate}
	for _, e := range w.log {
		switch {
		case e.StepID != f.stepID || e.LogicalAttempt != f.logicalAttempt:
		case e.Type == run.StepStartedEvent:
			r.StartedSeq = e.Seq
		case e.Type.EndsAttempt():
			r.Type, r.Seq, r.At = e.Type, e.Seq, e.EmittedAt
		}
	}
	w.extendKnown(w.head.LastSeq)
	w.feed(interp.Ended{At: w.now, StepID: f.stepID, LogicalAttempt: f.logicalAttempt, Receipt: r})
}

// comeBack lets the engine report that it no longer executes a dispatch. The machine observes the log first.
func (w *world) comeBack(f *flight, got engine.Return) {
	w.tb.Helper()
	w.needTask(f.since)
	if got.Kind == engine.ReturnCancelled && f.cancelled {
		w.needTask(f.asked)
	}
	w.beginTask()
	w.flights = slices.DeleteFunc(w.flights, func(o *flight) bool { return o == f })
	got.StepID, got.LogicalAttempt, got.N = f.stepID, f.logicalAttempt, f.n
	f.back = &got
	w.past[f.dispatch] = true
	w.observe()
	w.feed(interp.Returned{At: w.now, Return: got})
}

// lose lets the engine lose the worker of a dispatch. The engine reports nothing about that worker from then on.
func (w *world) lose(stepID string) *flight {
	w.tb.Helper()
	f := w.flight(stepID)
	w.comeBack(f, engine.Return{Kind: engine.ReturnLost, EngineAttempt: 1 + f.spent})
	w.record()
	return f
}

// forge lets an attacker with access to the engine end a dispatch.
func (w *world) forge(stepID string, kind engine.ReturnKind) *flight {
	w.tb.Helper()
	f := w.flight(stepID)
	w.comeBack(f, engine.Return{Kind: kind, EngineAttempt: 1})
	w.record()
	return f
}

// read returns the current answer of Journal.Tail.
func (w *world) read() engine.Tail {
	t := engine.Tail{Seq: w.m.ObservedSeq(), Head: w.head}
	most := store.MaxTail
	if w.tailMost > 0 {
		most = w.tailMost
	}
	for _, e := range w.log[t.Seq:min(len(w.log), int(t.Seq)+most)] {
		t.Seq = e.Seq
		switch e.Type {
		case run.StepStartedEvent, run.StepCompletedEvent, run.StepFailedEvent, run.StepSkippedEvent, run.StepCompensated,
			run.StepCompensationFailed,
			run.RunPaused, run.RunResumed, run.RunCompensationStarted:
		default:
			continue
		}
		le := engine.LogEvent{
			Seq: e.Seq, Type: e.Type, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt, EngineAttempt: e.EngineAttempt,
			At: e.EmittedAt,
		}
		if e.Type != run.StepCompletedEvent || len(e.Payload) <= engine.MaxTailPayload {
			le.Payload = e.Payload
		}
		t.Events = append(t.Events, le)
	}
	return t
}

// observe lets the machine observe the log up to its head.
func (w *world) observe() {
	w.tb.Helper()
	for more := true; more && !w.m.Done(); {
		t := w.read()
		w.deliverTail(t)
		more = t.Seq < t.Head.LastSeq
	}
}

// deliverTail gives the machine one answer of Journal.Tail.
func (w *world) deliverTail(t engine.Tail) {
	w.tb.Helper()
	w.reading = false
	w.extendKnown(t.Seq)
	w.feed(interp.Observed{At: w.now, Tail: t})
}

func (w *world) flight(stepID string) *flight {
	w.tb.Helper()
	for _, f := range w.flights {
		if f.stepID == stepID {
			return f
		}
	}
	w.tb.Fatalf("%s is not in flight; the log is\n%s", stepID, strings.Join(w.logLines(), "\n"))
	return nil
}

// begin lets workers start the attempts of steps in flight, and records the appends that follow.
func (w *world) begin(ids ...string) {
	w.tb.Helper()
	for _, id := range ids {
		w.arrive(w.flight(id))
		w.record()
	}
}

// end starts the attempt of a step if it has not started, ends it, and records the appends that follow.
func (w *world) end(stepID string, end engine.End) {
	w.tb.Helper()
	if f := w.flight(stepID); !f.began {
		w.arrive(f)
	}
	w.report(w.flight(stepID), end)
	w.record()
}

// cancel lets the execution of a step stop as it was asked to.
func (w *world) cancel(stepID string) {
	w.tb.Helper()
	w.comeBack(w.flight(stepID), engine.Return{Kind: engine.ReturnCancelled, EngineAttempt: 1})
	w.record()
}

func (w *world) succeed(ids ...string) {
	w.tb.Helper()
	for _, id := range ids {
		w.end(id, completed())
	}
}

func (w *world) fail(stepID, code string) {
	w.tb.Helper()
	w.end(stepID, failed(code, true))
}

func completed() engine.End {
	return engine.End{Completed: &run.StepCompletedPayload{}}
}

func failed(code string, retryable bool) engine.End {
	return engine.End{Failed: &run.FailurePayload{ErrorCode: code, ErrorMessage: code + "!", Retryable: retryable,
		FailureCategory: run.CategoryUser}}
}

// inFlight lists the steps in flight in the order of dispatch.
func (w *world) inFlight() string {
	var ids []string
	for _, f := range w.flights {
		ids = append(ids, f.stepID)
	}
	return strings.Join(ids, " ")
}

// startedAppend returns the Append that a Journal writes when it lets a worker start an attempt.
func startedAppend(w *world, f *flight) store.Append {
	return store.Append{Events: []run.Draft{{
		Type: run.StepStartedEvent, StepID: f.stepID, LogicalAttempt: f.logicalAttempt, EngineAttempt: 1, EmittedAt: w.now,
		EmittedBy: run.ByEngine,
	}}}
}
