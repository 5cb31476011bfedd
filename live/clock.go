package live

import (
	"sync/atomic"
	"time"
)

// clock says the store's time. A read that took from began to ended and says what
// time it was tells the difference between the store's clock and the local one,
// but for half its round trip; the local clock only measures what has passed since.
type clock struct {
	local func() time.Time
	best  atomic.Pointer[reading]
}

// reading is what one read told.
type reading struct {
	at     time.Time     // in the middle of it, by the local clock
	says   time.Time     // by the store's
	within time.Duration // half the round trip
}

// drift is how far two clocks go apart at most, per unit of time.
const drift = 1e-4

// error bounds how far off the reading is at a time.
func (r *reading) error(at time.Time) time.Duration {
	return r.within + time.Duration(float64(at.Sub(r.at).Abs())*drift)
}

// observe keeps the reading if it is no worse than the one kept, which gets worse
// with time, or if both cannot be right: then one of the clocks was set.
func (c *clock) observe(began, ended, says time.Time) {
	half := ended.Sub(began) / 2
	next := &reading{at: began.Add(half), says: says.Round(0), within: half}
	for {
		kept := c.best.Load()
		if kept != nil && next.within > kept.error(next.at) &&
			next.says.Sub(kept.now(next.at)).Abs() <= next.within+kept.error(next.at) {
			return
		}
		if c.best.CompareAndSwap(kept, next) {
			return
		}
	}
}

func (r *reading) now(at time.Time) time.Time { return r.says.Add(at.Sub(r.at)) }

// now is the store's time; zero before the first read.
func (c *clock) now() time.Time {
	r := c.best.Load()
	if r == nil {
		return time.Time{}
	}
	return r.now(c.local())
}
