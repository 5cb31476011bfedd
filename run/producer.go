package run

import (
	"maps"
	"slices"
)

// allowed lists the events that each producer may append (contract T183, T223).
var allowed = map[Producer][]EventType{
	ByEngine: {
		RunStarted, RunPaused, RunResumed, RunCompleted, RunFailed, RunCancelled,
		StepStartedEvent, StepCompletedEvent, StepFailedEvent, StepSkippedEvent,
		StepAwaitingManualCompletion, StepCompensated, StepCompensationFailed, RunCompensationStarted,
		StepNodesReported,
	},
	ByPlanner:   {RunApproved},
	ByAdmission: {RunQueued, RunFailed},
	ByAuthz:     {SignalAccepted, SignalRejected},
	ByControl:   {RunPaused, RunCancelled, RunFailed, StepFailedEvent},
}

// May reports whether p may append events of type t (contract T183, T223). An unknown producer may append nothing.
func (p Producer) May(t EventType) bool { return slices.Contains(allowed[p], t) }

// Known reports whether t is one of the types that may be appended (contract T171, O7). Readers must tolerate unknown
// types, because a newer version may have written them (contract T40).
func (t EventType) Known() bool { _, ok := payloads[t]; return ok }

// EventTypes returns the known types in alphabetical order.
func EventTypes() []EventType { return slices.Sorted(maps.Keys(payloads)) }

// OfStep reports whether the subject of a known type is a step.
func (t EventType) OfStep() bool {
	switch t {
	case StepStartedEvent, StepCompletedEvent, StepFailedEvent, StepSkippedEvent,
		StepAwaitingManualCompletion, StepCompensated, StepCompensationFailed, StepNodesReported:
		return true
	}
	return false
}

// OfSignal reports whether the subject of t is a signal (contract T07).
func (t EventType) OfSignal() bool { return t == SignalAccepted || t == SignalRejected }

// EndsRun reports whether t is one of the terminal run events. A log has at most one of them (contract T10).
func (t EventType) EndsRun() bool {
	return t == RunCompleted || t == RunFailed || t == RunCancelled
}

// EndsAttempt reports whether t is one of the terminal step events. A logical attempt has at most one of them (contract
// T10).
func (t EventType) EndsAttempt() bool {
	return t == StepCompletedEvent || t == StepFailedEvent || t == StepSkippedEvent
}

// EndsHook reports whether t ends the compensation of a step. The compensation of an attempt has at most one end.
func (t EventType) EndsHook() bool { return t == StepCompensated || t == StepCompensationFailed }
