package sqlite

import (
	"context"
	"sync/atomic"
	"time"
)

// readers is the connections for reads. A read is one statement, which is one
// snapshot; it waits for no writer.
type readers struct {
	open    func() (*conn, error)
	free    chan *conn // nil stands for one that is not open yet
	most    int64      // reads that may wait
	waiting atomic.Int64
	closing chan struct{}
	pace    pace
}

func newReaders(n, most int, open func() (*conn, error)) *readers {
	r := &readers{open: open, free: make(chan *conn, n), most: int64(most), closing: make(chan struct{})}
	for range n {
		r.free <- nil
	}
	return r
}

// do runs f on a connection. store.ErrOverloaded says that too many wait for one.
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
	if n := r.waiting.Add(1); n > r.most {
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

// close refuses reads that wait and those to come, and lets those in hand end.
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
