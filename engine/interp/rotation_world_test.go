package interp_test

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// newRotatingWorld returns a world whose machine rotates after the given number of dispatches; 0 means never by itself.
func newRotatingWorld(tb tb, sk plan.Skeleton, policy run.Policy, after int) *world {
	w := newWorld(tb, sk, policy)
	w.cfg.RotateAfter = after
	w.m = interp.New(w.sk, w.cfg)
	return w
}

// rotate ends the execution and starts the next one, as an engine does. A FetchSignals that other signals overtook may
// be outstanding; its answer is dropped.
func (w *world) rotate() {
	w.tb.Helper()
	if w.pending != nil || w.answer != nil || w.reading {
		w.tb.Fatalf("the machine rotates while an Append (%t) or a ReadLog (%t) is outstanding (contract T105)",
			w.pending != nil || w.answer != nil, w.reading)
	}
	for _, f := range w.flights {
		if !w.hasObserved(f.stepID, f.logicalAttempt, run.StepCompletedEvent, run.StepFailedEvent, run.StepSkippedEvent) {
			w.tb.Fatalf("the machine rotates while %s/%d.%d is in flight (contract T105)", f.stepID, f.logicalAttempt, f.n)
		}
	}
	// The worker of an earlier dispatch of the hook may have written its end.
	if h := w.hook; h != nil && !w.hasObserved(h.stepID, h.logicalAttempt, run.StepCompensated,
		run.StepCompensationFailed) {
		w.tb.Fatalf("the machine rotates while the hook of %s/%d.%d is in flight (contract T105)", h.stepID,
			h.logicalAttempt, h.n)
	}
	w.flights, w.hook = nil, nil
	w.rotations++
	w.history.carry, w.history.born = carryJSON(w.tb, w.m), len(w.inputs)
	w.m = w.newMachine()
	w.fetch, w.reading, w.tails = nil, false, nil
	w.timers = map[interp.Timer]time.Time{}
	w.completeTask()
	w.feed(interp.Init{At: w.now})
}

// carryJSON returns the state of a machine as the JSON from which the next machine continues.
func carryJSON(tb tb, m *interp.Machine) []byte {
	tb.Helper()
	c := m.Carry()
	if err := c.Fits(); err != nil {
		tb.Fatalf("the carried state is too large: %v", err)
	}
	b, err := json.Marshal(c)
	if err != nil {
		tb.Fatalf("encode the carried state: %v", err)
	}
	return b
}

// resumeMachine returns the next machine.
func resumeMachine(tb tb, carried []byte, sk plan.Skeleton, cfg interp.Config) *interp.Machine {
	tb.Helper()
	var back interp.CarriedState
	if err := json.Unmarshal(carried, &back); err != nil {
		tb.Fatalf("decode the carried state: %v", err)
	}
	next, err := interp.Resume(sk, cfg, back)
	if err != nil {
		tb.Fatalf("Resume returns %v for\n%s", err, carried)
	}
	return next
}

// carryOver returns the next machine after m. The state is carried as JSON.
func carryOver(tb tb, m *interp.Machine, sk plan.Skeleton, cfg interp.Config) *interp.Machine {
	tb.Helper()
	return resumeMachine(tb, carryJSON(tb, m), sk, cfg)
}

// compareWithTwin compares an idle machine with a twin that Resume makes from its Carry, after the twin has read the
// carried signals again.
func (w *world) compareWithTwin() {
	w.tb.Helper()
	twin := carryOver(w.tb, w.m, w.sk, w.cfg)
	last := w.m.Carry().Signal
	in := interp.Input(interp.Init{At: w.now})
	for i := 0; in != nil; i++ {
		effects := twin.Step(in)
		in = nil
		for _, e := range effects {
			switch e := e.(type) {
			case interp.SetTimer:
				if at := w.timers[e.Timer]; !at.Equal(e.At) {
					w.tb.Fatalf("the next machine arms timer %s for %v, want %v", e.Timer, e.At, at)
				}
			case interp.FetchSignals:
				if i > 3 {
					w.tb.Fatalf("the next machine does not stop reading signals")
				}
				in = interp.Signalled{At: w.now, Signals: w.asSent(w.signals[min(e.After, last):last]...)}
			default:
				w.tb.Fatalf("the next machine answers with %#v; it differs:\n%s\nthe log is\n%s", e, interp.Differs(w.m, twin),
					strings.Join(w.logLines(), "\n"))
			}
		}
	}
	if d := interp.Differs(w.m, twin); d != "" {
		w.tb.Fatalf("the next machine differs:\n%s\nthe log is\n%s", d, strings.Join(w.logLines(), "\n"))
	}
}
