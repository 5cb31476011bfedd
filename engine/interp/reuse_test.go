package interp_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// rerun is a world of a run that takes over steps of an earlier one.
func rerun(tb tb, sk plan.Skeleton, policy run.Policy, reused ...run.Ord) *world {
	w := newWorld(tb, sk, policy)
	w.who.Reused = reused
	w.m = interp.New(w.sk, w.who)
	return w
}

// contract: T209
func TestReuse_OneBatchBehindRunStarted(t *testing.T) {
	t.Parallel()
	// The canonical order is by id, against that of the edges.
	w := rerun(t, steps("a<z", "b<a", "c<b", "z"), calm, 3, 0, 1).start()
	w.expect("RunApproved", "RunStarted", "StepStarted(z,1)", "StepCompleted(z,1)", "StepStarted(a,1)",
		"StepCompleted(a,1)",
		"StepStarted(b,1)", "StepCompleted(b,1)")
	w.expectInFlight("c")
}

// contract: T209
func TestReuse_AllOfIt(t *testing.T) {
	t.Parallel()
	w := rerun(t, l3(), calm, 0, 1, 2).start()
	w.record()
	w.expectDone(run.Completed)
}

// contract: T209
func TestReuse_NothingBehindAStepThatRuns(t *testing.T) {
	t.Parallel()
	w := rerun(t, d4(), calm, 0, 2, 3, 3, -1, 9).start() // final depends on a, which runs
	w.expect("RunApproved", "RunStarted", "StepStarted(start,1)", "StepCompleted(start,1)", "StepStarted(b,1)",
		"StepCompleted(b,1)")
	w.expectInFlight("a")
}

// contract: T209
func TestReuse_ManyBatches(t *testing.T) {
	t.Parallel()
	var specs []string
	var reused []run.Ord
	for i := range 700 {
		specs = append(specs, fmt.Sprintf("s%03d", i))
		if i > 0 {
			reused = append(reused, run.Ord(i))
		}
	}
	w := rerun(t, steps(specs...), calm, reused...).start()
	w.expectInFlight("s000") // it waits for nobody
	for w.pending != nil {
		w.record()
	}
	if w.state.Counts.Success != 699 || w.state.Counts.Pending != 1 {
		t.Errorf("counts %+v", w.state.Counts)
	}
}

// contract: T209
func TestReuse_NeverCompensated(t *testing.T) {
	t.Parallel()
	for _, rotates := range []bool{false, true} {
		sk := steps("s1", "s2<s1", "s3<s2")
		for i := range sk.Steps {
			sk.Steps[i].CompensationQueue = "tq-control"
		}
		w := rerun(t, sk, with(calm, noWindow), 0)
		if rotates {
			w.who.RotateAfter = 1
			w.m = interp.New(w.sk, w.who)
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
			t.Errorf("undone %v, want s2 alone; %d rotations", got, w.rotations)
		}
		if sk.Steps[0].CompensationQueue == "" {
			t.Error("the caller's plan was changed")
		}
	}
}
