package control

import (
	"context"
	"sync"

	"github.com/dvt-engine/dvt/internal/contain"
)

// Flight shares one read among concurrent callers. Each caller gets the result of a read that began after its call, so
// it sees everything committed before the call. For any number of callers, at most one read runs and one is pending.
// The zero value is ready; it is safe for concurrent use.
type Flight struct {
	mu       sync.Mutex
	underWay bool
	next     *flightRead // the pending read: it begins when the read under way ends
}

type flightRead struct {
	done chan struct{}
	err  error
}

// Do returns the error of a read that began after Do was called, or the cause of ctx when ctx ends first. read gets a
// context without ctx's cancellation, because other callers wait for it too. It must therefore limit its own duration.
func (f *Flight) Do(ctx context.Context, read func(context.Context) error) error {
	f.mu.Lock()
	if f.next == nil {
		f.next = &flightRead{done: make(chan struct{})}
	}
	own := f.next
	if !f.underWay {
		f.underWay = true
		go f.run(context.WithoutCancel(ctx), read)
	}
	f.mu.Unlock()
	select {
	case <-own.done:
		return own.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run reads until no read is pending.
func (f *Flight) run(ctx context.Context, read func(context.Context) error) {
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
