package interp_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// newLossyWorld returns a world whose engine can lose a workflow task, but not the events that the task wrote.
func newLossyWorld(tb tb, sk plan.Skeleton, policy run.Policy) *world {
	w := newWorld(tb, sk, policy)
	w.loseTasks()
	w.start()
	w.completeTask()
	return w
}

// hearWithoutWriting delivers accepted signals and lets the machine observe the log. Its writes stay pending.
func (w *world) hearWithoutWriting(signals ...engine.Signal) {
	w.tb.Helper()
	w.feed(interp.Signalled{At: w.now, Signals: w.asSent(signals...)})
	if w.reading {
		w.hand(w.read())
	}
}

// contract: T82, T191
func TestLostTask_AWaitThatBeganIsTakenOver(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, asking(steps("a", "ask<a"), time.Minute, "ask"), calm)
	w.begin("a")
	f := w.flight("a")
	w.report(f, completed())
	w.commit() // the wait is in the log
	w.expectWaits("ask")
	w.accept(w.completion("D", "ask", run.ManualSucceeded))
	w.now = w.now.Add(30 * time.Second)
	w.loseTask()
	w.hearWithoutWriting(w.signals...) // before the machine hears of a
	w.record()
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepCompleted(a,1)", "StepStarted(ask,1)",
		"StepAwaitingManualCompletion(ask,1)",
		"SignalAccepted(D)", "StepCompleted(ask,1)", "RunCompleted")
	w.expectReceipt("D", run.SignalApplied, "", 8)
}

// contract: T83
func TestLostTask_AWaitKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, asking(steps("a", "ask<a"), time.Minute, "ask"), calm)
	w.begin("a")
	f := w.flight("a")
	w.report(f, completed())
	w.commit()
	ask, _ := w.state.Step("ask")
	w.now = w.now.Add(30 * time.Second)
	w.loseTask()
	w.comeBack(f, engine.Return{Kind: engine.ReturnEnded})
	w.record()
	if got, want := w.timers[interp.TimerManual], *ask.Attempts[0].WaitDeadline; !got.Equal(want) {
		t.Fatalf("the wait ends at %v, the log says %v", got, want)
	}
}

// A try that was lost opened the gate for a retry. The next try, which has not heard of the retry yet, is about to end
// the run: it closes the gate first, so that nothing is RUNNING when the run ends.
//
// contract: T74
func TestLostTask_TheGateIsClosedBeforeTheRunFails(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, steps("a", "b"), calm)
	w.fail("a", "BROKEN")
	w.completeTask()
	w.accept(engine.Signal{ID: "R", Type: run.RetryStep, StepID: "a", LogicalAttempt: 1})
	w.hearWithoutWriting(w.signals...)
	w.commit()
	if w.head.Gate != 0 {
		t.Fatalf("the gate is %b, want it open", w.head.Gate)
	}
	w.loseTask()
	w.observe()
	at := w.timers[interp.TimerRetryWindow]
	w.now, w.timers[interp.TimerRetryWindow] = at, time.Time{}
	w.feed(interp.Fired{At: at, Timer: interp.TimerRetryWindow})
	w.arrive(w.flight("b")) // the gate is open
	w.record()              // no RunFailed: b runs
	if w.state.Status != run.Running || w.head.Gate != run.GateFailing {
		t.Fatalf("the run is %s and the gate %b, want RUNNING and the gate closed", w.state.Status, w.head.Gate)
	}
	w.hear()
	w.succeed("b", "a")
	w.expectDone(run.Completed)
}

// contract: T91
func TestLostTask_ACompensationThatBeganGoesOn(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, undoable(l3(), "s1"), with(calm, noWindow))
	w.succeed("s1")
	w.begin("s2")
	f := w.flight("s2")
	w.report(f, failed("BROKEN", true))
	w.accept(engine.Signal{ID: "R", Type: run.RetryStep, StepID: "s2", LogicalAttempt: 1})
	w.commit()
	w.deliver() // the gate is closed once more, and the log has more
	w.hand(w.read())
	w.commit()
	w.deliver()
	w.commit()
	if !w.state.Compensating {
		t.Fatalf("the compensation has not begun; the log is %v", w.story())
	}
	w.loseTask()
	w.hear()
	w.expectReceipt("R", run.SignalNotApply, run.CodeRunFinalizing, 0)
	w.undo("s1", 1, "")
	w.expectDone(run.Failed)
}

// A signal without effect has none when a task is tried again, even if its step has changed meanwhile.
//
// contract: T193
func TestLostTask_ASignalWithoutEffectIsNotJudgedAgain(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, l3(), calm)
	w.accept(engine.Signal{ID: "K", Type: run.SkipStep, StepID: "s1"}) // it is in flight
	w.completeTask()
	w.hearWithoutWriting(w.signals...)
	w.commit()
	w.expectReceipt("K", run.SignalNotApply, run.CodeStepNotSkippable, 0)
	w.loseTask()
	w.fail("s1", "BROKEN")
	w.hear()
	if s1, _ := w.state.Step("s1"); s1.Status != run.StepFailed {
		t.Fatalf("s1 is %s, want FAILED", s1.Status)
	}
	w.signal(run.RetryStep, "R", "s1")
	w.succeed("s1", "s2", "s3")
	w.expectDone(run.Completed)
}

// A step that a lost try has skipped stays skipped, even when the next try reads the signal late.
//
// contract: T77
func TestLostTask_AStepThatWasSkippedIsNotDispatched(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, l3(), calm)
	w.accept(engine.Signal{ID: "K", Type: run.SkipStep, StepID: "s2"})
	w.hearWithoutWriting(w.signals...)
	w.commit()
	w.loseTask()
	w.succeed("s1")
	w.expectInFlight("s3")
	w.hear()
	w.succeed("s3")
	w.expectDone(run.Completed)
	w.expectReceipt("K", run.SignalApplied, "", 4)

	w = newLossyWorld(t, l3(), calm) // of a FAILED step
	w.fail("s1", "BROKEN")
	w.completeTask()
	w.accept(engine.Signal{ID: "K", Type: run.SkipStep, StepID: "s1"})
	w.hearWithoutWriting(w.signals...)
	w.commit()
	w.loseTask()
	w.fire(interp.TimerRetryWindow) // the log has no FAILED step
	w.expectInFlight("s2")
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
}

// A pause that a lost try wrote is in force, and the next try begins no step before it has read the pause.
//
// contract: T48, T185
func TestLostTask_APauseThatWasWritten(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, asking(steps("a", "ask<a"), 0, "ask"), calm)
	w.begin("a")
	w.accept(engine.Signal{ID: "P", Type: run.Pause})
	w.hearWithoutWriting(w.signals...)
	w.commit()
	w.loseTask()
	w.succeed("a")
	w.expectWaits()
	w.expectHeld(1)
	w.ask()
	w.signal(run.Resume, "S", "")
	w.complete("D", "ask", run.ManualSucceeded)
	w.expectDone(run.Completed)
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "SignalAccepted(P)", "RunPaused(1)", "StepCompleted(a,1)",
		"SignalAccepted(S)",
		"RunResumed(1)", "StepStarted(ask,1)", "StepAwaitingManualCompletion(ask,1)", "SignalAccepted(D)",
		"StepCompleted(ask,1)", "RunCompleted")
}

// A lost try paused and resumed the run. The next try writes both again, together with a new event. The pause that is
// over must not close the gate again.
//
// contract: T48
func TestLostTask_APauseThatIsOverClosesNoGate(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, asking(asking(steps("ask", "b", "late<b"), time.Minute, "ask"), 0, "late"), calm)
	w.accept(engine.Signal{ID: "P", Type: run.Pause})
	w.hearWithoutWriting(w.signals...)
	w.record()
	w.accept(engine.Signal{ID: "S", Type: run.Resume})
	w.hearWithoutWriting(w.signals...)
	w.record()
	if w.state.Status != run.Running || w.head.Gate != 0 {
		t.Fatalf("the run is %s and its gate %b, want RUNNING and open", w.state.Status, w.head.Gate)
	}
	w.loseTask()
	b := w.flight("b")
	w.arrive(b)
	w.report(b, completed()) // the wait of late is on its way
	w.now = w.now.Add(time.Minute)
	w.timers[interp.TimerManual] = time.Time{}
	w.feed(interp.Fired{At: w.now, Timer: interp.TimerManual}) // and the end of ask behind it
	w.hearWithoutWriting(w.signals...)
	w.record()
	if w.state.Status != run.Running || w.head.Gate != run.GateFailing {
		t.Fatalf("the run is %s and its gate %b, want RUNNING and closed by the failure alone", w.state.Status, w.head.Gate)
	}
}

// The machine finds in the log a failure that a lost try wrote for a lost worker.
//
// contract: T191
func TestLostTask_AFailureThatWasWritten(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, l3(), calm)
	w.begin("s1")
	f := w.flight("s1")
	w.comeBack(f, engine.Return{Kind: engine.ReturnLost, EngineAttempt: 1})
	w.commit()
	w.loseTask()
	w.comeBack(f, engine.Return{Kind: engine.ReturnLost, EngineAttempt: 1})
	w.record()
	w.expect("RunApproved", "RunStarted", "StepStarted(s1,1)", "StepFailed(s1,1,TIMEOUT)")
	if w.timers[interp.TimerRetryWindow].IsZero() {
		t.Fatal("no retry window is open")
	}
	w.signal(run.RetryStep, "R", "s1")
	w.succeed("s1", "s2", "s3")
	w.expectDone(run.Completed)
}

// A lost try was about to fail the run and ended a wait. The next try reads a retry first, and the run continues. The
// wait has ended for it too; otherwise nobody could ever complete it.
//
// contract: T74, T82
func TestLostTask_AWaitThatWasEndedHasEnded(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, asking(steps("a", "ask"), 0, "ask"), with(calm, noWindow))
	w.begin("a")
	f := w.flight("a")
	w.report(f, failed("BROKEN", true))
	w.commit()
	w.deliver() // the gate is closed once more
	w.accept(engine.Signal{ID: "R", Type: run.RetryStep, StepID: "a", LogicalAttempt: 1})
	w.commit() // the wait is cancelled
	w.loseTask()
	w.hear()
	w.expectInFlight("a a")
	w.comeBack(f, engine.Return{Kind: engine.ReturnEnded})
	w.record()
	w.signal(run.RetryStep, "R2", "ask")
	w.expectWaits("ask")
	w.succeed("a")
	w.complete("D", "ask", run.ManualSucceeded)
	w.expectDone(run.Completed)
}

// A RESUME of a lost try is applied again, although an attempt has begun since and a PAUSE was accepted. That PAUSE is
// a new one and does not cancel the RESUME.
//
// contract: T46, T48
func TestLostTask_AResumeThatWasWritten(t *testing.T) {
	t.Parallel()
	for _, knowsPause := range []bool{true, false} {
		w := newLossyWorld(t, l3(), calm)
		w.accept(engine.Signal{ID: "P", Type: run.Pause})
		w.hearWithoutWriting(w.signals...)
		w.record()
		if knowsPause {
			w.completeTask()
		}
		w.accept(engine.Signal{ID: "S", Type: run.Resume})
		w.hearWithoutWriting(w.signals...)
		w.commit()
		w.accept(engine.Signal{ID: "P2", Type: run.Pause})
		w.loseTask()
		w.begin("s1") // the gate is open
		w.hear()
		w.expectReceipt("S", run.SignalApplied, "", 6)
		w.expectReceipt("P2", run.SignalApplied, "", w.seqOf("RunPaused(2)"))
		w.succeed("s1")
		w.signal(run.Resume, "S2", "")
		w.succeed("s2", "s3")
		w.expectDone(run.Completed)
	}
}
