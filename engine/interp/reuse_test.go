package interp_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// newReuseWorld returns a world of a run that takes over steps of an earlier one.
func newReuseWorld(tb tb, sk plan.Skeleton, policy run.Policy, reused ...run.Ord) *world {
	w := newWorld(tb, sk, policy)
	w.cfg.Reused = reused
	w.m = interp.New(w.sk, w.cfg)
	return w
}

// contract: T209
func TestReuse_FollowsRunStartedInTheOrderOfDependencies(t *testing.T) {
	t.Parallel()
	// The canonical order is by id, which is the reverse of the dependencies here.
	w := newReuseWorld(t, steps("a<z", "b<a", "c<b", "z"), basePolicy, 3, 0, 1).start()
	w.expect("RunApproved", "RunStarted", "StepStarted(z,1)", "StepCompleted(z,1)", "StepStarted(a,1)",
		"StepCompleted(a,1)",
		"StepStarted(b,1)", "StepCompleted(b,1)")
	w.expectInFlight("c")
}

// contract: T209
func TestReuse_ARunWithOnlyReusedStepsCompletes(t *testing.T) {
	t.Parallel()
	w := newReuseWorld(t, l3(), basePolicy, 0, 1, 2).start()
	w.record()
	w.expectDone(run.Completed)
}

// contract: T209
func TestReuse_AStepBehindAStepThatRunsIsNotReused(t *testing.T) {
	t.Parallel()
	w := newReuseWorld(t, d4(), basePolicy, 0, 2, 3, 3, -1, 9).start() // final depends on a, which runs
	w.expect("RunApproved", "RunStarted", "StepStarted(start,1)", "StepCompleted(start,1)", "StepStarted(b,1)",
		"StepCompleted(b,1)")
	w.expectInFlight("a")
}

// contract: T209
func TestReuse_MayNeedSeveralBatches(t *testing.T) {
	t.Parallel()
	var specs []string
	var reused []run.Ord
	for i := range 700 {
		specs = append(specs, fmt.Sprintf("s%03d", i))
		if i > 0 {
			reused = append(reused, run.Ord(i))
		}
	}
	w := newReuseWorld(t, steps(specs...), basePolicy, reused...).start()
	w.expectInFlight("s000") // it does not wait for the reused steps
	for w.pending != nil {
		w.record()
	}
	if w.state.Counts.Success != 699 || w.state.Counts.Pending != 1 {
		t.Errorf("the counts are %+v, want 699 SUCCESS and 1 PENDING", w.state.Counts)
	}
}

// contract: T209
func TestReuse_AReusedStepIsNeverCompensated(t *testing.T) {
	t.Parallel()
	for _, rotates := range []bool{false, true} {
		sk := steps("s1", "s2<s1", "s3<s2")
		for i := range sk.Steps {
			sk.Steps[i].CompensationQueue = "tq-control"
		}
		w := newReuseWorld(t, sk, with(basePolicy, noWindow), 0)
		if rotates {
			w.cfg.RotateAfter = 1
			w.m = interp.New(w.sk, w.cfg)
		}
		w.start()
		w.succeed("s2")
		w.fail("s3", "E")
		w.record()
		w.answerFetches()
		w.undo("s2", 1, "")
		w.answerFetches()
		w.expectDone(run.Failed)
		if got := w.compensationStarted(); !slices.Equal(got, []string{"s2"}) || rotates != (w.rotations > 0) {
			t.Errorf("the run compensates %v after %d rotations, want only s2", got, w.rotations)
		}
		if sk.Steps[0].CompensationQueue == "" {
			t.Error("the machine has changed the caller's plan")
		}
	}
}
