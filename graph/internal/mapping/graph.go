package mapping

import (
	"slices"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Graph maps the steps of one view. It computes once, when it is first needed, what follows from the edges between
// steps. It is safe for concurrent use.
type Graph struct {
	View        control.RunView
	available   model.Available // nil in streams
	CostlyParts CostlyParts
	previous    previous // the previous view of a stream, if it has the same epoch
	edges       func() *edges
	failures    func() failures
	hold        func() run.FailureHold
	medians     medians
	engineWaits func() map[string]reads.StepWait // nil in streams and lists
}

// previous is the previous state of a stream.
type previous struct {
	seq   run.Seq
	steps []*run.Step
}

// medians are the median durations of the steps of one run. They are read once, when the first is needed.
type medians struct {
	once  sync.Once
	steps map[string]time.Duration
	err   error
}

func (m *medians) of(stepID string, read func() (map[string]time.Duration, error)) (*time.Duration, error) {
	m.once.Do(func() { m.steps, m.err = read() })
	if took, known := m.steps[stepID]; known {
		return &took, nil
	}
	return nil, m.err
}

// Median returns the median duration of a step, or nil when it is not known. Only the first call for a graph reads, so
// that a page of steps costs one read.
func (g *Graph) Median(stepID string, read func() (map[string]time.Duration, error)) (*time.Duration, error) {
	return g.medians.of(stepID, read)
}

// edges are the dependencies between the steps of a state, by their indexes in it.
type edges struct {
	byID       map[string]int
	dependents [][]int
}

// failures are the steps that hold others of the run, and what they hold.
type failures struct {
	steps []string    // FAILED without a retry, in plan order
	cause map[int]int // pending steps that need one of them, directly or not, with the index of the first one
}

// GraphOf returns the graph of a view. available is nil in streams.
func GraphOf(v control.RunView, available model.Available, w CostlyParts) *Graph {
	g := &Graph{View: v, available: available, CostlyParts: w}
	g.edges = sync.OnceValue(func() *edges { return edgesOf(g.View.State.Steps) })
	g.failures = sync.OnceValue(g.findFailures)
	g.hold = sync.OnceValue(func() run.FailureHold {
		return g.View.State.FailureHold(func(stepID string) bool { return g.View.PendingRetry[stepID] })
	})
	return g
}

// UseEngineWaits makes the waits of steps follow what the engine knows. read is called once, when a step could wait for
// something that only the engine knows. Call it before the first step is mapped.
func (g *Graph) UseEngineWaits(read func() map[string]reads.StepWait) {
	g.engineWaits = sync.OnceValue(read)
}

// engineWait returns what the engine knows about a step that nothing in the log holds.
func (g *Graph) engineWait(s *run.Step) (reads.StepWait, bool) {
	if g.engineWaits == nil {
		return reads.StepWait{}, false
	}
	w, known := g.engineWaits()[s.StepID]
	return w, known
}

// notBefore returns when the engine offers the step to a worker again, or nil.
func (g *Graph) notBefore(s *run.Step) *time.Time {
	if g.engineWaits == nil || s.Status != run.StepPending && !g.View.PendingRetry[s.StepID] {
		return nil
	}
	w, _ := g.engineWait(s)
	if w.Kind == reads.WaitRetry { // of an attempt that has ended since
		return nil
	}
	return nonZero(&w.Until)
}

// Next returns the graph of the next view of a stream after g. It reuses the edges of g if no dependency has changed.
// g may be nil.
func (g *Graph) Next(v control.RunView, w CostlyParts) *Graph {
	next := GraphOf(v, nil, w)
	if g != nil && g.View.Epoch == v.Epoch {
		next.previous = previous{g.View.State.Seq, g.View.State.Steps}
		if (w.Wait || w.Blocked) && sameEdges(g.View.State.Steps, v.State.Steps) {
			next.edges = g.edges
		}
	}
	return next
}

// deltaSince returns the changes after from. If the previous state is that of from, it compares only pointers of steps,
// which is cheap for a state with few changed steps.
func (g *Graph) deltaSince(from run.Seq) run.Delta {
	s := g.View.State
	if from == 0 || g.previous.seq != from || len(g.previous.steps) != len(s.Steps) {
		return s.Since(from)
	}
	d := run.Delta{From: from, To: s.Seq, Header: s.Header}
	for i, step := range s.Steps {
		if step != g.previous.steps[i] && step.ChangedSeq > from {
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

// sameEdges reports whether two states have equal step ids and dependencies. It skips steps with equal pointers.
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

func (g *Graph) findFailures() failures {
	f := failures{cause: map[int]int{}}
	for _, o := range g.hold().Failed {
		f.steps = append(f.steps, g.View.State.Steps[o].StepID)
		g.eachPendingBehind(int(o), f.cause)
	}
	return f
}

// eachPendingBehind adds the pending steps that depend, directly or not, on the step with this index to seen, with that
// index. It does not go beyond steps that are in seen already.
func (g *Graph) eachPendingBehind(step int, seen map[int]int) {
	from := []int{step}
	for len(from) > 0 {
		next := g.edges().dependents[from[len(from)-1]]
		from = from[:len(from)-1]
		for _, i := range next {
			if _, known := seen[i]; !known && g.View.State.Steps[i].Status == run.StepPending {
				seen[i] = step
				from = append(from, i)
			}
		}
	}
}

func (g *Graph) waitingBehind(stepID string) int {
	i, ok := g.edges().byID[stepID]
	if !ok {
		return 0
	}
	behind := map[int]int{}
	g.eachPendingBehind(i, behind)
	return len(behind)
}

// MayWait reports whether the wait of a step may depend on anything else than the step: on other steps or on the run.
func MayWait(s *run.Step) bool {
	return s.Status == run.StepPending || s.Status == run.StepFailed || s.Status == run.StepRunning &&
		s.Substatus == run.WaitingManual
}

// wait returns the cause why a step does not run. It returns nil when the step runs or has ended, or when the run has
// ended.
func (g *Graph) wait(s *run.Step) *model.Wait {
	h := &g.View.State.Header
	wait := func(kind model.WaitKind) *model.Wait { return &model.Wait{Kind: kind, BlockingSteps: []string{}} }
	switch {
	case h.Status.Terminal():
		return nil
	case g.View.PendingRetry[s.StepID]:
		return wait(model.WaitKindRetry)
	case s.Status == run.StepRunning && s.Substatus != run.WaitingManual:
		// Streams and lists do not know it: no event says that a try failed and is repeated.
		held, _ := g.engineWait(s)
		if held.Kind != reads.WaitRetry {
			return nil
		}
		w := wait(model.WaitKindRetry)
		w.Since, w.Until, w.Try, w.Tries = nonZero(&held.Since), nonZero(&held.Until), nonZero(&held.Try),
			nonZero(&held.Tries)
		return w
	case !MayWait(s):
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
	open := g.openDependencies(s)
	if needed := g.failedNeeds(s, open); len(needed) > 0 {
		w := wait(model.WaitKindFailedStep)
		w.BlockingSteps, w.Until = needed, h.RetryDeadline
		return w
	}
	if h.Pause != nil && len(open) == 0 {
		w := wait(model.WaitKindPaused)
		w.Since, w.Who = &h.Pause.Since, Text(h.Pause.RequestedBy)
		return w
	}
	if g.hold().Holds(s.Ord) { // a failed step keeps all steps of the run from starting (contract T217)
		w := wait(model.WaitKindFailFast)
		w.BlockingSteps, w.Until = g.failures().steps, h.RetryDeadline
		return w
	}
	if len(open) > 0 {
		w := wait(model.WaitKindDependencies)
		w.BlockingSteps = open
		return w
	}
	held, _ := g.engineWait(s)
	if held.Kind != "" && held.Kind != reads.WaitWorker && held.Kind != reads.WaitRetry {
		w := wait(model.WaitKind(held.Kind))
		w.Since, w.Until = nonZero(&held.Since), nonZero(&held.Until)
		return w
	}
	w := wait(model.WaitKindWorker)
	w.Since = nonZero(&held.Since)
	if plan.StepType(s.Type).NeedsWorker() {
		w.TaskQueue = Text(s.TaskQueue)
	}
	return w
}

// failedNeeds returns the failed steps that keep a pending step from starting: those among its dependencies, else the
// first one further up.
func (g *Graph) failedNeeds(s *run.Step, open []string) []string {
	f := g.failures()
	on, needs := f.cause[g.edges().byID[s.StepID]]
	if !needs {
		return nil
	}
	var direct []string
	for _, id := range open {
		if slices.Contains(f.steps, id) {
			direct = append(direct, id)
		}
	}
	if len(direct) > 0 {
		return direct
	}
	return []string{g.View.State.Steps[on].StepID}
}

// openDependencies returns the dependencies of a step that are neither SUCCESS nor SKIPPED.
func (g *Graph) openDependencies(s *run.Step) []string {
	var open []string
	for _, d := range s.DependsOn {
		i, known := g.edges().byID[d]
		if !known {
			continue
		}
		if on := g.View.State.Steps[i]; !on.Status.Unblocks() {
			open = append(open, d)
		}
	}
	return open
}
