package interp

import "github.com/dvt-engine/dvt/run"

// cause is why an execution was asked to stop.
type cause uint8

const (
	nobody cause = iota
	byFailure
	byPause
	byStop
)

// end is the end of an attempt on its way into the log.
type end struct {
	engineAttempt int
	failure       run.FailurePayload // of a failed one
	arms          bool               // it arms fail-fast
	interrupted   bool               // by a pause: it starts again by itself (T51)
	favoured      bool               // it passed fail-fast
	amended       bool               // the store refused its content before
}

// fails makes the last event of e a StepFailed that arms fail-fast.
func (m *Machine) fails(e *entry, f run.FailurePayload) {
	payload, _ := encode(f)
	e.end.failure, e.end.arms = f, true
	before := len(e.drafts)
	if before > 0 && e.drafts[before-1].Type.EndsAttempt() {
		before--
	}
	for i := range e.outcomes { // of a signal that was to end the attempt in another way
		if o := &e.outcomes[i]; o.AppliedBy == before {
			o.Application, o.Reason, o.AppliedBy = run.SignalNotApply, f.ErrorCode, -1
		}
	}
	e.drafts = append(e.drafts[:before], m.stepEvent(e.ord, run.StepFailedEvent, e.end.engineAttempt, m.now, payload))
}

func refusedResult() run.FailurePayload {
	return run.FailurePayload{
		ErrorCode: string(run.CodeEventRejected), ErrorMessage: "The log does not take what the step returned.",
		FailureCategory: run.CategoryPlatform,
	}
}

// rejected replaces an end of a step, or of its hook, whose content the store refused. It reports
// whether there is another way to say it.
func (m *Machine) rejected(e *entry) bool {
	if e.kind != stepEnds || e.end.amended {
		return false
	}
	if !e.end.arms {
		m.failure.arming++
	}
	e.end.amended, e.end.interrupted = true, false
	e.drafts[0].EmittedAt = m.now
	m.fails(e, refusedResult())
	return true
}

// stepRecorded makes an end count that the machine wrote, with the outcome that won (T191).
func (m *Machine) stepRecorded(e *entry, last RecordedEvent) {
	st := &m.steps[e.ord]
	won := e.drafts[len(e.drafts)-1].Type
	favoured := e.kind == skips
	if e.kind == stepEnds {
		favoured = e.end.favoured
		if e.end.arms {
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
		m.succeeded(e.ord, last.Seq)
		m.satisfied(e.ord, favoured)
	case run.StepSkippedEvent:
		st.status = run.StepSkipped
		m.satisfied(e.ord, favoured)
	case run.StepFailedEvent:
		st.status, st.failedSeq = run.StepFailed, last.Seq
		switch {
		case last.Failure != nil:
			st.failed = *last.Failure
		case e.kind == stepEnds:
			st.failed = e.end.failure
		}
		if e.kind == skips || st.failed.ErrorCode != string(run.CodeCancelledByPause) {
			m.failed(e.ord)
			return
		}
		m.interrupted(e.ord, favoured)
	}
}
