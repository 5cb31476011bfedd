package graph

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// stepGraph is the steps of one view with what follows from their edges, which is
// worked out when it is first asked for. It is safe for concurrent use.
type stepGraph struct {
	view      control.RunView
	available model.Available // nil in streams
	wants     wants
	former    former // of the view before, in a stream; of the same epoch
	edges     func() *edges
	failures  func() failures
	medians   medians
}

// former is what was before.
type former struct {
	seq   run.Seq
	steps []*run.Step
}

// edges are the dependencies between the steps of a state, by their places in it.
type edges struct {
	byID       map[string]int
	dependents [][]int
}

// failures are the steps whose latest attempt is FAILED.
type failures struct {
	steps  []string     // in plan order
	behind map[int]bool // steps that wait, directly or not, for one of them
}

func graphOf(v control.RunView, available model.Available, w wants) *stepGraph {
	g := &stepGraph{view: v, available: available, wants: w}
	g.edges = sync.OnceValue(func() *edges { return edgesOf(g.view.State.Steps) })
	g.failures = sync.OnceValue(g.findFailures)
	return g
}

// moved is the graph of the view that follows g's in a stream; g may be nil.
func (g *stepGraph) moved(v control.RunView, w wants) *stepGraph {
	next := graphOf(v, nil, w)
	if g != nil && g.view.Epoch == v.Epoch {
		next.former = former{g.view.State.Seq, g.view.State.Steps}
		if (w.wait || w.blocked) && sameEdges(g.view.State.Steps, v.State.Steps) {
			next.edges = g.edges
		}
	}
	return next
}

// since is what changed after from: of a state that differs from the former one in
// few steps without a look at the others.
func (g *stepGraph) since(from run.Seq) run.Delta {
	s := g.view.State
	if from == 0 || g.former.seq != from || len(g.former.steps) != len(s.Steps) {
		return s.Since(from)
	}
	d := run.Delta{From: from, To: s.Seq, Header: s.Header}
	for i, step := range s.Steps {
		if step != g.former.steps[i] && step.ChangedSeq > from {
			d.Steps = append(d.Steps, step)
		}
	}
	return d
}

func edgesOf(steps []*run.Step) *edges {
	e := &edges{byID: make(map[string]int, len(steps)), dependents: make([][]int, len(steps))}
	for i, s := range steps {
		e.byID[s.StepID] = i
	}
	for i, s := range steps {
		for _, d := range s.DependsOn {
			if on, ok := e.byID[d]; ok {
				e.dependents[on] = append(e.dependents[on], i)
			}
		}
	}
	return e
}

// sameEdges looks only at steps that are not the same.
func sameEdges(a, b []*run.Step) bool {
	if len(a) != len(b) {
		return false
	}
	for i, s := range a {
		if s != b[i] && (s.StepID != b[i].StepID || !slices.Equal(s.DependsOn, b[i].DependsOn)) {
			return false
		}
	}
	return true
}

func (g *stepGraph) findFailures() failures {
	var f failures
	var from []int
	for i, s := range g.view.State.Steps {
		if s.Status == run.StepFailed {
			f.steps, from = append(f.steps, s.StepID), append(from, i)
		}
	}
	f.behind = g.reach(from...)
	return f
}

// reach is the pending steps that depend, directly or not, on some steps.
func (g *stepGraph) reach(from ...int) map[int]bool {
	seen := map[int]bool{}
	for len(from) > 0 {
		next := g.edges().dependents[from[len(from)-1]]
		from = from[:len(from)-1]
		for _, i := range next {
			if g.view.State.Steps[i].Status == run.StepPending && !seen[i] {
				seen[i] = true
				from = append(from, i)
			}
		}
	}
	return seen
}

func (g *stepGraph) waitingBehind(stepID string) int {
	i, ok := g.edges().byID[stepID]
	if !ok {
		return 0
	}
	return len(g.reach(i))
}

// waits reports whether the wait of a step may depend on anything but the step.
func waits(s *run.Step) bool {
	return s.Status == run.StepPending || s.Status == run.StepFailed || s.Status == run.StepRunning &&
		s.Substatus == run.WaitingManual
}

// wait says why a step is not running; nil when it runs, is over, or nothing
// will run any more.
func (g *stepGraph) wait(s *run.Step) *model.Wait {
	h := &g.view.State.Header
	wait := func(kind model.WaitKind) *model.Wait { return &model.Wait{Kind: kind, BlockingSteps: []string{}} }
	switch {
	case h.Status.Terminal():
		return nil
	case g.view.PendingRetry[s.StepID]:
		return wait(model.WaitKindRetry)
	case !waits(s):
		return nil
	case s.Status == run.StepRunning:
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
		if f := g.failures(); len(f.steps) > 0 && f.behind[g.edges().byID[s.StepID]] {
			w.Kind = model.WaitKindFailedStep
		}
		w.BlockingSteps = open
		return w
	}
	if h.Pause != nil {
		w := wait(model.WaitKindPaused)
		w.Since, w.Who = &h.Pause.Since, text(h.Pause.RequestedBy)
		return w
	}
	if failed := g.failures().steps; len(failed) > 0 { // the gate is closed by a failure (T217)
		w := wait(model.WaitKindFailedStep)
		w.BlockingSteps, w.Until = failed, h.RetryDeadline
		return w
	}
	w := wait(model.WaitKindWorker)
	if plan.StepType(s.Type).NeedsWorker() {
		w.TaskQueue = text(s.TaskQueue)
	}
	return w
}

// PollerSeenAt says when the queue that the step waits for was last seen to have a worker.
func (f waitFields) PollerSeenAt(ctx context.Context, of *model.Wait) (*time.Time, error) {
	if of.TaskQueue == nil {
		return nil, nil //nolint:nilnil // the step waits for no worker
	}
	return f.control.PollerSeen(ctx, *of.TaskQueue), nil
}

// unfinished is the dependencies of a step that are not over well.
func (g *stepGraph) unfinished(s *run.Step) []string {
	var open []string
	for _, d := range s.DependsOn {
		i, known := g.edges().byID[d]
		if !known {
			continue
		}
		if on := g.view.State.Steps[i]; on.Status != run.StepSuccess && on.Status != run.StepSkipped {
			open = append(open, d)
		}
	}
	return open
}
