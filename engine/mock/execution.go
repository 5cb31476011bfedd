package mock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const (
	// retryDelay is the delay before an unanswered call is repeated.
	retryDelay = time.Second
	// immediateRetries is the number of consecutive calls that are repeated without virtual time, because a journal on a
	// busy machine answers soon.
	immediateRetries = 5
)

// execution is one run. It drives the interpreter like a workflow.
type execution struct {
	e          *Engine
	id         run.Identity
	policy     run.Policy
	sk         plan.Skeleton
	m          *interp.Machine
	head       run.Seq
	inputs     int64
	generation int
	closedAs   string // empty while the run continues

	inbox      []interp.Input
	feeding    bool
	unanswered int // consecutive calls that the journal did not answer
	timers     map[interp.Timer]*entry
	flights    []*flight
	undoing    *hook // the hook in flight, or nil; a run has one at a time
}

func (x *execution) ref() run.EngineRunRef {
	return run.EngineRunRef{Provider: "mock", WorkflowID: fmt.Sprintf("dvt/%s/%s", x.id.TenantID, x.id.RunID)}
}

func (x *execution) config() interp.Config {
	return interp.Config{Identity: x.id, Policy: x.policy, EngineAttempt: 1 + x.generation,
		RotateAfter: x.e.cfg.RotateAfter, PauseAhead: true}
}

// start starts the run, or ends it at once if its plan cannot be loaded.
func (x *execution) start(broken *run.FailurePayload) {
	if broken == nil {
		x.m = interp.New(x.sk, x.config())
		x.feed(interp.Init{At: x.e.now})
		return
	}
	a, err := interp.FailAtOnce(x.e.now, *broken)
	if err == nil {
		_, err = x.write(a)
	}
	if err != nil {
		x.retry(func() { x.start(broken) })
		return
	}
	x.closedAs = "COMPLETED"
}

// retry repeats a call that the journal did not answer.
func (x *execution) retry(call func()) {
	x.unanswered++
	wait := retryDelay
	if x.unanswered <= immediateRetries {
		wait = 0
	}
	x.e.schedule(wait, call)
}

// feed passes inputs to the machine one at a time, including those caused by its effects.
func (x *execution) feed(in interp.Input) {
	x.unanswered = 0
	x.inbox = append(x.inbox, in)
	if x.feeding {
		return
	}
	x.feeding = true
	defer func() { x.feeding = false }()
	for len(x.inbox) > 0 && x.closedAs == "" {
		next := x.inbox[0]
		x.inbox = x.inbox[1:]
		x.inputs++
		x.apply(x.m.Step(next))
	}
}

func (x *execution) apply(effects []interp.Effect) {
	for _, e := range effects {
		switch e := e.(type) {
		case interp.Append:
			x.append(e)
		case interp.Execute:
			x.execute(e)
		case interp.CancelSteps:
			x.cancel(e.Ords)
		case interp.SetTimer:
			x.setTimer(e)
		case interp.FetchSignals:
			x.fetchSignals(e.After)
		case interp.ReadLog:
			x.readLog(nil)
		case interp.Compensate:
			x.compensate(e)
		case interp.Rotate:
			x.rotate()
		case interp.Finish:
			x.closedAs = "COMPLETED"
		}
	}
}

// rotate continues with a machine made from the carried state, like the next execution of a workflow. It encodes and
// decodes the state, so that a field which JSON does not carry is lost here too, and keeps the inbox.
func (x *execution) rotate() {
	doc, err := json.Marshal(x.m.Carry())
	var c interp.CarriedState
	if err == nil {
		err = json.Unmarshal(doc, &c)
	}
	if err == nil {
		x.m, err = interp.Resume(x.sk, x.config(), c)
	}
	if err != nil {
		x.closedAs = "FAILED"
		return
	}
	x.generation++
	for _, t := range x.timers {
		t.cancelled = true
	}
	clear(x.timers)
	x.inbox = append([]interp.Input{interp.Init{At: x.e.now}}, x.inbox...)
}

// write appends a batch. It adds the engine's reference to RunStarted and asks for the newest known head.
func (x *execution) write(a interp.Append) (store.Appended, error) {
	a.RunID, a.MinHead = x.id.RunID, x.head
	a.Events = slices.Clone(a.Events) // a journal completes them, and the batch may be repeated
	for i := range a.Events {
		if a.Events[i].Type != run.RunStarted {
			continue
		}
		p, err := run.PayloadOf[run.RunStartedPayload](a.Events[i].Payload)
		if err != nil {
			return store.Appended{}, err
		}
		ref := x.ref()
		ref.PauseAhead = p.Engine.PauseAhead
		p.Engine = ref
		if a.Events[i].Payload, err = json.Marshal(p); err != nil {
			return store.Appended{}, err
		}
	}
	if a.UnlessPaused {
		return x.e.cfg.Journal.AppendUnlessPaused(context.Background(), a.Append)
	}
	return x.e.cfg.Journal.Append(context.Background(), a.Append)
}

func (x *execution) append(a interp.Append) {
	done, err := x.write(a)
	if errors.Is(err, store.ErrNotFound) {
		x.closedAs = "FAILED"
		return
	}
	r, ok := interp.Outcome(a, done, err)
	if !ok {
		x.retry(func() { x.append(a) })
		return
	}
	x.head = max(x.head, r.Head)
	r.At, r.Batch = x.e.now, a.Batch
	x.feed(r)
}

func (x *execution) setTimer(e interp.SetTimer) {
	if t := x.timers[e.Timer]; t != nil {
		t.cancelled = true
		delete(x.timers, e.Timer)
	}
	if e.At.IsZero() {
		return
	}
	x.timers[e.Timer] = x.e.schedule(max(0, e.At.Sub(x.e.now)), func() {
		delete(x.timers, e.Timer)
		x.feed(interp.Fired{At: x.e.now, Timer: e.Timer})
	})
}

func (x *execution) fetchSignals(after int64) {
	signals, err := x.e.cfg.Journal.Signals(context.Background(), x.id.RunID, after)
	if err != nil {
		x.retry(func() { x.fetchSignals(after) })
		return
	}
	x.feed(interp.Signalled{At: x.e.now, Signals: signals})
}

// readLog feeds the new events of the log and then the return that was received before them, unless it is nil.
func (x *execution) readLog(then interp.Input) {
	for {
		t, err := x.e.cfg.Journal.Tail(context.Background(), x.id.RunID, x.m.ObservedSeq())
		if err != nil {
			x.retry(func() { x.readLog(then) })
			return
		}
		x.feed(interp.Observed{At: x.e.now, Tail: t})
		if t.Seq >= t.Head.LastSeq || x.closedAs != "" {
			break
		}
	}
	if then != nil {
		x.feed(then)
	}
}

// cancel asks the executions and the hook of steps to stop.
func (x *execution) cancel(ords []run.Ord) {
	for _, f := range x.flights {
		if slices.Contains(ords, f.ord) && !f.what.IgnoresCancel {
			f.cancelled = true
			x.e.schedule(0, f.finish)
		}
	}
	if h := x.undoing; h != nil && slices.Contains(ords, h.dispatch.Ord) {
		h.cancel()
	}
}
