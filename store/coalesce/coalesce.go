// Package coalesce is a group commit for the log of one run: while one write of a
// run is under way, further Append and Begin calls on that run wait together and go
// out as one batch, at the price of one commit. It decorates a store that can write
// batches (store.Batcher).
//
// Nothing lingers: a call that finds its run idle goes out at once and alone. Runs do
// not wait for each other: each has a lane of its own, so a control transaction that
// holds one run's head delays that run's appends only. Order within a lane is the
// order of the calls. What the store promises stays: numbers, dedupe and guards are
// decided by the one append under the head lock, entry by entry, and an entry that
// cannot be written fails alone.
package coalesce

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Config of a coalescing store; zero fields take the defaults named.
type Config struct {
	// MaxEntries of one batch; 128, at most store.MaxEntries.
	MaxEntries int
	// MaxBytes of the payloads of one batch, unless a single call has more; 4 MiB.
	MaxBytes int
	// MaxWaiting is how many calls wait in all lanes together; 4,096. Further ones
	// are refused with a *store.OverloadedError before anything was tried.
	MaxWaiting int
}

// Store is what New decorates.
type Store interface {
	store.Store
	store.Batcher
}

// New decorates s.
func New(s Store, cfg Config) store.Store {
	return &coalescer{
		Store: s, batcher: s, lanes: map[string]*lane{},
		maxEntries: min(cmp.Or(cfg.MaxEntries, 128), store.MaxEntries), maxBytes: cmp.Or(cfg.MaxBytes, 4<<20), maxWaiting: cmp.Or(cfg.MaxWaiting, 4096),
	}
}

type coalescer struct {
	store.Store
	batcher    store.Batcher
	maxEntries int
	maxBytes   int
	maxWaiting int

	mu      sync.Mutex
	waiting int              // in all lanes
	lanes   map[string]*lane // runs with a write under way
}

// lane is the calls of one run that wait for the write under way, oldest first.
type lane struct{ calls []*call }

// call is one Append or Begin that waits.
type call struct {
	left   <-chan struct{} // closed when the caller has left
	entry  store.Entry
	result chan store.EntryResult // has room for it
}

// retryAfter is when a refused caller may come back.
const retryAfter = 100 * time.Millisecond

// Append implements store.Log.
func (c *coalescer) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	if own, wait, err := c.enter(ctx, a.RunID, store.Entry{Append: &a}); wait {
		r := own.await(ctx)
		return r.Appended, r.Err
	} else if err != nil {
		return store.Appended{}, err
	}
	defer c.leave(a.RunID)
	return c.Store.Append(ctx, a)
}

// Begin implements store.Log.
func (c *coalescer) Begin(ctx context.Context, b store.Begin) (store.Begun, error) {
	if own, wait, err := c.enter(ctx, b.RunID, store.Entry{Begin: &b}); wait {
		r := own.await(ctx)
		return r.Begun, r.Err
	} else if err != nil {
		return store.Begun{}, err
	}
	defer c.leave(b.RunID)
	return c.Store.Begin(ctx, b)
}

// enter takes the lane of an idle run for the caller, who leaves it after its
// write, or makes a call that waits.
func (c *coalescer) enter(ctx context.Context, runID string, e store.Entry) (own *call, wait bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[runID]
	if l == nil {
		c.lanes[runID] = &lane{}
		return nil, false, nil
	}
	if c.waiting == c.maxWaiting {
		return nil, false, &store.OverloadedError{RetryAfter: retryAfter}
	}
	c.waiting++
	own = &call{left: ctx.Done(), entry: e, result: make(chan store.EntryResult, 1)}
	l.calls = append(l.calls, own)
	return own, true, nil
}

// await returns the answer, or the end of the caller's context: then the call may
// or may not have been written, as with every store.
func (w *call) await(ctx context.Context) store.EntryResult {
	select {
	case r := <-w.result:
		return r
	case <-ctx.Done():
		return store.EntryResult{Err: context.Cause(ctx)}
	}
}

// leave gives the lane up, or to those who waited meanwhile.
func (c *coalescer) leave(runID string) {
	if calls := c.take(runID); len(calls) > 0 {
		go c.drain(runID, calls)
	}
}

// drain writes batches until nobody waits any more.
func (c *coalescer) drain(runID string, calls []*call) {
	for len(calls) > 0 {
		entries := make([]store.Entry, len(calls))
		for i, w := range calls {
			entries[i] = w.entry
		}
		// One caller's end is not the others': the store bounds the call's time.
		results, err := c.batcher.Batch(context.Background(), runID, entries)
		for i, w := range calls {
			if err != nil {
				w.result <- store.EntryResult{Err: err}
				continue
			}
			w.result <- results[i]
		}
		calls = c.take(runID)
	}
}

// take takes the next batch of a lane, without the calls whose callers have left;
// an empty lane ends.
func (c *coalescer) take(runID string) (calls []*call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[runID]
	bytes := 0
	for len(l.calls) > 0 && len(calls) < c.maxEntries {
		w := l.calls[0]
		if bytes += size(w.entry); bytes > c.maxBytes && len(calls) > 0 {
			break
		}
		l.calls = l.calls[1:]
		c.waiting--
		select {
		case <-w.left:
		default:
			calls = append(calls, w)
		}
	}
	if len(calls) == 0 {
		delete(c.lanes, runID)
	}
	return calls
}

func size(e store.Entry) (bytes int) {
	if e.Append != nil {
		for _, d := range e.Append.Events {
			bytes += len(d.Payload)
		}
	}
	return bytes
}
