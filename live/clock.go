package live

import (
	"sync/atomic"
	"time"
)

// clock estimates the store's time. Each read reports the store's time; the difference to the local clock is known to
// within half of the read's round trip. The local clock is used only to measure the time that has passed since the
// read. Safe for concurrent use.
type clock struct {
	local func() time.Time
	best  atomic.Pointer[reading]
}

// reading is one measurement of the store's clock.
type reading struct {
	at     time.Time     // middle of the read, by the local clock
	store  time.Time     // the store's time at that moment
	within time.Duration // half of the read's round trip
}

// drift is the assumed maximum drift between the two clocks, in seconds per second.
const drift = 1e-4

// error returns the maximum error of the reading at a given time.
func (r *reading) error(at time.Time) time.Duration {
	return r.within + time.Duration(float64(at.Sub(r.at).Abs())*drift)
}

// observe replaces the kept reading when the new one is at least as precise; the precision of the kept one decreases
// with time. It also replaces it when the two contradict each other, because then one of the clocks was set.
func (c *clock) observe(began, ended, stored time.Time) {
	half := ended.Sub(began) / 2
	next := &reading{at: began.Add(half), store: stored.Round(0), within: half}
	for {
		kept := c.best.Load()
		if kept != nil && next.within > kept.error(next.at) &&
			next.store.Sub(kept.now(next.at)).Abs() <= next.within+kept.error(next.at) {
			return
		}
		if c.best.CompareAndSwap(kept, next) {
			return
		}
	}
}

func (r *reading) now(at time.Time) time.Time { return r.store.Add(at.Sub(r.at)) }

// now returns the store's time, or zero before the first read.
func (c *clock) now() time.Time {
	r := c.best.Load()
	if r == nil {
		return time.Time{}
	}
	return r.now(c.local())
}
