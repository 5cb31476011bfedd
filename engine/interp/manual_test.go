package interp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// No worker executes a MANUAL step. It waits until a person completes it (contract R165, R166, T82).
//
// contract: M01
func TestManual_WaitsUntilAPersonCompletesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("a", "ask<a", "b<ask"), 0, "ask"), basePolicy).start()
	w.succeed("a")
	w.expectWaits("ask")
	w.expectInFlight("")
	if w.head.Running != 0 || w.state.Substatus() != run.WaitingManual || !w.timers[interp.TimerManual].IsZero() {
		t.Fatalf("%d attempts are RUNNING, the substatus is %q, the timer is at %v; want 0, WAITING_MANUAL and no timer",
			w.head.Running, w.state.Substatus(), w.timers[interp.TimerManual])
	}
	w.now = w.now.Add(6 * time.Minute) // the timeout of executions does not apply to the wait (contract T83)
	w.feed(interp.Signalled{At: w.now})
	w.complete("D", "ask", run.ManualSucceeded)
	w.succeed("b")
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepCompleted(a,1)", "StepStarted(ask,1)",
		"StepAwaitingManualCompletion(ask,1)",
		"SignalAccepted(D)", "StepCompleted(ask,1)", "StepStarted(b,1)", "StepCompleted(b,1)", "RunCompleted")
	w.expectReceipt("D", run.SignalApplied, "", 8)
	ask, _ := w.state.Step("ask")
	if diff := cmp.Diff(&run.ManualEnd{SignalID: "D", Outcome: run.ManualSucceeded}, ask.Attempts[0].Manual); diff != "" {
		t.Errorf("manual end (-want +got):\n%s", diff)
	}
}

// A wait takes no slot of the width, so the next step in order can start (contract T185).
//
// contract: T47
func TestManual_TakesNoSlot(t *testing.T) {
	t.Parallel()
	one := with(basePolicy, func(p *run.Policy) { p.MaxParallelSteps = 1 })
	w := newWorld(t, asManual(steps("a", "b", "c", "d"), 0, "b", "d"), one).start()
	w.expectInFlight("a")
	w.expectWaits("b")
	w.succeed("a")
	w.expectInFlight("c")
	w.expectWaits("b", "d")
	if w.head.Running != 0 { // c has not started
		t.Errorf("%d attempts are RUNNING, want none", w.head.Running)
	}
}

// contract: R178
func TestManual_FailedAndCancelledEndTheStepAsFailed(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[run.ManualOutcome]run.StepError{
		run.ManualFailed: {Code: "MANUAL_FAILED", Message: "A person said that the step failed.", Retryable: true,
			Category: run.CategoryUser},
		run.ManualCancelled: {Code: "CANCELLED", Message: "A person cancelled the step.", Category: run.CategoryUser},
	} {
		w := newWorld(t, asManual(steps("ask", "b<ask"), 0, "ask"), with(basePolicy, noWindow)).start()
		w.complete("D", "ask", outcome)
		w.expect("RunApproved", "RunStarted", "StepStarted(ask,1)", "StepAwaitingManualCompletion(ask,1)",
			"SignalAccepted(D)",
			"StepFailed(ask,1,"+want.Code+")", "StepSkipped(b,1,DEPENDENCY_FAILED)", "RunFailed(ask,1,"+want.Code+")")
		w.expectReceipt("D", run.SignalApplied, "", 6)
		ask, _ := w.state.Step("ask")
		if diff := cmp.Diff(&want, ask.Attempts[0].Error); diff != "" || ask.Attempts[0].Manual.Outcome != outcome {
			t.Errorf("%s: the manual end is %+v; error (-want +got):\n%s", outcome, ask.Attempts[0].Manual, diff)
		}
	}
}

// When control has accepted two completions of one attempt, only the first one counts (contract R180).
//
// contract: M02
func TestManual_TheSecondCompletionHasNoEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("ask", "b<ask"), 0, "ask"), basePolicy).start()
	w.accept(w.completion("D1", "ask", run.ManualSucceeded))
	w.accept(w.completion("D2", "ask", run.ManualFailed))
	w.feed(interp.Signalled{At: w.now, Signals: w.signals})
	w.record()
	w.expectReceipt("D1", run.SignalApplied, "", 7)
	w.expectReceipt("D2", run.SignalNotApply, run.CodeManualNotWaiting, 0)
	w.expectInFlight("b")
	if d := w.complete("D3", "ask", run.ManualFailed); d.Code != run.CodeManualNotWaiting {
		t.Errorf("the third completion is judged %+v, want %s", d, run.CodeManualNotWaiting)
	}
	if d := w.complete("D4", "b", run.ManualSucceeded); d.Code != run.CodeManualNotWaiting {
		t.Errorf("the completion of a step that a worker executes is judged %+v, want %s", d, run.CodeManualNotWaiting)
	}
}

// A retry opens a new wait, and the receipt of the retry points to the start of that wait. A completion of the old wait
// has no effect.
//
// contract: M03
func TestManual_RetryOpensANewWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("ask", "b<ask"), 0, "ask"), basePolicy).start()
	w.accept(w.completion("D1", "ask", run.ManualFailed))
	late := w.completion("D2", "ask", run.ManualSucceeded)
	w.accept(late)
	w.feed(interp.Signalled{At: w.now, Signals: w.signals[:1]})
	w.record()
	w.accept(engine.Signal{ID: "R", Type: run.RetryStep, StepID: "ask", LogicalAttempt: 1})
	w.feed(interp.Signalled{At: w.now, Signals: w.signals[1:]})
	w.record()
	w.expectReceipt("D2", run.SignalNotApply, run.CodeManualNotWaiting, 0)
	w.expectReceipt("R", run.SignalApplied, "", 9)
	w.expectWaits("ask")
	if d := run.Judge(w.state, run.Signal{Type: run.CompleteManual, StepID: "ask", ExpectedAttempt: 1,
		Outcome: run.ManualSucceeded}); d.Code != run.CodeManualNotWaiting {
		t.Errorf("a completion of attempt 1 is judged %+v, want %s", d, run.CodeManualNotWaiting)
	}
	w.complete("D3", "ask", run.ManualSucceeded)
	w.succeed("b")
	w.expect("RunApproved", "RunStarted", "StepStarted(ask,1)", "StepAwaitingManualCompletion(ask,1)",
		"SignalAccepted(D1)", "SignalAccepted(D2)",
		"StepFailed(ask,1,MANUAL_FAILED)", "SignalAccepted(R)", "StepStarted(ask,2)", "StepAwaitingManualCompletion(ask,2)",
		"SignalAccepted(D3)",
		"StepCompleted(ask,2)", "StepStarted(b,1)", "StepCompleted(b,1)", "RunCompleted")
}

// Each wait ends at its own deadline, the earliest one first. A retry waits as long again.
//
// contract: T83
func TestManual_TimesOutAtItsOwnDeadline(t *testing.T) {
	t.Parallel()
	sk := asManual(asManual(steps("a", "b", "c"), time.Hour, "a"), time.Minute, "b")
	w := newWorld(t, asManual(sk, 0, "c"), basePolicy).start()
	w.expectWaits("a", "b", "c")
	if at := w.timers[interp.TimerManual]; !at.Equal(epoch.Add(time.Minute)) {
		t.Fatalf("the timer is at %v, want the deadline of b after one minute", at)
	}
	w.feed(interp.Fired{At: w.now, Timer: interp.TimerManual}) // too early, so that it only sets the timer again
	w.expectWaits("a", "b", "c")
	w.fire(interp.TimerManual)
	w.expectWaits("a", "c")
	if b, _ := w.state.Step("b"); b.Attempts[0].Error == nil || *b.Attempts[0].Error != (run.StepError{
		Code: "TIMEOUT", Message: "Nobody completed the step within 1 min.", Retryable: true, Category: run.CategoryTimeout,
		Source: "engine",
	}) {
		t.Errorf("b ended with %+v, want TIMEOUT", b.Attempts[0].Error)
	}
	if at := w.timers[interp.TimerManual]; !at.Equal(epoch.Add(time.Hour)) {
		t.Errorf("after the first deadline the timer is at %v, want the deadline of a after one hour", at)
	}
	w.signal(run.RetryStep, "R", "b")
	b, _ := w.state.Step("b")
	if want := epoch.Add(2 * time.Minute); !w.timers[interp.TimerManual].Equal(want) ||
		!b.Attempts[1].WaitDeadline.Equal(want) {
		t.Errorf("the retry waits until %v, the timer is at %v, want %v", b.Attempts[1].WaitDeadline,
			w.timers[interp.TimerManual], want)
	}
	w.complete("D", "b", run.ManualSucceeded)
	w.complete("E", "a", run.ManualSucceeded)
	if at := w.timers[interp.TimerManual]; !at.IsZero() {
		t.Errorf("the timer is at %v, want none without a deadline", at)
	}
}

// A resume does not wait for a wait to end. A completion counts during a pause, and the steps that it unlocks start
// after the pause.
//
// contract: T47, G12
func TestManual_DoesNotHoldUpAPause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("ask", "b<ask", "later<b"), 0, "ask", "later"), basePolicy).start()
	w.signal(run.Pause, "P", "")
	if w.state.Status != run.Paused || w.state.Substatus() != "" {
		t.Fatalf("the run is %s %q, want PAUSED without a substatus", w.state.Status, w.state.Substatus())
	}
	w.complete("D", "ask", run.ManualSucceeded)
	w.expectReceipt("D", run.SignalApplied, "", 8)
	w.expectInFlight("")
	w.signal(run.Resume, "S", "")
	w.expectReceipt("S", run.SignalApplied, "", 10) // it did not wait for a drain
	w.succeed("b")
	w.expectWaits("later")
	w.signal(run.Pause, "P2", "")
	w.signal(run.Resume, "S2", "")
	w.expectWaits("later")
	w.complete("D2", "later", run.ManualSucceeded)
	w.expectDone(run.Completed)
}

// No wait starts while the gate is closed, even if the machine has queued the wait before.
//
// contract: T185
func TestManual_NoWaitStartsWhileTheGateIsClosed(t *testing.T) {
	t.Parallel()
	t.Run("pause", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, asManual(steps("a", "ask<a"), 0, "ask"), basePolicy).start()
		w.begin("a")
		w.accept(engine.Signal{ID: "P", Type: run.Pause})
		w.writeEnd(w.flight("a"), completed())
		w.feed(interp.Signalled{At: w.now, Signals: w.signals}) // the machine appends RunPaused
		w.comeBack(w.flight("a"), engine.Return{Kind: engine.ReturnEnded})
		w.record()
		w.expectWaits()
		w.signal(run.Resume, "S", "")
		w.expectWaits("ask")
	})
	t.Run("fail-fast", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, asManual(steps("a", "b", "ask<b"), 0, "ask"), basePolicy).start()
		w.begin("a", "b")
		w.writeEnd(w.flight("a"), failed("BROKEN", true))
		w.report(w.flight("b"), completed()) // the machine observes both ends at once
		w.record()
		w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepStarted(b,1)", "StepFailed(a,1,BROKEN)",
			"StepCompleted(b,1)")
		w.comeBack(w.flight("a"), engine.Return{Kind: engine.ReturnEnded})
		w.signal(run.SkipStep, "K", "a")
		w.expectWaits("ask")
	})
}

// contract: T79
func TestManual_AStopEndsTheWait(t *testing.T) {
	t.Parallel()
	for _, stop := range []run.SignalType{run.Cancel, run.EmergencyStop} {
		w := newWorld(t, asManual(steps("ask", "b"), time.Hour, "ask"), basePolicy).start()
		w.begin("b")
		w.signal(stop, "C", "")
		w.cancel("b")
		w.expect("RunApproved", "RunStarted", "StepStarted(ask,1)", "StepAwaitingManualCompletion(ask,1)", "StepStarted(b,1)",
			"SignalAccepted(C)",
			"StepFailed(ask,1,CANCELLED)", "StepFailed(b,1,CANCELLED)", "RunCancelled")
		ask, _ := w.state.Step("ask")
		if err := ask.Attempts[0].Error; err.Retryable || err.Category != run.CategoryUser {
			t.Errorf("ask ended with %+v, want a final error of the category USER", err)
		}
		if at := w.timers[interp.TimerManual]; !at.IsZero() {
			t.Errorf("the timer is at %v, want none", at)
		}
	}
}

// A run that fails ends its open waits, and its root cause is the first failure. From then on signals have no effect
// (contract T91).
//
// contract: T74
func TestManual_TheFailureOfTheRunEndsTheWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("ask", "b", "c<ask"), 0, "ask"), basePolicy).start()
	w.fail("b", "BROKEN")
	if w.state.RetryDeadline == nil { // the wait does not delay the window
		t.Fatalf("the run has no retry window; the log is\n%s", strings.Join(w.logLines(), "\n"))
	}
	w.accept(engine.Signal{ID: "R", Type: run.RetryStep, StepID: "b", LogicalAttempt: 1})
	at := w.timers[interp.TimerRetryWindow]
	w.now, w.timers[interp.TimerRetryWindow] = at, time.Time{}
	w.feed(interp.Fired{At: at, Timer: interp.TimerRetryWindow})
	w.deliverTail(w.read())
	w.commit()
	w.deliver() // the machine has set GateFailing once more and appends the end of the wait
	w.commit()
	w.feed(interp.Signalled{At: w.now, Signals: w.signals}) // too late
	w.deliver()
	w.record()
	w.expect("RunApproved", "RunStarted", "StepStarted(ask,1)", "StepAwaitingManualCompletion(ask,1)", "StepStarted(b,1)",
		"StepFailed(b,1,BROKEN)",
		"SignalAccepted(R)", "StepFailed(ask,1,CANCELLED)", "StepSkipped(c,1,DEPENDENCY_FAILED)", "RunFailed(b,1,BROKEN)")
	w.expectReceipt("R", run.SignalNotApply, run.CodeRunFinalizing, 0)
	ask, _ := w.state.Step("ask")
	if err := ask.Attempts[0].Error; err.Category != run.CategorySystem {
		t.Errorf("ask ended with %+v, want the category SYSTEM", err)
	}
}

// A wait that a retry opened passes fail-fast, and so do the steps that it unlocks.
//
// contract: T217
func TestManual_ARetriedWaitAndItsDependentsPassFailFast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("ask", "b", "c<ask", "d"), 0, "ask"),
		with(basePolicy, func(p *run.Policy) { p.MaxParallelSteps = 1 })).start()
	w.begin("b")
	w.complete("D1", "ask", run.ManualFailed)
	w.fail("b", "BROKEN")
	w.signal(run.RetryStep, "R", "ask")
	w.expectWaits("ask")
	w.complete("D2", "ask", run.ManualSucceeded)
	w.expectInFlight("c")
	w.succeed("c")
	w.expectInFlight("")
	w.fire(interp.TimerRetryWindow)
	w.expectDone(run.Failed)
}

// When the log refuses the completion of a person, the step fails and the signal is not applied.
//
// contract: T190
func TestManual_ARefusedCompletionFailsTheStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("ask"), 0, "ask"), basePolicy).start()
	w.refuse = func(d run.Draft) bool { return d.Type == run.StepCompletedEvent }
	w.complete("D", "ask", run.ManualSucceeded)
	w.expect("RunApproved", "RunStarted", "StepStarted(ask,1)", "StepAwaitingManualCompletion(ask,1)", "SignalAccepted(D)",
		"StepFailed(ask,1,EVENT_REJECTED)")
	w.expectReceipt("D", run.SignalNotApply, run.CodeEventRejected, 0)
}

// The next execution of the workflow continues 700 waits with their deadlines (contract T83, T195).
//
// contract: M03
func TestManual_WaitsSurviveARotation(t *testing.T) {
	t.Parallel()
	var specs []string
	for i := range 700 {
		specs = append(specs, "s"+strings.Repeat("x", i/26)+string(rune('a'+i%26)))
	}
	w := newRotatingWorld(t, asManual(steps(specs...), time.Hour, specs...), basePolicy, 100)
	w.start()
	for len(w.waits()) < len(specs) {
		w.now = w.now.Add(time.Second)
		w.answerFetches()
	}
	if w.rotations < 6 {
		t.Fatalf("%d rotations, want at least 6", w.rotations)
	}
	w.complete("D", specs[0], run.ManualSucceeded)
	w.answerFetches()
	w.expectReceipt("D", run.SignalApplied, "", run.Seq(len(w.log)))
	w.fire(interp.TimerManual)
	for _, s := range w.state.Steps[1:] {
		if over := !s.Attempts[0].WaitDeadline.After(w.now); over != (s.Status == run.StepFailed) {
			t.Fatalf("%s is %s at %v, want it FAILED only after its deadline %v", s.StepID, s.Status, w.now,
				s.Attempts[0].WaitDeadline)
		}
	}
	if got := w.state.Counts; got.Failed == 0 || got.Manual == 0 {
		t.Errorf("the counts are %+v, want some steps FAILED and some waiting", got)
	}
}

// One Append after RunStarted has all waits, in the order of the plan.
//
// contract: E-01
func TestManual_OneAppendHasManyWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("b", "a", "c"), 0, "a", "b"), basePolicy)
	w.feed(interp.Init{At: w.now})
	w.commit()
	w.deliver()
	var got []string
	for _, d := range w.pending.Events {
		got = append(got, string(d.Type)+" "+d.StepID)
	}
	want := []string{"StepStarted b", "StepAwaitingManualCompletion b", "StepStarted a", "StepAwaitingManualCompletion a"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	w.expectInFlight("c")
	w.write(store.Append{
		Events: []run.Draft{{Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now,
			EmittedBy: run.ByControl}}})
	w.record()
	w.expectDone(run.Cancelled) // another writer has ended it (contract T192)
}
