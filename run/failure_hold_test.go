package run_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// contract: T74, T217
func TestFailureHold_HoldsAllPendingStepsButThoseThatPass(t *testing.T) {
	t.Parallel()
	started := func(more ...run.Draft) []run.Draft {
		return append([]run.Draft{
			ofRun(run.RunApproved), runtest.Start("a", "b", "a2<a", "b2<b", "b3<b2", "free", "both<a,b"),
			stepStarted("a", 1), stepStarted("b", 1),
		}, more...)
	}
	failed := func(more ...run.Draft) []run.Draft {
		return started(append([]run.Draft{stepFailed("b", 1, "X")}, more...)...)
	}
	for name, c := range map[string]struct {
		log     []run.Draft
		retried string
		want    string // held steps
	}{
		"no failure":                        {log: started()},
		"a failure holds what is unrelated": {log: failed(), want: "a2 b2 b3 both free"},
		"also while another step runs on":   {log: failed(stepCompleted("a", 1)), want: "a2 b2 b3 both free"},
		"an accepted retry lifts it":        {log: failed(), retried: "b"},
		"a started retry lifts it":          {log: failed(stepStarted("b", 2))},
		"a skipped step lifts it":           {log: failed(stepSkipped("b", 2))},
		"what waits for a retried step passes while another failure stands": {
			log: failed(stepFailed("a", 1, "X"), stepStarted("b", 2)), want: "a2 both free"},
		"what a retried step released passes": {
			log: failed(stepFailed("a", 1, "X"), stepStarted("b", 2), stepCompleted("b", 2)), want: "a2 both free"},
		"a pause that cancelled a step holds nothing": {log: started(stepFailed("b", 1, string(run.CodeCancelledByPause)))},
		"a pause changes nothing":                     {log: failed(runPaused(1)), want: "a2 b2 b3 both free"},
		"an ended run holds nothing":                  {log: failed(ofRun(run.RunCancelled))},
		"compensation holds nothing":                  {log: failed(ofRun(run.RunCompensationStarted))},
	} {
		s, _ := project(t, c.log...)
		hold := s.FailureHold(func(id string) bool { return id == c.retried })
		var held []string
		for _, st := range s.Steps {
			if hold.Holds(st.Ord) {
				held = append(held, st.StepID)
			}
		}
		slices.Sort(held)
		if got := strings.Join(held, " "); got != c.want || hold.Count != len(held) {
			t.Errorf("%s: holds %q (count %d), want %q", name, got, hold.Count, c.want)
		}
	}
}

func TestFold_SaysWhoCancelledTheRun(t *testing.T) {
	t.Parallel()
	s, _ := project(t, ofRun(run.RunApproved), runtest.Start("a"), stepStarted("a", 1),
		runtest.Draft(run.RunCancelled, "", 1,
			runtest.M{"signalId": "s9", "signalType": "CANCEL", "actor": "ola", "reason": "wrong day"}))
	want := run.Cancellation{SignalID: "s9", SignalType: run.Cancel, Actor: "ola", Reason: "wrong day",
		At: *s.CompletedAt, Seq: s.Seq}
	if s.Cancellation == nil || *s.Cancellation != want {
		t.Errorf("the run was cancelled by %+v, want %+v", s.Cancellation, want)
	}
}
