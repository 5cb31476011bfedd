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

// R165, R166, T82: nobody executes it; it waits, and goes on where a person says so.
// contract: M01
func TestManual_WaitsAndIsCompleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asking(steps("a", "ask<a", "b<ask"), 0, "ask"), calm).start()
	w.succeed("a")
	w.expectWaits("ask")
	w.expectInFlight("")
	if w.head.Running != 0 || w.state.Substatus() != run.WaitingManual || !w.timers[interp.TimerManual].IsZero() {
		t.Fatalf("running %d, substatus %q, timer %v", w.head.Running, w.state.Substatus(), w.timers[interp.TimerManual])
	}
	w.now = w.now.Add(6 * time.Minute) // the step's timeout means nothing here (T83)
	w.feed(interp.Signalled{At: w.now})
	w.complete("D", "ask", run.ManualSucceeded)
	w.succeed("b")
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepCompleted(a,1)", "StepStarted(ask,1)",
		"StepAwaitingManualCompletion(ask,1)",
		"SignalAccepted(D)", "StepCompleted(ask,1)", "StepStarted(b,1)", "StepCompleted(b,1)", "RunCompleted")
	w.expectReceipt("D", run.SignalApplied, "", 8)
	ask, _ := w.state.Step("ask")
	if diff := cmp.Diff(&run.ManualEnd{SignalID: "D", Outcome: run.ManualSucceeded}, ask.Attempts[0].Manual); diff != "" {
		t.Error(diff)
	}
}

// T47, T185: a wait is in nobody's way: it takes no place, and the step behind it
// in order still finds one.
// contract: T47
func TestManual_TakesNoPlace(t *testing.T) {
	t.Parallel()
	one := with(calm, func(p *run.Policy) { p.MaxParallelSteps = 1 })
	w := newWorld(t, asking(steps("a", "b", "c", "d"), 0, "b", "d"), one).start()
	w.expectInFlight("a")
	w.expectWaits("b")
	w.succeed("a")
	w.expectInFlight("c")
	w.expectWaits("b", "d")
	if w.head.Running != 0 { // c has not begun
		t.Errorf("%d steps are running", w.head.Running)
	}
}

// contract: R178
func TestManual_OutcomesAndReceipts(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[run.ManualOutcome]run.StepError{
		run.ManualFailed: {Code: "MANUAL_FAILED", Message: "A person said that the step failed.", Retryable: true,
			Category: run.CategoryUser},
		run.ManualCancelled: {Code: "CANCELLED", Message: "A person cancelled the step.", Category: run.CategoryUser},
	} {
		w := newWorld(t, asking(steps("ask", "b<ask"), 0, "ask"), with(calm, noWindow)).start()
		w.complete("D", "ask", outcome)
		w.expect("RunApproved", "RunStarted", "StepStarted(ask,1)", "StepAwaitingManualCompletion(ask,1)",
			"SignalAccepted(D)",
			"StepFailed(ask,1,"+want.Code+")", "StepSkipped(b,1,DEPENDENCY_FAILED)", "RunFailed(ask,1,"+want.Code+")")
		w.expectReceipt("D", run.SignalApplied, "", 6)
		ask, _ := w.state.Step("ask")
		if diff := cmp.Diff(&want, ask.Attempts[0].Error); diff != "" || ask.Attempts[0].Manual.Outcome != outcome {
			t.Errorf("%s: %+v\n%s", outcome, ask.Attempts[0].Manual, diff)
		}
	}
}

// R180: two completions of one attempt that were both accepted: the first counts.
// contract: M02
func TestManual_TheSecondCompletionHasNoEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asking(steps("ask", "b<ask"), 0, "ask"), calm).start()
	w.accept(w.completion("D1", "ask", run.ManualSucceeded))
	w.accept(w.completion("D2", "ask", run.ManualFailed))
	w.feed(interp.Signalled{At: w.now, Signals: w.signals})
	w.record()
	w.expectReceipt("D1", run.SignalApplied, "", 7)
	w.expectReceipt("D2", run.SignalNotApply, run.CodeManualNotWaiting, 0)
	w.expectInFlight("b")
	if d := w.complete("D3", "ask", run.ManualFailed); d.Code != run.CodeManualNotWaiting {
		t.Errorf("the third is judged %+v", d)
	}
	if d := w.complete("D4", "b", run.ManualSucceeded); d.Code != run.CodeManualNotWaiting {
		t.Errorf("that of a step that runs by itself is judged %+v", d)
	}
}

// M03: a retry opens a new wait, of which the retry's receipt tells; what was meant
// for the old one has no effect.
// contract: M03
func TestManual_RetryOpensANewWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asking(steps("ask", "b<ask"), 0, "ask"), calm).start()
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
		t.Errorf("a completion of attempt 1 is judged %+v", d)
	}
	w.complete("D3", "ask", run.ManualSucceeded)
	w.succeed("b")
	w.expect("RunApproved", "RunStarted", "StepStarted(ask,1)", "StepAwaitingManualCompletion(ask,1)",
		"SignalAccepted(D1)", "SignalAccepted(D2)",
		"StepFailed(ask,1,MANUAL_FAILED)", "SignalAccepted(R)", "StepStarted(ask,2)", "StepAwaitingManualCompletion(ask,2)",
		"SignalAccepted(D3)",
		"StepCompleted(ask,2)", "StepStarted(b,1)", "StepCompleted(b,1)", "RunCompleted")
}

// T83: only the wait's own timeout ends it, at the earliest deadline first; a
// retry waits as long again.
// contract: T83
func TestManual_TimesOut(t *testing.T) {
	t.Parallel()
	sk := asking(asking(steps("a", "b", "c"), time.Hour, "a"), time.Minute, "b")
	w := newWorld(t, asking(sk, 0, "c"), calm).start()
	w.expectWaits("a", "b", "c")
	if at := w.timers[interp.TimerManual]; !at.Equal(epoch.Add(time.Minute)) {
		t.Fatalf("the timer is set to %v", at)
	}
	w.feed(interp.Fired{At: w.now, Timer: interp.TimerManual}) // too early: it changes nothing but the timer
	w.expectWaits("a", "b", "c")
	w.fire(interp.TimerManual)
	w.expectWaits("a", "c")
	if b, _ := w.state.Step("b"); b.Attempts[0].Error == nil || *b.Attempts[0].Error != (run.StepError{
		Code: "TIMEOUT", Message: "Nobody completed the step within 1m0s.", Retryable: true, Category: run.CategoryTimeout,
		Source: "engine",
	}) {
		t.Errorf("b ended with %+v", b.Attempts[0].Error)
	}
	if at := w.timers[interp.TimerManual]; !at.Equal(epoch.Add(time.Hour)) {
		t.Errorf("then the timer is set to %v", at)
	}
	w.signal(run.RetryStep, "R", "b")
	b, _ := w.state.Step("b")
	if want := epoch.Add(2 * time.Minute); !w.timers[interp.TimerManual].Equal(want) ||
		!b.Attempts[1].WaitDeadline.Equal(want) {
		t.Errorf("the retry waits until %v, the timer is set to %v, want %v", b.Attempts[1].WaitDeadline,
			w.timers[interp.TimerManual], want)
	}
	w.complete("D", "b", run.ManualSucceeded)
	w.complete("E", "a", run.ManualSucceeded)
	if at := w.timers[interp.TimerManual]; !at.IsZero() {
		t.Errorf("with no deadline left the timer is set to %v", at)
	}
}

// T47, G12: a wait neither drains nor blocks; its completion counts during a pause,
// and what it unlocks starts after it.
// contract: T47, G12
func TestManual_Pause(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asking(steps("ask", "b<ask", "later<b"), 0, "ask", "later"), calm).start()
	w.signal(run.Pause, "P", "")
	if w.state.Status != run.Paused || w.state.Substatus() != "" {
		t.Fatalf("%s %q", w.state.Status, w.state.Substatus())
	}
	w.complete("D", "ask", run.ManualSucceeded)
	w.expectReceipt("D", run.SignalApplied, "", 8)
	w.expectInFlight("")
	w.signal(run.Resume, "S", "")
	w.expectReceipt("S", run.SignalApplied, "", 10) // it did not wait
	w.succeed("b")
	w.expectWaits("later")
	w.signal(run.Pause, "P2", "")
	w.signal(run.Resume, "S2", "")
	w.expectWaits("later")
	w.complete("D2", "later", run.ManualSucceeded)
	w.expectDone(run.Completed)
}

// T185: no wait begins under a closed gate, also where it was on its way already.
// contract: T185
func TestManual_NoWaitBeginsUnderAClosedGate(t *testing.T) {
	t.Parallel()
	t.Run("pause", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, asking(steps("a", "ask<a"), 0, "ask"), calm).start()
		w.begin("a")
		w.accept(engine.Signal{ID: "P", Type: run.Pause})
		w.writeEnd(w.flight("a"), completed())
		w.feed(interp.Signalled{At: w.now, Signals: w.signals}) // RunPaused is on its way
		w.comeBack(w.flight("a"), engine.Return{Kind: engine.ReturnEnded})
		w.record()
		w.expectWaits()
		w.signal(run.Resume, "S", "")
		w.expectWaits("ask")
	})
	t.Run("fail-fast", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, asking(steps("a", "b", "ask<b"), 0, "ask"), calm).start()
		w.begin("a", "b")
		w.writeEnd(w.flight("a"), failed("BROKEN", true))
		w.report(w.flight("b"), completed()) // both are observed at once
		w.record()
		w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepStarted(b,1)", "StepFailed(a,1,BROKEN)",
			"StepCompleted(b,1)")
		w.comeBack(w.flight("a"), engine.Return{Kind: engine.ReturnEnded})
		w.signal(run.SkipStep, "K", "a")
		w.expectWaits("ask")
	})
}

// contract: T79
func TestManual_StopEndsTheWait(t *testing.T) {
	t.Parallel()
	for _, stop := range []run.SignalType{run.Cancel, run.EmergencyStop} {
		w := newWorld(t, asking(steps("ask", "b"), time.Hour, "ask"), calm).start()
		w.begin("b")
		w.signal(stop, "C", "")
		w.cancel("b")
		w.expect("RunApproved", "RunStarted", "StepStarted(ask,1)", "StepAwaitingManualCompletion(ask,1)", "StepStarted(b,1)",
			"SignalAccepted(C)",
			"StepFailed(ask,1,CANCELLED)", "StepFailed(b,1,CANCELLED)", "RunCancelled")
		ask, _ := w.state.Step("ask")
		if err := ask.Attempts[0].Error; err.Retryable || err.Category != run.CategoryUser {
			t.Errorf("ask ended with %+v", err)
		}
		if at := w.timers[interp.TimerManual]; !at.IsZero() {
			t.Errorf("the timer is set to %v", at)
		}
	}
}

// T74: a run that fails ends what still waits, and blames what failed first; from
// there on it takes no orders (T91).
// contract: T74
func TestManual_FailureEndsTheWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asking(steps("ask", "b", "c<ask"), 0, "ask"), calm).start()
	w.fail("b", "BROKEN")
	if w.state.RetryDeadline == nil { // the wait does not keep the window from opening
		t.Fatalf("no retry window; the log is\n%s", strings.Join(w.story(), "\n"))
	}
	w.accept(engine.Signal{ID: "R", Type: run.RetryStep, StepID: "b", LogicalAttempt: 1})
	at := w.timers[interp.TimerRetryWindow]
	w.now, w.timers[interp.TimerRetryWindow] = at, time.Time{}
	w.feed(interp.Fired{At: at, Timer: interp.TimerRetryWindow})
	w.hand(w.read())
	w.commit()
	w.deliver() // the gate is closed, and the end of the wait on its way
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
		t.Errorf("ask ended with %+v", err)
	}
}

// T217: a wait that a retry opened passes fail-fast, and so does what it unlocks.
// contract: T217
func TestManual_RetriedWaitPassesFailFast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asking(steps("ask", "b", "c<ask", "d"), 0, "ask"),
		with(calm, func(p *run.Policy) { p.MaxParallelSteps = 1 })).start()
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

// T190: what a person left may be more than the log takes.
// contract: T190
func TestManual_RefusedCompletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asking(steps("ask"), 0, "ask"), calm).start()
	w.refuse = func(d run.Draft) bool { return d.Type == run.StepCompletedEvent }
	w.complete("D", "ask", run.ManualSucceeded)
	w.expect("RunApproved", "RunStarted", "StepStarted(ask,1)", "StepAwaitingManualCompletion(ask,1)", "SignalAccepted(D)",
		"StepFailed(ask,1,EVENT_REJECTED)")
	w.expectReceipt("D", run.SignalNotApply, run.CodeEventRejected, 0)
}

// T83, T195: waits are state: 700 of them, with deadlines, over a rotation.
// contract: M03
func TestManual_SurvivesRotation(t *testing.T) {
	t.Parallel()
	var specs []string
	for i := range 700 {
		specs = append(specs, "s"+strings.Repeat("x", i/26)+string(rune('a'+i%26)))
	}
	w := newRotatingWorld(t, asking(steps(specs...), time.Hour, specs...), calm, 100)
	w.start()
	for len(w.waits()) < len(specs) {
		w.now = w.now.Add(time.Second)
		w.answerFetches()
	}
	if w.rotations < 6 {
		t.Fatalf("%d rotations", w.rotations)
	}
	w.complete("D", specs[0], run.ManualSucceeded)
	w.answerFetches()
	w.expectReceipt("D", run.SignalApplied, "", run.Seq(len(w.log)))
	w.fire(interp.TimerManual)
	for _, s := range w.state.Steps[1:] {
		if over := !s.Attempts[0].WaitDeadline.After(w.now); over != (s.Status == run.StepFailed) {
			t.Fatalf("%s is %s at %v, its deadline is %v", s.StepID, s.Status, w.now, s.Attempts[0].WaitDeadline)
		}
	}
	if got := w.state.Counts; got.Failed == 0 || got.Manual == 0 {
		t.Errorf("counts %+v", got)
	}
}

// The order: RunStarted, then the waits in the plan's order, all of one batch.
// contract: E-01
func TestManual_OneAppendForManyWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asking(steps("b", "a", "c"), 0, "a", "b"), calm)
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
	w.expectDone(run.Cancelled) // T192
}
