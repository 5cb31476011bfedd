package interp

import "github.com/dvt-engine/dvt/run"

// stopCause says why the machine asked an execution to stop. It decides how the attempt ends, see endCancelled.
type stopCause uint8

const (
	notStopped stopCause = iota
	stoppedByFailure
	stoppedByPause
	stoppedByStop
)

// end is the end of an attempt that is being written to the log.
type end struct {
	engineAttempt int
	failure       run.FailurePayload // of an attempt that failed
	armsFailFast  bool               // the attempt failed, and no pause cancelled it
	interrupted   bool               // a pause cancelled it, so that the step starts again by itself (contract T51)
	prioritised   bool               // the attempt passed fail-fast
	rewritten     bool               // the store refused its content once; refusedResult replaced it
}

// setFailure makes the last event of e a StepFailed that arms fail-fast.
func (m *Machine) setFailure(e *entry, f run.FailurePayload) {
	payload, _ := encode(f)
	e.end.failure, e.end.armsFailFast = f, true
	before := len(e.drafts)
	if before > 0 && e.drafts[before-1].Type.EndsAttempt() {
		before--
	}
	for i := range e.outcomes { // the signal that ordered another end is not applied
		if o := &e.outcomes[i]; o.AppliedBy == before {
			o.Application, o.Reason, o.AppliedBy = run.SignalNotApply, f.ErrorCode, -1
		}
	}
	e.drafts = append(e.drafts[:before], m.stepEvent(e.ord, run.StepFailedEvent, e.end.engineAttempt, m.now, payload))
}

func refusedResult() run.FailurePayload {
	return run.FailurePayload{
		ErrorCode: string(run.CodeEventRejected), ErrorMessage: "The log rejected the result of the step.",
		FailureCategory: run.CategoryPlatform,
	}
}

// replaceRefused replaces a step's end by a StepFailed, because the store refused its content (contract T190). It
// returns false if the entry is not the end of a step, or if it was replaced before.
func (m *Machine) replaceRefused(e *entry) bool {
	if e.kind != stepEnds || e.end.rewritten {
		return false
	}
	if !e.end.armsFailFast {
		m.failure.arming++
	}
	e.end.rewritten, e.end.interrupted = true, false
	e.drafts[0].EmittedAt = m.now
	m.setFailure(e, refusedResult())
	return true
}

// applyRecordedStep applies the end of an attempt that the machine wrote. If the log already had another end, the other
// end counts (contract T191).
func (m *Machine) applyRecordedStep(e *entry, last RecordedEvent) {
	st := &m.steps[e.ord]
	won := e.drafts[len(e.drafts)-1].Type
	prioritised := e.kind == skips
	if e.kind == stepEnds {
		prioritised = e.end.prioritised
		if e.end.armsFailFast {
			m.failure.arming--
		}
	}
	m.closeAttempt(e.ord)
	if last.Won.EndsAttempt() {
		won = last.Won
	}
	switch won {
	case run.StepCompletedEvent:
		st.status = run.StepSuccess
		m.recordSuccess(e.ord, last.Seq)
		m.satisfy(e.ord, prioritised)
	case run.StepSkippedEvent:
		st.status = run.StepSkipped
		m.satisfy(e.ord, prioritised)
	case run.StepFailedEvent:
		st.status, st.failedSeq = run.StepFailed, last.Seq
		switch {
		case last.Failure != nil:
			st.failed = *last.Failure
		case e.kind == stepEnds:
			st.failed = e.end.failure
		}
		if e.kind == skips || st.failed.ErrorCode != string(run.CodeCancelledByPause) {
			m.recordFailure(e.ord)
			return
		}
		m.restartAfterPause(e.ord, prioritised)
	}
}
