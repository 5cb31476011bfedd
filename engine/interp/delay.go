package interp

import (
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Bounds of how long a delayed step waits before it is dispatched again.
const (
	leastDelay = 100 * time.Millisecond
	// longestDelay is also how soon a raised quota is noticed.
	longestDelay = time.Minute
	// firstDelay is that of the first dispatch that comes back without a reason. It doubles with each that follows.
	firstDelay = time.Second
)

// delays are the steps that came back and are dispatched again later: there was no token for them (T113), their worker
// declined, or they came back without a reason. Each has a due time of its own, and one timer is armed for the earliest.
// A delayed step takes no place of the width, and nothing waits for it but the steps behind it and the end of a run that
// still has to run it. One that is RUNNING in the log keeps its place, and the run does not drain without it.
//
// Steps without a token share a bucket, so they do not all ask at their due times. One asks at first; each time that
// nobody is sent back the next asking lets twice as many ask. So what goes into the engine's history grows with the
// tokens, not with the steps that wait, and a quota that was raised is noticed soon.
type delays struct {
	apart   heap[deadline] // each asks at its due time; entries whose step waits no longer are skipped
	tokens  heap[deadline] // of these, row ask at once, the one that is due first before the others
	running []run.Ord      // see runningDelayed
	row     int
	gap     time.Duration // between two askings for tokens
	next    time.Time     // no step asks for a token before
	firesAt time.Time     // what TimerDelay is set to
}

// delay has a step wait before it is dispatched again, as the same attempt.
func (m *Machine) delay(o run.Ord, after time.Duration, forToken bool) {
	d := &m.delays
	after = min(max(after, leastDelay), longestDelay)
	m.wait(o, m.now.Add(after), forToken)
	if forToken {
		d.gap, d.row = max(after, d.gap/2), 1
	}
}

// wait has a step wait until it is due.
func (m *Machine) wait(o run.Ord, due time.Time, forToken bool) {
	d, st := &m.delays, &m.steps[o]
	st.stage, st.due, st.forToken = delayed, due, forToken
	if st.begun {
		m.keepPlace(o)
	}
	if forToken {
		d.tokens.push(deadline{due, o})
	} else {
		d.apart.push(deadline{due, o})
	}
}

// growing is the delay of a dispatch that came back without a reason, the n-th time from 1.
func growing(n int) time.Duration { return firstDelay << min(max(n, 1)-1, 6) }

// earliest brings the step of one of the heaps of delays that is due first to the top; false when nobody waits there.
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

// nextDelay is the earliest time at which a delayed step, or a hook, is dispatched again; zero for none.
func (m *Machine) nextDelay() time.Time {
	d := &m.delays
	at := m.compensation.due
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if m.earliest(&d.apart, false) {
		sooner(d.apart[0].at)
	}
	if m.earliest(&d.tokens, true) {
		sooner(later(d.tokens[0].at, d.next))
	} else {
		d.row, d.gap, d.next = 0, 0, time.Time{}
	}
	return at
}

// armDelay keeps the timer at the earliest of the due times.
func (m *Machine) armDelay() {
	if at := m.nextDelay(); !at.Equal(m.delays.firesAt) {
		m.delays.firesAt = at
		m.setTimer(TimerDelay, at)
	}
}

// delayFired lets those ask again that are due.
func (m *Machine) delayFired() {
	d := &m.delays
	d.firesAt = time.Time{} // it is armed again where there is more to wait for
	if c := &m.compensation; !c.due.IsZero() && !m.now.Before(c.due) {
		c.due = time.Time{}
	}
	due := func(h *heap[deadline], forToken bool) bool {
		return m.earliest(h, forToken) && !m.now.Before((*h)[0].at)
	}
	for due(&d.apart, false) {
		m.askAgain(d.apart.pop().ord)
	}
	if !due(&d.tokens, true) || m.now.Before(d.next) {
		return
	}
	for n := 0; n < d.row && due(&d.tokens, true); n++ {
		m.askAgain(d.tokens.pop().ord)
	}
	d.row = min(2*d.row, m.schedule.width)
	d.next = m.now.Add(d.gap)
}

// askAgain puts a delayed step up for dispatch; one that is RUNNING in the log goes at once, whatever the gate (T52).
func (m *Machine) askAgain(o run.Ord) {
	if m.steps[o].begun {
		m.launch(o)
		return
	}
	m.makeReady(o)
}

// runningDelayed are the delayed steps whose attempts are RUNNING in the log, ascending. They keep their places of the
// width, so they are few.
func (m *Machine) runningDelayed() []run.Ord {
	d := &m.delays
	d.running = slices.DeleteFunc(d.running, func(o run.Ord) bool { return m.steps[o].stage != delayed || !m.steps[o].begun })
	return d.running
}

// keepPlace notes a delayed step whose attempt is RUNNING in the log.
func (m *Machine) keepPlace(o run.Ord) {
	d := &m.delays
	if i, there := slices.BinarySearch(d.running, o); !there {
		d.running = slices.Insert(d.running, i, o)
	}
}

// cancelDelayed ends the delayed attempts that are RUNNING in the log, as their executions would that were asked to stop:
// nobody executes them.
func (m *Machine) cancelDelayed(why cause, applies func(*plan.SkeletonStep) bool) {
	running := append([]run.Ord(nil), m.runningDelayed()...)
	for _, o := range running {
		if applies(&m.sk.Steps[o]) {
			m.steps[o].asked = why
			m.endCancelled(o, engine.Return{})
		}
	}
}

// favouredDelayed reports whether a step that passes fail-fast waits.
func (m *Machine) favouredDelayed() bool {
	favours := func(e deadline) bool { return m.steps[e.ord].stage == delayed && m.favours(e.ord) }
	return slices.ContainsFunc(m.delays.apart, favours) || slices.ContainsFunc(m.delays.tokens, favours)
}
