package executor

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// longestRetry is the most that a full store may ask to wait.
const longestRetry = 30 * time.Second

// persist repeats f until it succeeds or ctx ends, with waits that double from
// first to most, each shortened by up to half at random; after a full store they
// are as long as it asks, and lengthened instead. It returns nil or ctx's cause.
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

func pause(wait time.Duration, err error) time.Duration {
	if full, ok := errors.AsType[*store.OverloadedError](err); ok && full.RetryAfter > 0 {
		return min(full.RetryAfter, longestRetry) + rand.N(wait/2)
	}
	return wait - rand.N(wait/2)
}
