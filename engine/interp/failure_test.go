package interp_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
)

// contract: W-19, E-12
func TestStep_AParallelStepEndsAfterAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, d4(), with(basePolicy, noWindow)).start()
	w.succeed("start")
	w.begin("a", "b")
	w.fail("a", "BROKEN")
	w.succeed("b")
	w.expect("RunApproved", "RunStarted", "StepStarted(start,1)", "StepCompleted(start,1)", "StepStarted(a,1)",
		"StepStarted(b,1)",
		"StepFailed(a,1,BROKEN)", "StepCompleted(b,1)", "StepSkipped(final,1,DEPENDENCY_FAILED)", "RunFailed(a,1,BROKEN)")
	w.expectDone(run.Failed)
	if got := w.state.Failure; got.RootCause.StepID != "a" || got.Code != "BROKEN" || got.Message != "BROKEN!" ||
		!got.Retryable {
		t.Fatalf("the failure of the run is %+v, want that of a", got)
	}
}

// Steps behind the failed step are skipped as DEPENDENCY_FAILED, the others as FAIL_FAST. The run does not wait for a
// dispatch whose attempt never started.
//
// contract: E12, T79, T185
func TestStep_FailFastSkipsTheOtherSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b", "c<a", "d<c", "e", "f<e"),
		with(basePolicy, func(p *run.Policy) { noWindow(p); p.MaxParallelSteps = 2 })).start()
	w.begin("a")
	w.fail("a", "BROKEN")
	w.expectInFlight("b") // its attempt has not started
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepFailed(a,1,BROKEN)",
		"StepSkipped(b,1,FAIL_FAST)", "StepSkipped(c,1,DEPENDENCY_FAILED)", "StepSkipped(d,1,DEPENDENCY_FAILED)",
		"StepSkipped(e,1,FAIL_FAST)", "StepSkipped(f,1,FAIL_FAST)", "RunFailed(a,1,BROKEN)")
	w.expectDone(run.Failed)
}

// A dispatch that was lost before its attempt started leaves no event in the log and spends no engine attempt, whether
// or not the gate is open.
//
// contract: T185
func TestStep_ALossBeforeTheStartSpendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b"), basePolicy).start()
	w.fail("a", "BROKEN")
	w.lose("b")
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepFailed(a,1,BROKEN)")
	w.signal(run.RetryStep, "R", "a")
	w.expectInFlight("a b")
	if f := w.flight("b"); f.logicalAttempt != 1 || f.n != 2 || f.spent != 0 {
		t.Fatalf("b is dispatched as %d.%d with %d engine attempts spent, want 1.2 with 0", f.logicalAttempt, f.n, f.spent)
	}
	w.succeed("a", "b")
	w.expectDone(run.Completed)

	w = newWorld(t, steps("a"), with(basePolicy, noWindow)).start() // the gate is open, and the plan has no retries
	for range 20 {
		w.lose("a")
	}
	w.expect("RunApproved", "RunStarted")
	if f := w.flight("a"); f.logicalAttempt != 1 || f.n != 21 || f.spent != 0 {
		t.Fatalf("a is dispatched as %d.%d with %d engine attempts spent, want 1.21 with 0", f.logicalAttempt, f.n, f.spent)
	}
	w.succeed("a")
	w.expectDone(run.Completed)
}

// contract: G17
func TestStep_ARetryInTheWindowContinuesTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.succeed("s1")
	w.fail("s2", "BROKEN")
	if got := w.state.Substatus(); w.state.Status != run.Running || got != run.AwaitingOperator {
		t.Fatalf("the run is %s %q, want RUNNING and AWAITING_OPERATOR", w.state.Status, got)
	}
	if want := w.now.Add(time.Minute); !w.timers[interp.TimerRetryWindow].Equal(want) ||
		!w.state.RetryDeadline.Equal(want) {
		t.Fatalf("timer %v, deadline %v, want %v", w.timers[interp.TimerRetryWindow], w.state.RetryDeadline, want)
	}
	w.signal(run.RetryStep, "R", "s2")
	if !w.timers[interp.TimerRetryWindow].IsZero() || w.head.Gate != 0 {
		t.Fatalf("the timer of the window is at %v and the gate is %b, want no timer and an open gate",
			w.timers[interp.TimerRetryWindow], w.head.Gate)
	}
	w.succeed("s2", "s3")
	w.expect("RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)",
		"StepFailed(s2,1,BROKEN)",
		"SignalAccepted(R)", "StepStarted(s2,2)", "StepCompleted(s2,2)", "StepStarted(s3,1)", "StepCompleted(s3,1)",
		"RunCompleted")
	w.expectReceipt("R", run.SignalApplied, "", 8)
}

// contract: G18
func TestStep_ARunFailsWhenItsWindowExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.succeed("s1")
	w.fail("s2", "BROKEN")
	w.feed(interp.Fired{At: w.now, Timer: interp.TimerRetryWindow}) // too early, so the machine sets it again
	if w.timers[interp.TimerRetryWindow].IsZero() || w.pending != nil {
		t.Fatal("a timer that fires too early ends the window")
	}
	w.fire(interp.TimerRetryWindow)
	w.expect("RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)",
		"StepFailed(s2,1,BROKEN)",
		"StepSkipped(s3,1,DEPENDENCY_FAILED)", "RunFailed(s2,1,BROKEN)")
	w.expectDone(run.Failed)
}

// contract: G18
func TestStep_ARetryThatFailsOpensANewWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a"), basePolicy).start()
	w.fail("a", "BROKEN")
	w.signal(run.RetryStep, "R", "a")
	w.now = w.now.Add(time.Hour)
	w.fail("a", "AGAIN")
	if want := w.now.Add(time.Minute); !w.timers[interp.TimerRetryWindow].Equal(want) {
		t.Fatalf("the timer of the window is at %v, want %v", w.timers[interp.TimerRetryWindow], want)
	}
	w.fire(interp.TimerRetryWindow)
	w.expectDone(run.Failed)
	if got := w.state.Failure.RootCause; got.LogicalAttempt != 2 || got.ErrorCode != "AGAIN" {
		t.Fatalf("the root cause is %+v, want attempt 2 with AGAIN", got)
	}
}

// contract: G20
func TestStep_ASecondRetryOfAnAttemptIsSuperseded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.succeed("s1")
	w.fail("s2", "BROKEN")
	w.accept(engine.Signal{ID: "R1", Type: run.RetryStep, StepID: "s2", LogicalAttempt: 1})
	w.accept(engine.Signal{ID: "R2", Type: run.RetryStep, StepID: "s2", LogicalAttempt: 1})
	w.feed(interp.Signalled{At: w.now, Signals: w.signals})
	w.record()
	if f := w.flight("s2"); f.logicalAttempt != 2 || len(w.flights) != 1 {
		t.Fatalf("%q is in flight as attempt %d, want one s2 as attempt 2", w.inFlight(), f.logicalAttempt)
	}
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
	w.expectReceipt("R1", run.SignalApplied, "", 9)
	w.expectReceipt("R2", run.SignalNoop, run.CodeSuperseded, 0)
}

// The root cause is the first failure that was not retried.
//
// contract: T214
func TestStep_TheRootCauseIsTheFirstFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b", "c"), basePolicy).start()
	w.begin("a", "b", "c")
	w.fail("c", "FIRST")
	w.fail("a", "SECOND")
	w.succeed("b")
	w.fire(interp.TimerRetryWindow)
	if got := w.state.Failure.RootCause; got.StepID != "c" {
		t.Fatalf("the root cause is %+v, want the failure of c", got)
	}
	w = newWorld(t, steps("a", "b", "c"), basePolicy).start()
	w.begin("a", "b", "c")
	w.fail("c", "FIRST")
	w.fail("a", "SECOND")
	w.succeed("b")
	w.signal(run.RetryStep, "R", "c")
	w.fail("c", "THIRD")
	w.fire(interp.TimerRetryWindow)
	if got := w.state.Failure.RootCause; got.StepID != "a" {
		t.Fatalf("the root cause is %+v, want the failure of a", got)
	}
}

// While a step is FAILED and not retried, only a retried or skipped step and the steps that it alone blocked may start.
//
// contract: T217
func TestStep_OnlyARetryAndItsDependentsPassFailFast(t *testing.T) {
	t.Parallel()
	// a and b fail. a1 and a2 depend on a alone, ab on both. x was ready, and the gate keeps it back.
	setup := func(t *testing.T) *world {
		w := newWorld(t, steps("a", "a1<a", "a2<a1", "ab<a,b", "b", "x<y", "y"), basePolicy).start()
		w.begin("a", "b", "y")
		w.fail("a", "A")
		w.succeed("y") // x is ready, and the gate keeps it back
		w.fail("b", "B")
		w.expectInFlight("")
		return w
	}
	for _, tc := range []struct {
		name     string
		act      func(*world)
		inFlight string
		passes   bool
		gate     run.Gate
		ends     run.Status // after all executions in flight succeeded and the window expired
	}{
		{"one retried", func(w *world) { w.signal(run.RetryStep, "R", "a") }, "a", true, run.GateFailing, run.Failed},
		{"one retried, which succeeds", func(w *world) { w.signal(run.RetryStep, "R", "a"); w.succeed("a") }, "a1", true,
			run.GateFailing, run.Failed},
		{"one retried, whose dependent succeeds", func(w *world) {
			w.signal(run.RetryStep, "R", "a")
			w.succeed("a", "a1")
		}, "a2", true, run.GateFailing, run.Failed},
		{"one retried, which fails", func(w *world) { w.signal(run.RetryStep, "R", "a"); w.fail("a", "A2") }, "", false,
			run.GateFailing, run.Failed},
		{"both retried", func(w *world) { w.signal(run.RetryStep, "R", "a"); w.signal(run.RetryStep, "S", "b") }, "a b x",
			true, 0, run.Completed},
		{"one skipped", func(w *world) { w.signal(run.SkipStep, "K", "a") }, "a1", true, run.GateFailing, run.Failed},
		{"both skipped", func(w *world) { w.signal(run.SkipStep, "K", "a"); w.signal(run.SkipStep, "L", "b") }, "a1 ab x",
			true, 0, run.Completed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := setup(t)
			tc.act(w)
			w.expectInFlight(tc.inFlight)
			if len(w.flights) > 0 && w.flights[0].passes != tc.passes {
				t.Fatalf("PassFailing is %v, want %v", w.flights[0].passes, tc.passes)
			}
			if w.head.Gate != tc.gate {
				t.Fatalf("the gate is %b, want %b", w.head.Gate, tc.gate)
			}
			for len(w.flights) > 0 {
				w.succeed(w.flights[0].stepID)
			}
			if tc.ends == run.Failed {
				w.fire(interp.TimerRetryWindow)
			}
			w.expectDone(tc.ends)
		})
	}
}

// The run does not end while a step that was retried waits for a worker.
// contract: T217
func TestStep_ARetryThatWaitsForAWorkerKeepsTheRunOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b", "c"), with(basePolicy, noWindow)).start()
	w.begin("a", "b", "c")
	w.fail("a", "A")
	w.fail("b", "B")
	w.signal(run.RetryStep, "R", "a")
	w.succeed("c") // nothing is RUNNING now, but a is dispatched
	w.expectInFlight("a")
	w.succeed("a")
	w.expectDone(run.Failed)
	if got := w.state.Failure.RootCause.StepID; got != "b" {
		t.Fatalf("the root cause is %s, want b", got)
	}
}

// A step that passed one period of fail-fast does not pass the next one.
//
// contract: T217
func TestStep_PassingEndsWithTheFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "a1<a", "a2<a", "a3<a", "b"),
		with(basePolicy, func(p *run.Policy) { p.MaxParallelSteps = 2 })).start()
	w.begin("a", "b")
	w.fail("a", "A")
	w.fail("b", "B")
	w.signal(run.RetryStep, "R", "a")
	w.succeed("a") // a3 passes, but no slot is free
	w.begin("a1", "a2")
	w.signal(run.RetryStep, "S", "b") // lifts fail-fast
	w.fail("a1", "A1")
	w.expectInFlight("a2 b")
}

// Control accepts a RETRY_STEP on a failure that the machine has not observed. The machine observes the log before it
// judges the signal.
//
// contract: T193
func TestStep_SignalsAreJudgedOnTheLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.begin("s1")
	first := w.flight("s1")
	w.writeEnd(first, failed("BROKEN", true)) // the machine does not know it
	w.accept(engine.Signal{ID: "R", Type: run.RetryStep, StepID: "s1", LogicalAttempt: 1})
	w.feed(interp.Signalled{At: w.now, Signals: w.signals})
	w.record()
	w.expectInFlight("s1 s1")
	w.comeBack(first, engine.Return{Kind: engine.ReturnEnded}) // late
	w.succeed("s1", "s2", "s3")
	w.expectDone(run.Completed)
	w.expectReceipt("R", run.SignalApplied, "", 6)
}

// contract: T56
func TestStep_ARetryOfAFinalErrorNeedsForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.end("s1", failed("BAD_INPUT", false))
	if d := w.signal(run.RetryStep, "R", "s1"); d.Code != run.CodeRetryDenied {
		t.Fatalf("the retry is judged %+v, want %s", d, run.CodeRetryDenied)
	}
	w.accept(engine.Signal{ID: "F", Type: run.RetryStep, StepID: "s1", Force: true})
	w.feed(interp.Signalled{At: w.now, Signals: w.signals})
	w.record()
	w.expectInFlight("s1")
}

// contract: T77
func TestStep_OnlyAStepThatDoesNotRunIsSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.signal(run.SkipStep, "K", "s2") // PENDING
	w.signal(run.SkipStep, "L", "s1") // in flight, so it counts as RUNNING
	w.expectReceipt("L", run.SignalNotApply, run.CodeStepNotSkippable, 0)
	w.succeed("s1", "s3")
	w.expect("RunApproved", "RunStarted", "SignalAccepted(K)", "StepSkipped(s2,1,OPERATOR_SKIP)", "SignalAccepted(L)",
		"StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")
	w.expectReceipt("K", run.SignalApplied, "", 4)
}

func TestStep_CancelRunningStopsCancellableSteps(t *testing.T) {
	t.Parallel()
	sk := steps("a", "b", "c")
	sk.Steps[1].Cancellable = true
	w := newWorld(t, sk, with(basePolicy, func(p *run.Policy) { noWindow(p); p.CancelRunning = true })).start()
	w.begin("a", "b", "c")
	w.fail("a", "BROKEN")
	if !w.flight("b").cancelled || w.flight("c").cancelled {
		t.Fatalf("b was asked to stop: %v, c: %v, want only b", w.flight("b").cancelled, w.flight("c").cancelled)
	}
	w.cancel("b")
	w.succeed("c")
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepStarted(b,1)", "StepStarted(c,1)",
		"StepFailed(a,1,BROKEN)",
		"StepFailed(b,1,CANCELLED)", "StepCompleted(c,1)", "RunFailed(a,1,BROKEN)")
}

// contract: T79
func TestStep_ACancelStopsEveryExecution(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b", "c", "d<a"), with(basePolicy, func(p *run.Policy) { p.MaxParallelSteps = 3 })).start()
	w.begin("a", "b")
	w.signal(run.Cancel, "C", "")
	for _, f := range w.flights {
		if !f.cancelled {
			t.Fatalf("%s was not asked to stop", f.stepID)
		}
	}
	w.signal(run.EmergencyStop, "E", "") // already stopping
	w.cancel("a")
	w.succeed("b")
	w.expectInFlight("c") // it never started, so the run does not wait for it
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepStarted(b,1)", "SignalAccepted(C)", "SignalAccepted(E)",
		"StepFailed(a,1,CANCELLED)", "StepCompleted(b,1)", "RunCancelled")
	w.expectDone(run.Cancelled)
	w.expectReceipt("C", run.SignalApplied, "", 9)
	w.expectReceipt("E", run.SignalNoop, run.CodeAlreadyInState, 0)
	a, _ := w.state.Step("a")
	if e := a.Attempts[0].Error; e.Retryable || e.Category != run.CategoryUser {
		t.Fatalf("the error of a is %+v, want a final one of the category USER", e)
	}
	if w.state.Counts.Pending != 2 {
		t.Fatalf("the counts are %+v, want 2 PENDING", w.state.Counts)
	}
}

// contract: T214
func TestStep_ACancelInTheWindowEndsTheRunAsCancelled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.fail("s1", "BROKEN")
	w.signal(run.Cancel, "C", "")
	w.expect("RunApproved", "RunStarted", "StepStarted(s1,1)", "StepFailed(s1,1,BROKEN)", "SignalAccepted(C)",
		"RunCancelled")
	w.expectDone(run.Cancelled)
}
