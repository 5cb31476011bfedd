package interp

import (
	"slices"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// MaxInbox is how many signals wait at most to be applied; what comes beyond is
// fetched again later.
const MaxInbox = 1024

// inbox puts signals into the order of their numbers (T196).
type inbox struct {
	last     int64           // number of the last one taken
	seen     int64           // highest number heard of
	waiting  []engine.Signal // ascending, all above last
	fetching bool
	after    int64 // of the outstanding FetchSignals

	puzzled []run.Ord // steps parked by a gate that the machine knows nothing of
	lookUp  bool      // ask what closed it

	owed []int64 // numbers of signals taken by an earlier execution, to be read again, ascending
}

// due counts the signals that are next in order.
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

func (m *Machine) signalled(signals []engine.Signal) {
	b := &m.signals
	owed := len(b.owed)
	for _, s := range signals {
		if !m.readAgain(s) {
			b.put(s)
		}
	}
	switch {
	case !b.fetching:
	case len(signals) == 0:
		m.readNoMore()
		m.fetched()
	case owed > 0 && len(b.owed) < owed, owed == 0 && b.last+int64(b.due()) > b.after:
		m.fetched()
	}
}

// fetched comes with the answer to the outstanding FetchSignals.
func (m *Machine) fetched() {
	b := &m.signals
	b.fetching = false
	if !b.lookUp {
		for _, o := range b.puzzled {
			if m.steps[o].stage == waiting { // else the log has told more of it since
				m.makeReady(o)
			}
		}
		b.puzzled = nil
		m.pause.unheard = m.pause.unheard && b.due() > 0
	}
}

// fetchSignals asks for what is missing, once at a time.
func (m *Machine) fetchSignals() {
	b := &m.signals
	due := b.due()
	top := b.last + int64(due)
	if len(b.owed) > 0 {
		top = b.owed[0] - 1
	}
	b.lookUp = b.lookUp || m.pause.unheard && due == 0
	if b.fetching || due >= MaxInbox || !b.lookUp && len(b.owed) == 0 && top >= b.seen {
		return
	}
	b.fetching, b.after, b.lookUp = true, top, false
	m.emit(FetchSignals{After: top})
}

// applySignals applies what is next in order, while the log is known to say
// what the machine thinks.
func (m *Machine) applySignals() {
	b := &m.signals
	p := &m.pause
	for (p.resumeID == "" || !p.isResumed()) && m.record.sent == nil && m.status == run.Running && !m.pause.resuming &&
		!m.record.closing && b.due() > 0 {
		s := b.waiting[0]
		if !s.Ineffective && ordersMachine(s.Type) && (s.No > m.record.signalNo || !m.isCurrent()) {
			m.record.wanted = true // it was accepted on what the log says, and is judged on that
			return
		}
		b.waiting = slices.Delete(b.waiting, 0, 1)
		b.last = s.No
		m.apply(s)
	}
}

func (m *Machine) judge(s engine.Signal) run.Decision {
	return run.Judge(m, run.Signal{ID: s.ID, Type: s.Type, StepID: s.StepID, ExpectedAttempt: s.LA, Force: s.Force,
		Outcome: s.Outcome})
}

func (m *Machine) apply(s engine.Signal) {
	if s.Ineffective || !ordersMachine(s.Type) {
		return
	}
	if m.isAhead(s) {
		m.pausedAhead(s.ID)
		return
	}
	if d, decided := m.overtaken(s); decided {
		m.unapplied(s.ID, d)
		return
	}
	if d := m.judge(s); d.Outcome != run.Accept {
		m.unapplied(s.ID, d)
		return
	}
	switch s.Type {
	case run.Pause:
		m.pauseRun(s.ID, false)
	case run.Resume:
		m.resumeRun(s.ID)
	case run.RetryStep, run.SkipStep:
		if m.pause.on {
			m.latch(s)
			return
		}
		m.changeStep(s)
	case run.CompleteManual:
		m.completeManual(s)
	default:
		m.stopRun(s.ID)
	}
}

// ordersMachine reports whether a signal is for the machine to apply. Others are applied where they are accepted
// (T197).
func ordersMachine(t run.SignalType) bool {
	switch t {
	case run.Pause, run.Resume, run.RetryStep, run.SkipStep, run.CompleteManual, run.Cancel, run.EmergencyStop:
		return true
	}
	return false
}

// isAhead reports whether s is a PAUSE that is in force in the log already. Control
// appends RunPaused only to a run that runs, whose end has not begun and that nobody has
// ordered to stop.
func (m *Machine) isAhead(s engine.Signal) bool {
	return s.Type == run.Pause && s.Applied && m.who.PauseAhead && !m.pause.on && m.stop.signalID == "" &&
		!m.compensation.begun
}

// overtaken decides what only the machine can: it alone knows of a stop or a
// resume that is under way.
func (m *Machine) overtaken(s engine.Signal) (run.Decision, bool) {
	already := run.Decision{Outcome: run.Noop, Code: run.CodeAlreadyInState}
	switch {
	case m.stop.signalID != "" && s.Type == run.Resume:
		return run.Decision{Outcome: run.Noop, Code: run.CodeRunFinalizing}, true
	case m.stop.signalID != "" && (s.Type == run.Cancel || s.Type == run.EmergencyStop):
		return already, true
	case m.pause.resumeID != "" && s.Type == run.Resume:
		return already, true
	case m.pause.resumeID != "" && s.Type == run.Pause: // it takes the RESUME back (T46)
		m.unapplied(m.pause.resumeID, run.Decision{Outcome: run.Noop, Code: run.CodeSuperseded})
		m.pause.resumeID = ""
		m.endDrain()
		return already, true
	}
	return run.Decision{}, false
}

// unapplied says on the receipt why a signal has no effect.
func (m *Machine) unapplied(signalID string, d run.Decision) {
	o := store.SignalOutcome{SignalID: signalID, Application: run.SignalNoop, Reason: string(d.Code), AppliedBy: -1}
	if d.Outcome == run.Reject {
		o.Application = run.SignalNotApply
	}
	m.enqueue(entry{kind: notes, outcomes: []store.SignalOutcome{o}})
}

// latch keeps a RETRY_STEP or SKIP_STEP until the run is resumed (T59, T217).
func (m *Machine) latch(s engine.Signal) {
	again := func(l engine.Signal) bool { return l.Type == s.Type && l.StepID == s.StepID }
	if slices.ContainsFunc(m.pause.latched, again) { // a SKIP_STEP: no more wait than a step needs
		m.unapplied(s.ID, run.Decision{Outcome: run.Noop, Code: run.CodeSuperseded})
		return
	}
	m.pause.latched = append(m.pause.latched, s)
	if o, ok := m.ords[s.StepID]; ok && s.Type == run.RetryStep {
		m.steps[o].latched = true
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
		st.signalID, st.signalNo = s.ID, s.No
		m.again(o)
		return
	}
	if st.status == run.StepFailed {
		st.la++
	}
	st.status, st.stage = run.StepSkipped, ended
	m.enqueue(entry{
		kind: skips, ord: o,
		drafts:   []run.Draft{m.skipEvent(o, run.StepSkippedPayload{ReasonCode: run.OperatorSkip, SignalID: s.ID})},
		outcomes: []store.SignalOutcome{{SignalID: s.ID, Application: run.SignalApplied, AppliedBy: 0}},
	})
}
