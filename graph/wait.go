package graph

import (
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// stepGraph is the steps of one view with what follows from their edges. It is
// made once for a view, in O(steps + edges).
type stepGraph struct {
	view       control.RunView
	byID       map[string]*run.Step
	dependents map[string][]*run.Step
	failed     []string        // steps whose latest attempt is FAILED, in plan order
	behind     map[string]bool // steps that wait, directly or not, for a failed one
}

func graphOf(v control.RunView) *stepGraph {
	steps := v.State.Steps
	g := &stepGraph{view: v, byID: make(map[string]*run.Step, len(steps)), dependents: make(map[string][]*run.Step, len(steps))}
	for _, s := range steps {
		g.byID[s.StepID] = s
		for _, d := range s.DependsOn {
			g.dependents[d] = append(g.dependents[d], s)
		}
		if s.Status == run.StepFailed {
			g.failed = append(g.failed, s.StepID)
		}
	}
	g.behind = g.reach(g.failed...)
	return g
}

// moved is the graph of the view that follows g's in a stream; g may be nil.
func (g *stepGraph) moved(v control.RunView) *stepGraph { return graphOf(v) }

// reach is the pending steps that depend, directly or not, on some steps.
func (g *stepGraph) reach(from ...string) map[string]bool {
	seen := map[string]bool{}
	for len(from) > 0 {
		next := g.dependents[from[len(from)-1]]
		from = from[:len(from)-1]
		for _, s := range next {
			if s.Status == run.StepPending && !seen[s.StepID] {
				seen[s.StepID] = true
				from = append(from, s.StepID)
			}
		}
	}
	return seen
}

func (g *stepGraph) waitingBehind(stepID string) int { return len(g.reach(stepID)) }

// wait says why a step is not running; nil when it runs, is over, or nothing
// will run any more.
func (g *stepGraph) wait(s *run.Step) *model.Wait {
	h := g.view.State.Header
	wait := func(kind model.WaitKind) *model.Wait { return &model.Wait{Kind: kind, BlockingSteps: []string{}} }
	switch {
	case h.Status.Terminal():
		return nil
	case g.view.PendingRetry[s.StepID]:
		return wait(model.WaitKindRetry)
	case s.Status == run.StepRunning && s.Substatus == run.WaitingManual:
		w := wait(model.WaitKindPerson)
		w.Since = s.Attempts[len(s.Attempts)-1].StartedAt
		return w
	case s.Status == run.StepFailed && h.RetryDeadline != nil:
		w := wait(model.WaitKindPerson)
		w.Since, w.Until = s.Attempts[len(s.Attempts)-1].CompletedAt, h.RetryDeadline
		return w
	case s.Status != run.StepPending:
		return nil
	}
	if open := g.unfinished(s); len(open) > 0 {
		w := wait(model.WaitKindDependencies)
		if g.behind[s.StepID] {
			w.Kind = model.WaitKindFailedStep
		}
		w.BlockingSteps = open
		return w
	}
	switch {
	case h.Pause != nil:
		w := wait(model.WaitKindPaused)
		w.Since, w.Who = &h.Pause.Since, text(h.Pause.RequestedBy)
		return w
	case len(g.failed) > 0: // the gate is closed by a failure (T217)
		w := wait(model.WaitKindFailedStep)
		w.BlockingSteps, w.Until = g.failed, h.RetryDeadline
		return w
	}
	return wait(model.WaitKindWorker)
}

// unfinished is the dependencies of a step that are not over well.
func (g *stepGraph) unfinished(s *run.Step) []string {
	var open []string
	for _, d := range s.DependsOn {
		if dep := g.byID[d]; dep != nil && dep.Status != run.StepSuccess && dep.Status != run.StepSkipped {
			open = append(open, d)
		}
	}
	return open
}
