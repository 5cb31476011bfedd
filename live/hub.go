package live

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Source is the part of a store that the hub reads.
type Source interface {
	Heads(ctx context.Context, runIDs []string) (store.Heads, error)
	// Since returns the whole state at the head in one read; see store.States.
	Since(ctx context.Context, runID string, w run.Seq) (store.Loaded, run.Delta, error)
}

// Config configures a Hub; zero fields take the named defaults.
type Config struct {
	// HeadInterval is the time between two head checks; each is one query for all watched runs. Default 1 s, so that
	// every fault is shown within 2 s (contract T226).
	HeadInterval time.Duration
	// Patience is how long a watched run may be behind a known head before this counts as a loss and not as a message in
	// flight. Default 500 ms (contract T187). A read that takes longer shows STALE until it ends.
	Patience time.Duration
	// KeepAlive is the longest time between two frames of a stream. Default 14 s, so that no viewer waits for 15 s
	// (contract O9).
	KeepAlive time.Duration
	// Settle is the time after which a quiet frame follows a frame with changes, if no other frame does. A viewer that
	// lost the earlier frame then notices it and reloads. Default 2 s.
	Settle time.Duration
	// ReadTimeout bounds one read of the store. Default 2 s. A failed head check cancels the read earlier.
	ReadTimeout time.Duration
	// MaxStreams bounds the streams of a hub. Default 20,000.
	MaxStreams int
	// Now is the local clock, time.Now by default. It only measures the time that has passed since the store reported
	// its own.
	Now func() time.Time
	// OnGap is called for each missing message that a stream notices, and must not block; may be nil.
	OnGap   func()
	Metrics prometheus.Registerer // nil: no metrics
	Logger  *slog.Logger
}

func (c *Config) defaults() {
	c.HeadInterval = cmp.Or(c.HeadInterval, time.Second)
	c.Patience = cmp.Or(c.Patience, 500*time.Millisecond)
	c.KeepAlive = cmp.Or(c.KeepAlive, 14*time.Second)
	c.Settle = cmp.Or(c.Settle, 2*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 2*time.Second)
	c.MaxStreams = cmp.Or(c.MaxStreams, 20000)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.OnGap == nil {
		c.OnGap = func() {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Hub keeps one entry for each watched run. Make it with New; Run must be running. Safe for concurrent use.
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

// New makes a hub that reads src and subscribes to bus.
func New(src Source, bus Bus, cfg Config) *Hub {
	cfg.defaults()
	return &Hub{
		cfg: cfg, src: src, bus: bus, clock: clock{local: cfg.Now}, metrics: newMetrics(cfg.Metrics),
		entries: map[string]*entry{},
		panics:  contain.New(cfg.Metrics, cfg.Logger),
	}
}

// Now returns the store's time as estimated from the reads of this hub; the clock of this machine may be wrong. The
// error is at most half the round trip of a read. Zero before the first read.
func (h *Hub) Now() time.Time { return h.clock.now() }

// since reads a run and observes the store's clock.
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

// heads reads heads and observes the store's clock.
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

// Watch opens a stream of one run. after, when not nil, is the position of a state of epoch that the viewer already
// has. The first frame is then LIVE, and State.Since(Frame.From) has the changes. A position ahead of the log or of
// another epoch causes a Reset frame (contract T187). Errors: ErrNotFound, ErrTooMany, ErrShutdown, errors of the
// store, ctx's error.
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

// forget removes e, so that the next viewer of the run gets a new entry.
func (h *Hub) forget(e *entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(e)
}

// drop removes e from the hub. The caller holds h.mu.
func (h *Hub) drop(e *entry) {
	if h.entries[e.runID] == e {
		delete(h.entries, e.runID)
	}
}

// Watched returns the current number of watched runs and of streams.
func (h *Hub) Watched() (runs, streams int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.entries), h.streams
}

// Run checks heads every HeadInterval until ctx ends, and also when the bus becomes available or unavailable. Then it
// ends every stream with ErrShutdown and returns nil when all goroutines of the hub have ended.
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

// headCheck is the result of one head check for one run.
type headCheck struct {
	head  store.Head
	epoch string
	now   time.Time
	err   error
	found bool
}

// checkHeads reads the heads of all watched runs and offers each entry its result.
func (h *Hub) checkHeads(ctx context.Context) {
	h.mu.Lock()
	entries := make([]*entry, 0, len(h.entries))
	ids := make([]string, 0, len(h.entries))
	for id, e := range h.entries {
		entries, ids = append(entries, e), append(ids, id)
	}
	h.mu.Unlock()
	// Interval and timeout together stay below the 2 s of contract T226 for any number of runs.
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
			e.offerHeadCheck(headCheck{head: head, epoch: heads.Epoch, now: heads.Now, err: err, found: found})
		}
	}
}
