package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Substatus derives the refinement of the status that people see (T50):
// DRAINING exactly while PAUSED with non-manual steps RUNNING (T47), QUEUED
// while it waits to start; of a RUNNING run COMPENSATING, AWAITING_OPERATOR
// while the retry window is open, WAITING_MANUAL when all that runs waits for
// people. Otherwise it is empty.
func (h Header) Substatus() Substatus {
	switch {
	case h.Status == Paused && h.RunningSteps() > 0:
		return Draining
	case (h.Status == Pending || h.Status == Approved) && h.Queued:
		return Queued
	case h.Status != Running:
		return ""
	case h.Compensating:
		return Compensating
	case h.RetryDeadline != nil:
		return AwaitingOperator
	case h.Counts.Manual > 0 && h.RunningSteps() == 0:
		return WaitingManual
	}
	return ""
}

// Message says in one sentence what a draining run waits for (T50); otherwise
// it is empty.
func (h Header) Message() string {
	if h.Substatus() != Draining {
		return ""
	}
	return fmt.Sprintf("Workflow paused. Waiting for %d in-flight tasks to complete.", h.RunningSteps())
}

// RunningSteps counts the steps RUNNING that do not wait for a person: what
// draining, quiescence and the retry window wait for (T47, T185).
func (h Header) RunningSteps() int { return h.Counts.Running - h.Counts.Manual }

// FailedSteps counts the steps whose latest attempt is FAILED (T149).
func (h Header) FailedSteps() int { return h.Counts.Failed }

// Step returns the step with this id. The result is shared: do not change it.
func (s State) Step(stepID string) (*Step, bool) {
	if ord, ok := search(s.Steps, stepID); ok {
		return s.Steps[ord], true
	}
	return nil, false
}

// search finds a step in O(log n) where the canonical order is that of the
// ids, which it mostly is (T70), and else in O(n).
func search(steps []*Step, stepID string) (Ord, bool) {
	i, ok := slices.BinarySearchFunc(steps, stepID, func(s *Step, id string) int { return strings.Compare(s.StepID, id) })
	if !ok {
		i = slices.IndexFunc(steps, func(s *Step) bool { return s.StepID == stepID })
	}
	return Ord(i), i >= 0
}

// indexFrom is the number of events from which a fold pays for an index.
const indexFrom = 8

// find is search with an index where many look-ups are to come.
func (f *folding) find(stepID string) (Ord, bool) {
	if !f.busy {
		return search(f.s.Steps, stepID)
	}
	if f.index == nil {
		f.index = make(map[string]Ord, len(f.s.Steps))
		for _, step := range f.s.Steps {
			f.index[step.StepID] = step.Ord
		}
	}
	ord, ok := f.index[stepID]
	return ord, ok
}

// position is where the attempt la stands or belongs.
func (s *Step) position(la int) (int, bool) {
	return slices.BinarySearchFunc(
		s.Attempts, la, func(a Attempt, la int) int { return cmp.Compare(a.LogicalAttempt, la) })
}

func (s *Step) attempt(la int) (Attempt, bool) {
	if i, ok := s.position(la); ok {
		return s.Attempts[i], true
	}
	return Attempt{}, false
}

// latest is the attempt that the step mirrors; the zero Attempt before the first.
func (s *Step) latest() Attempt {
	if len(s.Attempts) == 0 {
		return Attempt{}
	}
	return s.Attempts[len(s.Attempts)-1]
}
