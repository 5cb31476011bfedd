package interp

import (
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// keepHooksOff makes sure that steps of another run are not undone in this one: a
// hook would take back what that run did and keeps (T209).
func (m *Machine) keepHooksOff() {
	if len(m.who.Reused) == 0 {
		return
	}
	m.sk.Steps = slices.Clone(m.sk.Steps)
	for _, o := range m.who.Reused {
		if o >= 0 && int(o) < len(m.sk.Steps) {
			m.sk.Steps[o].CompensationQueue = ""
		}
	}
}

// reuse says behind RunStarted that the reused steps have begun and completed,
// predecessors first. The Journal adds what they had for a result.
func (m *Machine) reuse() {
	if len(m.who.Reused) == 0 {
		return
	}
	wanted, missing := make([]bool, len(m.steps)), make([]int, len(m.steps))
	var next heap[ordinal]
	for _, o := range m.who.Reused {
		if o >= 0 && int(o) < len(m.steps) && !wanted[o] {
			wanted[o], missing[o] = true, m.steps[o].missing
			if missing[o] == 0 {
				next.push(ordinal(o))
			}
		}
	}
	completed, _ := encode(run.StepCompletedPayload{Reused: &run.Reused{}})
	for len(next) > 0 {
		o := run.Ord(next.pop())
		m.steps[o].stage = ended
		m.enqueue(entry{kind: reuses, ord: o, drafts: []run.Draft{
			m.stepEvent(o, run.StepStartedEvent, m.who.EngineAttempt, m.now, nil),
			m.stepEvent(o, run.StepCompletedEvent, m.who.EngineAttempt, m.now, completed),
		}})
		for _, n := range m.next[o] {
			if missing[n]--; wanted[n] && missing[n] == 0 {
				next.push(ordinal(n))
			}
		}
	}
}

// reuseRecorded counts a reused step as one that succeeded.
func (m *Machine) reuseRecorded(o run.Ord) {
	st := &m.steps[o]
	st.status, st.stage = run.StepSuccess, settled
	m.satisfied(o, false)
}
