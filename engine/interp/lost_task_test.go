package interp_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// newLossyWorld returns a world of a started run whose engine can lose workflow tasks. The log keeps the events of a
// lost task.
func newLossyWorld(tb tb, sk plan.Skeleton, policy run.Policy) *world {
	w := newWorld(tb, sk, policy)
	w.loseTasks()
	w.start()
	w.completeTask()
	return w
}

// deliverWithoutWriting delivers accepted signals and lets the machine observe the log. Its Appends stay pending.
func (w *world) deliverWithoutWriting(signals ...engine.Signal) {
	w.tb.Helper()
	w.feed(interp.Signalled{At: w.now, Signals: w.asSent(signals...)})
	if w.reading {
		w.deliverTail(w.read())
	}
}

// contract: T82, T191
func TestLostTask_TheNextTryAdoptsAStartedWait(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, asManual(steps("a", "ask<a"), time.Minute, "ask"), basePolicy)
	w.begin("a")
	f := w.flight("a")
	w.report(f, completed())
	w.commit() // the wait is in the log
	w.expectWaits("ask")
	w.accept(w.completion("D", "ask", run.ManualSucceeded))
	w.now = w.now.Add(30 * time.Second)
	w.loseTask()
	w.deliverWithoutWriting(w.signals...) // before the machine knows the end of a
	w.record()
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepCompleted(a,1)", "StepStarted(ask,1)",
		"StepAwaitingManualCompletion(ask,1)",
		"SignalAccepted(D)", "StepCompleted(ask,1)", "RunCompleted")
	w.expectReceipt("D", run.SignalApplied, "", 8)
}

// contract: T83
func TestLostTask_AWaitKeepsItsDeadline(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, asManual(steps("a", "ask<a"), time.Minute, "ask"), basePolicy)
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
		t.Fatalf("the timer of the wait is at %v, want the deadline in the log, %v", got, want)
	}
}

// A lost try opened the gate for a retry. The next try has not received the retry yet and is about to end the run. It
// closes the gate first, so that nothing is RUNNING when the run ends.
//
// contract: T74
func TestLostTask_TheGateIsClosedBeforeTheRunFails(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, steps("a", "b"), basePolicy)
	w.fail("a", "BROKEN")
	w.completeTask()
	w.accept(engine.Signal{ID: "R", Type: run.RetryStep, StepID: "a", LogicalAttempt: 1})
	w.deliverWithoutWriting(w.signals...)
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
	w.record()              // without RunFailed, because b runs
	if w.state.Status != run.Running || w.head.Gate != run.GateFailing {
		t.Fatalf("the run is %s and the gate %b, want RUNNING and the gate closed", w.state.Status, w.head.Gate)
	}
	w.redeliver()
	w.succeed("b", "a")
	w.expectDone(run.Completed)
}

// contract: T91
func TestLostTask_TheNextTryContinuesACompensation(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, withHooks(l3(), "s1"), with(basePolicy, noWindow))
	w.succeed("s1")
	w.begin("s2")
	f := w.flight("s2")
	w.report(f, failed("BROKEN", true))
	w.accept(engine.Signal{ID: "R", Type: run.RetryStep, StepID: "s2", LogicalAttempt: 1})
	w.commit()
	w.deliver() // the machine has set GateFailing once more and must read the log
	w.deliverTail(w.read())
	w.commit()
	w.deliver()
	w.commit()
	if !w.state.Compensating {
		t.Fatalf("the compensation has not started; the log is %v", w.logLines())
	}
	w.loseTask()
	w.redeliver()
	w.expectReceipt("R", run.SignalNotApply, run.CodeRunFinalizing, 0)
	w.undo("s1", 1, "")
	w.expectDone(run.Failed)
}

// A signal that had no effect has none in the next try either, even if its step has changed meanwhile.
//
// contract: T193
func TestLostTask_ASignalWithoutEffectIsNotJudgedAgain(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, l3(), basePolicy)
	w.accept(engine.Signal{ID: "K", Type: run.SkipStep, StepID: "s1"}) // it is in flight
	w.completeTask()
	w.deliverWithoutWriting(w.signals...)
	w.commit()
	w.expectReceipt("K", run.SignalNotApply, run.CodeStepNotSkippable, 0)
	w.loseTask()
	w.fail("s1", "BROKEN")
	w.redeliver()
	if s1, _ := w.state.Step("s1"); s1.Status != run.StepFailed {
		t.Fatalf("s1 is %s, want FAILED", s1.Status)
	}
	w.signal(run.RetryStep, "R", "s1")
	w.succeed("s1", "s2", "s3")
	w.expectDone(run.Completed)
}

// A step that a lost try has skipped stays skipped, even when the next try receives the signal late.
//
// contract: T77
func TestLostTask_ASkippedStepIsNotDispatched(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, l3(), basePolicy)
	w.accept(engine.Signal{ID: "K", Type: run.SkipStep, StepID: "s2"})
	w.deliverWithoutWriting(w.signals...)
	w.commit()
	w.loseTask()
	w.succeed("s1")
	w.expectInFlight("s3")
	w.redeliver()
	w.succeed("s3")
	w.expectDone(run.Completed)
	w.expectReceipt("K", run.SignalApplied, "", 4)

	w = newLossyWorld(t, l3(), basePolicy) // now the step is FAILED
	w.fail("s1", "BROKEN")
	w.completeTask()
	w.accept(engine.Signal{ID: "K", Type: run.SkipStep, StepID: "s1"})
	w.deliverWithoutWriting(w.signals...)
	w.commit()
	w.loseTask()
	w.fire(interp.TimerRetryWindow) // the log has no FAILED step any more
	w.expectInFlight("s2")
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
}

// A pause that a lost try wrote is in force. The next try starts no step before it has received the PAUSE.
//
// contract: T48, T185
func TestLostTask_APauseOfTheLostTryIsInForce(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, asManual(steps("a", "ask<a"), 0, "ask"), basePolicy)
	w.begin("a")
	w.accept(engine.Signal{ID: "P", Type: run.Pause})
	w.deliverWithoutWriting(w.signals...)
	w.commit()
	w.loseTask()
	w.succeed("a")
	w.expectWaits()
	w.expectHeld(1)
	w.serveFetches()
	w.signal(run.Resume, "S", "")
	w.complete("D", "ask", run.ManualSucceeded)
	w.expectDone(run.Completed)
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "SignalAccepted(P)", "RunPaused(1)", "StepCompleted(a,1)",
		"SignalAccepted(S)",
		"RunResumed(1)", "StepStarted(ask,1)", "StepAwaitingManualCompletion(ask,1)", "SignalAccepted(D)",
		"StepCompleted(ask,1)", "RunCompleted")
}

// A lost try paused and resumed the run. The next try writes both again, together with a new event. The old pause must
// not close the gate again.
//
// contract: T48
func TestLostTask_AResumedPauseDoesNotCloseTheGateAgain(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, asManual(asManual(steps("ask", "b", "late<b"), time.Minute, "ask"), 0, "late"), basePolicy)
	w.accept(engine.Signal{ID: "P", Type: run.Pause})
	w.deliverWithoutWriting(w.signals...)
	w.record()
	w.accept(engine.Signal{ID: "S", Type: run.Resume})
	w.deliverWithoutWriting(w.signals...)
	w.record()
	if w.state.Status != run.Running || w.head.Gate != 0 {
		t.Fatalf("the run is %s and its gate %b, want RUNNING and open", w.state.Status, w.head.Gate)
	}
	w.loseTask()
	b := w.flight("b")
	w.arrive(b)
	w.report(b, completed()) // the machine appends the wait of late
	w.now = w.now.Add(time.Minute)
	w.timers[interp.TimerManual] = time.Time{}
	w.feed(interp.Fired{At: w.now, Timer: interp.TimerManual}) // then it appends the end of ask
	w.deliverWithoutWriting(w.signals...)
	w.record()
	if w.state.Status != run.Running || w.head.Gate != run.GateFailing {
		t.Fatalf("the run is %s and its gate %b, want RUNNING and closed by the failure alone", w.state.Status, w.head.Gate)
	}
}

// A lost try wrote a failure for a lost worker. The next try adopts the failure from the log.
//
// contract: T191
func TestLostTask_TheNextTryAdoptsAFailure(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, l3(), basePolicy)
	w.begin("s1")
	f := w.flight("s1")
	w.comeBack(f, engine.Return{Kind: engine.ReturnLost, EngineAttempt: 1})
	w.commit()
	w.loseTask()
	w.comeBack(f, engine.Return{Kind: engine.ReturnLost, EngineAttempt: 1})
	w.record()
	w.expect("RunApproved", "RunStarted", "StepStarted(s1,1)", "StepFailed(s1,1,TIMEOUT)")
	if w.timers[interp.TimerRetryWindow].IsZero() {
		t.Fatal("no retry window is open, want one after the failure")
	}
	w.signal(run.RetryStep, "R", "s1")
	w.succeed("s1", "s2", "s3")
	w.expectDone(run.Completed)
}

// A lost try was about to fail the run and ended a wait. The next try receives a retry first, and the run continues.
// The wait has ended for the next try too, because nobody could complete it any more.
//
// contract: T74, T82
func TestLostTask_AnEndedWaitStaysEnded(t *testing.T) {
	t.Parallel()
	w := newLossyWorld(t, asManual(steps("a", "ask"), 0, "ask"), with(basePolicy, noWindow))
	w.begin("a")
	f := w.flight("a")
	w.report(f, failed("BROKEN", true))
	w.commit()
	w.deliver() // the machine has set GateFailing once more
	w.accept(engine.Signal{ID: "R", Type: run.RetryStep, StepID: "a", LogicalAttempt: 1})
	w.commit() // the lost try cancels the wait
	w.loseTask()
	w.redeliver()
	w.expectInFlight("a a")
	w.comeBack(f, engine.Return{Kind: engine.ReturnEnded})
	w.record()
	w.signal(run.RetryStep, "R2", "ask")
	w.expectWaits("ask")
	w.succeed("a")
	w.complete("D", "ask", run.ManualSucceeded)
	w.expectDone(run.Completed)
}

// The next try applies the RESUME of a lost try again, although an attempt has started since and a second PAUSE was
// accepted. The second PAUSE starts a new pause and does not revoke the RESUME.
//
// contract: T46, T48
func TestLostTask_ALaterPauseDoesNotRevokeAResumeInTheLog(t *testing.T) {
	t.Parallel()
	for _, knowsPause := range []bool{true, false} {
		w := newLossyWorld(t, l3(), basePolicy)
		w.accept(engine.Signal{ID: "P", Type: run.Pause})
		w.deliverWithoutWriting(w.signals...)
		w.record()
		if knowsPause {
			w.completeTask()
		}
		w.accept(engine.Signal{ID: "S", Type: run.Resume})
		w.deliverWithoutWriting(w.signals...)
		w.commit()
		w.accept(engine.Signal{ID: "P2", Type: run.Pause})
		w.loseTask()
		w.begin("s1") // the gate is open
		w.redeliver()
		w.expectReceipt("S", run.SignalApplied, "", 6)
		w.expectReceipt("P2", run.SignalApplied, "", w.seqOf("RunPaused(2)"))
		w.succeed("s1")
		w.signal(run.Resume, "S2", "")
		w.succeed("s2", "s3")
		w.expectDone(run.Completed)
	}
}
