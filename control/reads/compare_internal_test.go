package reads

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run"
)

// A rerun keeps the result of a step that took a minute and two tries. The step did not run again, so it did not become
// faster.
func TestCompareSteps_AKeptStepHasNoDurationAndNoDifference(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 28, 1, 0, 0, 0, time.UTC)
	attempt := func(took time.Duration) run.Attempt {
		end := begin.Add(took)
		return run.Attempt{Status: run.StepSuccess, StartedAt: &begin, CompletedAt: &end,
			DurationMS: took.Milliseconds()}
	}
	ran := &run.Step{Status: run.StepSuccess, Attempts: []run.Attempt{attempt(time.Second), attempt(time.Minute)}}
	kept := &run.Step{Status: run.StepSuccess, Attempts: []run.Attempt{attempt(0)}}
	kept.Attempts[0].Reused = &run.Reused{}
	if got := changesOf(ran, kept); len(got) != 0 {
		t.Errorf("changes of a kept step: %v, want none", got)
	}
	if got := LastDuration(kept); got != nil {
		t.Errorf("duration of a kept step: %s, want none", *got)
	}
	if got := LastDuration(ran); got == nil || *got != time.Minute {
		t.Errorf("duration of a step that ran: %v, want 1m0s", got)
	}
}

// The plan lists its steps in another order than that of their ids.
func TestCompareSteps_AreInTheOrderOfThePlan(t *testing.T) {
	t.Parallel()
	steps := func(ids ...string) (out []*run.Step) {
		for _, id := range ids {
			out = append(out, &run.Step{StepOutline: run.StepOutline{StepID: id}})
		}
		return out
	}
	positions := map[string]int{"load": 0, "fct_5": 1, "fct_6": 2, "check": 3}
	var got []string
	after := inPlanOrder(steps("check", "fct_5", "fct_6", "load"), positions)
	for _, c := range compareSteps(steps("gone", "load"), after) {
		got = append(got, c.StepID)
	}
	if diff := cmp.Diff([]string{"load", "fct_5", "fct_6", "check", "gone"}, got); diff != "" {
		t.Errorf("compared steps (-want +got):\n%s", diff)
	}
}

func TestJSONText_IsReadable(t *testing.T) {
	t.Parallel()
	if got, want := jsonText("sh run.sh > log 2>&1"), `"sh run.sh > log 2>&1"`; got != want {
		t.Errorf("a command as text is %s, want %s", got, want)
	}
}
