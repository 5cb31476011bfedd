package interp

import (
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// pause is the latch that keeps everything from starting, from PAUSE until
// RunResumed is recorded (T48).
type pause struct {
	on       bool
	recorded bool // RunPaused is: from here on, what runs can only end
	epoch    int  // of the newest RunPaused (T06)

	resumeID string // the RESUME that waits for the run to drain (T46)
	drainAt  time.Time
	overdue  bool // it does not wait any longer
	resuming bool // RunResumed is queued or sent

	latched     []engine.Signal // RETRY_STEP and SKIP_STEP of a paused run (T59, T217)
	interrupted []run.Ord       // steps that the pause cancelled (T51)
}

func (m *Machine) pauseRun(signalID string) {
	p := &m.pause
	p.on, p.recorded = true, false
	p.epoch++
	m.closeWindow() // T221
	m.enqueue(entry{
		kind: pauses, set: run.GatePaused,
		drafts:   m.runEvent(run.RunPaused, p.epoch, run.PausePayload{SignalID: signalID}),
		outcomes: []store.SignalOutcome{{SignalID: signalID, Application: run.SignalApplied, AppliedBy: 0}},
	})
	for _, o := range m.schedule.flying {
		s, st := &m.sk.Steps[o], &m.steps[o]
		if s.AllowCancelOnPause && s.Cancellable && st.asked == nobody {
			st.asked = byPause
			m.failure.toStop = append(m.failure.toStop, o)
		}
	}
}

// resumeRun notes a RESUME; it is applied when nothing runs any more (T46).
func (m *Machine) resumeRun(signalID string) {
	p := &m.pause
	p.resumeID, p.overdue = signalID, false
	m.resumeWhenDrained()
	if p.resumeID == "" {
		return
	}
	p.drainAt = m.now.Add(time.Duration(m.who.Policy.DrainTimeoutMS) * time.Millisecond)
	m.setTimer(TimerDrain, p.drainAt)
}

// resumeWhenDrained appends RunResumed. Latched retries come with it, before
// fail-fast is looked at again (T59).
func (m *Machine) resumeWhenDrained() {
	p := &m.pause
	if p.resumeID == "" || !p.recorded || m.record.sent != nil || m.Finalizing() || m.record.running > 0 && !p.overdue {
		return
	}
	m.enqueue(entry{
		kind: resumes, clear: run.GatePaused,
		drafts:   m.runEvent(run.RunResumed, p.epoch, run.PausePayload{SignalID: p.resumeID}),
		outcomes: []store.SignalOutcome{{SignalID: p.resumeID, Application: run.SignalApplied, AppliedBy: 0}},
	})
	p.resumeID, p.resuming = "", true
	m.endDrain()
	latched := p.latched
	p.latched = nil
	for _, s := range latched {
		if o, ok := m.ords[s.StepID]; ok {
			m.steps[o].latched = false
		}
		if d := m.judge(s); d.Outcome != run.Accept {
			m.unapplied(s.ID, d)
		} else {
			m.changeStep(s)
		}
	}
}

// resumed opens the run again once RunResumed is recorded.
func (m *Machine) resumed() {
	p := &m.pause
	p.on, p.recorded, p.resuming = false, false, false
	for _, o := range p.interrupted {
		m.again(o)
	}
	p.interrupted = nil
}

// interrupted starts a step again that a pause cancelled, after that pause (T51).
func (m *Machine) interrupted(o run.Ord) {
	if m.pause.on {
		m.pause.interrupted = append(m.pause.interrupted, o)
		return
	}
	m.again(o)
}

// again makes the next logical attempt of a FAILED step ready.
func (m *Machine) again(o run.Ord) {
	m.steps[o].la++
	m.steps[o].n = 0
	m.makeReady(o)
}

func (m *Machine) endDrain() {
	if !m.pause.drainAt.IsZero() {
		m.pause.drainAt = time.Time{}
		m.setTimer(TimerDrain, time.Time{})
	}
}

func (m *Machine) drainFired() {
	switch at := m.pause.drainAt; {
	case at.IsZero():
	case m.now.Before(at): // that of a pause resumed since
		m.setTimer(TimerDrain, at)
	default:
		m.pause.overdue = true
	}
}
