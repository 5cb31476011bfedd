package reads

import (
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// unreported returns the waits of running steps whose work has ended, and whose workers cannot report that.
func (s *WaitReader) unreported(v control.RunView, known *knownWaits) (out []RunWait) {
	for _, w := range known.waits.Steps {
		step, ok := v.State.Step(w.StepID)
		if !w.Ended || !ok || step.Status != run.StepRunning {
			continue
		}
		wait := RunWait{Kind: WaitKind(w.Cause), Status: w.Status, Message: "The work of a step has ended, and its worker " +
			"gets no answer from the store to which it reports that."}
		if wait.Kind == WaitJournal {
			wait.Message = "The work of a step has ended, and its worker does not reach the journal of the server to report that."
			if w.Status != 0 {
				wait.Message = fmt.Sprintf("The work of a step has ended, and its worker may not report that to the journal of "+
					"the server: the answer was HTTP %d.", w.Status)
			}
		}
		i := slices.IndexFunc(out, func(x RunWait) bool { return x.Message == wait.Message })
		if i < 0 {
			i, out = len(out), append(out, wait)
		}
		out[i].Steps = append(out[i].Steps, w.StepID)
		if out[i].Since.IsZero() || !w.Since.IsZero() && w.Since.Before(out[i].Since) {
			out[i].Since = w.Since
		}
	}
	return out
}
