package projector

import (
	"sync"
	"time"
)

// BreakerState says whether messages are sent to the bus (contract T124, O06).
type BreakerState string

// States of the breaker. Closed is normal. In Open no message is sent, only checkpoints are saved. In HalfOpen one
// message is in flight and its result decides.
const (
	Closed   BreakerState = "CLOSED"
	Open     BreakerState = "OPEN"
	HalfOpen BreakerState = "HALF_OPEN"
)

// breaker stops messages to a bus that cannot be used. One failure opens it. Each failed probe doubles the time until
// the next one. A bus that becomes available again is probed at once. Safe for concurrent use.
type breaker struct {
	delay backoff

	mu       sync.Mutex
	state    BreakerState
	failures int       // failures in a row
	until    time.Time // in Open: no probe before this time
	down     bool      // in Open: the bus was seen down
}

func newBreaker(delay backoff) *breaker { return &breaker{delay: delay, state: Closed} }

func (b *breaker) current() BreakerState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state
}

// isReady reports whether a message would be let through now.
func (b *breaker) isReady(now time.Time, up bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.isDue(now, up)
}

// allow reports whether a message may be sent. If the breaker was open, the message is the probe: the caller must
// then call exactly one of succeed, fail and abandon.
func (b *breaker) allow(now time.Time, up bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.isDue(now, up) {
		return false
	}
	if b.state == Open {
		b.state = HalfOpen
	}
	return true
}

func (b *breaker) isDue(now time.Time, up bool) bool {
	if b.state != Open {
		return b.state == Closed
	}
	if b.down && up {
		b.until = now
	}
	b.down = !up
	return !now.Before(b.until)
}

// succeed records that the bus answered. It reports whether that closed the breaker.
func (b *breaker) succeed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.state
	b.state, b.failures = Closed, 0
	return was != Closed
}

// fail records that the bus cannot be used. Failures of messages that were in flight when the breaker opened do not
// count again. It reports whether a closed breaker opened.
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

// abandon ends a probe without a result.
func (b *breaker) abandon(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == HalfOpen {
		b.state, b.until = Open, now
	}
}
