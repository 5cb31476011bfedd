package interp

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

// Seen is the place up to which the log was observed: what a driver reads from for the next Observed.
func (m *Machine) Seen() run.Seq { return m.record.seen }

// InFlight reports whether the machine waits for the end of this dispatch of a step, or of its hook.
func (m *Machine) InFlight(r engine.Return, hook bool) bool {
	o, known := m.ords[r.StepID]
	if !known {
		return false
	}
	if c := &m.compensation; hook {
		return c.flying && c.todo[0] == o && c.n == r.N
	}
	st := &m.steps[o]
	return st.stage == flying && st.la == r.LogicalAttempt && st.n == r.N
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// applyTail takes what the log says, in its order.
func (m *Machine) applyTail(t engine.Tail) {
	r := &m.record
	r.reading = false
	for i := range t.Events {
		if e := &t.Events[i]; e.Seq > r.seen {
			if e.Type != run.StepStartedEvent { // which has the time of a worker's clock
				m.latest = later(m.latest, e.At)
			}
			m.applyWindow(e)
			m.applyEvent(e)
		}
	}
	r.seen = max(r.seen, t.Seq)
	r.known = slices.DeleteFunc(r.known, func(seq run.Seq) bool { return seq <= r.seen })
	m.knowHead(t.Head.LastSeq, t.Head.Running)
	if r.seen < r.needed { // what was read is older than the receipt
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
		m.finish("") // by another hand
		return
	}
	if at := r.window; !at.IsZero() {
		r.window = time.Time{}
		m.windowOpened(at)
	}
}

// applyWindow notes the retry window that the store stamped on an event, until the log was observed to its head.
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

// forgetPlaces makes the machine observe the whole log again. What it knows of the run stays: events that it has taken
// change nothing.
func (m *Machine) forgetPlaces() {
	r := &m.record
	r.seen, r.head, r.needed, r.known, r.signalNo, r.wanted, r.reading = 0, 0, 0, nil, 0, true, false
}

// takeReceipt takes the end of an attempt on the word of the Journal. An attempt that is not in flight has its end.
func (m *Machine) takeReceipt(in Ended) {
	r := in.Receipt
	m.latest = later(m.latest, r.At)
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

// knowHead takes a head of the log, in any order.
func (m *Machine) knowHead(head run.Seq, running int) {
	if r := &m.record; head >= r.head {
		r.head, r.running = head, running
	}
}

// windowIn is the end of the retry window that the store stamped on an event, nil for none.
func windowIn(payload json.RawMessage) *time.Time {
	var p struct {
		RetryDeadline *time.Time `json:"retryDeadline"`
	}
	_ = json.Unmarshal(payload, &p) // a payload that was left out opened none
	return p.RetryDeadline
}

// applyEvent takes one event. An earlier try of this machine may have written it: an engine that loses a try knows
// nothing of it, and the log does.
func (m *Machine) applyEvent(e *engine.LogEvent) {
	if e.Type == run.RunCompensationStarted || e.Type == run.StepSkippedEvent && skippedAtTheEnd(e.Payload) {
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
	case e.Type == run.StepSkippedEvent && st.failing && e.LogicalAttempt == st.la+1: // of a FAILED step
		m.unfail(o)
		st.la++
		m.applyEnd(o, e)
	case m.isManual(o) && e.Type != run.StepSkippedEvent:
		m.applyWait(o, e)
	case e.LogicalAttempt != st.la:
	case st.stage != flying && st.stage != ready && st.stage != delayed && st.stage != waiting: // it is known, or on its way
	case e.Type == run.StepSkippedEvent:
		m.land(o)
		m.applyEnd(o, e)
	case st.missing > 0:
	case e.Type == run.StepStartedEvent:
		st.begun = true
		if st.stage == delayed {
			m.keepPlace(o)
		}
		if st.stage != flying {
			m.record.strays = append(m.record.strays, o)
		}
	case e.Type.EndsAttempt():
		m.land(o)
		m.applyEnd(o, e)
	}
}

// skippedAtTheEnd reports whether a step was skipped because the run fails: nothing changes that any more (T91).
func skippedAtTheEnd(payload json.RawMessage) bool {
	p, err := run.PayloadOf[run.StepSkippedPayload](payload)
	return err == nil && (p.ReasonCode == run.FailFast || p.ReasonCode == run.DependencyFailed)
}

// takeStrays takes attempts that began though the engine had lost their dispatches: their workers were late, or die
// with them. Each is dispatched again whatever the gate (T52), and ended where the run ends: nobody else would.
func (m *Machine) takeStrays() {
	if m.record.partial { // the end may follow
		return
	}
	strays := m.record.strays
	m.record.strays = nil
	for _, o := range strays {
		st := &m.steps[o]
		switch {
		case !st.begun || st.stage != ready && st.stage != waiting && st.stage != delayed || m.record.closing:
		case m.stop.signalID != "":
			st.asked = byStop
			m.endCancelled(o, engine.Return{})
		case st.stage != delayed:
			m.launch(o)
		}
	}
}

// applyEnd makes an end count that a worker wrote.
func (m *Machine) applyEnd(o run.Ord, e *engine.LogEvent) {
	st := &m.steps[o]
	favoured := m.favours(o)
	m.closeAttempt(o)
	switch e.Type {
	case run.StepCompletedEvent:
		st.status = run.StepSuccess
		m.succeeded(o, e.Seq)
		m.satisfied(o, favoured)
	case run.StepSkippedEvent:
		st.status = run.StepSkipped
		m.satisfied(o, favoured)
	case run.StepFailedEvent:
		st.status, st.failedSeq = run.StepFailed, e.Seq
		st.failed, _ = run.PayloadOf[run.FailurePayload](e.Payload)
		if st.failed.ErrorCode == string(run.CodeCancelledByPause) { // an earlier try of this machine wrote it
			m.interrupted(o, favoured)
			return
		}
		m.record.gate |= run.GateFailing // the log closed it with the failure
		m.failed(o)
	}
}

// closeAttempt ends the current attempt of a step.
func (m *Machine) closeAttempt(o run.Ord) {
	st := &m.steps[o]
	st.stage, st.signalID = settled, ""
	st.begun, st.spent, st.vanished = false, 0, 0
}

// isCurrent reports whether the machine has observed the log up to the highest head that it knows of. If not it asks:
// an end that it does not know of must not be missing from what it concludes.
func (m *Machine) isCurrent() bool {
	r := &m.record
	if r.seen >= r.head {
		return true
	}
	r.wanted = true
	return false
}

// readLog asks for the log where something is missing, once at a time.
func (m *Machine) readLog() {
	r := &m.record
	if (r.wanted || r.behind) && !r.reading {
		r.reading = true
		m.emit(ReadLog{})
	}
	r.wanted = false
}
