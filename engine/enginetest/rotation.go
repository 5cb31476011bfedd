package enginetest

import (
	"fmt"
	"strings"

	"github.com/dvt-engine/dvt/run"
)

// chain returns n steps in a line and the log of their execution.
func chain(n int) (steps []string, log string) {
	var words []string
	for i := 1; i <= n; i++ {
		step := fmt.Sprintf("s%d", i)
		words = append(words, fmt.Sprintf("StepStarted(%s,1) StepCompleted(%s,1)", step, step))
		if i > 1 {
			step += fmt.Sprintf("<s%d", i-1)
		}
		steps = append(steps, step)
	}
	return steps, strings.Join(words, " ")
}

func rotationCases() []testCase {
	return []testCase{
		// Further executions of a chain append no second RunStarted.
		// contract: E-04
		{name: "RotationAddsNoRunStarted", rotate: 3, test: func(w *world) {
			steps, log := chain(8)
			id := w.Start(Document(0, nil, steps...))
			w.waitForEnd(id)
			w.expect(id, log+" RunCompleted")
		}},
		// A signal in flight at a rotation is applied once, not lost and not repeated.
		// contract: W-14
		{name: "SignalsSurviveARotation", rotate: 3, test: func(w *world) {
			w.steps.Hold("s3", "s6")
			steps, _ := chain(9)
			id := w.Start(Document(0, nil, steps...))
			w.waitForStep(id, "s3", run.StepRunning)
			pause := w.Signal(id, run.Signal{Type: run.Pause})
			w.steps.Release("s3")
			w.waitUntilApplied(id, pause)
			w.waitForStep(id, "s3", run.StepSuccess)
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Resume}))
			w.waitForStep(id, "s6", run.StepRunning)
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Pause}))
			w.steps.Release("s6")
			w.waitForStep(id, "s6", run.StepSuccess)
			w.Signal(id, run.Signal{Type: run.Resume})
			w.waitForEnd(id)
			count := map[string]int{}
			for _, word := range w.log(id) {
				count[word]++
			}
			for _, once := range []string{"RunStarted", "RunPaused(1)", "RunResumed(1)", "RunPaused(2)", "RunResumed(2)",
				"StepCompleted(s9,1)", "RunCompleted"} {
				if count[once] != 1 {
					w.t.Errorf("the log has %s %d times, want once", once, count[once])
				}
			}
		}},
		// A plan that is wider than one execution runs each step once.
		// contract: E-06
		{name: "WidePlanRunsEachStepOnce", rotate: 5, test: func(w *world) {
			var steps []string
			for i := range 20 {
				steps = append(steps, fmt.Sprintf("p%02d", i))
			}
			id := w.Start(Document(0, nil, steps...))
			if st := w.waitForEnd(id); st.Counts.Success != 20 || len(w.steps.Calls()) != 20 {
				w.t.Fatalf("counts %+v, %d executions; want 20 successes of 20 executions", st.Counts, len(w.steps.Calls()))
			}
		}},
	}
}
