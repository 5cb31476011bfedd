package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/store"
)

// MaxListRows is the largest page of a list, in rows.
const MaxListRows = 200

// ErrBadPage is returned for a filter without a tenant or with a limit outside 1 to MaxListRows.
var ErrBadPage = fmt.Errorf("live: a page of a list is of one tenant and has 1 to %d rows", MaxListRows)

// ListFrame is one update of a page of runs: the changes since the previous frame of this viewer.
//
// A list has no head to compare with. LIVE means that the last read of changes succeeded and that the page is at
// least as new as AsOf. If the bus loses a wake-up, the next read, NetInterval after the last one, finds the change.
// Until then AsOf does not advance.
type ListFrame struct {
	Sync   Sync
	Reason Reason // "" if there is none
	// Rows entered the page or changed, in display order; the whole page after Reset. The rows are shared and must not
	// be modified. A row's seq never decreases within an epoch, except after a Reset.
	Rows    []store.RunRow
	Removed []string // runIds that left the page; none of them is in Rows
	Reset   bool     // replaces everything shown before: the first page, or another history
	Epoch   string
	// AsOf is a time by the store's clock; every row of the page was read at or after it.
	AsOf time.Time
}

// ListsConfig configures Lists; zero fields take the named defaults.
type ListsConfig struct {
	// MinInterval is the time between two reads of changes of one list; wake-ups in between are combined. Default 100
	// ms.
	MinInterval time.Duration
	// NetInterval is the longest time between two reads of changes while the bus is up. Default 5 s.
	NetInterval time.Duration
	// CheckInterval is the time between two reads of changes while the bus is down, and between two checks of the
	// store's epoch and clock, which all lists share. Default 1 s, so that every fault is shown within 2 s (contract
	// T127, T226).
	CheckInterval time.Duration
	// KeepAlive is the longest time between two frames of a stream. Default 14 s (contract O9).
	KeepAlive time.Duration
	// ReadTimeout bounds the reads of changes of one list, and the reads of its pages. Default 2 s each.
	ReadTimeout time.Duration
	MaxLists    int                   // watched lists; default 2,000
	MaxPages    int                   // pages of one list; default 1,000
	MaxStreams  int                   // default 20,000
	Metrics     prometheus.Registerer // nil: no metrics
	Logger      *slog.Logger
}

func (c *ListsConfig) defaults() {
	for _, d := range []struct {
		p *time.Duration
		v time.Duration
	}{
		{&c.MinInterval, 100 * time.Millisecond}, {&c.NetInterval, 5 * time.Second}, {&c.CheckInterval, time.Second},
		{&c.KeepAlive, 14 * time.Second}, {&c.ReadTimeout, 2 * time.Second},
	} {
		if *d.p == 0 {
			*d.p = d.v
		}
	}
	for _, n := range []struct {
		p *int
		v int
	}{{&c.MaxLists, 2000}, {&c.MaxPages, 1000}, {&c.MaxStreams, 20000}} {
		if *n.p == 0 {
			*n.p = n.v
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Lists keeps pages of runs up to date. There is one entry for each project of a tenant, or for each tenant for pages
// of several projects. An entry has one page for each filter, for any number of viewers. A change costs one read per
// entry; pages are updated in memory. Nothing runs while there are no viewers. Make it with NewLists; Run must be
// running. Safe for concurrent use.
type Lists struct {
	cfg    ListsConfig
	src    ListSource
	bus    Bus
	looks  *prometheus.CounterVec
	pages  prometheus.Gauge
	panics *contain.Guard

	mu        sync.Mutex
	entries   map[List]*listEntry
	streams   int
	closed    bool
	stopCheck context.CancelFunc // nil while nothing is watched
	clock     listCheck          // the last check that succeeded
	wg        sync.WaitGroup
}

// NewLists makes Lists that read src and subscribe to bus.
func NewLists(src ListSource, bus Bus, cfg ListsConfig) *Lists {
	cfg.defaults()
	l := &Lists{
		cfg: cfg, bus: bus, entries: map[List]*listEntry{}, panics: contain.New(cfg.Metrics, cfg.Logger),
		looks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dvt_list_looks_total", Help: "Reads of the changes of watched lists of runs, by cause.",
		}, []string{"cause"}),
		pages: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dvt_list_pages", Help: "Watched pages of runs.",
		}),
	}
	l.src = promptSource{src, &l.wg, l.panics}
	for _, c := range []lookCause{lookWake, lookNet, lookPoll, lookReset} {
		l.looks.WithLabelValues(string(c))
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(l.looks, l.pages)
	}
	return l
}

// Watch opens a stream of the first f.Limit runs that f selects. The positions and steps of f are ignored. Watch
// itself reads nothing. Errors: ErrBadPage, ErrTooMany, ErrShutdown.
func (l *Lists) Watch(f store.RunFilter) (*ListStream, error) {
	if f.TenantID == "" || f.Limit < 1 || f.Limit > MaxListRows {
		return nil, ErrBadPage
	}
	f.EveryTenant, f.Steps, f.After, f.Before = false, false, nil, nil
	class, err := json.Marshal(f)
	if err != nil {
		return nil, errors.Join(ErrBadPage, err)
	}
	of := List{TenantID: f.TenantID, ProjectID: everyProject}
	if len(f.ProjectIDs) == 1 {
		of.ProjectID = f.ProjectIDs[0]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[of]
	switch {
	case l.closed:
		return nil, ErrShutdown
	case l.streams >= l.cfg.MaxStreams, e == nil && len(l.entries) >= l.cfg.MaxLists:
		return nil, ErrTooMany
	case e == nil:
		e = l.enter(of)
	}
	p := e.pages[string(class)]
	if p == nil {
		if len(e.pages) >= l.cfg.MaxPages {
			return nil, ErrTooMany
		}
		p = newListPage(string(class), f)
		e.pages[p.class] = p
		l.pages.Inc()
		e.ring()
	}
	p.refs++
	l.streams++
	return &ListStream{hub: l, entry: e, page: p, done: make(chan struct{})}, nil
}

// everyProject is the project part of the channel of a whole tenant.
const everyProject = "*"

// keep runs f in the background until ctx ends and restarts it after a panic.
func (l *Lists) keep(ctx context.Context, f func(context.Context)) {
	l.wg.Go(func() {
		_ = l.panics.Loop(ctx, "lists", func(ctx context.Context) error {
			f(ctx)
			return nil
		})
	})
}

// enter adds an entry. The caller holds l.mu.
func (l *Lists) enter(of List) *listEntry {
	e, ctx := newListEntry(l, of)
	l.entries[of] = e
	l.keep(ctx, e.run)
	if l.stopCheck == nil {
		ctx, stop := context.WithCancel(context.Background())
		l.stopCheck, l.clock = stop, listCheck{}
		l.keep(ctx, l.check)
	}
	return e
}

func (l *Lists) leave(e *listEntry, p *listPage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams--
	if p.refs--; p.refs == 0 {
		l.drop(e, p)
	}
}

// drop removes p, so that its next viewer gets a new page, and ends an entry without pages. The caller holds l.mu.
func (l *Lists) drop(e *listEntry, p *listPage) {
	if e.pages[p.class] != p {
		return
	}
	delete(e.pages, p.class)
	l.pages.Dec()
	if len(e.pages) > 0 {
		return
	}
	e.stop()
	delete(l.entries, e.of)
	if len(l.entries) == 0 {
		l.stopCheck()
		l.stopCheck = nil
	}
}

// Watched returns the current number of lists, pages and streams.
func (l *Lists) Watched() (lists, pages, streams int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		pages += len(e.pages)
	}
	return len(l.entries), pages, l.streams
}

// Run waits until ctx ends. Then every stream ends with ErrShutdown after its last frame, and Run returns nil when
// all goroutines have ended.
func (l *Lists) Run(ctx context.Context) error {
	<-ctx.Done()
	l.mu.Lock()
	l.closed = true
	for _, e := range l.entries {
		for _, p := range e.pages {
			p.fail(ErrShutdown)
			l.drop(e, p)
		}
	}
	l.mu.Unlock()
	l.wg.Wait()
	return nil
}

// listCheck is the result of one check of the store.
type listCheck struct {
	epoch string
	now   time.Time
	err   error
}

// check reads the store's epoch and clock periodically and offers the result to every list.
func (l *Lists) check(ctx context.Context) {
	tick := time.NewTicker(l.cfg.CheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		readCtx, cancel := context.WithTimeout(ctx, l.cfg.CheckInterval*3/4)
		heads, err := l.src.Heads(readCtx, nil)
		cancel()
		if ctx.Err() != nil {
			return
		}
		c := listCheck{epoch: heads.Epoch, now: heads.Now, err: err}
		l.mu.Lock()
		if err == nil {
			l.clock = c
		}
		for _, e := range l.entries {
			e.offerCheck(c)
		}
		l.mu.Unlock()
	}
}

// lastCheck returns the last check of the store that succeeded.
func (l *Lists) lastCheck() listCheck {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clock
}
