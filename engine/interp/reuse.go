package interp

import (
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// dropReusedHooks removes the hooks of reused steps, because a hook would undo work that belongs to the earlier run
// (contract T209). It works on a copy of the steps.
func (m *Machine) dropReusedHooks() {
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

// reuse queues the StepStarted and StepCompleted of the reused steps behind RunStarted, predecessors first. It leaves
// out steps behind a predecessor that is not reused. The Journal adds the results.
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

// applyRecordedReuse counts a reused step as succeeded.
func (m *Machine) applyRecordedReuse(o run.Ord) {
	st := &m.steps[o]
	st.status, st.stage = run.StepSuccess, settled
	m.satisfy(o, false)
}
