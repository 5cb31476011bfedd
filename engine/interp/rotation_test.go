package interp_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// linear returns a plan of n steps in a row. wide returns a plan of n steps without dependencies.
func linear(n int) plan.Skeleton { return graph(n, 1) }
func wide(n int) plan.Skeleton   { return graph(n, n) }

func graph(n, width int) plan.Skeleton {
	sk := plan.Skeleton{PlanID: testIdentity.PlanID, PlanVersion: testIdentity.PlanVersion,
		Steps: make([]plan.SkeletonStep, n)}
	for i := range sk.Steps {
		sk.Steps[i] = plan.SkeletonStep{StepID: fmt.Sprintf("s%04d", i+1), Type: plan.Noop}
		if i >= width {
			sk.Steps[i].Deps = []int{i - width}
		}
	}
	return sk
}

// count returns the number of events whose description has this prefix.
func (w *world) count(prefix string) (n int) {
	for _, e := range w.log {
		if strings.HasPrefix(describe(e), prefix) {
			n++
		}
	}
	return n
}

// drive lets every execution succeed until the run has ended.
func (w *world) drive() {
	w.tb.Helper()
	for i := 0; !w.m.Done(); i++ {
		if i > 100_000 {
			w.tb.Fatalf("the run does not end; in flight %q; the log is\n%s", w.inFlight(), strings.Join(w.logLines(), "\n"))
		}
		switch {
		case w.pending != nil || w.answer != nil || w.reading:
			w.record()
		case len(w.fetch) > 0:
			w.answerFetch()
		case len(w.flights) > 0:
			w.succeed(w.flights[0].stepID)
		}
	}
}

// answerFetch answers the oldest FetchSignals.
func (w *world) answerFetch() {
	after := w.fetch[0]
	w.fetch = w.fetch[1:]
	w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals[after:]...)})
}

// contract: E-04
func TestRotate_ALinearPlanRotatesAndCompletes(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, linear(120), basePolicy, 50).start()
	w.drive()
	if w.rotations != 2 || w.count("RunStarted") != 1 || w.count("StepCompleted") != 120 ||
		w.state.Status != run.Completed {
		t.Fatalf("%d rotations, %d RunStarted, %d StepCompleted and the run %s; want 2, 1, 120 and COMPLETED",
			w.rotations, w.count("RunStarted"), w.count("StepCompleted"), w.state.Status)
	}
	if last := w.log[len(w.log)-1]; last.Type != run.RunCompleted || last.EngineAttempt != 3 {
		t.Fatalf("the last event is %s of engine attempt %d, want RunCompleted of 3 (contract T61)", last.Type,
			last.EngineAttempt)
	}
}

// contract: E-06
func TestRotate_AWidePlanDispatchesAtMostRotateAfterSteps(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, wide(200), basePolicy, 50).start()
	w.drive()
	if w.rotations != 3 || w.count("StepCompleted") != 200 {
		t.Fatalf("%d rotations and %d StepCompleted, want 3 and 200", w.rotations, w.count("StepCompleted"))
	}
	n := 0
	for _, effects := range w.effects {
		for _, e := range effects {
			switch e.(type) {
			case interp.Execute:
				n++
			case interp.Rotate:
				n = 0
			}
			if n > 50 {
				t.Fatal("an execution of the workflow dispatches more than 50 steps (contract T105)")
			}
		}
	}
}

// The test accepts and delivers signals in 200 random orders while a run rotates after every third step.
//
// contract: E-05
func TestRotate_SignalsInFlightApplyOnce(t *testing.T) {
	t.Parallel()
	for seed := range 200 {
		w := newRotatingWorld(t, linear(9), basePolicy, 3)
		w.compareTwins = seed%8 == 0
		interleave(w, rand.New(rand.NewPCG(5, uint64(seed))))
		if t.Failed() {
			return
		}
		story := strings.Join(w.logLines(), "\n")
		for prefix, want := range map[string]int{
			"RunStarted": 1, "RunPaused(1)": 1, "RunPaused": 1, "RunResumed(1)": 1, "RunResumed": 1, "StepFailed(s0005,1": 1,
			"StepFailed":           1,
			"StepStarted(s0005,2)": 1, "StepStarted": 10, "StepCompleted": 9, "RunCompleted": 1, "SignalAccepted": 4,
		} {
			if got := w.count(prefix); got != want {
				t.Fatalf("interleaving %d: the log has %s %d times, want %d:\n%s", seed, prefix, got, want, story)
			}
		}
		for id, r := range w.receipts {
			if id != "params" && r.app != run.SignalApplied {
				t.Fatalf("interleaving %d: the receipt of %s is %+v, want it applied:\n%s", seed, id, *r, story)
			}
		}
		if w.rotations < 3 {
			t.Fatalf("interleaving %d: %d rotations, want at least 3", seed, w.rotations)
		}
	}
}

// interleave runs nine steps with a PAUSE, an UPDATE_PARAMS, a RETRY_STEP and a RESUME at random moments. The fifth
// step fails once.
func interleave(w *world, r *rand.Rand) {
	w.feed(interp.Init{At: w.now})
	todo := []engine.Signal{{ID: "pause", Type: run.Pause}, {ID: "params", Type: run.UpdateParams},
		{ID: "retry", Type: run.RetryStep, StepID: "s0005"}, {ID: "resume", Type: run.Resume}}
	may := func(s engine.Signal) bool {
		if s.ID == "retry" {
			step, ok := w.state.Step(s.StepID)
			return ok && step.Status == run.StepFailed
		}
		if s.ID == "resume" {
			return w.state.Status == run.Paused
		}
		return w.state.Status == run.Running
	}
	for i := 0; !w.m.Done(); i++ {
		if i > 10_000 {
			w.tb.Fatalf("the run does not end; in flight %q; the log is\n%s", w.inFlight(), strings.Join(w.logLines(), "\n"))
			return
		}
		w.now = w.now.Add(time.Millisecond)
		switch r.IntN(9) {
		case 8:
			if w.reading {
				w.deliverTail(w.read())
			}
		case 0, 1:
			if w.pending != nil {
				w.commit()
			}
		case 2, 3:
			if w.answer != nil {
				w.deliver()
			}
		case 4:
			if k := r.IntN(4); k < len(todo) && may(todo[k]) && (i > 60 || r.IntN(3) == 0) {
				s := todo[k]
				if s.ID == "retry" {
					s.LogicalAttempt = 1
				}
				todo = slices.Delete(todo, k, k+1)
				w.accept(s)
			}
		case 5:
			if n := len(w.signals); n > 0 {
				from := r.IntN(n)
				w.feed(interp.Signalled{At: w.now, Signals: w.signals[from : from+1+r.IntN(n-from)]})
			}
		case 6:
			if len(w.fetch) > 0 {
				w.answerFetch()
			}
		case 7:
			paused := !slices.ContainsFunc(todo, func(s engine.Signal) bool { return s.ID == "pause" })
			switch {
			case len(w.flights) == 0:
			case !w.flights[0].began:
				w.arrive(w.flights[0])
			case w.flights[0].stepID == "s0005" && w.flights[0].logicalAttempt == 1:
				w.report(w.flights[0], failed("BROKEN", true))
			case w.flights[0].stepID != "s0009" || paused && len(todo) == 0: // the last step waits for the signals
				w.report(w.flights[0], completed())
			}
		}
	}
}

// contract: W-14
func TestRotate_APauseWhileItRotatesTakesEffect(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, linear(9), basePolicy, 3).start()
	w.compareTwins = true
	w.succeed("s0001", "s0002")
	w.begin("s0003")
	w.accept(engine.Signal{ID: "A", Type: run.Pause})
	w.report(w.flight("s0003"), completed())
	w.feed(interp.Signalled{At: w.now, Signals: w.signals})
	w.now = w.now.Add(5 * time.Millisecond)
	w.accept(engine.Signal{ID: "B", Type: run.UpdateParams})
	w.record()
	w.feed(interp.Signalled{At: w.now, Signals: w.signals[1:]})
	for len(w.fetch) > 0 {
		w.answerFetch()
	}
	if w.rotations != 1 || w.state.Status != run.Paused || w.m.RunStatus() != run.Paused {
		t.Fatalf("%d rotations, the run is %s in the log and %s in the machine; want 1 and PAUSED in both",
			w.rotations, w.state.Status, w.m.RunStatus())
	}
	w.now = w.now.Add(time.Second)
	w.signal(run.Resume, "C", "")
	w.drive()
	var want []string
	for i := range 9 {
		id := fmt.Sprintf("s%04d", i+1)
		want = append(want, fmt.Sprintf("StepStarted(%s,1)", id), fmt.Sprintf("StepCompleted(%s,1)", id))
		if i == 2 {
			want = append(want[:len(want)-1], "SignalAccepted(A)", want[len(want)-1], "SignalAccepted(B)", "RunPaused(1)",
				"SignalAccepted(C)", "RunResumed(1)")
		}
	}
	w.expect(append(append([]string{"RunApproved", "RunStarted"}, want...), "RunCompleted")...)
	if w.rotations < 2 {
		t.Fatalf("%d rotations, want at least 2", w.rotations)
	}
}

// contract: T43
func TestRotate_PauseEpochsContinue(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, linear(3), basePolicy, 0).start()
	w.begin("s0001")
	w.signal(run.Pause, "A", "")
	w.succeed("s0001")
	w.feed(interp.Pressure{At: w.now})
	w.signal(run.Resume, "B", "")
	w.begin("s0002")
	w.signal(run.Pause, "C", "")
	w.succeed("s0002")
	w.feed(interp.Pressure{At: w.now, Hard: true})
	for len(w.fetch) > 0 {
		w.answerFetch()
	}
	w.signal(run.Resume, "D", "")
	w.drive()
	if w.rotations != 2 || w.count("RunPaused(2)") != 1 || w.count("RunResumed(2)") != 1 ||
		w.state.Status != run.Completed {
		t.Fatalf("%d rotations, want 2 and a second pause and resume:\n%s", w.rotations, strings.Join(w.logLines(), "\n"))
	}
}

// contract: T195
func TestRotate_TheBarrierOpensAfterItsPatience(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, wide(70), basePolicy, 3).start()
	w.succeed("s0001", "s0002")
	w.expectInFlight("s0003")
	if at := w.timers[interp.TimerRotation]; !at.Equal(w.now.Add(interp.RotationPatience)) {
		t.Fatalf("the barrier opens at %v, now is %v; want it after RotationPatience", at, w.now)
	}
	w.fire(interp.TimerRotation)
	if n := len(w.flights); n != 51 || w.rotations != 0 {
		t.Fatalf("%d executions in flight and %d rotations after its patience, want 51 and none", n, w.rotations)
	}
	if at := w.timers[interp.TimerRotation]; !at.Equal(w.now.Add(interp.RotationPatience)) {
		t.Fatalf("the barrier opens at %v, now is %v; want it closed again after 50 more dispatches", at, w.now)
	}
	for len(w.flights) > 1 {
		w.succeed(w.flights[1].stepID)
	}
	w.expectInFlight("s0003")
	w.succeed("s0003")
	if w.rotations != 1 {
		t.Fatalf("%d rotations, want 1 when nothing is in flight", w.rotations)
	}
	w.drive()
}

// contract: T195
func TestRotate_WaitsUntilNothingIsInFlight(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, steps("a", "b", "c<b", "d<a,c"), basePolicy, 2).start()
	w.succeed("b")
	w.fire(interp.TimerRotation)
	w.expectInFlight("a c")
	w.succeed("a")
	if w.rotations != 0 {
		t.Fatal("the machine rotates while c is in flight")
	}
	w.succeed("c")
	if w.rotations != 1 {
		t.Fatal("the machine does not rotate, but nothing is in flight")
	}
	w.drive()
	w.expect("RunApproved", "RunStarted", "StepStarted(b,1)", "StepCompleted(b,1)", "StepStarted(a,1)",
		"StepCompleted(a,1)",
		"StepStarted(c,1)", "StepCompleted(c,1)", "StepStarted(d,1)", "StepCompleted(d,1)", "RunCompleted")
}

// contract: T195
func TestRotate_HardPressureHasNoPatience(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, wide(9), run.Policy{MaxParallelSteps: 3, RetryWindowMS: 60_000}, 0).start()
	w.feed(interp.Pressure{At: w.now, Hard: true})
	w.succeed("s0001", "s0002")
	w.expectInFlight("s0003")
	if at := w.timers[interp.TimerRotation]; !at.IsZero() {
		t.Fatal("the timer of the patience is set, want none after hard pressure")
	}
	w.succeed("s0003")
	if w.rotations != 1 {
		t.Fatalf("%d rotations, want 1", w.rotations)
	}
	w.expectInFlight("s0004 s0005 s0006")
}

// contract: T195
func TestRotate_DispatchesAtLeastOneStep(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, linear(3), basePolicy, 0)
	w.feed(interp.Init{At: w.now})
	w.feed(interp.Pressure{At: w.now})
	w.record()
	w.expectInFlight("s0001")
	if w.rotations != 0 {
		t.Fatal("the machine rotates before it has dispatched a step")
	}
	w.succeed("s0001")
	if w.rotations != 1 {
		t.Fatalf("%d rotations, want 1", w.rotations)
	}
}

// contract: T195
func TestRotate_TheNextMachineContinuesTheRetryWindow(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, linear(3), basePolicy, 1).start()
	w.compareTwins = true
	w.fail("s0001", "BROKEN")
	opened := w.state.RetryDeadline
	if w.rotations != 1 || opened == nil || !w.timers[interp.TimerRetryWindow].Equal(*opened) {
		t.Fatalf("%d rotations, the window ends at %v and the timer is at %v; want 1 and the same time", w.rotations, opened,
			w.timers[interp.TimerRetryWindow])
	}
	w.signal(run.RetryStep, "A", "s0001")
	w.fail("s0001", "AGAIN")
	w.fire(interp.TimerRetryWindow)
	if w.state.Status != run.Failed || w.state.Failure.Message != "AGAIN!" ||
		w.state.Failure.RootCause.LogicalAttempt != 2 {
		t.Fatalf("the run is %s with %+v, want FAILED by attempt 2", w.state.Status, w.state.Failure)
	}
	w.expectReceipt("A", run.SignalApplied, "", 6)
}

// The next machine reads two signals again by their numbers: a retry whose step waits for its turn, and a retry that
// waits for the resume.
//
// contract: T196
func TestRotate_TheNextMachineReadsPendingSignalsAgain(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, steps("a", "b", "c"), basePolicy, 0).start()
	w.compareTwins = true
	w.begin("a", "b", "c")
	w.fail("a", "BROKEN")
	w.fail("b", "BROKEN")
	w.succeed("c")
	w.signal(run.RetryStep, "A", "a")
	w.signal(run.Pause, "B", "")
	w.arrive(w.flight("a")) // it meets the closed gate
	w.record()
	w.accept(engine.Signal{ID: "C", Type: run.RetryStep, StepID: "b", LogicalAttempt: 1})
	w.feed(interp.Signalled{At: w.now, Signals: w.signals})
	w.record()
	w.feed(interp.Pressure{At: w.now, Hard: true})
	if w.rotations != 1 || len(w.fetch) != 1 || w.fetch[0] != 0 {
		t.Fatalf("%d rotations and fetches after %v, want 1 and one fetch after 0", w.rotations, w.fetch)
	}
	w.accept(engine.Signal{ID: "D", Type: run.Resume})
	w.feed(interp.Signalled{At: w.now, Signals: w.signals[3:]}) // overtakes the answer
	w.expectInFlight("")
	w.answerFetch()
	for len(w.fetch) > 0 {
		w.answerFetch()
	}
	w.record()
	w.expectInFlight("a b")
	if w.flight("a").n != 2 || w.flight("a").signalID != "A" || w.flight("b").signalID != "C" {
		t.Fatalf("a is dispatched as %+v and b as %+v, want them caused by the signals A and C", *w.flight("a"),
			*w.flight("b"))
	}
	w.drive()
}

// A run does not wait for ever for signals that the store has lost.
//
// contract: T196
func TestRotate_SignalsThatTheStoreHasLostAreGivenUp(t *testing.T) {
	t.Parallel()
	w := newRotatingWorld(t, steps("a", "b"), basePolicy, 0).start()
	w.begin("a", "b")
	w.fail("a", "BROKEN")
	w.succeed("b")
	w.signal(run.RetryStep, "A", "a")
	w.signal(run.Pause, "B", "")
	w.arrive(w.flight("a"))
	w.record()
	w.feed(interp.Pressure{At: w.now, Hard: true})
	w.fetch = nil
	w.feed(interp.Signalled{At: w.now})
	w.signal(run.Resume, "C", "")
	for len(w.fetch) > 0 {
		w.answerFetch()
	}
	w.record()
	w.expectInFlight("a")
}
