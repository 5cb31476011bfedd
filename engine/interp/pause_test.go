package interp_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
)

// contract: W-5, P06
func TestStep_ARunPausesTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.begin("s1")
	w.signal(run.Pause, "A", "")
	w.succeed("s1")
	w.signal(run.Resume, "B", "")
	w.begin("s2")
	w.signal(run.Pause, "C", "")
	w.succeed("s2")
	w.signal(run.Resume, "D", "")
	w.succeed("s3")
	w.expect("RunApproved", "RunStarted", "StepStarted(s1,1)", "SignalAccepted(A)", "RunPaused(1)", "StepCompleted(s1,1)",
		"SignalAccepted(B)", "RunResumed(1)", "StepStarted(s2,1)", "SignalAccepted(C)", "RunPaused(2)", "StepCompleted(s2,1)",
		"SignalAccepted(D)", "RunResumed(2)", "StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")
	for id, seq := range map[string]run.Seq{"A": 5, "B": 8, "C": 11, "D": 14} {
		w.expectReceipt(id, run.SignalApplied, "", seq)
	}
	if w.log[4].Key == w.log[10].Key {
		t.Fatal("both RunPaused have the same key (contract T06)")
	}
}

// contract: W-6, G16
func TestStep_ARetryInAPausedRunWaitsForTheResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.succeed("s1")
	w.begin("s2")
	w.signal(run.Pause, "A", "")
	w.end("s2", failed("DB_CONNECTION_FAILED", false))
	if w.state.Status != run.Paused || w.state.Substatus() != "" || w.state.FailedSteps() != 1 {
		t.Fatalf("the run is %s %q with %d FAILED steps, want PAUSED, no substatus and 1", w.state.Status,
			w.state.Substatus(), w.state.FailedSteps())
	}
	w.accept(engine.Signal{ID: "B", Type: run.RetryStep, StepID: "s2", Force: true})
	w.feed(interp.Signalled{At: w.now, Signals: w.signals})
	w.record()
	w.expectReceipt("B", run.SignalPending, "", 0)
	w.expectInFlight("")
	w.signal(run.Resume, "C", "")
	w.succeed("s2", "s3")
	w.expect("RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)",
		"SignalAccepted(A)",
		"RunPaused(1)", "StepFailed(s2,1,DB_CONNECTION_FAILED)", "SignalAccepted(B)", "SignalAccepted(C)", "RunResumed(1)",
		"StepStarted(s2,2)", "StepCompleted(s2,2)", "StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")
	w.expectReceipt("B", run.SignalApplied, "", 12)
	s2, _ := w.state.Step("s2")
	if len(s2.Attempts) != 2 || s2.Attempts[0].Status != run.StepFailed || s2.Attempts[1].Status != run.StepSuccess ||
		w.state.FailedSteps() != 0 {
		t.Fatalf("the attempts of s2 are %+v, want FAILED and SUCCESS", s2.Attempts)
	}
}

// Without a retry window RunFailed would follow RunResumed, if the resume did not apply the pending retry first.
//
// contract: T59
func TestStep_AResumeAppliesPendingRetriesBeforeFailFast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), with(basePolicy, noWindow)).start()
	w.begin("s1")
	w.signal(run.Pause, "A", "")
	w.fail("s1", "BROKEN")
	w.signal(run.RetryStep, "B", "s1")
	w.signal(run.RetryStep, "B2", "s1") // one is pending already
	w.signal(run.Resume, "C", "")
	w.succeed("s1", "s2", "s3")
	w.expectDone(run.Completed)
	w.expectReceipt("B2", run.SignalNoop, run.CodeSuperseded, 0)
}

// contract: G10
func TestStep_RepeatedPausesAndResumesHaveNoEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy)
	if d := w.accept(engine.Signal{ID: "P0", Type: run.Pause}); d.Code != run.CodeInvalidRunState {
		t.Fatalf("a PAUSE before the start is judged %+v, want %s", d, run.CodeInvalidRunState)
	}
	w.start()
	w.signal(run.Resume, "R0", "")
	w.expectReceipt("R0", run.SignalNoop, run.CodeAlreadyInState, 0)
	w.signal(run.Pause, "A", "")
	w.signal(run.Pause, "B", "")
	w.expectReceipt("B", run.SignalNoop, run.CodeAlreadyInState, 0)
	w.signal(run.Resume, "C", "")
	w.succeed("s1", "s2", "s3")
	w.expectDone(run.Completed)
	if d := w.accept(engine.Signal{ID: "Z", Type: run.Pause}); d.Code != run.CodeRunTerminal {
		t.Fatalf("a PAUSE after the end is judged %+v, want %s", d, run.CodeRunTerminal)
	}
}

// contract: G11
func TestStep_APausedRunDrains(t *testing.T) {
	t.Parallel()
	w := newWorld(t, d4(), basePolicy).start()
	w.succeed("start")
	w.begin("a", "b")
	w.signal(run.Pause, "A", "")
	if w.state.Status != run.Paused || w.state.Substatus() != run.Draining || w.state.RunningSteps() != 2 {
		t.Fatalf("the run is %s %q with %d RUNNING steps, want PAUSED, DRAINING and 2", w.state.Status,
			w.state.Substatus(), w.state.RunningSteps())
	}
	w.succeed("a")
	w.succeed("b")
	if w.state.Substatus() != "" {
		t.Fatalf("the substatus is %q, want none after the drain", w.state.Substatus())
	}
	w.expectInFlight("")
	w.expect("RunApproved", "RunStarted", "StepStarted(start,1)", "StepCompleted(start,1)", "StepStarted(a,1)",
		"StepStarted(b,1)",
		"SignalAccepted(A)", "RunPaused(1)", "StepCompleted(a,1)", "StepCompleted(b,1)")
}

// A dispatched step whose attempt has not started does not start in a pause. It starts after the pause as the same
// attempt.
//
// contract: T185
func TestStep_ADispatchedStepDoesNotStartInAPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b", "c"), basePolicy).start()
	w.begin("a")
	w.signal(run.Pause, "P", "")
	w.begin("b")
	w.expectInFlight("a c")
	w.succeed("a")
	w.signal(run.Resume, "R", "")
	w.expectInFlight("c b") // c never met the closed gate
	if f := w.flight("b"); f.logicalAttempt != 1 || f.n != 2 {
		t.Fatalf("b is dispatched as %d.%d, want 1.2", f.logicalAttempt, f.n)
	}
	w.succeed("b", "c")
	w.expectDone(run.Completed)
}

// A dispatch that met the gate of a pause may return after the resume. The machine knows why the gate was closed.
//
// contract: T185
func TestStep_ADispatchReturnsAfterTheResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a"), basePolicy).start()
	f := w.flight("a")
	w.signal(run.Pause, "P", "")
	w.signal(run.Resume, "R", "")
	w.comeBack(f, engine.Return{Kind: engine.ReturnParked})
	if len(w.fetch) > 0 {
		t.Fatal("the machine fetches signals, but it knows why the gate was closed")
	}
	w.succeed("a")
	w.expectDone(run.Completed)
}

// Two dispatches return without a start, before and after RunResumed. The log has no event about them, and both steps
// continue as the same attempt.
//
// contract: T185
func TestStep_ReturnsWithoutAStartAroundAResumeLeaveNoEvent(t *testing.T) {
	t.Parallel()
	sk := steps("a", "b")
	sk.Steps[0].Cancellable, sk.Steps[0].AllowCancelOnPause = true, true
	w := newWorld(t, sk, basePolicy).start()
	w.signal(run.Pause, "P", "")
	w.accept(engine.Signal{ID: "R", Type: run.Resume})
	w.feed(interp.Signalled{At: w.now, Signals: w.signals})
	w.lose("b") // the machine appends RunResumed
	w.cancel("a")
	w.expect("RunApproved", "RunStarted", "SignalAccepted(P)", "RunPaused(1)", "SignalAccepted(R)", "RunResumed(1)")
	w.expectInFlight("b a")
	w.succeed("a", "b")
	w.expectDone(run.Completed)
}

// contract: T46
func TestStep_AResumeWaitsForTheDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.begin("s1")
	w.signal(run.Pause, "A", "")
	w.signal(run.Resume, "B", "")
	w.signal(run.Resume, "B2", "")
	w.expectReceipt("B", run.SignalPending, "", 0)
	w.expectReceipt("B2", run.SignalNoop, run.CodeAlreadyInState, 0)
	w.signal(run.Pause, "C", "")
	w.expectReceipt("B", run.SignalNoop, run.CodeSuperseded, 0)
	w.expectReceipt("C", run.SignalNoop, run.CodeAlreadyInState, 0)
	w.succeed("s1")
	w.expectInFlight("")
	w.signal(run.Resume, "D", "")
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
	if !w.timers[interp.TimerDrain].IsZero() {
		t.Fatal("the timer of the drain is set after the end of the run")
	}
}

// contract: T46
func TestStep_AResumeTakesEffectAfterTheDrainTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, d4(), basePolicy).start()
	w.succeed("start")
	w.begin("a", "b")
	w.signal(run.Pause, "A", "")
	w.signal(run.Resume, "B", "")
	if want := w.now.Add(5 * time.Minute); !w.timers[interp.TimerDrain].Equal(want) {
		t.Fatalf("the timer of the drain is at %v, want %v", w.timers[interp.TimerDrain], want)
	}
	w.succeed("a")
	w.fire(interp.TimerDrain)
	w.succeed("b")
	w.succeed("final")
	w.expect("RunApproved", "RunStarted", "StepStarted(start,1)", "StepCompleted(start,1)", "StepStarted(a,1)",
		"StepStarted(b,1)",
		"SignalAccepted(A)", "RunPaused(1)", "SignalAccepted(B)", "StepCompleted(a,1)", "RunResumed(1)", "StepCompleted(b,1)",
		"StepStarted(final,1)", "StepCompleted(final,1)", "RunCompleted")
}

// contract: G13, T43
func TestStep_APausedRunCompletesAfterTheResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("s3"), basePolicy).start()
	w.begin("s3")
	w.signal(run.Pause, "A", "")
	w.succeed("s3")
	if w.state.Status != run.Paused {
		t.Fatalf("the run is %s, want PAUSED", w.state.Status)
	}
	w.signal(run.Resume, "B", "")
	w.expect("RunApproved", "RunStarted", "StepStarted(s3,1)", "SignalAccepted(A)", "RunPaused(1)", "StepCompleted(s3,1)",
		"SignalAccepted(B)", "RunResumed(1)", "RunCompleted")
	w.expectDone(run.Completed)
}

// contract: T43
func TestStep_APausedRunFailsAfterTheResume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b<a"), with(basePolicy, noWindow)).start()
	w.begin("a")
	w.signal(run.Pause, "A", "")
	w.fail("a", "BROKEN")
	w.signal(run.Resume, "B", "")
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "SignalAccepted(A)", "RunPaused(1)",
		"StepFailed(a,1,BROKEN)",
		"SignalAccepted(B)", "RunResumed(1)", "StepSkipped(b,1,DEPENDENCY_FAILED)", "RunFailed(a,1,BROKEN)")
}

// contract: G14, T44
func TestStep_APauseAndTheLastCompletionMayComeInAnyOrder(t *testing.T) {
	t.Parallel()
	t.Run("the pause first", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, steps("s3"), basePolicy).start()
		w.begin("s3")
		w.accept(engine.Signal{ID: "P", Type: run.Pause})
		w.feed(interp.Signalled{At: w.now, Signals: w.signals})
		w.record()
		w.report(w.flight("s3"), completed())
		w.record()
		w.expect("RunApproved", "RunStarted", "StepStarted(s3,1)", "SignalAccepted(P)", "RunPaused(1)", "StepCompleted(s3,1)")
	})
	t.Run("the completion first", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, steps("s3"), basePolicy).start()
		w.begin("s3")
		w.accept(engine.Signal{ID: "P", Type: run.Pause})
		w.report(w.flight("s3"), completed()) // the machine appends RunCompleted
		w.feed(interp.Signalled{At: w.now, Signals: w.signals})
		w.record()
		w.expect("RunApproved", "RunStarted", "StepStarted(s3,1)", "SignalAccepted(P)", "StepCompleted(s3,1)", "RunCompleted")
		w.expectReceipt("P", run.SignalNotApply, run.CodeRunTerminal, 0)
	})
	t.Run("the pause between the last step and the run", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, steps("s3"), basePolicy).start()
		w.begin("s3")
		w.writeEnd(w.flight("s3"), completed())
		w.accept(engine.Signal{ID: "P", Type: run.Pause})
		w.feed(interp.Signalled{At: w.now, Signals: w.signals})
		w.comeBack(w.flight("s3"), engine.Return{Kind: engine.ReturnEnded})
		w.record()
		w.expect("RunApproved", "RunStarted", "StepStarted(s3,1)", "StepCompleted(s3,1)", "SignalAccepted(P)", "RunPaused(1)")
	})
}

// contract: G15, T51
func TestStep_APauseCancelsStepsThatAllowIt(t *testing.T) {
	t.Parallel()
	sk := l3()
	sk.Steps[1].Cancellable, sk.Steps[1].AllowCancelOnPause = true, true
	w := newWorld(t, sk, with(basePolicy, noWindow)).start()
	w.succeed("s1")
	w.begin("s2")
	w.signal(run.Pause, "A", "")
	if !w.flight("s2").cancelled {
		t.Fatal("s2 was not asked to stop")
	}
	w.comeBack(w.flight("s2"), engine.Return{Kind: engine.ReturnCancelled, EngineAttempt: 1})
	if w.pending.SetGate != 0 {
		t.Fatalf("the Append sets the bits %b of the gate, want none", w.pending.SetGate)
	}
	w.record()
	if w.state.Status != run.Paused || w.head.Gate != run.GatePaused {
		t.Fatalf("the run is %s and the gate %b, want PAUSED and closed only by the pause", w.state.Status, w.head.Gate)
	}
	w.signal(run.RetryStep, "R", "s2") // it starts again by itself
	w.expectReceipt("R", run.SignalNoop, run.CodeSuperseded, 0)
	w.signal(run.Resume, "B", "")
	w.succeed("s2", "s3")
	w.expect("RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)",
		"SignalAccepted(A)",
		"RunPaused(1)", "StepFailed(s2,1,CANCELLED_BY_PAUSE)", "SignalAccepted(R)", "SignalAccepted(B)", "RunResumed(1)",
		"StepStarted(s2,2)", "StepCompleted(s2,2)", "StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")

	w = newWorld(t, sk, basePolicy).start() // it ignores the cancel and succeeds
	w.succeed("s1")
	w.begin("s2")
	w.signal(run.Pause, "A", "")
	w.succeed("s2")
	w.signal(run.Resume, "B", "")
	w.succeed("s3")
	w.expectDone(run.Completed)

	w = newWorld(t, l3(), basePolicy).start() // not cancellable: it finishes
	w.begin("s1")
	w.signal(run.Pause, "A", "")
	if w.flight("s1").cancelled {
		t.Fatal("s1 was asked to stop, but it is not cancellable")
	}
}

// contract: T221
func TestStep_APauseClosesTheWindowAndAResumeOpensANewOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.fail("s1", "BROKEN")
	w.now = w.now.Add(30 * time.Second)
	w.signal(run.Pause, "A", "")
	if !w.timers[interp.TimerRetryWindow].IsZero() {
		t.Fatal("the retry window is open in a pause")
	}
	w.now = w.now.Add(time.Hour)
	w.signal(run.Resume, "B", "")
	want := w.now.Add(time.Minute)
	if !w.timers[interp.TimerRetryWindow].Equal(want) || w.state.RetryDeadline == nil ||
		!w.state.RetryDeadline.Equal(want) {
		t.Fatalf("the timer of the window is at %v and the deadline %v, want both at %v",
			w.timers[interp.TimerRetryWindow], w.state.RetryDeadline, want)
	}
	w.fire(interp.TimerRetryWindow)
	w.expectDone(run.Failed)
}

// contract: T196
func TestStep_SignalsApplyOnceInTheOrderOfTheirNumbers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.accept(engine.Signal{ID: "A", Type: run.Pause})
	w.accept(engine.Signal{ID: "B", Type: run.EscalateAlert}) // it takes a number, and control applies it
	w.accept(engine.Signal{ID: "C", Type: run.Pause})
	s := w.signals
	w.feed(interp.Signalled{At: w.now, Signals: []engine.Signal{s[2], s[2]}})
	w.feed(interp.Signalled{At: w.now, Signals: []engine.Signal{s[2]}})
	if diff := cmp.Diff([]int64{0}, w.fetch); diff != "" || w.pending != nil {
		t.Fatalf("the machine writes %+v, want it to fetch the missing signals (-want +got):\n%s", w.pending, diff)
	}
	w.fetch = nil
	w.feed(interp.Signalled{At: w.now, Signals: s})
	w.feed(interp.Signalled{At: w.now, Signals: s})
	w.record()
	w.expectReceipt("C", run.SignalNoop, run.CodeAlreadyInState, 0)
	w.expect("RunApproved", "RunStarted", "SignalAccepted(A)", "SignalAccepted(B)", "SignalAccepted(C)", "RunPaused(1)")
}

// The inbox is bounded. The machine fetches the signals that did not fit.
//
// contract: T196
func TestStep_TheInboxIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy)
	w.feed(interp.Init{At: w.now}) // nothing applies before RunStarted is recorded
	var all []engine.Signal
	for i := range int64(interp.MaxInbox + 10) {
		all = append(all, engine.Signal{No: i + 1, ID: "x", Type: run.UpdateParams})
	}
	w.feed(interp.Signalled{At: w.now, Signals: all})
	w.record()
	if diff := cmp.Diff([]int64{interp.MaxInbox}, w.fetch); diff != "" {
		t.Fatalf("fetched (-want +got):\n%s", diff)
	}
}
