package reads

import (
	"fmt"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

// maxNamedRetries is the number of steps between two tries that have a wait of their own; the others share one.
const maxNamedRetries = 8

// retriedSteps returns the waits of the running steps whose last try failed and whose next one has not started. Other
// steps of the run may be working.
func retriedSteps(v control.RunView, known *knownWaits) (out []RunWait) {
	var more []string
	for _, w := range known.waits.Steps {
		step, ok := v.State.Step(w.StepID)
		if w.Cause != engine.WaitRetry || !ok || step.Status != run.StepRunning {
			continue
		}
		if len(out) == maxNamedRetries {
			more = append(more, w.StepID)
			continue
		}
		waits := "to be tried again"
		if w.Until.IsZero() {
			waits = "for a worker to try it again"
		}
		out = append(out, RunWait{Kind: WaitRetry, Since: w.Since, Until: w.Until, Steps: []string{w.StepID}, Try: w.Try,
			Tries: w.Tries, Message: fmt.Sprintf("Step %s failed and waits %s: try %d of %d.", w.StepID, waits, w.Try, w.Tries)})
	}
	if len(more) > 0 {
		out = append(out, RunWait{Kind: WaitRetry, Steps: more, Message: fmt.Sprintf(
			"%s failed and wait to be tried again.", control.Plural(len(more), "further step", "further steps"))})
	}
	return out
}
