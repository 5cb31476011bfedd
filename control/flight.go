package control

import (
	"context"
	"sync"

	"github.com/dvt-engine/dvt/internal/contain"
)

// flight shares one read among its callers. Each caller gets the answer of a read that began after it asked, so that it
// sees everything that was committed before. However many ask, one read is under way and one waits. The zero value is
// ready; it is safe for concurrent use.
type flight struct {
	mu       sync.Mutex
	underWay bool
	next     *flightRead // of the callers who wait for the read under way to end
}

type flightRead struct {
	done chan struct{}
	err  error
}

// do returns the error of a read that began after do was called, or ctx's cause when that ends first. read gets a context
// of its own, because it serves others too: it must bound its time itself.
func (f *flight) do(ctx context.Context, read func(context.Context) error) error {
	f.mu.Lock()
	if f.next == nil {
		f.next = &flightRead{done: make(chan struct{})}
	}
	own := f.next
	if !f.underWay {
		f.underWay = true
		go f.fly(context.WithoutCancel(ctx), read)
	}
	f.mu.Unlock()
	select {
	case <-own.done:
		return own.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fly reads until nobody waits for a read.
func (f *flight) fly(ctx context.Context, read func(context.Context) error) {
	for {
		f.mu.Lock()
		r := f.next
		f.next = nil
		if f.underWay = r != nil; !f.underWay {
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		r.err = contain.Call(func() error { return read(ctx) })
		close(r.done)
	}
}
