package interp_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// The gate in the log decides whether a wait for a person begins, not the machine's copy: a step may have failed since
// the machine read the log.
//
// contract: T185, T214
func TestWait_DoesNotBeginBehindAFailureThatTheMachineHasNotObserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asking(steps("a", "b", "ask<b"), 0, "ask"), calm).start()
	w.begin("a", "b")
	w.report(w.flight("b"), completed()) // the wait is on its way
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

// A wait that was retried by hand passes the gate of fail-fast, like any other attempt.
//
// contract: T217
func TestWait_ARetriedOnePassesFailFast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asking(steps("ask", "b"), 0, "ask"), calm).start()
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

// A wait that meets the gate of a stop goes back, and the machine reads the signal that closed the gate.
//
// contract: T79, T185
func TestWait_DoesNotBeginBehindAStopThatTheMachineHasNotHeardOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asking(steps("b", "ask<b"), 0, "ask"), calm).start()
	w.begin("b")
	w.report(w.flight("b"), completed())
	w.accept(engine.Signal{ID: "C", Type: run.Cancel})
	w.record()
	w.expectHeld(1)
	w.expectWaits()
	w.ask()
	w.expectDone(run.Cancelled)
	w.expect("RunApproved", "RunStarted", "StepStarted(b,1)", "StepCompleted(b,1)", "SignalAccepted(C)", "RunCancelled")
}

// The clock of a workflow stands still during a workflow task. Events of the machine are emitted no earlier than the
// ends that the Journal wrote meanwhile.
func TestAppend_EmittedNoEarlierThanTheEndsBeforeIt(t *testing.T) {
	t.Parallel()
	const lag = 700 * time.Millisecond
	lagging := func(change func(*run.Policy), ids ...string) *world {
		w := newRotatingWorld(t, undoable(asking(steps(ids...), time.Minute, "ask"), "x"), with(calm, change), 0).start()
		w.now, w.lag = w.now.Add(time.Hour), lag
		return w
	}
	last := func(w *world) {
		t.Helper()
		for i, e := range w.log[:len(w.log)-1] {
			if end := w.log[len(w.log)-1]; i > 1 && end.EmittedAt.Before(e.EmittedAt) {
				t.Errorf("%s is emitted at %v, %s before it at %v", tell(end), end.EmittedAt, tell(e), e.EmittedAt)
			}
		}
	}
	for name, proves := range map[string]bool{"by receipts": true, "by reading the log": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := lagging(noWindow, "a")
			w.proves = func() bool { return proves }
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

	w = lagging(noWindow, "a", "ask<a") // the deadline of a wait counts from the time in its begin
	w.succeed("a")
	ask, _ := w.state.Step("ask")
	if a := ask.Attempts[0]; a.StartedAt == nil || a.WaitDeadline == nil ||
		!a.WaitDeadline.Equal(a.StartedAt.Add(time.Minute)) {
		t.Errorf("the wait begins at %v and ends at %v, want a minute", a.StartedAt, a.WaitDeadline)
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
	stray := w.flight("a")
	w.comeBack(stray, engine.Return{Kind: engine.ReturnLost})
	w.writeEnd(stray, completed())
	w.record()
	w.expectDone(run.Completed)
	last(w)
}

// A wait does not begin behind an end of its attempt. A try of this machine that the engine lost wrote the skip.
//
// contract: T10, T110
func TestWait_DoesNotBeginBehindAnEndThatTheMachineHasNotObserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asking(steps("ask", "b<ask"), 0, "ask"), calm)
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
