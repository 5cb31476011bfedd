package interp

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

// ObservedSeq returns the position up to which the machine has observed the log. The driver reads after it for the next
// Observed.
func (m *Machine) ObservedSeq() run.Seq { return m.record.seen }

// InFlight reports whether the machine waits for the end of this dispatch of a step, or of its hook.
func (m *Machine) InFlight(r engine.Return, hook bool) bool {
	o, known := m.ords[r.StepID]
	if !known {
		return false
	}
	if c := &m.compensation; hook {
		return c.inFlight && c.todo[0] == o && c.n == r.N
	}
	st := &m.steps[o]
	return st.stage == dispatched && st.attempt == r.LogicalAttempt && st.n == r.N
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// applyTail applies the events of the log that the machine has not seen, in the order of the log.
func (m *Machine) applyTail(t engine.Tail) {
	r := &m.record
	r.reading = false
	for i := range t.Events {
		if e := &t.Events[i]; e.Seq > r.seen {
			if e.Type != run.StepStartedEvent { // a StepStarted has the time of a worker's clock
				m.latest = latest(m.latest, e.At)
			}
			m.applyWindow(e)
			m.applyEvent(e)
		}
	}
	r.seen = max(r.seen, t.Seq)
	r.known = slices.DeleteFunc(r.known, func(seq run.Seq) bool { return seq <= r.seen })
	m.knowHead(t.Head.LastSeq, t.Head.Running)
	if r.seen < r.needed { // the driver read this answer before a receipt reported a failure
		r.wanted = true
	}
	if r.partial = r.seen < t.Head.LastSeq; r.partial {
		r.wanted = true
		return
	}
	r.signalNo = max(r.signalNo, t.Head.SignalNo)
	if r.seen == r.head {
		r.behind = false
	}
	if t.Head.Terminal && !r.closing {
		m.finish("") // another writer ended the run
		return
	}
	if at := r.window; !at.IsZero() {
		r.window = time.Time{}
		m.adoptWindow(at)
	}
}

// applyWindow remembers the retry window that the store stamped on an event. The window counts after the log is
// observed to its head, because a later start or pause closes it.
func (m *Machine) applyWindow(e *engine.LogEvent) {
	switch e.Type {
	case run.StepStartedEvent, run.RunPaused:
		m.record.window = time.Time{}
	case run.StepCompletedEvent, run.StepFailedEvent:
		if at := windowIn(e.Payload); at != nil {
			m.record.window = *at
		}
	}
}

// forgetPositions makes the machine observe the whole log again. It keeps its state of the run, because events that it
// has applied before have no effect.
func (m *Machine) forgetPositions() {
	r := &m.record
	r.seen, r.head, r.needed, r.known, r.signalNo, r.wanted, r.reading = 0, 0, 0, nil, 0, true, false
}

// takeReceipt applies a completion by the receipt of the Journal, without reading the log. After any other end, or when
// fail-fast has closed the gate, it requests the log. It has no effect on an attempt that has ended.
func (m *Machine) takeReceipt(in Ended) {
	r := in.Receipt
	m.latest = latest(m.latest, r.At)
	if r.Type != run.StepCompletedEvent || r.Gate&run.GateFailing != 0 {
		m.record.wanted, m.record.needed = true, max(m.record.needed, r.Seq)
	}
	m.knowHead(r.Head, r.Running)
	if r.Type != run.StepCompletedEvent {
		return
	}
	m.applyEvent(&engine.LogEvent{Seq: r.Seq, Type: r.Type, StepID: in.StepID, LogicalAttempt: in.LogicalAttempt})
	if r.StartedSeq > 0 {
		m.record.know(r.StartedSeq)
	}
	m.record.know(r.Seq)
}

// knowHead remembers the highest head of the log. Heads may arrive in any order.
func (m *Machine) knowHead(head run.Seq, running int) {
	if r := &m.record; head >= r.head {
		r.head, r.running = head, running
	}
}

// windowIn returns the end of the retry window that the store stamped on an event, or nil.
func windowIn(payload json.RawMessage) *time.Time {
	var p struct {
		RetryDeadline *time.Time `json:"retryDeadline"`
	}
	_ = json.Unmarshal(payload, &p) // after an error p is empty: such an event opens no window
	return p.RetryDeadline
}

// applyEvent applies one event. A lost try of the workflow task may have written it: when an engine loses a try, only
// the log has its events.
func (m *Machine) applyEvent(e *engine.LogEvent) {
	if e.Type == run.RunCompensationStarted || e.Type == run.StepSkippedEvent && isFinalSkip(e.Payload) {
		m.failure.final = true
	}
	if e.Type == run.RunResumed {
		m.pause.resumedEpoch = max(m.pause.resumedEpoch, e.LogicalAttempt)
	}
	o, known := m.ords[e.StepID]
	if !known {
		return
	}
	st := &m.steps[o]
	switch {
	case e.Type == run.StepCompensated, e.Type == run.StepCompensationFailed:
		m.applyHookEnd(o, e)
	case e.Type == run.StepSkippedEvent && st.failing && e.LogicalAttempt == st.attempt+1: // a FAILED step was skipped
		m.unfail(o)
		st.attempt++
		m.applyEnd(o, e)
	case m.isManual(o) && e.Type != run.StepSkippedEvent:
		m.applyWait(o, e)
	case e.LogicalAttempt != st.attempt:
	case st.stage != dispatched && st.stage != ready && st.stage != delayed && st.stage != waiting:
		// The machine knows the end, or is writing one.
	case e.Type == run.StepSkippedEvent:
		m.removeInFlight(o)
		m.applyEnd(o, e)
	case st.missing > 0:
	case e.Type == run.StepStartedEvent:
		st.begun = true
		if st.stage == delayed {
			m.keepSlot(o)
		}
		if st.stage != dispatched {
			m.record.orphans = append(m.record.orphans, o)
		}
	case e.Type.EndsAttempt():
		m.removeInFlight(o)
		m.applyEnd(o, e)
	}
}

// isFinalSkip reports whether a step was skipped because the run fails. After such a skip the failure of the run is
// final (contract T91).
func isFinalSkip(payload json.RawMessage) bool {
	p, err := run.PayloadOf[run.StepSkippedPayload](payload)
	return err == nil && (p.ReasonCode == run.FailFast || p.ReasonCode == run.DependencyFailed)
}

// handleOrphans handles attempts that started although the engine had lost their dispatches. Their workers may be dead
// and never end them. Each attempt is dispatched again regardless of the gate (contract T52). If the run is being
// stopped, the machine ends the attempt instead.
func (m *Machine) handleOrphans() {
	if m.record.partial { // the rest of the log may hold the end
		return
	}
	orphans := m.record.orphans
	m.record.orphans = nil
	for _, o := range orphans {
		st := &m.steps[o]
		switch {
		case !st.begun || st.stage != ready && st.stage != waiting && st.stage != delayed || m.record.closing:
		case m.stop.signalID != "":
			st.stopRequested = stoppedByStop
			m.endCancelled(o, engine.Return{})
		case st.stage != delayed:
			m.launch(o)
		}
	}
}

// applyEnd applies the end of an attempt that the log holds.
func (m *Machine) applyEnd(o run.Ord, e *engine.LogEvent) {
	st := &m.steps[o]
	prioritised := m.isPrioritised(o)
	m.closeAttempt(o)
	switch e.Type {
	case run.StepCompletedEvent:
		st.status = run.StepSuccess
		m.recordSuccess(o, e.Seq)
		m.satisfy(o, prioritised)
	case run.StepSkippedEvent:
		st.status = run.StepSkipped
		m.satisfy(o, prioritised)
	case run.StepFailedEvent:
		st.status, st.failedSeq = run.StepFailed, e.Seq
		st.failed, _ = run.PayloadOf[run.FailurePayload](e.Payload)
		if st.failed.ErrorCode == string(run.CodeCancelledByPause) { // a lost try of the workflow task wrote it
			m.restartAfterPause(o, prioritised)
			return
		}
		m.record.gate |= run.GateFailing // the store closes the gate together with a failure
		m.recordFailure(o)
	}
}

// closeAttempt settles the current attempt of a step and resets its counters.
func (m *Machine) closeAttempt(o run.Ord) {
	st := &m.steps[o]
	st.stage, st.signalID, st.retried = settled, "", false
	st.begun, st.spent, st.vanished = false, 0, 0
}

// isCurrent reports whether the machine has observed the log up to the highest head that it knows. If not, it requests
// the log, because a conclusion must not miss an end.
func (m *Machine) isCurrent() bool {
	r := &m.record
	if r.seen >= r.head {
		return true
	}
	r.wanted = true
	return false
}

// readLog emits ReadLog when events are missing and no read is outstanding.
func (m *Machine) readLog() {
	r := &m.record
	if (r.wanted || r.behind) && !r.reading {
		r.reading = true
		m.emit(ReadLog{})
	}
	r.wanted = false
}
