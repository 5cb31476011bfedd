package executor

import (
	"context"
	"math/rand/v2"
	"time"
)

// persist repeats f until it succeeds or ctx ends, with waits that double from
// first to most, each shortened by up to half at random. It returns nil or ctx's cause.
func persist(ctx context.Context, first, most time.Duration, f func() error) error {
	for wait := first; ; wait = min(2*wait, most) {
		if f() == nil {
			return nil
		}
		timer := time.NewTimer(wait - rand.N(wait/2))
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}
