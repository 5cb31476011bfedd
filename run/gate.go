package run

import (
	"slices"
	"strings"
)

// Gate is the set of reasons that keep work of a run from starting (contract T185, T217). It is stored with the head
// of the log and changes only with an append.
type Gate uint8

// Bits of a Gate.
const (
	GatePaused  Gate = 1 << iota // between RunPaused and RunResumed
	GateFailing                  // from the StepFailed that triggered fail-fast until a retry reopens the gate
	GateStopped                  // a stop of the run was ordered
	// GateOverlaid is set permanently once an overlay was accepted. An attempt starts only with the overlays, so that a
	// component that does not know them cannot start one (contract T197).
	GateOverlaid
)

// String lists the set bits by name, such as "paused, failing". It returns "open" if none is set.
func (g Gate) String() string {
	var set []string
	for bit, name := range []string{"paused", "failing", "stopped", "overlaid"} {
		if g&(1<<bit) != 0 {
			set = append(set, name)
		}
	}
	if len(set) == 0 {
		return "open"
	}
	return strings.Join(set, ", ")
}

// HoldsBack reports whether the log must not take d now because the run is PAUSED: d starts an attempt or the
// compensation, or it ends the run other than by cancellation (contract T43, T185). Events that are in the log are
// not held back, so that repetitions get the same answer.
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

// PausesAhead reports whether a PAUSE may be applied when it is accepted, before the engine receives it
// (docs/decisions/0029): the run is RUNNING on an engine that adopts such pauses, and no part of its end is in the
// log. The caller must check in addition that nobody has ordered a stop and that no other signal is pending.
func (s State) PausesAhead() bool {
	return s.Status == Running && s.Engine != nil && s.Engine.PauseAhead && !s.hasPartOfEnd()
}

// hasPartOfEnd reports whether the log has a part of the end of a failed run: its compensation, or a step that was
// skipped because of the failure (contract T79, T88).
func (s State) hasPartOfEnd() bool {
	if s.Compensating || s.Counts.Skipped == 0 {
		return s.Compensating
	}
	return slices.ContainsFunc(s.Steps, func(step *Step) bool {
		skip := step.latest().Skip
		return skip != nil && (skip.ReasonCode == FailFast || skip.ReasonCode == DependencyFailed)
	})
}
