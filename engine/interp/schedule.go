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
	inFlight     []run.Ord     // ascending, at most width
	width        int           // maximum number of executions in flight
	left         int           // steps that have neither succeeded nor been skipped
	gateOpenings int           // number of times that a closed gate was opened
}

// makeReady makes a step ready, which must have no missing predecessors. If the log has a wait of a MANUAL step
// already, it adopts that wait instead.
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

// satisfy unlocks the dependents of a step that succeeded or that an operator skipped (contract T76). If the step
// passed fail-fast, its dependents pass too (contract T217).
func (m *Machine) satisfy(o run.Ord, prioritised bool) {
	m.schedule.left--
	for _, n := range m.next[o] {
		st := &m.steps[n]
		st.missing--
		if prioritised && m.isFailFast() {
			st.generation = m.failure.generation
		}
		if st.missing == 0 && st.stage == waiting {
			m.makeReady(n)
		}
	}
}

// dispatch executes ready steps in canonical order while slots are free. It executes none while the run is paused or
// ends, or while signals are not applied yet, because a signal may close the gate.
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

// slotsInUse returns the number of executions in flight plus the delayed attempts that keep their slots.
func (m *Machine) slotsInUse() int {
	n := len(m.schedule.inFlight)
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
	st.stage, st.stopRequested, st.gateOpenings, st.passes = dispatched, notStopped, m.schedule.gateOpenings,
		m.isPrioritised(o)
	if i, ok := slices.BinarySearch(m.schedule.inFlight, o); !ok {
		m.schedule.inFlight = slices.Insert(m.schedule.inFlight, i, o)
	}
	m.emit(Execute{Ord: o, LogicalAttempt: st.attempt, N: st.n, Spent: st.spent, PassFailing: st.passes,
		SignalID: st.signalID})
}

// removeInFlight removes a step from the steps in flight.
func (m *Machine) removeInFlight(o run.Ord) {
	if i, ok := slices.BinarySearch(m.schedule.inFlight, o); ok {
		m.schedule.inFlight = slices.Delete(m.schedule.inFlight, i, i+1)
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
