package interp

import (
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// longestDelay is the most that a step waits before it asks for a token again: quotas change.
const longestDelay = time.Minute

// quota is the heavy steps that came back because there was no token for them (§12.3,
// T113). They are PENDING: they take no place of the width, and nothing waits for them
// but the steps behind them and the end of a run that still has to run them. At each
// firing of TimerQuota a few ask again, the first in canonical order. One asks at
// first; each time that nobody is sent back the next firing lets twice as many ask. So
// what goes into the engine's history grows with the tokens, not with the steps
// that wait, and a quota that was raised is noticed soon.
type quota struct {
	delayed heap          // entries whose step is no longer delayed are skipped
	at      time.Time     // of the next firing; zero while nobody waits
	gap     time.Duration // between two firings
	row     int           // how many ask at the next
}

// throttled has a step that met an empty bucket wait for a token, as the same attempt.
func (m *Machine) throttled(o run.Ord, after time.Duration) {
	q := &m.quota
	after = min(max(after, time.Millisecond), longestDelay)
	m.steps[o].stage = delayed
	q.delayed.push(o)
	q.gap, q.row = max(after, q.gap/2), 1
	m.fireQuota(m.now.Add(after))
}

func (m *Machine) fireQuota(at time.Time) {
	m.quota.at = at
	m.setTimer(TimerQuota, at)
}

// quotaFired lets the next steps ask again.
func (m *Machine) quotaFired() {
	q := &m.quota
	switch {
	case q.at.IsZero():
		return
	case m.now.Before(q.at): // that of a wait before
		m.setTimer(TimerQuota, q.at)
		return
	}
	for n := 0; n < q.row && m.anyDelayed(); n++ {
		m.makeReady(q.delayed.pop())
	}
	if !m.anyDelayed() {
		m.quota = quota{}
		return
	}
	q.row = min(2*q.row, m.schedule.width)
	m.fireQuota(m.now.Add(q.gap))
}

// anyDelayed brings a step that waits for a token to the top, if there is one.
func (m *Machine) anyDelayed() bool {
	d := &m.quota.delayed
	for len(*d) > 0 && m.steps[(*d)[0]].stage != delayed {
		d.pop()
	}
	return len(*d) > 0
}

// favouredDelayed reports whether a step that passes fail-fast waits for a token.
func (m *Machine) favouredDelayed() bool {
	return slices.ContainsFunc(m.quota.delayed, func(o run.Ord) bool { return m.steps[o].stage == delayed && m.favours(o) })
}

// packDelayed writes which steps are delayed, a bit each. An execution of the version
// before takes them for ready.
func (m *Machine) packDelayed(c *Carried) {
	if !m.anyDelayed() {
		return
	}
	q := &m.quota
	c.QuotaAt, c.QuotaGap, c.QuotaRow = q.at, q.gap, q.row
	for i := range m.steps {
		if m.steps[i].stage == delayed {
			for len(c.Delayed) <= i/8 {
				c.Delayed = append(c.Delayed, 0)
			}
			c.Delayed[i/8] |= 1 << (i % 8)
		}
	}
}

// unpackDelayed is packDelayed backwards. It comes before the steps are placed.
func (m *Machine) unpackDelayed(c Carried) error {
	q := &m.quota
	for i := range 8 * len(c.Delayed) {
		switch {
		case c.Delayed[i/8]&(1<<(i%8)) == 0:
		case i >= len(m.steps):
			return fmt.Errorf("%w: step %d is delayed", ErrCarried, i)
		default:
			m.steps[i].stage = delayed
			q.delayed.push(run.Ord(i))
		}
	}
	if len(q.delayed) > 0 {
		q.at, q.gap, q.row = c.QuotaAt, c.QuotaGap, c.QuotaRow
	}
	return nil
}
