package interp_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
)

// sendBack returns a dispatch whose attempt did not start. The machine dispatches it again after a delay.
func (w *world) sendBack(stepID string, kind engine.ReturnKind, after time.Duration) {
	w.tb.Helper()
	w.comeBack(w.flight(stepID), engine.Return{Kind: kind, RetryAfter: after})
	w.record()
}

// expectFires checks the time of the next delayed dispatch, and advances the clock to it.
func (w *world) expectFires(after time.Duration, flights string) {
	w.tb.Helper()
	if at, want := w.timers[interp.TimerDelay], epoch.Add(after); !at.Equal(want) {
		w.tb.Fatalf("the timer of delayed steps is at %v, want %v", at, want)
	}
	w.fire(interp.TimerDelay)
	w.expectInFlight(flights)
}

// Each delayed step has its own due time, so none waits behind a step with a longer delay.
//
// contract: T113
func TestDelay_EachStepIsDispatchedAtItsOwnTime(t *testing.T) {
	t.Parallel()
	for name, kinds := range map[string][2]engine.ReturnKind{
		"declined, declined":   {engine.ReturnDeclined, engine.ReturnDeclined},
		"declined, throttled":  {engine.ReturnDeclined, engine.ReturnThrottled},
		"throttled, declined":  {engine.ReturnThrottled, engine.ReturnDeclined},
		"throttled, throttled": {engine.ReturnThrottled, engine.ReturnThrottled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, shortFirst := range []bool{true, false} {
				w := newWorld(t, steps("long", "short"), basePolicy).start()
				if shortFirst {
					w.sendBack("short", kinds[1], 100*time.Millisecond)
				}
				w.sendBack("long", kinds[0], time.Minute)
				if !shortFirst {
					w.sendBack("short", kinds[1], 100*time.Millisecond)
				}
				w.expectFires(100*time.Millisecond, "short")
				w.succeed("short")
				if name != "throttled, throttled" { // throttled steps share one bucket and take turns
					w.expectFires(time.Minute, "long")
				} else {
					w.fire(interp.TimerDelay)
				}
				w.succeed("long")
				w.expectDone(run.Completed)
			}
		})
	}
}

// Due times survive a rotation.
//
// contract: T195
func TestDelay_ARotationKeepsTheOrderOfDueTimes(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, steps("a", "b", "c", "d"), basePolicy, 0).start()
	w.begin("c")
	w.sendBack("a", engine.ReturnDeclined, time.Minute)
	w.sendBack("b", engine.ReturnThrottled, 3*time.Second)
	w.sendBack("d", engine.ReturnDeclined, 2*time.Second)
	w.forge("c", engine.ReturnAbandoned) // it is RUNNING in the log
	w.compareTwins = true
	w.feed(interp.Pressure{At: w.now, Hard: true})
	if w.rotations != 1 {
		t.Fatalf("%d rotations, want 1", w.rotations)
	}
	w.answerFetches()
	w.expectFires(time.Second, "c")
	w.expectFires(2*time.Second, "c d")
	w.expectFires(3*time.Second, "c d b")
	w.succeed("c", "d", "b")
	w.fire(interp.TimerDelay)
	w.expectInFlight("a")
	w.succeed("a")
	w.expectDone(run.Completed)
}

// The log shows the end of a retried attempt before the next execution has read the RETRY_STEP again. The signal then
// causes nothing else, and what depends on the step passes fail-fast.
//
// contract: T195, T196, T217
func TestDelay_ARetryWhoseAttemptEndedBeforeItsSignalIsReadAgain(t *testing.T) {
	t.Parallel()
	sk := steps("a", "b", "c")
	sk.Steps[1].Deps = []int{0}
	w := newRotatingWorld(t, sk, basePolicy, 0).start()
	w.compareTwins = true
	w.begin("a", "c")
	w.fail("a", "BROKEN")
	w.fail("c", "BROKEN")
	w.signal(run.RetryStep, "R", "a")
	w.begin("a")
	late := w.forge("a", engine.ReturnAbandoned)
	w.feed(interp.Pressure{At: w.now, Hard: true})
	if w.rotations != 1 || len(w.fetch) == 0 {
		t.Fatalf("%d rotations and fetches after %v, want one rotation and the signals fetched again", w.rotations, w.fetch)
	}
	w.writeEnd(late, completed())
	w.observe()
	w.answerFetches()
	w.expectInFlight("b")
	w.succeed("b")
}

// A step that a person retried passes fail-fast, even when it is due before the next execution has read the RETRY_STEP
// again.
//
// contract: T195, T217
func TestDelay_ARetryThatIsDueBeforeItsSignalIsReadAgainPassesFailFast(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, steps("a", "b"), basePolicy, 0).start()
	w.begin("a", "b")
	w.fail("a", "BROKEN")
	w.fail("b", "BROKEN")
	w.signal(run.RetryStep, "R", "a")
	w.sendBack("a", engine.ReturnThrottled, time.Second)
	w.feed(interp.Pressure{At: w.now, Hard: true})
	if w.rotations != 1 || len(w.fetch) == 0 {
		t.Fatalf("%d rotations and fetches after %v, want one rotation and the signals fetched again", w.rotations, w.fetch)
	}
	w.fire(interp.TimerDelay)
	w.answerFetches()
	w.expectInFlight("a")
}

// The next execution of the workflow continues the count of dispatches that returned without a reason.
//
// contract: T195
func TestDelay_ARotationKeepsTheCountOfVanishedDispatches(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, steps("a"), basePolicy, 0).start()
	w.begin("a")
	n := 0
	for ; w.head.Running > 0 && n < 50; n++ {
		w.forge("a", engine.ReturnEnded)
		w.feed(interp.Pressure{At: w.now, Hard: true})
		w.answerFetches()
		if w.head.Running > 0 {
			w.fire(interp.TimerDelay)
		}
	}
	if n != 11 || w.rotations < 10 {
		t.Errorf("the attempt ended after %d returns and %d rotations, want 11 returns", n, w.rotations)
	}

	hooked := newRotatingWorld(t, withHooks(steps("x", "y<x"), "x"), with(basePolicy, noWindow), 0).start()
	hooked.succeed("x")
	hooked.fail("y", "BROKEN")
	for n = 0; hooked.hookOf() == "x" && n < 50; n++ {
		hooked.returnHook(engine.Return{Kind: engine.ReturnEnded})
		hooked.record()
		if hooked.m.Done() {
			continue
		}
		hooked.feed(interp.Pressure{At: hooked.now, Hard: true})
		hooked.answerFetches()
		hooked.fire(interp.TimerDelay)
	}
	if n != 11 || hooked.rotations < 10 {
		t.Errorf("the hook ended after %d returns and %d rotations, want 11 returns", n, hooked.rotations)
	}
	hooked.expectDone(run.Failed)
}

// No worker executes a delayed attempt, so a request to stop ends it at once.
//
// contract: T51, T79
func TestDelay_ARunningAttemptThatWaitsIsEndedByPauseStopAndFailure(t *testing.T) {
	t.Parallel()
	vanished := func(policy run.Policy) *world {
		sk := steps("a", "b")
		sk.Steps[0].Cancellable, sk.Steps[0].AllowCancelOnPause = true, true
		w := newWorld(t, sk, policy).start()
		w.begin("a", "b")
		w.forge("a", engine.ReturnAbandoned)
		return w
	}
	w := vanished(basePolicy)
	w.signal(run.Pause, "P", "")
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepStarted(b,1)", "SignalAccepted(P)", "RunPaused(1)",
		"StepFailed(a,1,CANCELLED_BY_PAUSE)")
	w.succeed("b")
	w.signal(run.Resume, "S", "")
	w.expectFlight("a", 2, 1, 0)

	w = vanished(basePolicy)
	w.signal(run.Cancel, "C", "")
	w.cancel("b")
	w.expectDone(run.Cancelled)

	w = vanished(with(basePolicy, func(p *run.Policy) { noWindow(p); p.CancelRunning = true }))
	w.fail("b", "BROKEN")
	w.expectDone(run.Failed)
	if got := describe(w.log[5]); got != "StepFailed(a,1,CANCELLED)" {
		t.Errorf("after the failure of b the log has %s, want StepFailed(a,1,CANCELLED)", got)
	}
}

// A delayed attempt that is RUNNING in the log keeps its slot of the width, and people cannot skip it.
func TestDelay_ARunningAttemptThatWaitsKeepsItsSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b"), with(basePolicy, func(p *run.Policy) { p.MaxParallelSteps = 1 })).start()
	w.begin("a")
	w.forge("a", engine.ReturnAbandoned)
	w.expectInFlight("")
	if v, _ := w.m.FindStep("a"); v.Status != run.StepRunning {
		t.Errorf("the machine judges signals on a %s step, want RUNNING", v.Status)
	}
	w.fire(interp.TimerDelay)
	w.expectInFlight("a")
	w.succeed("a")
	w.expectInFlight("b")
}

// A stop ends a hook that waits to be dispatched again.
//
// contract: R186
func TestDelay_AStopEndsAHookThatWaits(t *testing.T) {
	t.Parallel()
	w := failedD4(t)
	w.returnHook(engine.Return{Kind: engine.ReturnAbandoned})
	w.record()
	w.signal(run.EmergencyStop, "E", "")
	w.expectDone(run.Cancelled)
	if got, want := describe(w.log[len(w.log)-2]), "StepCompensationFailed(a,1,CANCELLED)"; got != want {
		t.Errorf("before RunCancelled the log has %s, want %s", got, want)
	}
}

// The worker of a hook that waits to be dispatched again may still write its end.
func TestDelay_TheEndOfAHookThatWaitsCounts(t *testing.T) {
	t.Parallel()
	w := failedD4(t)
	late := w.hook
	w.returnHook(engine.Return{Kind: engine.ReturnAbandoned})
	w.record()
	w.writeEndOf(late, 1, "")
	w.observe()
	w.record()
	w.undo("b", 1, "")
	w.expectDone(run.Failed)
}
