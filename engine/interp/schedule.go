package interp

import (
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// schedule is which steps may go and which are out. A step costs its edges and
// a logarithm of the ready ones, never the size of the plan.
type schedule struct {
	ready    heap[ordinal] // in canonical order; entries whose step is no longer ready are skipped
	favoured heap[ordinal] // the ready ones that pass fail-fast (T217)
	flying   []run.Ord     // ascending, at most width
	width    int
	left     int // steps that are not satisfied
	openings int // times that a closed gate was opened
}

// makeReady puts a step whose predecessors are satisfied up for dispatch.
func (m *Machine) makeReady(o run.Ord) {
	if m.isManual(o) && m.resumeWait(o) {
		return
	}
	m.steps[o].stage = ready
	if m.favours(o) {
		m.schedule.favoured.push(ordinal(o))
		return
	}
	m.schedule.ready.push(ordinal(o))
}

// satisfied unlocks the dependents of a step that succeeded or was skipped by an
// operator (T76). What a retried step alone blocked passes fail-fast as it did.
func (m *Machine) satisfied(o run.Ord, favoured bool) {
	m.schedule.left--
	for _, n := range m.next[o] {
		st := &m.steps[n]
		st.missing--
		if favoured && m.failFast() {
			st.era = m.failure.era
		}
		if st.missing == 0 && st.stage == waiting {
			m.makeReady(n)
		}
	}
}

// dispatch executes ready steps in canonical order while the gate is open.
// Signals that are not yet judged keep it shut.
func (m *Machine) dispatch() {
	if m.status != run.Running || m.Finalizing() || m.pause.on || m.pause.unheard || m.signals.due() > 0 {
		return
	}
	for !m.held() {
		from := m.pick()
		if from == nil || m.inUse() >= m.schedule.width && !m.isManual(run.Ord((*from)[0])) {
			return
		}
		o := run.Ord(from.pop())
		if m.isManual(o) {
			m.dispatched()
			m.openWait(o)
			continue
		}
		m.launch(o)
	}
}

// inUse counts the places of the width that are taken.
func (m *Machine) inUse() int {
	n := len(m.schedule.flying)
	if len(m.delays.running) > 0 {
		n += len(m.runningDelayed())
	}
	return n
}

// launch dispatches the current attempt of a step.
func (m *Machine) launch(o run.Ord) {
	m.dispatched()
	st := &m.steps[o]
	st.n++
	st.stage, st.asked, st.openings, st.passes = flying, nobody, m.schedule.openings, m.favours(o)
	if i, ok := slices.BinarySearch(m.schedule.flying, o); !ok {
		m.schedule.flying = slices.Insert(m.schedule.flying, i, o)
	}
	m.emit(Execute{Ord: o, LA: st.la, N: st.n, Spent: st.spent, PassFailing: st.passes, SignalID: st.signalID})
}

// land takes a step out of flight.
func (m *Machine) land(o run.Ord) {
	if i, ok := slices.BinarySearch(m.schedule.flying, o); ok {
		m.schedule.flying = slices.Delete(m.schedule.flying, i, i+1)
	}
}

// pick gives the heap whose first step is the first that may go now, nil for none.
func (m *Machine) pick() *heap[ordinal] {
	s := &m.schedule
	passing := m.favouredReady()
	if m.failFast() {
		if !passing {
			return nil
		}
		return &s.favoured
	}
	for len(s.ready) > 0 && m.steps[s.ready[0]].stage != ready {
		s.ready.pop()
	}
	switch {
	case passing && (len(s.ready) == 0 || s.favoured[0] < s.ready[0]):
		return &s.favoured
	case len(s.ready) > 0:
		return &s.ready
	}
	return nil
}

// favouredReady brings a step that passes fail-fast to the top of favoured, if
// there is one ready.
func (m *Machine) favouredReady() bool {
	s := &m.schedule
	for len(s.favoured) > 0 {
		o := s.favoured[0]
		switch {
		case m.steps[o].stage != ready:
			s.favoured.pop()
		case !m.favours(run.Ord(o)):
			s.ready.push(s.favoured.pop())
		default:
			return true
		}
	}
	return false
}
