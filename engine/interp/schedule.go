package interp

import (
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// schedule is which steps may go and which are out. A step costs its edges and
// a logarithm of the ready ones, never the size of the plan.
type schedule struct {
	ready    heap      // in canonical order; entries whose step is no longer ready are skipped
	favoured heap      // the ready ones that pass fail-fast (T217)
	flying   []run.Ord // ascending, at most width
	width    int
	left     int // steps that are not satisfied
	openings int // times that a closed gate was opened
}

// makeReady puts a step whose predecessors are satisfied up for dispatch.
func (m *Machine) makeReady(o run.Ord) {
	m.steps[o].stage = ready
	if m.favours(o) {
		m.schedule.favoured.push(o)
		return
	}
	m.schedule.ready.push(o)
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
		if from == nil || len(m.schedule.flying) >= m.schedule.width && !m.isManual((*from)[0]) {
			return
		}
		o := from.pop()
		m.dispatched()
		if m.isManual(o) {
			m.openWait(o)
			continue
		}
		st := &m.steps[o]
		st.n++
		st.stage, st.asked, st.openings, st.passes = flying, nobody, m.schedule.openings, m.favours(o)
		i, _ := slices.BinarySearch(m.schedule.flying, o)
		m.schedule.flying = slices.Insert(m.schedule.flying, i, o)
		m.emit(Execute{Ord: o, LA: st.la, N: st.n, PassFailing: st.passes, SignalID: st.signalID})
	}
}

// land takes a step out of flight.
func (m *Machine) land(o run.Ord) {
	if i, ok := slices.BinarySearch(m.schedule.flying, o); ok {
		m.schedule.flying = slices.Delete(m.schedule.flying, i, i+1)
	}
}

// pick gives the heap whose first step is the first that may go now, nil for none.
func (m *Machine) pick() *heap {
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
		case !m.favours(o):
			s.ready.push(s.favoured.pop())
		default:
			return true
		}
	}
	return false
}

// heap is a binary heap of ordinals, smallest first.
type heap []run.Ord

func (h *heap) push(o run.Ord) {
	s := append(*h, o)
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if s[up] <= s[i] {
			break
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
	*h = s
}

// pop removes the smallest; the heap must not be empty.
func (h *heap) pop() run.Ord {
	s := *h
	top, last := s[0], len(s)-1
	s[0] = s[last]
	s = s[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if right := down + 1; right < last && s[right] < s[down] {
			down = right
		}
		if s[i] <= s[down] {
			break
		}
		s[i], s[down] = s[down], s[i]
		i = down
	}
	*h = s
	return top
}
