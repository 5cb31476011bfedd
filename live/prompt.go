package live

import (
	"context"
	"sync"
)

// promptly is f(ctx), but returns when ctx ends: a driver takes a while to give up a
// connection that has gone silent, and T226 leaves no time for that. f then ends
// in group.
func promptly[T any](ctx context.Context, group *sync.WaitGroup, f func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	said := make(chan answer, 1)
	group.Go(func() {
		v, err := f(ctx)
		said <- answer{v, err}
	})
	select {
	case a := <-said:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
