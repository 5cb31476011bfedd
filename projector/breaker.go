package projector

import (
	"sync"
	"time"
)

// BreakerState says whether messages are given to the bus (T124, O06).
type BreakerState string

// States of the breaker: Closed is normal; Open waits, and only saves checkpoints;
// HalfOpen has one message on its way that decides.
const (
	Closed   BreakerState = "CLOSED"
	Open     BreakerState = "OPEN"
	HalfOpen BreakerState = "HALF_OPEN"
)

// breaker keeps a bus that cannot be used from being asked by every message. One
// failure opens it; each failed probe lets the next one wait longer; a bus that
// comes back is probed at once.
type breaker struct {
	delay backoff

	mu       sync.Mutex
	state    BreakerState
	failures int       // in a row
	until    time.Time // of Open: no probe before
	down     bool      // of Open: the bus was seen down
}

func newBreaker(delay backoff) *breaker { return &breaker{delay: delay, state: Closed} }

func (b *breaker) current() BreakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// ready reports whether a message would be let through now.
func (b *breaker) ready(now time.Time, up bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.due(now, up)
}

// allow lets a message through. In a breaker that was open it is the probe, and
// exactly one of succeed, fail and abandon must follow.
func (b *breaker) allow(now time.Time, up bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.due(now, up) {
		return false
	}
	if b.state == Open {
		b.state = HalfOpen
	}
	return true
}

func (b *breaker) due(now time.Time, up bool) bool {
	if b.state != Open {
		return b.state == Closed
	}
	if b.down && up {
		b.until = now
	}
	b.down = !up
	return !now.Before(b.until)
}

// succeed says that the bus answered. It reports whether that closed the breaker.
func (b *breaker) succeed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.state
	b.state, b.failures = Closed, 0
	return was != Closed
}

// fail says that the bus cannot be used. Failures of messages that were under way
// when the breaker opened do not count again. It reports whether a closed one opened.
func (b *breaker) fail(now time.Time, up bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == Open {
		return false
	}
	was := b.state
	b.failures++
	b.state, b.until, b.down = Open, now.Add(b.delay.after(b.failures)), !up
	return was == Closed
}

// abandon takes back a message that was let through and of which nothing is known.
func (b *breaker) abandon(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == HalfOpen {
		b.state, b.until = Open, now
	}
}
