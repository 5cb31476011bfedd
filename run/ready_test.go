package run_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
)

func TestReadySteps_AreThoseThatNothingInTheLogHolds(t *testing.T) {
	t.Parallel()
	step := func(ord run.Ord, id string, status run.StepStatus, on ...string) *run.Step {
		s := &run.Step{StepOutline: run.StepOutline{StepID: id, DependsOn: on}, Ord: ord, Status: status}
		if status != run.StepPending {
			s.Attempts = []run.Attempt{{LogicalAttempt: 1, Status: status, StartedSeq: 1, EndedSeq: 2}}
		}
		return s
	}
	healthy := []*run.Step{
		step(0, "done", run.StepSuccess), step(1, "skipped", run.StepSkipped), step(2, "active", run.StepRunning),
		step(3, "free", run.StepPending), step(4, "behind both", run.StepPending, "done", "skipped"),
		step(5, "behind active", run.StepPending, "done", "active"),
	}
	failed := append(healthy[:6:6], step(6, "failed", run.StepFailed), step(7, "behind failed", run.StepPending, "failed"))
	for name, c := range map[string]struct {
		steps   []*run.Step
		retried string
		want    []string
	}{
		"dependencies that are SUCCESS or SKIPPED": {healthy, "", []string{"free", "behind both"}},
		"a failed step holds all":                  {failed, "", nil},
		"a retry that was accepted ends the hold":  {failed, "failed", []string{"free", "behind both", "failed"}},
	} {
		state := run.State{Header: run.Header{Status: run.Running}, Steps: c.steps}
		var got []string
		for _, s := range state.ReadySteps(func(id string) bool { return id == c.retried }) {
			got = append(got, s.StepID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: the ready steps differ (-want +got):\n%s", name, diff)
		}
	}
}
