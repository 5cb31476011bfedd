package run

import "slices"

// FailureHold is the effect of failed steps on the others: while a step is FAILED and nobody has retried it, only steps
// that pass fail-fast start (contract T74, T217). The zero value means that nothing is held.
type FailureHold struct {
	Failed []Ord  // FAILED steps without a retry, in plan order
	Held   []bool // by Ord: the PENDING steps that cannot start until somebody retries or skips Failed
	Count  int    // number of held steps
}

// Holds reports whether the step cannot start because of the failures.
func (f FailureHold) Holds(o Ord) bool { return int(o) < len(f.Held) && f.Held[o] }

// FailureHold returns the steps that the failed steps of the run hold. It decides like the interpreter: a step passes
// fail-fast if only steps that a person retried or skipped blocked it. isRetried reports whether a retry of the step
// was accepted that has not started yet. A pause does not matter. The cost is linear in the steps and dependencies.
func (s State) FailureHold(isRetried func(stepID string) bool) FailureHold {
	var f FailureHold
	if s.Status != Running && s.Status != Paused || s.Compensating {
		return f
	}
	for i, step := range s.Steps {
		if step.Status == StepFailed && step.latest().ArmsFailFast() && !isRetried(step.StepID) {
			f.Failed = append(f.Failed, Ord(i))
		}
	}
	if len(f.Failed) == 0 {
		return f
	}
	h := holding{steps: s.Steps, isRetried: isRetried, known: make([]passage, len(s.Steps)),
		index: make(map[string]Ord, len(s.Steps))}
	h.since, _ = FailFastSince(s.Steps)
	for i, step := range s.Steps {
		h.index[step.StepID] = Ord(i)
	}
	f.Held = make([]bool, len(s.Steps))
	for i, step := range s.Steps {
		if step.Status == StepPending && !h.mayStart(Ord(i)) {
			f.Held[i] = true
			f.Count++
		}
	}
	return f
}

// holding decides which pending steps may start in spite of fail-fast.
type holding struct {
	steps     []*Step
	isRetried func(stepID string) bool
	index     map[string]Ord
	known     []passage
	since     Seq // position since which fail-fast is armed
}

// passage is the decision about a pending step. A step that is being decided is held, so that a cycle ends.
type passage int8

const (
	undecided passage = iota
	held
	passing
)

// mayStart reports whether a pending step may start, now or after steps that may start themselves.
func (h *holding) mayStart(o Ord) bool {
	if h.known[o] != undecided {
		return h.known[o] == passing
	}
	h.known[o] = held
	passes := false
	for _, id := range h.steps[o].DependsOn {
		on, ok := h.index[id]
		if !ok {
			continue
		}
		step := h.steps[on]
		switch last := len(step.Attempts) - 1; {
		case step.Status == StepPending:
			if !h.mayStart(on) {
				return false
			}
			passes = true
		case h.isRetried(id):
			passes = true
		case step.latest().ArmsFailFast():
			return false
		case last < 0:
		case step.PassesFailFast(last, h.since):
			passes = true
		case step.Status == StepFailed: // a pause cancelled it, and it starts again only when it passes
			return false
		}
	}
	if passes {
		h.known[o] = passing
	}
	return passes
}

// ArmsFailFast reports whether the attempt FAILED in a way that keeps other steps from starting. A pause that cancels
// an attempt does not.
func (a Attempt) ArmsFailFast() bool {
	return a.Status == StepFailed && (a.Error == nil || a.Error.Code != string(CodeCancelledByPause))
}

// IsRetriedManually reports whether attempt i is a retry that a person ordered. A step that a pause cancelled starts
// again by itself.
func (s *Step) IsRetriedManually(i int) bool { return i > 0 && s.Attempts[i-1].ArmsFailFast() }

// PassesFailFast reports whether attempt i passed fail-fast, which is armed since a position: a person retried or
// skipped the step, or the attempt started while fail-fast was armed (contract T217). An attempt that ended before
// since does not count.
func (s *Step) PassesFailFast(i int, since Seq) bool {
	a := s.Attempts[i]
	if since == 0 || (a.Status == StepSuccess || a.Status == StepSkipped) && a.EndedSeq <= since {
		return false
	}
	return a.Status == StepSkipped || s.IsRetriedManually(i) || a.StartedSeq > since
}

// FailFastSince returns the position since which fail-fast is armed without a break, 0 if it is not, and the position
// of the newest failure that arms it. It merges the periods in which an attempt was FAILED and not retried. Steps may
// be nil.
func FailFastSince(steps []*Step) (since, newest Seq) {
	type span struct{ from, to Seq }
	var spans []span
	for _, step := range steps {
		if step == nil {
			continue
		}
		for i, a := range step.Attempts {
			if !a.ArmsFailFast() {
				continue
			}
			newest = max(newest, a.EndedSeq)
			sp := span{a.EndedSeq, MaxSeq}
			if i+1 < len(step.Attempts) {
				next := step.Attempts[i+1]
				if sp.to = next.StartedSeq; sp.to == 0 {
					sp.to = next.EndedSeq
				}
			}
			spans = append(spans, sp)
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return int(min(1, max(-1, a.from-b.from))) })
	end := Seq(0)
	for _, sp := range spans {
		if sp.from > end {
			since = sp.from
		}
		end = max(end, sp.to)
	}
	if end != MaxSeq {
		since = 0
	}
	return since, newest
}
