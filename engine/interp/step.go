package interp

import (
	"encoding/json"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// cause is why an execution was asked to stop.
type cause uint8

const (
	nobody cause = iota
	byFailure
	byPause
	byStop
)

// end is the end of an execution on its way into the log.
type end struct {
	of          engine.StepEnd
	failure     run.FailurePayload // of a failed one
	arms        bool               // it arms fail-fast
	interrupted bool               // by a pause: it starts again by itself (T51)
	favoured    bool               // it passed fail-fast
	amended     bool               // the store refused its result before
	waited      bool               // for a person: its begin is in the log
	doubtful    bool               // only the log knows whether the attempt began
}

// stepEnded takes the end of an execution in flight; any other is stale.
func (m *Machine) stepEnded(got engine.StepEnd) {
	o, known := m.ords[got.StepID]
	if !known {
		return
	}
	st := &m.steps[o]
	if st.stage != flying || got.LogicalAttempt != st.la || got.N != st.n {
		return
	}
	m.land(o)
	switch {
	case m.record.closing: // only what never began is left, and the end is being written
		st.stage = waiting
	case got.Kind == engine.EndRunTerminal:
		m.finish("")
	case got.Kind == engine.EndParked:
		m.parked(o)
	case got.Kind == engine.EndThrottled:
		m.throttled(o, got.RetryAfter)
	default:
		m.enqueueEnd(o, got)
	}
}

// parked puts back a step that met a closed gate. Where the machine knows of no
// gate that was closed meanwhile, somebody has ordered a stop that it has not
// heard of: it asks before it tries again.
func (m *Machine) parked(o run.Ord) {
	if m.shut(o) || m.steps[o].openings != m.schedule.openings {
		m.makeReady(o)
		return
	}
	m.steps[o].stage = waiting
	m.signals.puzzled = append(m.signals.puzzled, o)
	m.signals.lookUp = true
}

// shut reports whether the gate is closed to the step, as far as the machine knows.
func (m *Machine) shut(o run.Ord) bool {
	return m.pause.on || m.pause.unheard || m.Finalizing() || m.failFast() && !m.favours(o)
}

// enqueueEnd writes the batch of T112: StepStarted, which is mostly in the log
// already, and the terminal. An execution that was stopped before it could say
// that it began must not begin now: its StepStarted is left out, and the terminal
// stands only if there is one (T185).
func (m *Machine) enqueueEnd(o run.Ord, got engine.StepEnd) {
	st := &m.steps[o]
	st.stage = ended
	e := entry{kind: stepEnds, ord: o, end: &end{of: got, favoured: m.favours(o)}}
	e.end.doubtful = !began(got) && (got.Kind == engine.EndCancelled || m.shut(o))
	if !e.end.doubtful {
		at := got.StartedAt
		if at.IsZero() {
			at = m.now
		}
		payload, _ := encode(run.StepStartedPayload{SignalID: st.signalID})
		e.drafts = append(e.drafts, m.stepEvent(o, run.StepStartedEvent, got.EngineAttempt, at, payload))
		if !began(got) && st.signalID != "" {
			e.outcomes = append(e.outcomes, store.SignalOutcome{SignalID: st.signalID, Application: run.SignalApplied, AppliedBy: 0})
		}
	}
	switch completed, ok := result(got); {
	case ok:
		e.drafts = append(e.drafts, m.stepEvent(o, run.StepCompletedEvent, got.EngineAttempt, m.now, completed))
	case got.Kind == engine.EndCompleted:
		m.fails(&e, refusedResult())
	default:
		m.fails(&e, m.failureOf(st, got))
		e.end.interrupted = got.Kind == engine.EndCancelled && st.asked == byPause
		e.end.arms = !e.end.interrupted
	}
	if e.end.arms {
		m.failure.arming++
	}
	m.enqueue(e)
}

// doubt leaves the StepStarted out of an end whose gate was closed since it was
// queued; closing says that this batch closes it.
func (m *Machine) doubt(e *entry, closing bool) {
	if e.kind != stepEnds || e.end.doubtful || e.end.waited || began(e.end.of) {
		return
	}
	failing := closing || m.failure.count > 0 || m.record.gate&run.GateFailing != 0
	if m.pause.on || m.pause.unheard || m.Finalizing() || failing && !e.end.favoured {
		e.doubt()
	}
}

// doubt leaves out the StepStarted: see enqueueEnd.
func (e *entry) doubt() {
	e.end.doubtful = true
	e.drafts, e.outcomes = e.drafts[1:], nil
}

// result is the payload of a completed step, if it is JSON.
func result(got engine.StepEnd) (json.RawMessage, bool) {
	if got.Kind != engine.EndCompleted {
		return nil, false
	}
	var p run.StepCompletedPayload
	if got.Completed != nil {
		p = *got.Completed
	}
	p.RetryDeadline = nil
	payload, err := encode(p)
	return payload, err == nil
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
	e.drafts = append(e.drafts[:before], m.stepEvent(e.ord, run.StepFailedEvent, e.end.of.EngineAttempt, m.now, payload))
}

// failureOf is why the execution failed. What it was asked to stop for names a
// cancelled one (T51, T79).
func (m *Machine) failureOf(st *step, got engine.StepEnd) run.FailurePayload {
	f := run.FailurePayload{ErrorCode: string(run.CodeInternal), Retryable: true, FailureCategory: run.CategoryPlatform}
	if got.Failed != nil {
		f = *got.Failed
	}
	f.RetryDeadline = nil
	if f.ErrorCode == "" {
		f.ErrorCode = string(run.CodeInternal)
	}
	if got.Kind != engine.EndCancelled {
		return f
	}
	f.ErrorCode, f.Retryable, f.FailureCategory = string(run.CodeCancelled), true, run.CategorySystem
	switch st.asked {
	case byPause:
		f.ErrorCode = string(run.CodeCancelledByPause)
	case byStop:
		f.Retryable, f.FailureCategory = false, run.CategoryUser
	}
	return f
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
	if e.kind == hooks {
		return e.shortened()
	}
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

// stepRecorded makes a terminal count, with the outcome that won (T191).
func (m *Machine) stepRecorded(e *entry, last RecordedEvent) {
	st := &m.steps[e.ord]
	st.stage = settled
	won := e.drafts[len(e.drafts)-1].Type
	favoured := e.kind == skips
	if e.kind == stepEnds {
		favoured = e.end.favoured
		if e.end.arms {
			m.failure.arming--
		}
	}
	if last.NotStarted {
		m.makeReady(e.ord)
		return
	}
	st.signalID = ""
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
		case last.Won != "" && last.Failure != nil:
			st.failed = *last.Failure
		case e.kind == stepEnds:
			st.failed = e.end.failure
		}
		if last.Won != "" || e.kind == skips || !e.end.interrupted {
			m.failed(e.ord)
			return
		}
		if favoured {
			st.era = m.failure.era
		}
		m.interrupted(e.ord)
	}
}
