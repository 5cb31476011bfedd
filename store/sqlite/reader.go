package sqlite

import (
	"context"
	"sync/atomic"
	"time"
)

// readers is the pool of connections for reads. A read is one statement and so one snapshot. It never waits for a
// writer.
type readers struct {
	open       func() (*conn, error)
	free       chan *conn // nil stands for a connection that is not open yet
	maxWaiting int64      // the most reads that may wait
	waiting    atomic.Int64
	closing    chan struct{}
	pace       pace
}

func newReaders(n, maxWaiting int, open func() (*conn, error)) *readers {
	r := &readers{open: open, free: make(chan *conn, n), maxWaiting: int64(maxWaiting), closing: make(chan struct{})}
	for range n {
		r.free <- nil
	}
	return r
}

// do runs f on a connection. It returns a *store.OverloadedError if too many reads wait for one.
func (r *readers) do(ctx context.Context, f func(*conn) error) error {
	c, err := r.take(ctx)
	if err != nil {
		return err
	}
	start := time.Now()
	defer func() {
		r.pace.note(time.Since(start) / time.Duration(cap(r.free)))
		r.free <- c
	}()
	if c == nil {
		if c, err = r.open(); err != nil {
			return err
		}
	}
	return f(c)
}

func (r *readers) take(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-r.closing:
		return nil, errClosed
	default:
	}
	select {
	case c := <-r.free:
		return c, nil
	default:
	}
	defer r.waiting.Add(-1)
	if n := r.waiting.Add(1); n > r.maxWaiting {
		return nil, r.pace.refuse(int(n))
	}
	select {
	case c := <-r.free:
		return c, nil
	case <-r.closing:
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// close refuses waiting and later reads, waits for the running ones, and closes the connections.
func (r *readers) close() error {
	close(r.closing)
	var failure error
	for range cap(r.free) {
		if c := <-r.free; c != nil {
			if err := c.close(); err != nil {
				failure = err
			}
		}
	}
	return failure
}
