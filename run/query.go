package run

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Substatus derives the refinement of the status that people see (contract T50), or "":
//   - DRAINING: the run is PAUSED and steps that do not wait for a person are RUNNING (contract T47).
//   - QUEUED: the run is in the queue and has not started.
//   - COMPENSATING: the run is RUNNING and its compensation has started.
//   - AWAITING_OPERATOR: the run is RUNNING and its retry window is open.
//   - WAITING_MANUAL: the run is RUNNING and every RUNNING step waits for a person.
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

// AwaitingUntil returns when the retry window of a run that is AWAITING_OPERATOR ends; nil for every other run.
func (h Header) AwaitingUntil() *time.Time {
	if h.Substatus() != AwaitingOperator {
		return nil
	}
	return h.RetryDeadline
}

// Duration returns the time from the start to the end, pauses included; nil before both are known.
func (h Header) Duration() *time.Duration {
	if h.StartedAt == nil || h.CompletedAt == nil {
		return nil
	}
	return new(h.CompletedAt.Sub(*h.StartedAt))
}

// Lateness is where a run stands to its deadline.
type Lateness string

// The values of Lateness.
const (
	Due    Lateness = "DUE"    // it runs, and its deadline is to come
	Late   Lateness = "LATE"   // it runs, and its deadline has passed
	Met    Lateness = "MET"    // it completed in time
	Missed Lateness = "MISSED" // it ended after its deadline, or did not complete
)

// DueAt returns when the run should have ended; nil before its start, and for a plan without a deadline.
func (h Header) DueAt() *time.Time {
	if h.Policy == nil {
		return nil
	}
	return h.Policy.DueAt
}

// Lateness returns where the run stands to its deadline at a time; "" without one.
func (h Header) Lateness(now time.Time) Lateness {
	due := h.DueAt()
	switch {
	case due == nil:
		return ""
	case h.Status.Terminal() && h.Status == Completed && h.CompletedAt != nil && !h.CompletedAt.After(*due):
		return Met
	case h.Status.Terminal():
		return Missed
	case now.After(*due):
		return Late
	}
	return Due
}

// revOfWork is the first revision of Fold that counts WorkMS.
const revOfWork = 5

// Work returns how long at least one step ran that did not wait for a person: the duration without pauses, failed steps
// that wait for a decision, and manual steps. It returns nil before the run ended, and Duration for a run that an older
// program folded.
func (h Header) Work() *time.Duration {
	d := h.Duration()
	if d == nil || h.Rev < revOfWork {
		return d
	}
	return new(time.Duration(h.WorkMS) * time.Millisecond)
}

// Message returns the sentence that people see about a draining run: how many tasks it waits for (contract T50). For
// other runs it is "".
func (h Header) Message() string {
	if h.Substatus() != Draining {
		return ""
	}
	return fmt.Sprintf("Workflow paused. Waiting for %d in-flight tasks to complete.", h.RunningSteps())
}

// RunningSteps counts the RUNNING steps that do not wait for a person. A run is drained when this number is 0, and only
// then its retry window opens (contract T47, T185).
func (h Header) RunningSteps() int { return h.Counts.Running - h.Counts.Manual }

// FailedSteps counts the steps whose latest attempt is FAILED (contract T149).
func (h Header) FailedSteps() int { return h.Counts.Failed }

// Step returns the step with this id. The result is shared: do not modify it.
func (s State) Step(stepID string) (*Step, bool) {
	if ord, ok := search(s.Steps, stepID); ok {
		return s.Steps[ord], true
	}
	return nil, false
}

// search finds a step in O(log n) if the steps are sorted by id, which is the usual canonical order (contract T70),
// else in O(n).
func search(steps []*Step, stepID string) (Ord, bool) {
	i, ok := slices.BinarySearchFunc(steps, stepID, func(s *Step, id string) int { return strings.Compare(s.StepID, id) })
	if !ok {
		i = slices.IndexFunc(steps, func(s *Step) bool { return s.StepID == stepID })
	}
	return Ord(i), i >= 0
}

// indexFrom is the number of events from which an index makes a fold faster.
const indexFrom = 8

// find is search with an index for many lookups.
func (f *folding) find(stepID string) (Ord, bool) {
	if !f.indexed {
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

// position returns the index of a logical attempt in Attempts, or the index at which it must be inserted.
func (s *Step) position(logicalAttempt int) (int, bool) {
	return slices.BinarySearchFunc(
		s.Attempts, logicalAttempt, func(a Attempt, n int) int { return cmp.Compare(a.LogicalAttempt, n) })
}

func (s *Step) attempt(logicalAttempt int) (Attempt, bool) {
	if i, ok := s.position(logicalAttempt); ok {
		return s.Attempts[i], true
	}
	return Attempt{}, false
}

// latest returns the highest logical attempt, or the zero Attempt before the first.
func (s *Step) latest() Attempt {
	if len(s.Attempts) == 0 {
		return Attempt{}
	}
	return s.Attempts[len(s.Attempts)-1]
}
