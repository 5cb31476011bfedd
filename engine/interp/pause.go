package interp

import (
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// pause is the latch that keeps everything from starting, from PAUSE until
// RunResumed is recorded (T48).
type pause struct {
	on       bool
	recorded bool // RunPaused is: from here on, what runs can only end
	epoch    int  // of the newest RunPaused (T06)

	resumedEpoch int // of the newest RunResumed that was observed

	resumeID string // the RESUME that waits for the run to drain (T46)
	drainAt  time.Time
	overdue  bool // it does not wait any longer
	resuming bool // RunResumed is queued or sent

	unheard bool    // the log held an Append back, and the PAUSE behind it has not been taken
	putOff  []entry // what it held back and is to be said again once the run is resumed

	latched     []engine.Signal // RETRY_STEP and SKIP_STEP of a paused run (T59, T217)
	interrupted []run.Ord       // steps that the pause cancelled (T51)
}

// pauseRun sets the latch and appends RunPaused; ahead says that the log has it.
func (m *Machine) pauseRun(signalID string, ahead bool) {
	p := &m.pause
	p.on, p.recorded = true, false
	p.epoch++
	m.closeWindow() // T221
	m.enqueue(entry{
		kind: pauses, set: run.GatePaused, ahead: ahead,
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
	m.cancelDelayed(byPause, func(s *plan.SkeletonStep) bool { return s.AllowCancelOnPause && s.Cancellable })
}

// pausedAhead takes over a pause that is in the log already. The log says that it
// came before the end of the run began, whatever the machine was about to do.
func (m *Machine) pausedAhead(signalID string) {
	m.pause.unheard = false
	m.failure.final = false
	m.pauseRun(signalID, true)
}

// reopen puts up what came back unbegun while the end was being written.
func (m *Machine) reopen() {
	m.signals.puzzled = nil
	for i := range m.steps {
		if st := &m.steps[i]; st.stage == waiting && st.missing == 0 {
			m.makeReady(run.Ord(i))
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
	if p.resumeID == "" || !p.recorded || m.record.sent != nil || m.stop.signalID != "" || m.record.closing {
		return
	}
	if !p.isResumed() && (m.failure.final || m.record.running > 0 && !p.overdue) {
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

// isResumed reports whether the log has the RunResumed of this pause: an earlier try of this machine, which the engine
// lost, wrote it. It waits for no drain and for no end of the run, which that try may have begun behind it, and no
// PAUSE takes it back.
func (p *pause) isResumed() bool { return p.resumedEpoch >= p.epoch }

// resumed opens the run again once RunResumed is recorded.
func (m *Machine) resumed() {
	p := &m.pause
	p.on, p.recorded, p.resuming = false, false, false
	for _, o := range p.interrupted {
		m.again(o)
	}
	p.interrupted = nil
	m.record.queue = append(m.record.queue, p.putOff...)
	p.putOff = nil
}

// mustNotFollowPause reports whether an entry is one that the log must not take while
// the run is paused (T43, T185): it begins an attempt that may not have begun, or it is
// part of the end of the run. The gate holds back the begin of a wait, see entry.unless.
func (e *entry) mustNotFollowPause() bool {
	switch e.kind {
	case reuses:
		return true
	case ends:
		return e.status != run.Cancelled
	case notes: // RunCompensationStarted, or a step that is skipped at the end
		return len(e.drafts) > 0
	}
	return false
}

// heldBack takes back a batch that the log did not take, because of these members of its gate. If the run is paused,
// the machine asks by which signal; of a failure that it has not observed it reads. It decides again what it would have
// written without knowing of them, but for facts.
func (m *Machine) heldBack(b *batch, gate run.Gate) {
	r, p := &m.record, &m.pause
	r.sent = nil
	if gate&run.GatePaused != 0 && !p.on {
		p.unheard, m.signals.lookUp = true, true
	}
	if gate&run.GateFailing != 0 {
		r.gate |= run.GateFailing
		r.behind = true
	}
	if r.closing { // all of it is the end of the run
		r.closing, r.queue, m.failure.final = false, nil, false
		m.reopen()
		return
	}
	for i := range b.entries {
		switch e := &b.entries[i]; e.kind {
		case waits:
			m.manual.opening--
			m.parked(e.ord)
		case reuses:
			p.putOff = append(p.putOff, *e)
		default: // RunCompensationStarted
			m.compensation.begun, m.compensation.todo, m.failure.final = false, nil, false
		}
	}
}

// interrupted starts a step again that a pause cancelled, after that pause (T51).
func (m *Machine) interrupted(o run.Ord, favoured bool) {
	if favoured {
		m.steps[o].era = m.failure.era
	}
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
	m.steps[o].begun, m.steps[o].spent, m.steps[o].vanished = false, 0, 0
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
