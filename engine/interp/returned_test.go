package interp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// expectFlight checks the attempt, the dispatch and the spent engine attempts of a step in flight.
func (w *world) expectFlight(stepID string, logicalAttempt, n, spent int) {
	w.tb.Helper()
	if f := w.flight(stepID); f.logicalAttempt != logicalAttempt || f.n != n || f.spent != spent {
		w.tb.Fatalf("%s is dispatched as %d.%d with %d engine attempts spent, want %d.%d with %d", stepID,
			f.logicalAttempt, f.n, f.spent, logicalAttempt, n, spent)
	}
}

// A started attempt spends one engine attempt each time its worker is lost. It stays the same logical attempt.
//
// contract: T66, T216
func TestReturned_ALossAfterTheStartSpendsAnEngineAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRetries(steps("a", "b<a"), 3), with(basePolicy, noWindow)).start()
	w.begin("a")
	w.lose("a")
	w.expectFlight("a", 1, 2, 1)
	w.begin("a")
	w.lose("a")
	w.expectFlight("a", 1, 3, 2)
	w.succeed("a", "b")
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepCompleted(a,1)", "StepStarted(b,1)",
		"StepCompleted(b,1)", "RunCompleted")
	if e := w.log[3]; e.EngineAttempt != 3 {
		t.Errorf("the end of a has the engine attempt %d, want 3", e.EngineAttempt)
	}
}

// contract: T66, T216
func TestReturned_AnAttemptThatIsLostTooOftenTimesOut(t *testing.T) {
	t.Parallel()
	timeouts := func(classes ...string) plan.Skeleton {
		sk := withRetries(steps("a"), 2)
		sk.Steps[0].Retry.RetryableErrors = classes
		return sk
	}
	for name, c := range map[string]struct {
		sk   plan.Skeleton
		runs int
	}{
		"two engine attempts":      {timeouts(), 2},
		"timeouts are retried":     {timeouts(plan.ClassRateLimit, plan.ClassTimeout), 2},
		"timeouts are not retried": {timeouts(plan.ClassRateLimit), 1},
		"one engine attempt":       {withRetries(steps("a"), 1), 1},
		"a plan without retries":   {steps("a"), 1},
	} {
		w := newWorld(t, c.sk, with(basePolicy, noWindow)).start()
		for i := range c.runs {
			if len(w.flights) == 0 {
				t.Fatalf("%s: the attempt ended after %d executions, want %d", name, i, c.runs)
			}
			w.begin("a")
			w.lose("a")
		}
		w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepFailed(a,1,TIMEOUT)", "RunFailed(a,1,TIMEOUT)")
		if e := w.log[3]; e.EngineAttempt != c.runs {
			t.Errorf("%s: the end has the engine attempt %d, want %d", name, e.EngineAttempt, c.runs)
		}
	}
}

// An engine retries a failed execution within its dispatch, and a worker may decline that try. The earlier tries are
// spent, because otherwise an attempt that alternately fails and is declined would never end.
//
// contract: T66
func TestReturned_ADeclinedTryKeepsTheEngineAttemptsBefore(t *testing.T) {
	t.Parallel()
	declined := func(engineAttempt int) engine.Return {
		return engine.Return{Kind: engine.ReturnDeclined, EngineAttempt: engineAttempt, RetryAfter: time.Second}
	}
	w := newWorld(t, withRetries(steps("a"), 4), with(basePolicy, noWindow)).start()
	w.comeBack(w.flight("a"), declined(1))
	w.fire(interp.TimerDelay)
	w.expectFlight("a", 1, 2, 0) // the attempt had not started
	w.begin("a")
	w.comeBack(w.flight("a"), declined(3)) // two tries have failed
	w.fire(interp.TimerDelay)
	w.expectFlight("a", 1, 3, 2)
	w.comeBack(w.flight("a"), declined(3)) // the first try of this dispatch
	w.fire(interp.TimerDelay)
	w.expectFlight("a", 1, 4, 2)
	w.comeBack(w.flight("a"), declined(1000)) // the dispatch bounds the count of the engine
	w.fire(interp.TimerDelay)
	w.expectFlight("a", 1, 5, 3)
	w.succeed("a")
	w.expectDone(run.Completed)
}

// If a worker dies after it has written the end of its attempt, the attempt does not run again.
func TestReturned_AnAttemptLostAfterItsEndHasEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.begin("s1")
	w.writeEnd(w.flight("s1"), completed())
	w.lose("s1")
	w.succeed("s2", "s3")
	w.expect("RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)",
		"StepCompleted(s2,1)",
		"StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")
}

// A worker that the engine lost may write its end late. That end counts, even if another worker executes the attempt by
// then.
//
// contract: T10
func TestReturned_ALateEndCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRetries(l3(), 3), basePolicy).start()
	w.begin("s1")
	orphan := w.lose("s1")
	w.expectFlight("s1", 1, 2, 1)
	w.writeEnd(orphan, completed())
	w.begin("s1") // the Journal answers that the attempt has ended
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
}

// When the log already has a worker's failure, it counts instead of the one that the machine was about to write.
// RunFailed has its code, and a resume does not start the step again.
//
// contract: T10, T51
func TestRecorded_AnEarlierFailureInTheLogCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a"), with(basePolicy, noWindow)).start()
	w.begin("a")
	orphan := w.flight("a")
	w.comeBack(orphan, engine.Return{Kind: engine.ReturnLost})
	w.writeEnd(orphan, failed("LATE", true))
	w.record()
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepFailed(a,1,LATE)", "RunFailed(a,1,LATE)")

	sk := steps("a")
	sk.Steps[0].Cancellable, sk.Steps[0].AllowCancelOnPause = true, true
	w = newWorld(t, sk, with(basePolicy, noWindow)).start()
	w.begin("a")
	w.signal(run.Pause, "P", "")
	orphan = w.flight("a")
	w.comeBack(orphan, engine.Return{Kind: engine.ReturnCancelled})
	w.writeEnd(orphan, failed("LATE", true))
	w.record()
	w.signal(run.Resume, "S", "")
	w.expectDone(run.Failed)
}

// The machine reads the log after the receipt of a failure. It reads again when the driver read the answer before that
// failure.
func TestObserved_AnAnswerOlderThanTheReceiptIsReadAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a"), with(basePolicy, noWindow)).start()
	w.begin("a")
	before := w.read()
	w.useReceipts = func() bool { return true }
	w.report(w.flight("a"), failed("BROKEN", true))
	w.deliverTail(before)
	w.expectReading()
	w.record()
	w.expectDone(run.Failed)
}

// The machine does not trust an engine that reports an end which the log does not have. It dispatches the attempt
// again, and the end of the worker counts. The delay grows, so that an outage of some minutes costs no attempt. At the
// eleventh forged return the attempt fails. The run then waits for a retry.
//
// contract: T191
func TestReturned_AForgedEndOfARunningAttemptIsBounded(t *testing.T) {
	t.Parallel()
	for _, kind := range []engine.ReturnKind{
		engine.ReturnEnded, engine.ReturnAbandoned, engine.ReturnRunTerminal, engine.ReturnParked, engine.ReturnCancelled,
		"x",
	} {
		w := newWorld(t, withRetries(steps("a", "b<a"), 3), basePolicy).start()
		w.begin("a")
		orphan := w.forge("a", kind)
		w.expectInFlight("")
		w.writeEnd(orphan, completed())
		w.fire(interp.TimerDelay)
		w.begin("a") // the Journal answers that the attempt has ended
		w.succeed("b")
		w.expectDone(run.Completed)

		w = newWorld(t, withRetries(steps("a", "b<a"), 3), basePolicy).start()
		w.begin("a")
		from, last, n := w.now, time.Duration(0), 0
		for ; len(w.flights) > 0 && n < 50; n++ {
			w.forge("a", kind)
			if w.head.Running == 0 {
				continue
			}
			wait := w.timers[interp.TimerDelay].Sub(w.now)
			if wait < last || wait < time.Second || wait > time.Minute {
				t.Fatalf("%s: after forged return %d the delay is %v, before it was %v; want it longer each time, up to a minute",
					kind, n+1, wait, last)
			}
			last = wait
			w.fire(interp.TimerDelay)
		}
		if took := w.now.Sub(from); n != 11 || took < 3*time.Minute {
			t.Fatalf("%s: the attempt ended after %d forged returns in %v, want 11 in some minutes", kind, n, took)
		}
		failure, _ := w.state.Step("a")
		for _, part := range []string{"11 dispatches", "the queue tq-control", "without an end in the log",
			"retry the step"} {
			if got := failure.Attempts[0].Error.Message; !strings.Contains(got, part) {
				t.Errorf("%s: the failure says %q, want it to name %q", kind, got, part)
			}
		}
		w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepFailed(a,1,ENGINE_ERROR)")
		w.signal(run.RetryStep, "R", "a")
		w.succeed("a", "b")
		w.expectDone(run.Completed)
	}
}

// When dispatches are refused before the attempt starts, the delay grows each time, and the attempt never fails.
func TestReturned_TheDelayAfterARefusalGrows(t *testing.T) {
	t.Parallel()
	for _, kind := range []engine.ReturnKind{engine.ReturnAbandoned, engine.ReturnEnded, engine.ReturnRunTerminal,
		engine.ReturnCancelled} {
		w := newWorld(t, steps("a"), with(basePolicy, noWindow)).start()
		var last time.Duration
		for i := range 100 {
			w.forge("a", kind)
			w.expectInFlight("")
			wait := w.timers[interp.TimerDelay].Sub(w.now)
			if wait < last || wait < time.Second || wait > time.Minute || i < 5 && wait == last {
				t.Fatalf("%s: the delay after refusal %d is %v, before it was %v; want it longer, up to a minute", kind, i+1, wait,
					last)
			}
			last = wait
			w.fire(interp.TimerDelay)
		}
		w.expect("RunApproved", "RunStarted")
		w.succeed("a")
		w.expectDone(run.Completed)
	}
}

// A worker that may not serve the run names the time after which to dispatch again.
func TestReturned_ADeclinedDispatchWaitsForRetryAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b"), basePolicy).start()
	w.comeBack(w.flight("a"), engine.Return{Kind: engine.ReturnDeclined, RetryAfter: 7 * time.Second})
	w.record()
	w.expectInFlight("b")
	if got, want := w.timers[interp.TimerDelay], w.now.Add(7*time.Second); !got.Equal(want) {
		t.Fatalf("the step is dispatched again at %v, want %v", got, want)
	}
	w.fire(interp.TimerDelay)
	w.expectFlight("a", 1, 2, 0)
}

// A stop ends a RUNNING attempt that no worker executes, because that attempt would keep the run open.
//
// contract: T79
func TestStop_EndsARunningAttemptThatNobodyExecutes(t *testing.T) {
	t.Parallel()
	t.Run("it waits for a worker", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, steps("a"), basePolicy).start()
		w.begin("a")
		w.comeBack(w.flight("a"), engine.Return{Kind: engine.ReturnDeclined, RetryAfter: time.Second})
		w.record()
		w.signal(run.Cancel, "C", "")
		w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "SignalAccepted(C)", "StepFailed(a,1,CANCELLED)",
			"RunCancelled")
	})
	t.Run("its worker is declined after the stop", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, withRetries(steps("a"), 3), basePolicy).start()
		w.begin("a")
		w.lose("a")
		w.signal(run.Cancel, "C", "")
		w.comeBack(w.flight("a"), engine.Return{Kind: engine.ReturnDeclined, RetryAfter: time.Second})
		w.record()
		w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "SignalAccepted(C)", "StepFailed(a,1,CANCELLED)",
			"RunCancelled")
	})
	t.Run("it started late", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, steps("a", "b"), with(basePolicy, noWindow)).start()
		w.signal(run.Pause, "P", "")
		orphan := w.lose("a")
		w.signal(run.Resume, "S", "")
		w.signal(run.Pause, "P2", "")
		w.arrive(w.flight("a")) // it meets the closed gate
		w.record()
		w.signal(run.Resume, "S2", "")
		f := w.flight("a")
		w.comeBack(f, engine.Return{Kind: engine.ReturnDeclined, RetryAfter: time.Minute})
		w.startAttempt(orphan) // of the dispatch before the last
		w.signal(run.Cancel, "C", "")
		w.expectDone(run.Cancelled)
		if got := describe(w.log[len(w.log)-2]); got != "StepFailed(a,1,CANCELLED)" {
			t.Errorf("before RunCancelled the log has %s, want StepFailed(a,1,CANCELLED)", got)
		}
	})
}

// An attempt that started although the engine had lost its dispatch is dispatched again regardless of the gate. Its
// worker may be dead, and the run would wait for it for ever.
//
// contract: T52
func TestObserved_AnAttemptThatStartedLateIsDispatchedAgain(t *testing.T) {
	t.Parallel()
	for _, closed := range []run.Gate{run.GateFailing, run.GatePaused} {
		w := newWorld(t, steps("a", "b"), with(basePolicy, noWindow)).start()
		w.begin("b")
		orphan := w.flight("a")
		w.comeBack(orphan, engine.Return{Kind: engine.ReturnLost}) // a.2 is dispatched
		again := w.flight("a")
		w.startAttempt(orphan)
		if closed == run.GatePaused {
			w.signal(run.Pause, "P", "")
		}
		w.fail("b", "BROKEN")
		w.comeBack(again, engine.Return{Kind: engine.ReturnLost}) // RUNNING in the log, and no worker left
		w.record()
		if closed == run.GatePaused {
			w.signal(run.Resume, "S", "")
		}
		if w.head.Running != 0 {
			w.succeed("a")
		}
		w.record()
		w.expectDone(run.Failed)
	}

	w := newWorld(t, steps("a", "b"), with(basePolicy, noWindow)).start()
	orphan := w.flight("a")
	w.begin("b")
	w.signal(run.Pause, "P", "")
	w.lose("a") // it waits for the resume
	w.expectInFlight("b")
	w.signal(run.Resume, "S", "")
	w.succeed("b")
	w.signal(run.Pause, "P2", "")
	w.arrive(w.flight("a")) // it meets the closed gate
	w.expectInFlight("")
	w.write(startedAppend(w, orphan)) // the first worker started before the pause, and the machine has not observed it
	w.observe()
	w.record()
	w.expectInFlight("a")
	w.succeed("a")
	w.signal(run.Resume, "S2", "")
	w.expectDone(run.Completed)
}

// The machine concludes nothing before it has observed the log up to the head that it knows.
//
// contract: T191
func TestObserved_NoConclusionBeforeTheWholeLogIsRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("ask", "b"), time.Minute, "ask"), with(basePolicy, noWindow)).start()
	w.begin("b")
	w.writeEnd(w.flight("b"), failed("BROKEN", true)) // the machine has not observed it
	w.timers[interp.TimerManual] = time.Time{}
	w.now = w.now.Add(time.Minute)
	w.feed(interp.Fired{At: w.now, Timer: interp.TimerManual})
	w.commit()
	w.deliver() // ask has failed, and no attempt that the machine knows is RUNNING
	if w.pending != nil {
		t.Fatalf("the machine writes %+v, want it to read the log first", w.pending.Append)
	}
	w.expectReading()
	w.record()
	w.expectDone(run.Failed)
	if got := w.state.Failure.RootCause.StepID; got != "b" {
		t.Errorf("the root cause is %s, want b, which failed first", got)
	}
}

// The order of compensation includes a completion that was written before the failure and observed after it.
//
// contract: R185
func TestObserved_CompensationKnowsEveryCompletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withHooks(steps("a", "b", "c"), "a", "b"), with(basePolicy, noWindow)).start()
	w.tailMost = 1
	w.begin("a", "b", "c")
	w.writeEnd(w.flight("b"), completed())
	w.writeEnd(w.flight("a"), completed())
	w.writeEnd(w.flight("c"), failed("BROKEN", true))
	w.deliverTail(w.read()) // one event of several
	if w.pending != nil {
		t.Fatalf("the machine writes %+v, want it to read on", w.pending.Append)
	}
	w.record()
	if diff := cmp.Diff([]string{"a", "b"}, w.compensationStarted()); diff != "" {
		t.Errorf("steps to compensate (-want +got):\n%s", diff)
	}
}

// When no attempt is RUNNING after a worker's end, the store stamps the retry window on that end. The machine ignores
// it while the attempt of a retry may still start.
//
// contract: T217, T221
func TestObserved_AWindowIsIgnoredWhileARetryMayStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b", "c"), basePolicy).start()
	w.begin("a", "b", "c")
	w.fail("a", "A")
	w.fail("b", "B")
	w.signal(run.RetryStep, "R", "a")
	w.now = w.now.Add(time.Second)
	w.succeed("c")
	if w.state.RetryDeadline == nil {
		t.Fatal("the log has no retry window, want the one on the end of c")
	}
	if at := w.timers[interp.TimerRetryWindow]; !at.IsZero() {
		t.Fatalf("the window is open until %v, want it closed because a may still start", at)
	}
	w.now = w.now.Add(time.Hour)
	w.succeed("a")
	if at := w.timers[interp.TimerRetryWindow]; w.state.RetryDeadline == nil || !at.Equal(*w.state.RetryDeadline) {
		t.Fatalf("the window is open until %v, want the time in the log, %v", at, w.state.RetryDeadline)
	}
	w.fire(interp.TimerRetryWindow)
	w.expectDone(run.Failed)
}

// The retry window of the log counts, even when the log is read in parts.
//
// contract: T221
func TestObserved_TheWindowInAnEarlierPartOfTheLogCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b"), basePolicy).start()
	w.tailMost = 1
	w.begin("a")
	f := w.flight("a")
	w.writeEnd(f, failed("A", true))
	opened := *w.state.RetryDeadline
	w.accept(engine.Signal{ID: "U", Type: run.UpdateParams}) // an event after it
	w.now = w.now.Add(10 * time.Second)
	w.comeBack(f, engine.Return{Kind: engine.ReturnEnded})
	w.record()
	if at := w.timers[interp.TimerRetryWindow]; !at.Equal(opened) {
		t.Fatalf("the window is open until %v, want the time in the log, %v", at, opened)
	}
}

// A step may fail while the machine opens the gate for a retry of another one. The gate stays closed.
//
// contract: T217
func TestRecorded_ALaterFailureKeepsTheGateClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b", "c<d", "d"), basePolicy).start()
	w.begin("a", "b", "d")
	w.fail("a", "A")
	w.succeed("d") // c is ready, and the gate keeps it back
	w.accept(engine.Signal{ID: "R", Type: run.RetryStep, StepID: "a", LogicalAttempt: 1})
	w.feed(interp.Signalled{At: w.now, Signals: w.signals})
	w.deliverTail(w.read())
	if w.pending == nil || w.pending.ClearGate != run.GateFailing {
		t.Fatalf("the machine writes %+v, want it to open the gate", w.pending)
	}
	w.writeEnd(w.flight("b"), failed("B", true))
	w.record()
	if w.head.Gate != run.GateFailing {
		t.Fatalf("the gate is %b, want it closed by the failure of b", w.head.Gate)
	}
	w.expectInFlight("b a") // and not c
	w.comeBack(w.flight("b"), engine.Return{Kind: engine.ReturnEnded})
	w.record()
	w.expectInFlight("a")
	w.signal(run.RetryStep, "S", "b")
	if w.head.Gate != 0 {
		t.Fatalf("the gate is %b, want it open", w.head.Gate)
	}
	w.succeed("a", "b", "c")
	w.expectDone(run.Completed)
}

// A step met a closed gate, and the machine fetches the signal that closed it. Meanwhile the events of the step apply.
//
// contract: T185
func TestObserved_AnEndAppliesWhileTheMachineFetchesSignals(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), basePolicy).start()
	orphan := w.flight("s1")
	w.lose("s1")
	w.pauseAhead("P")
	w.arrive(w.flight("s1")) // it meets the closed gate
	if len(w.fetch) != 1 {
		t.Fatalf("the machine fetches signals %d times, want once", len(w.fetch))
	}
	w.write(startedAppend(w, orphan)) // a worker started it before the pause
	w.writeEnd(orphan, completed())
	w.observe()
	w.serveFetches()
	w.signal(run.Resume, "S", "")
	w.expectInFlight("s2")
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
}

// A failure withdraws a wait that is queued behind the outstanding Append. The run must still end.
//
// contract: T74, T185
func TestObserved_AWithdrawnWaitDoesNotHoldBackTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, asManual(steps("a", "ask<b", "b", "c"), 0, "ask"), with(basePolicy, noWindow)).start()
	w.begin("a", "b", "c")
	w.end("c", completed())
	w.signal(run.Resume, "S", "") // it has no effect, and the machine writes its receipt
	w.accept(engine.Signal{ID: "S2", Type: run.Resume})
	w.feed(interp.Signalled{At: w.now, Signals: w.signals[1:]})
	w.deliverTail(w.read())
	if w.pending == nil {
		t.Fatal("no Append is outstanding")
	}
	w.report(w.flight("b"), completed()) // the wait of ask is queued behind the Append
	w.report(w.flight("a"), failed("BROKEN", true))
	w.record()
	w.expectDone(run.Failed)
}

// contract: T195, T216
func TestRotate_CarriesSpentEngineAttemptsAndRunningAttemptsThatWait(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, withRetries(steps("a", "b"), 3), basePolicy, 0).start()
	w.compareTwins = true
	w.begin("a")
	w.lose("a")
	w.expectFlight("a", 1, 2, 1)
	w.comeBack(w.flight("a"), engine.Return{Kind: engine.ReturnDeclined, RetryAfter: 20 * time.Second})
	w.succeed("b")
	w.feed(interp.Pressure{At: w.now, Hard: true})
	if w.rotations != 1 {
		t.Fatalf("%d rotations, want 1", w.rotations)
	}
	w.answerFetches()
	w.signal(run.Pause, "P", "") // the gate does not matter for a RUNNING attempt
	w.fire(interp.TimerDelay)
	w.expectFlight("a", 1, 3, 1)
	w.lose("a")
	w.expectFlight("a", 1, 4, 2)
	w.lose("a")
	w.signal(run.Resume, "S", "")
	if got := describe(w.log[len(w.log)-3]); got != "StepFailed(a,1,TIMEOUT)" {
		t.Fatalf("the log is\n%v\nwant the failure of a before the resume", w.logLines())
	}

	w = newRotatingWorld(t, steps("a"), basePolicy, 0).start() // a stop ends such an attempt too
	w.begin("a")
	w.comeBack(w.flight("a"), engine.Return{Kind: engine.ReturnDeclined, RetryAfter: 20 * time.Second})
	w.feed(interp.Pressure{At: w.now, Hard: true})
	w.answerFetches()
	w.signal(run.Cancel, "C", "")
	if w.rotations != 1 {
		t.Fatalf("%d rotations, want 1", w.rotations)
	}
	w.expectDone(run.Cancelled)
}

// A worker without processor time can record the start after the engine gave up on it. The failure must not say that
// the worker was executing the step.
func TestLost_SaysWhatTheEngineSaw(t *testing.T) {
	t.Parallel()
	for want, overran := range map[string]bool{"received no heartbeat": false, "although it sent heartbeats": true} {
		w := newWorld(t, steps("a"), with(basePolicy, noWindow)).start()
		w.begin("a")
		w.comeBack(w.flight("a"), engine.Return{Kind: engine.ReturnLost, EngineAttempt: 1, Overran: overran})
		w.record()
		if got := w.state.Steps[0].Attempts[0].Error; got == nil || !strings.Contains(got.Message, want) {
			t.Errorf("with Overran %t the error is %+v, want %q", overran, got, want)
		}
	}
}
