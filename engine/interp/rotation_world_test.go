package interp_test

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// newRotatingWorld is a world whose machine rotates.
func newRotatingWorld(tb tb, sk plan.Skeleton, policy run.Policy, after int) *world {
	w := newWorld(tb, sk, policy)
	w.who.RotateAfter = after
	w.m = interp.New(w.sk, w.who)
	return w
}

// rotate ends the execution and begins the next one, as an engine does. A read of
// signals that others overtook may be in flight; nobody hears its answer.
func (w *world) rotate() {
	w.tb.Helper()
	if w.pending != nil || w.answer != nil || w.reading {
		w.tb.Fatalf("it rotates with an Append (%t) or a ReadLog (%t) that is not answered (T105)", w.pending != nil ||
			w.answer != nil, w.reading)
	}
	for _, f := range w.flights {
		if !w.sees(f.stepID, f.la, run.StepCompletedEvent, run.StepFailedEvent, run.StepSkippedEvent) {
			w.tb.Fatalf("it rotates while %s/%d.%d is in flight (T105)", f.stepID, f.la, f.n)
		}
	}
	// The worker of an earlier dispatch of the hook may have written its end.
	if h := w.hook; h != nil && !w.sees(h.stepID, h.la, run.StepCompensated, run.StepCompensationFailed) {
		w.tb.Fatalf("it rotates while the hook of %s/%d.%d is in flight (T105)", h.stepID, h.la, h.n)
	}
	w.flights, w.hook = nil, nil
	w.rotations++
	w.history.carry, w.history.born = carry(w.tb, w.m), len(w.inputs)
	w.m = w.newest()
	w.fetch, w.reading, w.tails = nil, false, nil
	w.timers = map[interp.Timer]time.Time{}
	w.completeTask()
	w.feed(interp.Init{At: w.now})
}

// carry gives what the next machine goes on from.
func carry(tb tb, m *interp.Machine) []byte {
	tb.Helper()
	c := m.Carry()
	if err := c.Fits(); err != nil {
		tb.Fatalf("%v", err)
	}
	b, err := json.Marshal(c)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	return b
}

// goOn makes the next machine.
func goOn(tb tb, carried []byte, sk plan.Skeleton, who interp.Config) *interp.Machine {
	tb.Helper()
	var back interp.Carried
	if err := json.Unmarshal(carried, &back); err != nil {
		tb.Fatalf("%v", err)
	}
	next, err := interp.Resume(sk, who, back)
	if err != nil {
		tb.Fatalf("%v in\n%s", err, carried)
	}
	return next
}

// carryOver makes the next machine by way of JSON.
func carryOver(tb tb, m *interp.Machine, sk plan.Skeleton, who interp.Config) *interp.Machine {
	tb.Helper()
	return goOn(tb, carry(tb, m), sk, who)
}

// double compares an idle machine with one made from what it carries, once that
// has read again what it must.
func (w *world) double() {
	w.tb.Helper()
	twin := carryOver(w.tb, w.m, w.sk, w.who)
	last := w.m.Carry().Signal
	in := interp.Input(interp.Init{At: w.now})
	for i := 0; in != nil; i++ {
		effects := twin.Step(in)
		in = nil
		for _, e := range effects {
			switch e := e.(type) {
			case interp.SetTimer:
				if at := w.timers[e.Timer]; !at.Equal(e.At) {
					w.tb.Fatalf("timer %s is armed at %v, was at %v", e.Timer, e.At, at)
				}
			case interp.FetchSignals:
				if i > 3 {
					w.tb.Fatalf("signals are read again and again")
				}
				in = interp.Signalled{At: w.now, Signals: w.asSent(w.signals[min(e.After, last):last]...)}
			default:
				w.tb.Fatalf("the next machine answers with %#v; it differs:\n%s\nthe log is\n%s", e, interp.Differs(w.m, twin),
					strings.Join(w.story(), "\n"))
			}
		}
	}
	if d := interp.Differs(w.m, twin); d != "" {
		w.tb.Fatalf("the next machine differs:\n%s\nthe log is\n%s", d, strings.Join(w.story(), "\n"))
	}
}
