package interp

import (
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Bounds of the delay before a step is dispatched again.
const (
	minDelay = 100 * time.Millisecond
	// maxDelay also bounds the time until the machine notices a raised quota.
	maxDelay = time.Minute
	// firstDelay is the delay after the first dispatch that returns without a reason. Each further one doubles it.
	firstDelay = time.Second
)

// delays holds the steps whose dispatches returned and that are dispatched again later: they got no token (contract
// T113), their worker declined, or the return had no reason. Each has its own due time, and one timer is armed for the
// earliest. A delayed step takes no slot of the width. Its successors wait for it, and so does the end of the run if
// the run must still execute the step. A step that is RUNNING in the log keeps its slot, and the run does not drain
// without it.
//
// Steps without a token share a bucket, so they do not all ask at their due times. At first one of them asks. Each
// round in which none is throttled doubles the number for the next round. The engine's history therefore grows with the
// tokens and not with the waiting steps, and the machine notices a raised quota soon.
type delays struct {
	withoutToken heap[deadline] // steps that do not wait for a token; entries whose step no longer waits are skipped
	tokens       heap[deadline] // steps that wait for a token, in the order of their due times
	running      []run.Ord      // delayed steps that are RUNNING in the log, see runningDelayed
	batch        int            // number of steps that ask for a token in the next round
	gap          time.Duration  // between two rounds
	next         time.Time      // no step asks for a token before this time
	firesAt      time.Time      // the time to which TimerDelay is set
}

// delay makes a step wait before it is dispatched again as the same attempt. The delay is at least minDelay and at most
// maxDelay.
func (m *Machine) delay(o run.Ord, after time.Duration, forToken bool) {
	d := &m.delays
	after = min(max(after, minDelay), maxDelay)
	m.wait(o, m.now.Add(after), forToken)
	if forToken {
		d.gap, d.batch = max(after, d.gap/2), 1
	}
}

// wait makes a step wait until it is due.
func (m *Machine) wait(o run.Ord, due time.Time, forToken bool) {
	d, st := &m.delays, &m.steps[o]
	st.stage, st.due, st.forToken = delayed, due, forToken
	if st.begun {
		m.keepSlot(o)
	}
	if forToken {
		d.tokens.push(deadline{due, o})
	} else {
		d.withoutToken.push(deadline{due, o})
	}
}

// backoff returns the delay after the n-th return without a reason, counted from 1.
func backoff(n int) time.Duration { return firstDelay << min(max(n, 1)-1, 6) }

// earliest removes outdated entries until the first step that still waits is on top of the heap. It returns false when
// none waits.
func (m *Machine) earliest(h *heap[deadline], forToken bool) bool {
	for len(*h) > 0 {
		top := (*h)[0]
		if st := &m.steps[top.ord]; st.stage == delayed && st.forToken == forToken && st.due.Equal(top.at) {
			return true
		}
		h.pop()
	}
	return false
}

// nextDelay returns the earliest time at which a delayed step or hook is dispatched again, or the zero time.
func (m *Machine) nextDelay() time.Time {
	d := &m.delays
	at := m.compensation.due
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if m.earliest(&d.withoutToken, false) {
		sooner(d.withoutToken[0].at)
	}
	if m.earliest(&d.tokens, true) {
		sooner(latest(d.tokens[0].at, d.next))
	} else {
		d.batch, d.gap, d.next = 0, 0, time.Time{}
	}
	return at
}

// armDelay sets the timer to the earliest due time.
func (m *Machine) armDelay() {
	if at := m.nextDelay(); !at.Equal(m.delays.firesAt) {
		m.delays.firesAt = at
		m.setTimer(TimerDelay, at)
	}
}

// handleDelayTimer ends the delays that are due.
func (m *Machine) handleDelayTimer() {
	d := &m.delays
	d.firesAt = time.Time{} // armDelay sets the timer again if more steps wait
	if c := &m.compensation; !c.due.IsZero() && !m.now.Before(c.due) {
		c.due = time.Time{}
	}
	due := func(h *heap[deadline], forToken bool) bool {
		return m.earliest(h, forToken) && !m.now.Before((*h)[0].at)
	}
	for due(&d.withoutToken, false) {
		m.endDelay(d.withoutToken.pop().ord)
	}
	if !due(&d.tokens, true) || m.now.Before(d.next) {
		return
	}
	for n := 0; n < d.batch && due(&d.tokens, true); n++ {
		m.endDelay(d.tokens.pop().ord)
	}
	d.batch = min(2*d.batch, m.schedule.width)
	d.next = m.now.Add(d.gap)
}

// endDelay ends the delay of a step. A step that is RUNNING in the log is dispatched at once, regardless of the gate
// (contract T52). Another step becomes ready.
func (m *Machine) endDelay(o run.Ord) {
	if m.steps[o].begun {
		m.launch(o)
		return
	}
	m.makeReady(o)
}

// runningDelayed returns the delayed steps whose attempts are RUNNING in the log, ascending. Each keeps its slot, so
// there are at most as many as the width. The result is valid until the next change.
func (m *Machine) runningDelayed() []run.Ord {
	d := &m.delays
	d.running = slices.DeleteFunc(d.running, func(o run.Ord) bool {
		return m.steps[o].stage != delayed ||
			!m.steps[o].begun
	})
	return d.running
}

// keepSlot adds a step to runningDelayed, so that it keeps its slot of the width.
func (m *Machine) keepSlot(o run.Ord) {
	d := &m.delays
	if i, found := slices.BinarySearch(d.running, o); !found {
		d.running = slices.Insert(d.running, i, o)
	}
}

// cancelDelayed ends the delayed attempts that are RUNNING in the log and for which applies returns true. No worker
// executes them, so no worker would answer a request to stop.
func (m *Machine) cancelDelayed(reason stopCause, applies func(*plan.SkeletonStep) bool) {
	running := append([]run.Ord(nil), m.runningDelayed()...)
	for _, o := range running {
		if applies(&m.sk.Steps[o]) {
			m.steps[o].stopRequested = reason
			m.endCancelled(o, engine.Return{})
		}
	}
}

// Delayed calls f for each delayed step that has not started, in plan order, with the time at which it is dispatched
// again and whether it waits for a token.
func (m *Machine) Delayed(f func(stepID string, due time.Time, forToken bool)) {
	for i := range m.steps {
		st := &m.steps[i]
		if st.stage != delayed || st.begun {
			continue
		}
		due := st.due
		if st.forToken {
			due = latest(due, m.delays.next)
		}
		f(m.sk.Steps[i].StepID, due, st.forToken)
	}
}

// hasPrioritisedDelayed reports whether a delayed step passes fail-fast.
func (m *Machine) hasPrioritisedDelayed() bool {
	passes := func(e deadline) bool { return m.steps[e.ord].stage == delayed && m.isPrioritised(e.ord) }
	return slices.ContainsFunc(m.delays.withoutToken, passes) || slices.ContainsFunc(m.delays.tokens, passes)
}
