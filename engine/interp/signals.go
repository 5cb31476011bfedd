package interp

import (
	"slices"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// MaxInbox is the maximum number of waiting signals. Further ones are dropped and fetched later.
const MaxInbox = 1024

// inbox brings signals into the order of their numbers (contract T196).
type inbox struct {
	last     int64           // number of the last signal taken
	seen     int64           // highest known number
	waiting  []engine.Signal // ascending, all above last
	fetching bool
	after    int64 // of the outstanding FetchSignals

	inconsistent []run.Ord // steps that met a closed gate whose cause the machine does not know
	lookUp       bool      // the machine must fetch signals, for example the one that closed the gate

	reread []int64 // numbers of signals that an earlier execution took and that must be read again, ascending
}

// due returns the number of waiting signals that follow last without a gap.
func (b *inbox) due() int {
	n := 0
	for n < len(b.waiting) && b.waiting[n].No == b.last+int64(n)+1 {
		n++
	}
	return n
}

func (b *inbox) put(s engine.Signal) {
	if s.No <= b.last {
		return
	}
	b.seen = max(b.seen, s.No)
	i, known := slices.BinarySearchFunc(b.waiting, s.No, func(w engine.Signal, no int64) int {
		return int(min(1, max(-1, w.No-no)))
	})
	if known {
		return
	}
	b.waiting = slices.Insert(b.waiting, i, s)
	b.waiting = b.waiting[:min(len(b.waiting), MaxInbox)]
}

func (m *Machine) handleSignals(signals []engine.Signal) {
	b := &m.signals
	before := len(b.reread)
	for _, s := range signals {
		if !m.takeReread(s) {
			b.put(s)
		}
	}
	switch {
	case !b.fetching:
	case len(signals) == 0:
		m.dropReread()
		m.endFetch()
	case before > 0 && len(b.reread) < before, before == 0 && b.last+int64(b.due()) > b.after:
		m.endFetch()
	}
}

// endFetch handles the answer to the outstanding FetchSignals.
func (m *Machine) endFetch() {
	b := &m.signals
	b.fetching = false
	if !b.lookUp {
		for _, o := range b.inconsistent {
			if m.steps[o].stage == waiting { // otherwise an event of the log has changed its stage
				m.makeReady(o)
			}
		}
		b.inconsistent = nil
		m.pause.unexplained = m.pause.unexplained && b.due() > 0
	}
}

// fetchSignals requests missing signals, one request at a time.
func (m *Machine) fetchSignals() {
	b := &m.signals
	due := b.due()
	top := b.last + int64(due)
	if len(b.reread) > 0 {
		top = b.reread[0] - 1
	}
	b.lookUp = b.lookUp || m.pause.unexplained && due == 0
	if b.fetching || due >= MaxInbox || !b.lookUp && len(b.reread) == 0 && top >= b.seen {
		return
	}
	b.fetching, b.after, b.lookUp = true, top, false
	m.emit(FetchSignals{After: top})
}

// applySignals applies the signals that are due. It stops while an Append is outstanding, and while the machine has not
// observed the state of the log on which control accepted the signal.
func (m *Machine) applySignals() {
	b := &m.signals
	p := &m.pause
	for (p.resumeID == "" || !p.isResumed()) && m.record.sent == nil && m.status == run.Running && !m.pause.resuming &&
		!m.record.closing && b.due() > 0 {
		s := b.waiting[0]
		if !s.Ineffective && isForMachine(s.Type) && (s.No > m.record.signalNo || !m.isCurrent()) {
			m.record.wanted = true // control accepted it on a newer state of the log
			return
		}
		b.waiting = slices.Delete(b.waiting, 0, 1)
		b.last = s.No
		m.apply(s)
	}
}

func (m *Machine) judge(s engine.Signal) run.Decision {
	return run.Judge(m, run.Signal{ID: s.ID, Type: s.Type, StepID: s.StepID, ExpectedAttempt: s.LogicalAttempt,
		Force:   s.Force,
		Outcome: s.Outcome})
}

func (m *Machine) apply(s engine.Signal) {
	if s.Ineffective || !isForMachine(s.Type) {
		return
	}
	if m.isAhead(s) {
		m.adoptPause(s.ID)
		return
	}
	if d, decided := m.judgeOverlap(s); decided {
		m.markUnapplied(s.ID, d)
		return
	}
	if d := m.judge(s); d.Outcome != run.Accept {
		m.markUnapplied(s.ID, d)
		return
	}
	switch s.Type {
	case run.Pause:
		m.pauseRun(s.ID, false)
	case run.Resume:
		m.resumeRun(s.ID)
	case run.RetryStep, run.SkipStep:
		if m.pause.on {
			m.deferUntilResume(s)
			return
		}
		m.changeStep(s)
	case run.CompleteManual:
		m.completeManual(s)
	default:
		m.stopRun(s.ID)
	}
}

// isForMachine reports whether the machine applies signals of this type. Control applies the others when it accepts
// them (contract T197).
func isForMachine(t run.SignalType) bool {
	switch t {
	case run.Pause, run.Resume, run.RetryStep, run.SkipStep, run.CompleteManual, run.Cancel, run.EmergencyStop:
		return true
	}
	return false
}

// isAhead reports whether control has already appended the RunPaused of a PAUSE that the machine receives now. Control
// does so only in a running run whose end has not started and that nobody has ordered to stop.
func (m *Machine) isAhead(s engine.Signal) bool {
	return s.Type == run.Pause && s.Applied && m.cfg.PauseAhead && !m.pause.on && m.stop.signalID == "" &&
		!m.compensation.started
}

// judgeOverlap decides signals that arrive while a stop or a resume is in progress, which only the machine knows. It
// returns false for signals that run.Judge must decide.
func (m *Machine) judgeOverlap(s engine.Signal) (run.Decision, bool) {
	already := run.Decision{Outcome: run.Noop, Code: run.CodeAlreadyInState}
	switch {
	case m.stop.signalID != "" && s.Type == run.Resume:
		return run.Decision{Outcome: run.Noop, Code: run.CodeRunFinalizing}, true
	case m.stop.signalID != "" && (s.Type == run.Cancel || s.Type == run.EmergencyStop):
		return already, true
	case m.pause.resumeID != "" && s.Type == run.Resume:
		return already, true
	case m.pause.resumeID != "" && s.Type == run.Pause: // it revokes the RESUME (contract T46)
		m.markUnapplied(m.pause.resumeID, run.Decision{Outcome: run.Noop, Code: run.CodeSuperseded})
		m.pause.resumeID = ""
		m.endDrain()
		return already, true
	}
	return run.Decision{}, false
}

// markUnapplied writes to the receipt why a signal has no effect.
func (m *Machine) markUnapplied(signalID string, d run.Decision) {
	o := store.SignalOutcome{SignalID: signalID, Application: run.SignalNoop, Reason: string(d.Code), AppliedBy: -1}
	if d.Outcome == run.Reject {
		o.Application = run.SignalNotApply
	}
	m.enqueue(entry{kind: notes, outcomes: []store.SignalOutcome{o}})
}

// deferUntilResume keeps a RETRY_STEP or SKIP_STEP until the run is resumed (contract T59, T217).
func (m *Machine) deferUntilResume(s engine.Signal) {
	again := func(l engine.Signal) bool { return l.Type == s.Type && l.StepID == s.StepID }
	if slices.ContainsFunc(m.pause.pendingRetries, again) { // one of each type is enough for a step
		m.markUnapplied(s.ID, run.Decision{Outcome: run.Noop, Code: run.CodeSuperseded})
		return
	}
	m.pause.pendingRetries = append(m.pause.pendingRetries, s)
	if o, ok := m.ords[s.StepID]; ok && s.Type == run.RetryStep {
		m.steps[o].pendingRetry = true
	}
}

// changeStep applies a RETRY_STEP or SKIP_STEP that was judged.
func (m *Machine) changeStep(s engine.Signal) {
	o, ok := m.ords[s.StepID]
	if !ok {
		return
	}
	st := &m.steps[o]
	m.unfail(o)
	if s.Type == run.RetryStep {
		st.signalID, st.signalNo, st.signalFor = s.ID, s.No, st.attempt+1
		m.nextAttempt(o)
		return
	}
	if st.status == run.StepFailed {
		st.attempt++
	}
	st.status, st.stage = run.StepSkipped, ended
	m.enqueue(entry{
		kind: skips, ord: o,
		drafts:   []run.Draft{m.skipEvent(o, run.StepSkippedPayload{ReasonCode: run.OperatorSkip, SignalID: s.ID})},
		outcomes: []store.SignalOutcome{{SignalID: s.ID, Application: run.SignalApplied, AppliedBy: 0}},
	})
}
