package run

import (
	"fmt"
	"slices"
	"time"
)

// Fold applies the events of one log, in ascending Seq, to a state of that log. It accepts any events and is pure: s
// and evs are not changed, and the result shares unchanged steps. Fold(Fold(s, a), b) equals Fold(s, a+b) (contract
// P01).
//
// Events with Seq <= s.Seq change nothing (contract T24, P05). Holes between sequences are normal (contract T25,
// P16). An unknown type changes only Seq (contract T40, P04). Attempts and runs that have ended do not change: later
// events change only Seq (contract T10, T60, P12), except that a late StepStarted supplies the start time (contract
// T42). Steps that no RunStarted announced follow those of the plan, in order of appearance.
//
// The cost is one copy of the slice of steps plus the changes. Changes lists the differences to s. Anomalies are for
// metrics and alerts and are not part of the state.
func Fold(s State, evs []Event) (State, Changes, []Anomaly) {
	f := folding{s: s}
	if f.s.Status == "" {
		f.s.Status = Pending
	}
	f.s.Rev = ReducerRev
	f.indexed = len(evs) > indexFrom
	for i := range evs {
		if e := &evs[i]; e.Seq > f.s.Seq {
			f.apply(e)
		}
	}
	f.settleRootCause()
	return f.s, f.changes(), f.anomalies
}

// Project folds a whole log, starting with the empty state.
func Project(id Identity, evs []Event) State {
	s, _, _ := Fold(State{Header: Header{Identity: id}}, evs)
	return s
}

// folding is one call of Fold. The steps of s are shared with other states: only the steps in own may be changed, and
// the slice of steps only if copied is true.
type folding struct {
	s         State
	moved     bool          // at least one event was applied
	copied    bool          // s.Steps is a copy that only this call uses
	own       map[Ord]*Step // steps that only this call uses
	index     map[string]Ord
	indexed   bool // there are enough events for an index to pay off
	uris      map[string]bool
	failures  bool // a step became FAILED or stopped being FAILED, so RootCause may be wrong
	anomalies []Anomaly
}

func (f *folding) apply(e *Event) {
	if f.s.CreatedAt.IsZero() {
		f.s.CreatedAt = instantOf(e.PersistedAt)
	}
	f.s.Seq = e.Seq
	f.moved = true
	if f.s.Status.Terminal() {
		if e.Type.Known() && !e.Type.OfSignal() {
			f.anomaly(e, "%s after the end of the run", e.Type)
		}
		return
	}
	switch e.Type {
	case RunQueued:
		f.s.Queued = f.s.Status == Pending || f.s.Status == Approved
	case RunApproved:
		if f.s.Status == Pending {
			f.status(e, Approved)
		}
	case RunStarted:
		f.start(e)
	case RunPaused:
		f.pause(e)
	case RunResumed:
		f.resume(e)
	case RunCompensationStarted:
		f.s.Compensating = true
		f.s.RetryDeadline = nil
	case RunCompleted:
		f.end(e, Completed)
	case RunFailed:
		f.fail(e)
	case RunCancelled:
		f.cancel(e)
	case StepStartedEvent, StepAwaitingManualCompletion, StepCompletedEvent, StepFailedEvent, StepSkippedEvent:
		f.step(e)
	case StepNodesReported:
		f.nodes(e)
	}
	f.countWork(e)
}

// countWork adds to WorkMS when the last running step ends or begins to wait for a person.
func (f *folding) countWork(e *Event) {
	works := f.s.RunningSteps() > 0 && !f.s.Status.Terminal()
	switch {
	case works && f.s.WorkSince == nil:
		f.s.WorkSince = new(occurredAt(e))
	case !works && f.s.WorkSince != nil:
		f.s.WorkMS += max(0, occurredAt(e).Sub(*f.s.WorkSince).Milliseconds())
		f.s.WorkSince = nil
	}
}

func (f *folding) anomaly(e *Event, format string, args ...any) {
	f.anomalies = append(f.anomalies, Anomaly{Seq: e.Seq, Code: CodeCausalViolation, Detail: fmt.Sprintf(format, args...)})
}

func (f *folding) status(e *Event, to Status) {
	if f.s.Status != to {
		f.s.Status, f.s.StatusSeq = to, e.Seq
	}
}

// start applies the fields that RunStarted fixes. A second RunStarted changes nothing (contract T24).
func (f *folding) start(e *Event) {
	if f.s.StartedAt != nil {
		f.anomaly(e, "a second RunStarted")
		return
	}
	p, _ := PayloadOf[RunStartedPayload](e.Payload)
	at := instantOf(p.StartedAt)
	if at.IsZero() {
		at = occurredAt(e)
	}
	f.s.StartedAt = &at
	f.s.PlanRef, f.s.Engine, f.s.Policy = &p.PlanRef, &p.Engine, &p.Policy
	if p.Context != nil {
		f.s.PlanMirror = p.Context.PlanMirror
	}
	if p.TriggeredBy != "" {
		f.s.TriggeredBy = p.TriggeredBy
	}
	f.s.Queued = false
	f.announce(e, p.Steps)
	f.deriveStatus(e)
}

// deriveStatus derives the status of a started run from the pause epochs, so that RunPaused and RunResumed may arrive
// in any order (contract T53).
func (f *folding) deriveStatus(e *Event) {
	if f.s.PausedEpoch > f.s.ResumedEpoch {
		f.status(e, Paused)
		return
	}
	f.s.Pause = nil
	f.status(e, Running)
}

func (f *folding) pause(e *Event) {
	switch epoch := e.LogicalAttempt; {
	case epoch <= f.s.PausedEpoch:
		return
	case epoch <= f.s.ResumedEpoch:
		f.s.PausedEpoch = epoch
		f.anomaly(e, "RunPaused of epoch %d after its RunResumed", epoch)
	default:
		p, _ := PayloadOf[PausePayload](e.Payload)
		f.s.PausedEpoch = epoch
		f.s.RetryDeadline = nil
		f.s.Pause = &PauseInfo{SignalID: p.SignalID, RequestedBy: p.PauseRequestedBy, Reason: p.Reason, Since: occurredAt(e),
			Seq: e.Seq}
	}
	f.deriveStatus(e)
}

func (f *folding) resume(e *Event) {
	if e.LogicalAttempt <= f.s.ResumedEpoch {
		return
	}
	f.s.ResumedEpoch = e.LogicalAttempt
	f.deriveStatus(e)
	p, _ := PayloadOf[PausePayload](e.Payload)
	f.openWindow(p.RetryDeadline)
}

// openWindow applies the retry deadline that an event carries. A paused run has no retry window (contract T221).
func (f *folding) openWindow(deadline *time.Time) {
	if deadline != nil && f.s.Status != Paused {
		at := instantOf(*deadline)
		f.s.RetryDeadline = &at
	}
}

func (f *folding) fail(e *Event) {
	f.settleRootCause()
	p, _ := PayloadOf[RunFailedPayload](e.Payload)
	cause := p.RootCause
	if cause == nil {
		cause = f.s.rootCause()
	}
	f.s.Failure = &RunFailure{
		Code: p.ErrorCode, Message: p.ErrorMessage, Retryable: p.Retryable, Category: p.FailureCategory,
		RootCause: cause, Seq: e.Seq,
	}
	f.end(e, Failed)
}

func (f *folding) cancel(e *Event) {
	p, _ := PayloadOf[RunCancelledPayload](e.Payload)
	f.s.Cancellation = &Cancellation{SignalID: p.SignalID, SignalType: p.SignalType, Actor: p.Actor, Reason: p.Reason,
		Code: p.Code, At: occurredAt(e), Seq: e.Seq}
	f.end(e, Cancelled)
}

func (f *folding) end(e *Event, as Status) {
	at := occurredAt(e)
	f.s.CompletedAt = &at
	f.s.Pause, f.s.RetryDeadline = nil, nil
	f.s.Compensating, f.s.Queued = false, false
	f.status(e, as)
}

// settleRootCause determines the step that failed first among those whose latest attempt is FAILED (contract T214).
func (f *folding) settleRootCause() {
	if !f.failures {
		return
	}
	f.failures = false
	f.s.RootCause = nil
	if f.s.Counts.Failed == 0 {
		return
	}
	for _, step := range f.s.Steps {
		if step.Status != StepFailed {
			continue
		}
		last := step.latest()
		if f.s.RootCause == nil || last.EndedSeq < f.s.RootCause.Seq {
			f.s.RootCause = &StepRef{StepID: step.StepID, LogicalAttempt: last.LogicalAttempt, Seq: last.EndedSeq,
				Error: last.Error, Name: step.Name}
		}
	}
}

func (f *folding) changes() Changes {
	c := Changes{Header: f.moved}
	for ord := range f.own {
		c.Steps = append(c.Steps, ord)
	}
	slices.Sort(c.Steps)
	return c
}
