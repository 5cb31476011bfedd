package projector

import "time"

// backoff is an exponential delay with full jitter (contract R101, O06).
type backoff struct {
	base, limit time.Duration
	random      func() float64 // in [0, 1)
}

// after returns the delay after the n-th failure in a row, n from 1. It is above zero and at most base doubled n-1
// times, and never above limit.
func (b backoff) after(n int) time.Duration {
	limit := b.base
	for ; n > 1 && limit < b.limit; n-- {
		limit *= 2
	}
	return time.Duration(float64(min(limit, b.limit)) * (1 - b.random()))
}
