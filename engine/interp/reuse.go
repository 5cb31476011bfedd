package interp

import (
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// keepHooksOff removes the hooks of reused steps: a hook would undo the work that the earlier run keeps (contract
// T209).
func (m *Machine) keepHooksOff() {
	if len(m.cfg.Reused) == 0 {
		return
	}
	m.sk.Steps = slices.Clone(m.sk.Steps)
	for _, o := range m.cfg.Reused {
		if o >= 0 && int(o) < len(m.sk.Steps) {
			m.sk.Steps[o].CompensationQueue = ""
		}
	}
}

// reuse records after RunStarted that the reused steps started and completed, predecessors first. The Journal adds
// their results.
func (m *Machine) reuse() {
	if len(m.cfg.Reused) == 0 {
		return
	}
	wanted, missing := make([]bool, len(m.steps)), make([]int, len(m.steps))
	var next heap[ordinal]
	for _, o := range m.cfg.Reused {
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
			m.stepEvent(o, run.StepStartedEvent, m.cfg.EngineAttempt, m.now, nil),
			m.stepEvent(o, run.StepCompletedEvent, m.cfg.EngineAttempt, m.now, completed),
		}})
		for _, n := range m.next[o] {
			if missing[n]--; wanted[n] && missing[n] == 0 {
				next.push(ordinal(n))
			}
		}
	}
}

// reuseRecorded counts a reused step as succeeded.
func (m *Machine) reuseRecorded(o run.Ord) {
	st := &m.steps[o]
	st.status, st.stage = run.StepSuccess, settled
	m.satisfy(o, false)
}
