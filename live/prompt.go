package live

import (
	"context"
	"fmt"
	"sync"

	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/store"
)

// promptly is f(ctx), but ErrUnavailable when ctx ends first: a driver takes a while to give up a
// connection that has gone silent, and T226 leaves no time for that. f then ends
// in group.
func promptly[T any](ctx context.Context, group *sync.WaitGroup, panics *contain.Guard,
	f func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	said := make(chan answer, 1)
	group.Go(func() {
		var a answer
		a.err = panics.Call("read", "", func() (err error) {
			a.value, err = f(ctx)
			return err
		})
		said <- a
	})
	select {
	case a := <-said:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("%w: %v", store.ErrUnavailable, ctx.Err()) //nolint:errorlint // whoever asked did not give up
	}
}
