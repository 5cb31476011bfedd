package interp_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// The gate in the log decides whether a wait for a person starts, not the machine's copy: a step may have failed since
// the machine read the log.
//
// contract: T185, T214
func TestWait_DoesNotStartAfterAFailureThatTheMachineHasNotObserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("a", "b", "ask<b"), 0, "ask"), basePolicy).start()
	w.begin("a", "b")
	w.report(w.flight("b"), completed()) // the machine appends the wait
	if w.pending == nil || w.pending.UnlessGate != run.GatePaused|run.GateFailing|run.GateStopped {
		t.Fatalf("the machine writes %+v, want a wait that the gate may hold back", w.pending)
	}
	w.writeEnd(w.flight("a"), failed("BROKEN", true))
	w.record()
	w.expectHeld(1)
	w.expectWaits()
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepStarted(b,1)", "StepCompleted(b,1)",
		"StepFailed(a,1,BROKEN)")
	w.comeBack(w.flight("a"), engine.Return{Kind: engine.ReturnEnded})
	w.record()
	w.signal(run.RetryStep, "R", "a")
	w.succeed("a")
	w.expectHeld(1)
	w.expectWaits("ask")
	w.complete("D", "ask", run.ManualSucceeded)
	w.expectDone(run.Completed)
}

// A retry of a wait passes the gate of fail-fast, like a retry of another step.
//
// contract: T217
func TestWait_ARetryPassesFailFast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("ask", "b"), 0, "ask"), basePolicy).start()
	w.begin("b")
	w.fail("b", "BROKEN")
	w.complete("D", "ask", run.ManualFailed)
	w.signal(run.RetryStep, "R", "ask")
	w.expectHeld(0)
	w.expectWaits("ask")
	if w.head.Gate != run.GateFailing {
		t.Errorf("the gate is %04b, want it closed by the failure of b", w.head.Gate)
	}
}

// When a stop has closed the gate for a wait, the machine takes the wait back and reads the signal of the stop.
//
// contract: T79, T185
func TestWait_DoesNotStartAfterAStopThatTheMachineHasNotReceived(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("b", "ask<b"), 0, "ask"), basePolicy).start()
	w.begin("b")
	w.report(w.flight("b"), completed())
	w.accept(engine.Signal{ID: "C", Type: run.Cancel})
	w.record()
	w.expectHeld(1)
	w.expectWaits()
	w.serveFetches()
	w.expectDone(run.Cancelled)
	w.expect("RunApproved", "RunStarted", "StepStarted(b,1)", "StepCompleted(b,1)", "SignalAccepted(C)", "RunCancelled")
}

// The clock of a workflow stands still during a workflow task. The times of the machine's events are still not before
// those of the ends that the Journal wrote meanwhile.
func TestAppend_EventsAreNotOlderThanTheEndsBeforeThem(t *testing.T) {
	t.Parallel()
	const lag = 700 * time.Millisecond
	lagging := func(change func(*run.Policy), ids ...string) *world {
		sk := withHooks(asManual(steps(ids...), time.Minute, "ask"), "x")
		w := newRotatingWorld(t, sk, with(basePolicy, change), 0).start()
		w.now, w.lag = w.now.Add(time.Hour), lag
		return w
	}
	last := func(w *world) {
		t.Helper()
		for i, e := range w.log[:len(w.log)-1] {
			if end := w.log[len(w.log)-1]; i > 1 && end.EmittedAt.Before(e.EmittedAt) {
				t.Errorf("%s was emitted at %v, want it not before %s at %v", describe(end), end.EmittedAt, describe(e),
					e.EmittedAt)
			}
		}
	}
	for name, proves := range map[string]bool{"by receipts": true, "by reading the log": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := lagging(noWindow, "a")
			w.useReceipts = func() bool { return proves }
			w.succeed("a")
			w.expectDone(run.Completed)
			last(w)
		})
	}
	w := lagging(noWindow, "x", "y<x")
	w.succeed("x")
	w.fail("y", "BROKEN")
	w.undo("x", 1, "")
	w.expectDone(run.Failed)
	last(w)

	w = lagging(noWindow, "a", "ask<a") // the deadline of a wait counts from its start
	w.succeed("a")
	ask, _ := w.state.Step("ask")
	if a := ask.Attempts[0]; a.StartedAt == nil || a.WaitDeadline == nil ||
		!a.WaitDeadline.Equal(a.StartedAt.Add(time.Minute)) {
		t.Errorf("the wait starts at %v and ends at %v, want a minute", a.StartedAt, a.WaitDeadline)
	}
	last(w)

	w = lagging(noWindow, "a", "b<a") // the latest known time survives a rotation
	w.succeed("a")
	w.feed(interp.Pressure{At: w.now})
	w.succeed("b")
	w.answerFetches()
	w.expectDone(run.Completed)
	last(w)

	w = lagging(noWindow, "a") // a worker's end wins over the machine's
	w.begin("a")
	orphan := w.flight("a")
	w.comeBack(orphan, engine.Return{Kind: engine.ReturnLost})
	w.writeEnd(orphan, completed())
	w.record()
	w.expectDone(run.Completed)
	last(w)
}

// A wait does not start after an end of its attempt. Here a lost try of the workflow task wrote a skip.
//
// contract: T10, T110
func TestWait_DoesNotStartAfterAnEndThatTheMachineHasNotObserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("ask", "b<ask"), 0, "ask"), basePolicy)
	w.feed(interp.Init{At: w.now})
	w.commit()
	skip := run.Draft{
		Type: run.StepSkippedEvent, StepID: "ask", LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now,
		EmittedBy: run.ByEngine,
		Payload:   []byte(`{"reasonCode":"OPERATOR_SKIP","signalId":"K"}`),
	}
	w.write(store.Append{Events: []run.Draft{skip}})
	w.deliver()
	w.record()
	w.expectHeld(1)
	w.expectWaits()
	w.succeed("b")
	w.expect("RunApproved", "RunStarted", "StepSkipped(ask,1,OPERATOR_SKIP)", "StepStarted(b,1)", "StepCompleted(b,1)",
		"RunCompleted")
	w.expectDone(run.Completed)
}
