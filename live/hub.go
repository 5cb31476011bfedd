package live

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Source is what the hub reads of a store.
type Source interface {
	Heads(ctx context.Context, runIDs []string) (store.Heads, error)
	// Since as store.States has it: the whole state at the head, in one read.
	Since(ctx context.Context, runID string, w run.Seq) (store.Loaded, run.Delta, error)
}

// Config of a Hub; zero fields take the defaults named.
type Config struct {
	// HeadInterval is the time between two head checks, each one query for all
	// watched runs; 1 s, so that every cause is said within 2 s (T226).
	HeadInterval time.Duration
	// Patience is how long a watched run may be behind a known head before that is
	// a loss and not a message on its way; 500 ms (T187). A read that takes longer is
	// said to the viewers while it goes on.
	Patience time.Duration
	// Quiet is the longest time between two frames of a stream; 14 s, so that no
	// viewer waits for 15 s (O9).
	Quiet time.Duration
	// Settle is how soon a quiet frame follows one that said something new, when nothing
	// else does: whoever lost that one learns of it, and asks anew; 2 s.
	Settle time.Duration
	// ReadTimeout bounds one read of the store; 2 s. A failed head check ends it sooner.
	ReadTimeout time.Duration
	// MaxStreams bounds the streams of a hub; 20,000.
	MaxStreams int
	// Now is the local clock; time.Now. It is used to measure what has passed since
	// the store said its time, and for nothing else.
	Now     func() time.Time
	Metrics prometheus.Registerer // none when nil
	Logger  *slog.Logger
}

func (c *Config) defaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.HeadInterval, time.Second)
	set(&c.Patience, 500*time.Millisecond)
	set(&c.Quiet, 14*time.Second)
	set(&c.Settle, 2*time.Second)
	set(&c.ReadTimeout, 2*time.Second)
	if c.MaxStreams == 0 {
		c.MaxStreams = 20000
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Hub keeps one entry per watched run. Make it with New; Run must be running.
type Hub struct {
	cfg     Config
	src     Source
	bus     Bus
	clock   clock
	metrics *metrics
	panics  *contain.Guard

	mu      sync.Mutex
	entries map[string]*entry
	streams int
	closed  bool
	wg      sync.WaitGroup
}

// New makes a hub on a store and a bus.
func New(src Source, bus Bus, cfg Config) *Hub {
	cfg.defaults()
	return &Hub{
		cfg: cfg, src: src, bus: bus, clock: clock{local: cfg.Now}, metrics: newMetrics(cfg.Metrics),
		entries: map[string]*entry{},
		panics:  contain.New(cfg.Metrics, cfg.Logger),
	}
}

// Now is the store's time, as the reads of this hub tell it; the clock of this
// machine may be wrong. It is off by at most half the round trip of a read, and
// zero before the first one.
func (h *Hub) Now() time.Time { return h.clock.now() }

// since reads, and learns the store's time.
func (h *Hub) since(ctx context.Context, runID string, w run.Seq) (store.Loaded, run.Delta, error) {
	type loaded struct {
		store.Loaded
		run.Delta
	}
	began := h.cfg.Now()
	l, err := promptly(ctx, &h.wg, h.panics, func(ctx context.Context) (loaded, error) {
		l, d, err := h.src.Since(ctx, runID, w)
		return loaded{l, d}, err
	})
	if err == nil {
		h.clock.observe(began, h.cfg.Now(), l.Now)
	}
	return l.Loaded, l.Delta, err
}

// heads as since.
func (h *Hub) heads(ctx context.Context, runIDs []string) (store.Heads, error) {
	began := h.cfg.Now()
	out, err := promptly(ctx, &h.wg, h.panics, func(ctx context.Context) (store.Heads,
		error) {
		return h.src.Heads(ctx, runIDs)
	})
	if err == nil {
		h.clock.observe(began, h.cfg.Now(), out.Now)
	}
	return out, err
}

// Watch opens a stream of one run. after, when not nil, is the seq of a state of
// epoch that the viewer has: the first frame then is LIVE and what changed since
// is State.Since(Frame.From); a position ahead of the log or of another epoch
// gives a Reset (T187). ErrNotFound, ErrTooMany, ErrShutdown, store errors.
func (h *Hub) Watch(ctx context.Context, runID string, after *run.Seq, epoch string) (*Stream, error) {
	e, err := h.enter(runID)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.ready:
	case <-ctx.Done():
		h.leave(e)
		return nil, ctx.Err()
	}
	s := &Stream{hub: h, entry: e, wake: make(chan struct{}, 1)}
	if err := e.join(ctx, s, after, epoch); err != nil {
		h.leave(e)
		return nil, err
	}
	return s, nil
}

func (h *Hub) enter(runID string) (*entry, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrShutdown
	}
	if h.streams >= h.cfg.MaxStreams {
		return nil, ErrTooMany
	}
	h.streams++
	e := h.entries[runID]
	if e == nil {
		var ctx context.Context
		e, ctx = newEntry(h, runID)
		h.entries[runID] = e
		h.wg.Go(func() { e.run(ctx) })
	}
	e.refs++
	return e, nil
}

func (h *Hub) leave(e *entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams--
	e.refs--
	if e.refs == 0 {
		e.stop()
		h.drop(e)
	}
}

// forget makes the next watcher of the run begin anew.
func (h *Hub) forget(e *entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(e)
}

// drop needs h.mu.
func (h *Hub) drop(e *entry) {
	if h.entries[e.runID] == e {
		delete(h.entries, e.runID)
	}
}

// Watched returns how many runs and streams are open now.
func (h *Hub) Watched() (runs, streams int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.entries), h.streams
}

// Run checks heads until ctx ends, in between also when the bus goes or comes
// back; then every stream ends with ErrShutdown and Run returns when nothing of
// the hub runs any more.
func (h *Hub) Run(ctx context.Context) error {
	tick := time.NewTicker(h.cfg.HeadInterval)
	defer tick.Stop()
	look := time.NewTicker(max(h.cfg.HeadInterval/4, time.Millisecond))
	defer look.Stop()
	up := h.bus.Up()
	for {
		select {
		case <-ctx.Done():
			h.shutdown()
			h.wg.Wait()
			return nil
		case <-look.C:
			if up == h.bus.Up() {
				continue
			}
		case <-tick.C:
		}
		up = h.bus.Up()
		h.checkHeads(ctx)
	}
}

func (h *Hub) shutdown() {
	h.mu.Lock()
	h.closed = true
	entries := make([]*entry, 0, len(h.entries))
	for _, e := range h.entries {
		entries = append(entries, e)
	}
	h.mu.Unlock()
	for _, e := range entries {
		e.fail(ErrShutdown)
	}
}

// headSeen is what one head check knows of one run.
type headSeen struct {
	head  store.Head
	epoch string
	now   time.Time
	err   error
	found bool
}

// checkHeads asks for the heads of all watched runs at once and tells each entry.
// An entry that has not taken the last answer gets the newer one instead.
func (h *Hub) checkHeads(ctx context.Context) {
	h.mu.Lock()
	entries := make([]*entry, 0, len(h.entries))
	ids := make([]string, 0, len(h.entries))
	for id, e := range h.entries {
		entries, ids = append(entries, e), append(ids, id)
	}
	h.mu.Unlock()
	// Interval and time together stay below the 2 s of T226, however many runs there are.
	within, cancel := context.WithTimeout(ctx, h.cfg.HeadInterval*3/4)
	defer cancel()
	for start := 0; start < len(ids); start += store.MaxHeads {
		end := min(start+store.MaxHeads, len(ids))
		heads, err := h.heads(within, ids[start:end])
		if ctx.Err() != nil {
			return
		}
		for i, e := range entries[start:end] {
			head, found := heads.ByRun[ids[start+i]]
			e.tell(headSeen{head: head, epoch: heads.Epoch, now: heads.Now, err: err, found: found})
		}
	}
}
