package interp_test

import (
	"encoding/json"
	"slices"
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
	if w.pending != nil || w.answer != nil || len(w.flights) > 0 {
		w.tb.Fatalf("T105: it rotates with an Append (%t) and %d executions in flight", w.pending != nil || w.answer != nil, len(w.flights))
	}
	w.rotations++
	w.m = carryOver(w.tb, w.m, w.sk, w.who)
	w.fetch = nil
	w.timers = map[interp.Timer]time.Time{}
	w.feed(interp.Begin{At: w.now})
}

// carryOver makes the next machine by way of JSON.
func carryOver(tb tb, m *interp.Machine, sk plan.Skeleton, who interp.Config) *interp.Machine {
	tb.Helper()
	c := m.Carry()
	if err := c.Fits(); err != nil {
		tb.Fatalf("%v", err)
	}
	b, err := json.Marshal(c)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	var back interp.Carried
	if err := json.Unmarshal(b, &back); err != nil {
		tb.Fatalf("%v", err)
	}
	next, err := interp.Resume(sk, who, back)
	if err != nil {
		tb.Fatalf("%v in\n%s", err, b)
	}
	return next
}

// double compares an idle machine with one made from what it carries, once that
// has read again what it must.
func (w *world) double() {
	w.tb.Helper()
	twin := carryOver(w.tb, w.m, w.sk, w.who)
	last := w.m.Carry().Signal
	in := interp.Input(interp.Begin{At: w.now})
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
				in = interp.Signalled{At: w.now, Signals: slices.Clone(w.signals[min(e.After, last):last])}
			default:
				w.tb.Fatalf("the next machine answers with %#v; the log is\n%s", e, strings.Join(w.story(), "\n"))
			}
		}
	}
	if d := interp.Differs(w.m, twin); d != "" {
		w.tb.Fatalf("the next machine differs:\n%s\nthe log is\n%s", d, strings.Join(w.story(), "\n"))
	}
}
