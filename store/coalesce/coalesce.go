// Package coalesce merges concurrent calls into one commit. It decorates a store that can write batches of one run
// (store.Batcher), groups of runs (store.Grouper) and several new runs (store.Creator).
//
// There are three kinds of merged writes:
//   - A batch. While a write to a run is in progress, further Append and StartAttempt calls on that run wait in its
//     lane and become the next batch, in the order of the calls.
//   - A group. While a write to another run is in progress, plain calls, which are one event and need only an insert,
//     are written as groups. While the allowed number of groups is in progress, plain calls wait for the next group.
//   - A transaction of new runs. While one is in progress, further CreateRun calls wait for the next, because they all
//     need the row that it locks until it is durable.
//
// No call waits for a timer. A call that finds no write in progress is made at once and alone, as without this package,
// and calls on other runs do not wait for a call that is made alone.
//
// No run waits for the head of another run. A group omits each run whose head it cannot lock or whose event it cannot
// decide, and the caller then makes that call alone. So a control transaction that holds the head of a run delays only
// that run's appends.
//
// The guarantees of the store hold: the database assigns numbers, finds duplicates and checks guards under the head
// lock, entry by entry, and an entry that cannot be written fails alone.
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

// Config configures a coalescing store. A zero field takes its default.
type Config struct {
	// MaxEntries is the most entries of one batch; default 128, at most store.MaxEntries.
	MaxEntries int
	// MaxBytes limits the payloads of one batch, unless a single call has more; default 4 MiB.
	MaxBytes int
	// MaxGroup is the most entries of one group, and the most runs of one transaction of new runs; default 64, at most
	// store.MaxEntries.
	MaxGroup int
	// MaxGroupBytes limits the payloads of one group, and the plans and params of one transaction of new runs, unless a
	// single call has more; default 1 MiB.
	MaxGroupBytes int
	// MaxGroups is the number of groups in progress at once, each on a connection of its own; default 4. With fewer, the
	// processor is idle while a commit is flushed.
	MaxGroups int
	// MaxWaiting is the number of calls that may wait: in all lanes, for a group and for a transaction of new runs
	// together; default 4,096. When it is reached, a call that must wait is refused with a *store.OverloadedError before
	// anything was tried, and a plain call on an idle run is made alone.
	MaxWaiting int
	// Panics reports panics of the decorated store, whose callers get an error. nil reports none.
	Panics *contain.Guard
}

// Store is the store that New decorates.
type Store interface {
	store.Store
	store.Batcher
	store.Grouper
	store.Creator
}

// New returns a store that merges concurrent Append, StartAttempt and CreateRun calls of s. Other calls go to s
// unchanged.
func New(s Store, cfg Config) store.Store {
	return &coalescer{
		Store: s, batcher: s, grouper: s, creator: s, lanes: map[string]*lane{},
		batch:     limits{min(cmp.Or(cfg.MaxEntries, 128), store.MaxEntries), cmp.Or(cfg.MaxBytes, 4<<20)},
		group:     limits{min(cmp.Or(cfg.MaxGroup, 64), store.MaxEntries), cmp.Or(cfg.MaxGroupBytes, 1<<20)},
		maxGroups: cmp.Or(cfg.MaxGroups, 4), maxWaiting: cmp.Or(cfg.MaxWaiting, 4096), panics: cfg.Panics,
	}
}

// limits bound one merged write.
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
	waiting  int              // calls in all lanes, in plain and in newRuns
	lanes    map[string]*lane // by run, of the runs with a write in progress
	plain    []*call          // calls that wait for a group, the oldest first
	groups   int              // groups in progress
	newRuns  []*newRun        // calls that wait for a transaction of new runs, the oldest first
	creating bool             // a transaction of new runs is in progress
	alone    bool             // a call that found no write in progress has not returned yet
}

// Unwrap returns the decorated store.
func (c *coalescer) Unwrap() store.Store { return c.Store }

// Connections returns the number of open connections of the decorated store, or 0 when it does not know.
func (c *coalescer) Connections() int {
	if s, ok := c.Store.(interface{ Connections() int }); ok {
		return s.Connections()
	}
	return 0
}

// lane is the calls of one run that wait for the end of the write in progress, the oldest first.
type lane struct{ calls []*call }

// call is a waiting Append or StartAttempt.
type call struct {
	left   <-chan struct{} // closed when the caller no longer waits
	entry  store.Entry
	plain  store.Plain             // the prepared entry of a call that waits for a group
	result chan *store.EntryResult // buffered, so that the writer never blocks; nil makes the caller write alone
}

// retryAfter is the time after which a refused caller may retry.
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
		defer c.endAlone()
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

// enter adds a call to the lane of its run. If the run is idle it makes the lane instead and returns a nil call; the
// caller then writes and calls leave. first says that no write at all is in progress, so that the caller writes alone
// and calls endAlone.
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

// join adds a call that waits for a group. It returns nil, and the caller writes alone, when the entry is not plain or
// too many calls wait.
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
		go c.writeGroups()
	}
	return own
}

// await returns the result, or the cause of the end of ctx. In the latter case the entry may or may not be written, as
// with every store.
func (w *call) await(ctx context.Context) *store.EntryResult {
	select {
	case r := <-w.result:
		return r
	case <-ctx.Done():
		return &store.EntryResult{Err: context.Cause(ctx)}
	}
}

// endAlone records that the call that was made alone has returned.
func (c *coalescer) endAlone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alone = false
}

// leave ends the caller's write. It removes the lane, or starts to write the calls that have arrived in it.
func (c *coalescer) leave(runID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if calls := c.takeBatch(runID); len(calls) > 0 {
		go c.drain(runID, calls)
	}
}

// drain writes batches of a run until its lane is empty.
func (c *coalescer) drain(runID string, calls []*call) {
	for len(calls) > 0 {
		entries := make([]store.Entry, len(calls))
		for i, w := range calls {
			entries[i] = w.entry
		}
		// The end of one caller's context must not cancel the others; the store limits the duration of the call.
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
		calls = c.takeBatch(runID)
		c.mu.Unlock()
	}
}

// takeBatch removes the next batch from a lane. It deletes an empty lane. The caller holds mu.
func (c *coalescer) takeBatch(runID string) (calls []*call) {
	l := c.lanes[runID]
	if calls, l.calls = c.take(l.calls, c.batch); len(calls) == 0 {
		delete(c.lanes, runID)
	}
	return calls
}

// writeGroups writes groups until no call waits for one.
func (c *coalescer) writeGroups() {
	for more := true; more; {
		c.yield()
		c.mu.Lock()
		var calls []*call
		calls, c.plain = c.take(c.plain, c.group)
		c.mu.Unlock()
		results, err := c.writeGroup(calls)
		c.mu.Lock()
		if more = len(c.plain) > 0; !more {
			c.groups-- // before the results, so that a single caller finds no write in progress with its next call
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

// yield lets callers that have just got their results run, as long as they add new calls, so that the next group has
// these calls too.
func (c *coalescer) yield() {
	for before, waiting := -1, 0; waiting > before; {
		before = waiting
		runtime.Gosched()
		c.mu.Lock()
		waiting = len(c.plain)
		c.mu.Unlock()
	}
}

// writeGroup writes one group. The end of one caller's context must not cancel the others; the store limits the
// duration of the call.
func (c *coalescer) writeGroup(calls []*call) (results []*store.EntryResult, err error) {
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

// take splits waiting calls into those of the next write, within the limits most, and the rest. It drops calls whose
// callers no longer wait. The caller holds mu.
func (c *coalescer) take(waiting []*call, most limits) (calls, rest []*call) {
	bytes := 0
	for len(waiting) > 0 && len(calls) < most.entries {
		w := waiting[0]
		if bytes += payloadBytes(w.entry); bytes > most.bytes && len(calls) > 0 {
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

// payloadBytes returns the length of the payloads of an entry.
func payloadBytes(e store.Entry) (bytes int) {
	if e.Append != nil {
		for _, d := range e.Append.Events {
			bytes += len(d.Payload)
		}
	}
	return bytes
}
