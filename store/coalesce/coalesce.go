// Package coalesce lets calls that wait share a commit. It decorates a store that can
// write batches of one run (store.Batcher) and groups of runs (store.Grouper):
//
// While one write of a run is under way, further Append and StartAttempt calls on that run wait
// together in its lane and go out as the next batch, in the order of the calls. While one
// write of any run is under way, plain calls on other runs, each one event that needs
// nothing but its insertion, go out as a group; while as many groups as allowed are under
// way, they wait together for the next.
//
// While one transaction of new runs is under way, further CreateRun calls wait together for the next, whatever
// project they are of: all of them need the row that the first holds until it is durable.
//
// Nothing lingers: a call that finds nothing under way goes out at once and alone, as
// without this package, and nobody waits for a call that goes alone. No run waits for the
// head of another: a group leaves out what it cannot lock or decide, and the caller makes
// that call by itself, so a control transaction that holds one run's head delays that
// run's appends only. What the store promises stays: numbers, dedupe and guards are
// decided by the database under the head lock, entry by entry, and an entry that cannot
// be written fails alone.
package coalesce

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/store"
)

// Config of a coalescing store; zero fields take the defaults named.
type Config struct {
	// MaxEntries of one batch; 128, at most store.MaxEntries.
	MaxEntries int
	// MaxBytes of the payloads of one batch, unless a single call has more; 4 MiB.
	MaxBytes int
	// MaxGroup entries of different runs are one group; 64, at most store.MaxEntries.
	MaxGroup int
	// MaxGroupBytes of the payloads of one group, unless a single call has more; 1 MiB.
	MaxGroupBytes int
	// MaxGroups is how many groups are under way at once, each on a connection of its own; 4. With fewer, the processor
	// is idle while the flushes of commits wait for each other.
	MaxGroups int
	// MaxWaiting is how many calls wait in all lanes and for a group together; 4,096.
	// Further ones are refused with a *store.OverloadedError before anything was tried.
	MaxWaiting int
	// Panics tells of panics of the store below; its callers get an error. nil tells nobody.
	Panics *contain.Guard
}

// Store is what New decorates.
type Store interface {
	store.Store
	store.Batcher
	store.Grouper
	store.Creator
}

// New decorates s.
func New(s Store, cfg Config) store.Store {
	return &coalescer{
		Store: s, batcher: s, grouper: s, creator: s, lanes: map[string]*lane{},
		batch:     limits{min(cmp.Or(cfg.MaxEntries, 128), store.MaxEntries), cmp.Or(cfg.MaxBytes, 4<<20)},
		group:     limits{min(cmp.Or(cfg.MaxGroup, 64), store.MaxEntries), cmp.Or(cfg.MaxGroupBytes, 1<<20)},
		maxGroups: cmp.Or(cfg.MaxGroups, 4), maxWaiting: cmp.Or(cfg.MaxWaiting, 4096), panics: cfg.Panics,
	}
}

// limits of what is written at once.
type limits struct{ entries, bytes int }

type coalescer struct {
	store.Store
	batcher    store.Batcher
	grouper    store.Grouper
	creator    store.Creator
	batch      limits
	group      limits
	maxGroups  int
	maxWaiting int
	panics     *contain.Guard

	mu       sync.Mutex
	waiting  int              // in all lanes and for a group
	lanes    map[string]*lane // runs with a write under way
	plain    []*call          // that wait for a group, oldest first
	groups   int              // under way
	newRuns  []*newRun        // that wait for a transaction, oldest first
	creating bool             // a transaction of new runs is under way
	alone    bool             // a call that found nothing under way is
}

// Connections is as many as the store below says that it has open; 0: it does not say.
func (c *coalescer) Connections() int {
	if s, ok := c.Store.(interface{ Connections() int }); ok {
		return s.Connections()
	}
	return 0
}

// lane is the calls of one run that wait for the write under way, oldest first.
type lane struct{ calls []*call }

// call is one Append or StartAttempt that waits.
type call struct {
	left   <-chan struct{} // closed when the caller has left
	entry  store.Entry
	plain  store.Plain             // the entry, for a group
	result chan *store.EntryResult // has room for it; nil when the caller is to make the call by itself
}

// retryAfter is when a refused caller may come back.
const retryAfter = 100 * time.Millisecond

// Append implements store.Log.
func (c *coalescer) Append(ctx context.Context, a store.Append) (store.Appended, error) {
	r, err := c.write(ctx, store.Entry{Append: &a})
	return r.Appended, err
}

// StartAttempt implements store.Log.
func (c *coalescer) StartAttempt(ctx context.Context, b store.StartAttempt) (store.AttemptStarted, error) {
	r, err := c.write(ctx, store.Entry{Start: &b})
	return r.Started, err
}

func (c *coalescer) write(ctx context.Context, e store.Entry) (store.EntryResult, error) {
	runID := e.RunID()
	own, first, err := c.enter(ctx, runID, e)
	if err != nil {
		return store.EntryResult{}, err
	}
	if own != nil {
		r := own.await(ctx)
		return *r, r.Err
	}
	defer c.leave(runID)
	if first {
		defer c.notAlone()
	} else if own := c.join(ctx, e); own != nil {
		if r := own.await(ctx); r != nil {
			return *r, r.Err
		}
	}
	var r store.EntryResult
	if e.Start != nil {
		r.Started, r.Err = c.Store.StartAttempt(ctx, *e.Start)
	} else {
		r.Appended, r.Err = c.Store.Append(ctx, *e.Append)
	}
	return r, r.Err
}

// enter makes a call that waits in the lane of its run, or takes the lane of an idle
// run for the caller, who leaves it after its write. The first of all is alone: it
// goes at once, and says when it is done.
func (c *coalescer) enter(ctx context.Context, runID string, e store.Entry) (own *call, first bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lanes[runID]
	if l == nil {
		c.lanes[runID] = &lane{}
		first = !c.alone && c.groups == 0
		c.alone = c.alone || first
		return nil, first, nil
	}
	if c.waiting == c.maxWaiting {
		return nil, false, &store.OverloadedError{RetryAfter: retryAfter}
	}
	c.waiting++
	own = &call{left: ctx.Done(), entry: e, result: make(chan *store.EntryResult, 1)}
	l.calls = append(l.calls, own)
	return own, false, nil
}

// join makes a call that waits for a group, or nil when it is not for one, or too many
// wait: then it goes by itself.
func (c *coalescer) join(ctx context.Context, e store.Entry) *call {
	prepared, ok := c.grouper.Plain(e)
	if !ok {
		return nil
	}
	own := &call{left: ctx.Done(), entry: e, plain: prepared, result: make(chan *store.EntryResult, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == c.maxWaiting {
		return nil
	}
	c.waiting++
	c.plain = append(c.plain, own)
	if c.groups < c.maxGroups {
		c.groups++
		go c.gather()
	}
	return own
}

// await returns the answer, or the end of the caller's context: then the call may
// or may not have been written, as with every store.
func (w *call) await(ctx context.Context) *store.EntryResult {
	select {
	case r := <-w.result:
		return r
	case <-ctx.Done():
		return &store.EntryResult{Err: context.Cause(ctx)}
	}
}

func (c *coalescer) notAlone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alone = false
}

// leave gives the lane up, or to those who waited meanwhile.
func (c *coalescer) leave(runID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if calls := c.next(runID); len(calls) > 0 {
		go c.drain(runID, calls)
	}
}

// drain writes batches of a run until nobody waits in its lane any more.
func (c *coalescer) drain(runID string, calls []*call) {
	for len(calls) > 0 {
		entries := make([]store.Entry, len(calls))
		for i, w := range calls {
			entries[i] = w.entry
		}
		// One caller's end is not the others': the store bounds the call's time.
		var results []store.EntryResult
		err := c.panics.Call("append", "", func() (err error) {
			results, err = c.batcher.Batch(context.Background(), runID, entries)
			return err
		})
		for i, w := range calls {
			if err != nil {
				w.result <- &store.EntryResult{Err: err}
				continue
			}
			w.result <- &results[i]
		}
		c.mu.Lock()
		calls = c.next(runID)
		c.mu.Unlock()
	}
}

// next takes the next batch of a lane; an empty lane ends.
func (c *coalescer) next(runID string) (calls []*call) {
	l := c.lanes[runID]
	if calls, l.calls = c.take(l.calls, c.batch); len(calls) == 0 {
		delete(c.lanes, runID)
	}
	return calls
}

// gather writes groups until nobody waits for one any more.
func (c *coalescer) gather() {
	for more := true; more; {
		c.yield()
		c.mu.Lock()
		var calls []*call
		calls, c.plain = c.take(c.plain, c.group)
		c.mu.Unlock()
		results, err := c.together(calls)
		c.mu.Lock()
		if more = len(c.plain) > 0; !more {
			c.groups-- // before the answers: who was the only one goes alone next time
		}
		c.mu.Unlock()
		for i, w := range calls {
			if err != nil {
				w.result <- &store.EntryResult{Err: err}
				continue
			}
			w.result <- results[i]
		}
	}
}

// yield lets those who have just had an answer go on, for as long as more of them come
// to wait, so that what they do next is in the group.
func (c *coalescer) yield() {
	for before, waiting := -1, 0; waiting > before; {
		before = waiting
		runtime.Gosched()
		c.mu.Lock()
		waiting = len(c.plain)
		c.mu.Unlock()
	}
}

// together writes one group. One caller's end is not the others': the store bounds the
// call's time.
func (c *coalescer) together(calls []*call) (results []*store.EntryResult, err error) {
	if len(calls) == 0 {
		return nil, nil
	}
	prepared := make([]store.Plain, len(calls))
	for i, w := range calls {
		prepared[i] = w.plain
	}
	err = c.panics.Call("append", "", func() (err error) {
		results, err = c.grouper.Group(context.Background(), prepared)
		return err
	})
	return results, err
}

// take takes from those who wait what is written at once, without the calls whose
// callers have left.
func (c *coalescer) take(waiting []*call, most limits) (calls, rest []*call) {
	bytes := 0
	for len(waiting) > 0 && len(calls) < most.entries {
		w := waiting[0]
		if bytes += size(w.entry); bytes > most.bytes && len(calls) > 0 {
			break
		}
		waiting = waiting[1:]
		c.waiting--
		select {
		case <-w.left:
		default:
			calls = append(calls, w)
		}
	}
	return calls, waiting
}

func size(e store.Entry) (bytes int) {
	if e.Append != nil {
		for _, d := range e.Append.Events {
			bytes += len(d.Payload)
		}
	}
	return bytes
}
