package interp

import (
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// schedule holds the steps that may start and those in flight. A step costs its edges and the logarithm of the number
// of ready steps, independent of the size of the plan.
type schedule struct {
	ready        heap[ordinal] // in canonical order; entries whose step is no longer ready are skipped
	prioritised  heap[ordinal] // ready steps that pass fail-fast (contract T217)
	flying       []run.Ord     // ascending, at most width
	width        int
	left         int // steps that are not satisfied
	gateOpenings int // how often a closed gate was opened
}

// makeReady makes a step ready whose predecessors are satisfied.
func (m *Machine) makeReady(o run.Ord) {
	if m.isManual(o) && m.resumeWait(o) {
		return
	}
	m.steps[o].stage = ready
	if m.isPrioritised(o) {
		m.schedule.prioritised.push(ordinal(o))
		return
	}
	m.schedule.ready.push(ordinal(o))
}

// satisfy unlocks the dependents of a step that succeeded or that an operator skipped (contract T76). Steps that only
// a retried step blocked pass fail-fast like it.
func (m *Machine) satisfy(o run.Ord, favoured bool) {
	m.schedule.left--
	for _, n := range m.next[o] {
		st := &m.steps[n]
		st.missing--
		if favoured && m.isFailFast() {
			st.generation = m.failure.generation
		}
		if st.missing == 0 && st.stage == waiting {
			m.makeReady(n)
		}
	}
}

// dispatch executes ready steps in canonical order while the gate is open. Signals that were not judged keep it
// closed.
func (m *Machine) dispatch() {
	if m.status != run.Running || m.Finalizing() || m.pause.on || m.pause.unexplained || m.signals.due() > 0 {
		return
	}
	for !m.isHeld() {
		from := m.pick()
		if from == nil || m.slotsInUse() >= m.schedule.width && !m.isManual(run.Ord((*from)[0])) {
			return
		}
		o := run.Ord(from.pop())
		if m.isManual(o) {
			m.countDispatch()
			m.openWait(o)
			continue
		}
		m.launch(o)
	}
}

// slotsInUse returns the number of used slots of the width.
func (m *Machine) slotsInUse() int {
	n := len(m.schedule.flying)
	if len(m.delays.running) > 0 {
		n += len(m.runningDelayed())
	}
	return n
}

// launch dispatches the current attempt of a step.
func (m *Machine) launch(o run.Ord) {
	m.countDispatch()
	st := &m.steps[o]
	st.n++
	st.stage, st.stopRequested, st.gateOpenings, st.passes = flying, notStopped, m.schedule.gateOpenings,
		m.isPrioritised(o)
	if i, ok := slices.BinarySearch(m.schedule.flying, o); !ok {
		m.schedule.flying = slices.Insert(m.schedule.flying, i, o)
	}
	m.emit(Execute{Ord: o, LogicalAttempt: st.attempt, N: st.n, Spent: st.spent, PassFailing: st.passes,
		SignalID: st.signalID})
}

// removeFlying removes a step from the steps in flight.
func (m *Machine) removeFlying(o run.Ord) {
	if i, ok := slices.BinarySearch(m.schedule.flying, o); ok {
		m.schedule.flying = slices.Delete(m.schedule.flying, i, i+1)
	}
}

// pick returns the heap with the next step that may start, or nil.
func (m *Machine) pick() *heap[ordinal] {
	s := &m.schedule
	passing := m.hasPrioritisedReady()
	if m.isFailFast() {
		if !passing {
			return nil
		}
		return &s.prioritised
	}
	for len(s.ready) > 0 && m.steps[s.ready[0]].stage != ready {
		s.ready.pop()
	}
	switch {
	case passing && (len(s.ready) == 0 || s.prioritised[0] < s.ready[0]):
		return &s.prioritised
	case len(s.ready) > 0:
		return &s.ready
	}
	return nil
}

// hasPrioritisedReady reports whether a step that passes fail-fast is ready, and moves it to the top of prioritised.
func (m *Machine) hasPrioritisedReady() bool {
	s := &m.schedule
	for len(s.prioritised) > 0 {
		o := s.prioritised[0]
		switch {
		case m.steps[o].stage != ready:
			s.prioritised.pop()
		case !m.isPrioritised(run.Ord(o)):
			s.ready.push(s.prioritised.pop())
		default:
			return true
		}
	}
	return false
}
