package live

import (
	"context"
	"fmt"
	"sync"

	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/store"
)

// promptly calls f and returns ErrUnavailable when ctx ends first. Drivers take a while to give up a silent
// connection, and contract T226 leaves no time for that. f then ends in group.
func promptly[T any](ctx context.Context, group *sync.WaitGroup, panics *contain.Guard,
	f func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	group.Go(func() {
		var a answer
		a.err = panics.Call("read", "", func() (err error) {
			a.value, err = f(ctx)
			return err
		})
		done <- a
	})
	select {
	case a := <-done:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, fmt.Errorf("%w: %v", store.ErrUnavailable,
			ctx.Err()) //nolint:errorlint // the caller's ctx has not ended
	}
}
