package executor

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// longestRetry is the longest delay that an overloaded store may ask for.
const longestRetry = 30 * time.Second

// persist repeats f until it succeeds or ctx ends. It returns nil or the cause of ctx. The delay doubles from first to
// most and is shortened by up to half at random. After a *store.OverloadedError the delay is at least the one that the
// store asks for.
func persist(ctx context.Context, first, most time.Duration, f func() error) error {
	for wait := first; ; wait = min(2*wait, most) {
		err := f()
		if err == nil {
			return nil
		}
		timer := time.NewTimer(pause(wait, err))
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// pause returns the delay after an error; see persist.
func pause(wait time.Duration, err error) time.Duration {
	if full, ok := errors.AsType[*store.OverloadedError](err); ok && full.RetryAfter > 0 {
		return min(full.RetryAfter, longestRetry) + rand.N(wait/2)
	}
	return wait - rand.N(wait/2)
}
