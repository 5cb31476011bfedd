package run

import "slices"

// Unblocks reports whether a step with this status lets the steps start that depend on it (contract T76).
func (s StepStatus) Unblocks() bool { return s == StepSuccess || s == StepSkipped }

// ReadySteps returns the steps that have not started although nothing in the log holds them, in plan order: PENDING
// ones, and those with a retry that was accepted and has not started yet (isRetried). Their dependencies are SUCCESS or
// SKIPPED, and no failed step holds them; none is ready while the run compensates. A pause does not matter. The cost is
// linear in the steps and dependencies.
func (s State) ReadySteps(isRetried func(stepID string) bool) (ready []*Step) {
	if s.Compensating {
		return nil
	}
	unblocks := make(map[string]bool, len(s.Steps))
	for _, step := range s.Steps {
		unblocks[step.StepID] = step.Status.Unblocks()
	}
	hold := s.FailureHold(isRetried)
	for _, step := range s.Steps {
		blocked := slices.ContainsFunc(step.DependsOn, func(id string) bool { return !unblocks[id] })
		if !blocked && !hold.Holds(step.Ord) && (step.Status == StepPending || isRetried(step.StepID)) {
			ready = append(ready, step)
		}
	}
	return ready
}
