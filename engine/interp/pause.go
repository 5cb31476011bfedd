package interp

import (
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// pause keeps every attempt from starting, from the PAUSE until RunResumed is recorded (contract T48).
type pause struct {
	on       bool
	recorded bool // RunPaused is in the log, so no attempt starts any more
	epoch    int  // of the newest RunPaused (contract T06)

	resumedEpoch int // of the newest RunResumed that was observed

	resumeID string // the RESUME that waits for the run to drain (contract T46)
	drainAt  time.Time
	overdue  bool // the drain timed out
	resuming bool // RunResumed is queued or sent

	unexplained bool    // the log held an Append back because of a PAUSE that the machine has not received
	heldBack    []entry // entries that the log held back and that are sent after the resume

	pendingRetries []engine.Signal // RETRY_STEP and SKIP_STEP of a paused run (contract T59, T217)
	interrupted    []run.Ord       // steps that the pause cancelled (contract T51)
}

// pauseRun pauses the machine and appends RunPaused. ahead means that the log has it already.
func (m *Machine) pauseRun(signalID string, ahead bool) {
	p := &m.pause
	p.on, p.recorded = true, false
	p.epoch++
	m.closeWindow() // the resume opens a new one (contract T221)
	m.enqueue(entry{
		kind: pauses, set: run.GatePaused, ahead: ahead,
		drafts:   m.runEvent(run.RunPaused, p.epoch, run.PausePayload{SignalID: signalID}),
		outcomes: []store.SignalOutcome{{SignalID: signalID, Application: run.SignalApplied, AppliedBy: 0}},
	})
	for _, o := range m.schedule.inFlight {
		s, st := &m.sk.Steps[o], &m.steps[o]
		if s.AllowCancelOnPause && s.Cancellable && st.stopRequested == notStopped {
			st.stopRequested = stoppedByPause
			m.failure.toStop = append(m.failure.toStop, o)
		}
	}
	m.cancelDelayed(stoppedByPause, func(s *plan.SkeletonStep) bool { return s.AllowCancelOnPause && s.Cancellable })
}

// adoptPause adopts a pause that is in the log already. The machine may have been about to end the run; the pause came
// first, so the failure is not final any more.
func (m *Machine) adoptPause(signalID string) {
	m.pause.unexplained = false
	m.failure.final = false
	m.pauseRun(signalID, true)
}

// reopen makes the steps ready again that returned without a start while the machine wrote the end of the run.
func (m *Machine) reopen() {
	m.signals.inconsistent = nil
	for i := range m.steps {
		if st := &m.steps[i]; st.stage == waiting && st.missing == 0 {
			m.makeReady(run.Ord(i))
		}
	}
}

// resumeRun notes a RESUME. It takes effect when no attempt is RUNNING any more, or after the drain timeout (contract
// T46).
func (m *Machine) resumeRun(signalID string) {
	p := &m.pause
	p.resumeID, p.overdue = signalID, false
	m.resumeWhenDrained()
	if p.resumeID == "" {
		return
	}
	p.drainAt = m.now.Add(time.Duration(m.cfg.Policy.DrainTimeoutMS) * time.Millisecond)
	m.setTimer(TimerDrain, p.drainAt)
}

// resumeWhenDrained appends RunResumed if a RESUME waits and the run has drained. It applies the pending retries before
// fail-fast is evaluated again, because otherwise the run would fail first (contract T59).
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
	retries := p.pendingRetries
	p.pendingRetries = nil
	for _, s := range retries {
		if o, ok := m.ords[s.StepID]; ok {
			m.steps[o].pendingRetry = false
		}
		if d := m.judge(s); d.Outcome != run.Accept {
			m.markUnapplied(s.ID, d)
		} else {
			m.changeStep(s)
		}
	}
}

// isResumed reports whether the log has the RunResumed of this pause, because a lost try of the workflow task wrote it.
// Such a resume does not wait for a drain or for the end of the run, which that try may have started, and no PAUSE
// revokes it.
func (p *pause) isResumed() bool { return p.resumedEpoch >= p.epoch }

// endPause continues the run after RunResumed is recorded.
func (m *Machine) endPause() {
	p := &m.pause
	p.on, p.recorded, p.resuming = false, false, false
	for _, o := range p.interrupted {
		m.nextAttempt(o)
	}
	p.interrupted = nil
	m.record.queue = append(m.record.queue, p.heldBack...)
	p.heldBack = nil
}

// mustNotFollowPause reports whether the log must not take an entry while the run is paused (contract T43, T185). Such
// an entry starts an attempt, or it is part of the end of the run. For the start of a wait the gate decides instead,
// see entry.unless.
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

// holdBack takes back a batch that the log refused because of these bits of its gate. If the run is paused, the machine
// fetches the PAUSE. If a step failed, it reads the log. Then it decides again about waits and about the end of the
// run; it keeps reused steps for after the resume.
func (m *Machine) holdBack(b *batch, gate run.Gate) {
	r, p := &m.record, &m.pause
	r.sent = nil
	if gate&run.GatePaused != 0 && !p.on {
		p.unexplained, m.signals.lookUp = true, true
	}
	if gate&run.GateFailing != 0 {
		r.gate |= run.GateFailing
		r.behind = true
	}
	if r.closing { // the whole batch is the end of the run
		r.closing, r.queue, m.failure.final = false, nil, false
		m.reopen()
		return
	}
	for i := range b.entries {
		switch e := &b.entries[i]; e.kind {
		case waits:
			m.manual.opening--
			m.park(e.ord)
		case reuses:
			p.heldBack = append(p.heldBack, *e)
		default: // RunCompensationStarted
			m.compensation.started, m.compensation.todo, m.failure.final = false, nil, false
		}
	}
}

// restartAfterPause makes the next attempt of a step that a pause cancelled ready, at once or after that pause
// (contract T51).
func (m *Machine) restartAfterPause(o run.Ord, prioritised bool) {
	if prioritised {
		m.steps[o].generation = m.failure.generation
	}
	if m.pause.on {
		m.pause.interrupted = append(m.pause.interrupted, o)
		return
	}
	m.nextAttempt(o)
}

// nextAttempt makes the next logical attempt of a FAILED step ready.
func (m *Machine) nextAttempt(o run.Ord) {
	m.steps[o].attempt++
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

func (m *Machine) handleDrainTimer() {
	switch at := m.pause.drainAt; {
	case at.IsZero():
	case m.now.Before(at): // the timer of an earlier pause
		m.setTimer(TimerDrain, at)
	default:
		m.pause.overdue = true
	}
}
