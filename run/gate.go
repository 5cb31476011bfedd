package run

import "slices"

// Gate is the set that keeps work of a run from starting (T185, T217). It is
// kept with the head of the log and changes only together with an append.
type Gate uint8

// Members of a Gate.
const (
	GatePaused  Gate = 1 << iota // between RunPaused and RunResumed
	GateFailing                  // from the StepFailed that armed fail-fast until a retry reopens it
	GateStopped                  // a stop intent exists
	// GateOverlaid is set once an overlay was accepted, for good: an attempt begins
	// only together with the overlays, so whoever does not know of them begins none
	// (T197).
	GateOverlaid
)

// HoldsBack reports whether d must not come into the log now because the run is
// PAUSED: the begin of an attempt, of the compensation, or the end of the run other
// than a cancellation, none of which the log has (T43, T185). What it has already is
// not held back, so that a repetition is answered as the first time.
func (s State) HoldsBack(d Draft) bool {
	if s.Status != Paused {
		return false
	}
	switch d.Type {
	case RunCompleted, RunFailed:
		return true
	case RunCompensationStarted:
		return !s.Compensating
	case StepStartedEvent, StepSkippedEvent:
		step, ok := s.Step(d.StepID)
		if !ok {
			return true
		}
		_, known := step.position(d.LogicalAttempt)
		return !known
	}
	return false
}

// PausesAhead reports whether a PAUSE may be applied as it is accepted, before the
// engine hears of it (docs/decisions/0029): the run is RUNNING on an engine that takes
// that over, and no part of its end is in the log. Who asks adds what the state does not
// show: nobody has ordered a stop, and no other signal waits to be applied.
func (s State) PausesAhead() bool {
	return s.Status == Running && s.Engine != nil && s.Engine.PauseAhead && !s.endBegun()
}

// endBegun reports whether the log has a part of what ends a run that failed: its
// compensation, or a step that was skipped because of the failure (T79, T88).
func (s State) endBegun() bool {
	if s.Compensating || s.Counts.Skipped == 0 {
		return s.Compensating
	}
	return slices.ContainsFunc(s.Steps, func(step *Step) bool {
		skip := step.latest().Skip
		return skip != nil && (skip.ReasonCode == FailFast || skip.ReasonCode == DependencyFailed)
	})
}
