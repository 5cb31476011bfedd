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

// MaxListRows is the most rows of a page of a list.
const MaxListRows = 200

// ErrBadPage says that a filter names no tenant, or not 1 to MaxListRows rows.
var ErrBadPage = fmt.Errorf("live: a page of a list is of one tenant and has 1 to %d rows", MaxListRows)

// ListFrame is what a viewer of a page of runs is shown: what moved since its frame before.
//
// A list has no head to be compared with. LIVE says that the last look at the store
// succeeded and that the page is as the store had it at AsOf or later; a wake-up that
// the bus loses is found by the next look, NetInterval after the last one, and until
// then AsOf stands still.
type ListFrame struct {
	Sync   Sync
	Reason Reason // "" for no special cause
	// Rows entered or changed, in display order; the whole page after Reset. The rows
	// are shared and never written to. Their seq never falls within an epoch, but for a Reset.
	Rows    []store.RunRow
	Removed []string // runIds that left the page; none of them is in Rows
	Reset   bool     // forget what you had: the first page, and that of another history
	Epoch   string
	// AsOf is a moment of the store's clock at which, or after which, every row of the page was read.
	AsOf time.Time
}

// ListsConfig of Lists; zero fields take the defaults named.
type ListsConfig struct {
	// MinInterval lies between two looks of one list: wake-ups in between are one; 100 ms.
	MinInterval time.Duration
	// NetInterval is the longest time between two looks while the bus is up; 5 s.
	NetInterval time.Duration
	// CheckInterval is the time between two looks while the bus is down, and between
	// two checks of the store's epoch and clock, one for all lists; 1 s, so that every
	// cause is said within 2 s (T127, T226).
	CheckInterval time.Duration
	// Quiet is the longest time between two frames of a stream; 14 s (O9).
	Quiet time.Duration
	// ReadTimeout bounds the reads of changes of one look, and those of pages; 2 s each.
	ReadTimeout time.Duration
	MaxLists    int                   // tenants and projects that are watched; 2,000
	MaxPages    int                   // of one list; 1,000
	MaxStreams  int                   // 20,000
	Metrics     prometheus.Registerer // none when nil
	Logger      *slog.Logger
}

func (c *ListsConfig) defaults() {
	for _, d := range []struct {
		p *time.Duration
		v time.Duration
	}{
		{&c.MinInterval, 100 * time.Millisecond}, {&c.NetInterval, 5 * time.Second}, {&c.CheckInterval, time.Second},
		{&c.Quiet, 14 * time.Second}, {&c.ReadTimeout, 2 * time.Second},
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

// Lists keeps pages of runs up to date. There is one entry per tenant and project,
// or per tenant for pages of several, and in it one page per filter, whatever the
// number of viewers. A change costs one read of what changed per entry; pages decide
// in memory (design §4). Nothing runs while nobody watches. Make it with NewLists.
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
	stopCheck context.CancelFunc // while something is watched
	clock     listCheck          // the last one that succeeded
	wg        sync.WaitGroup
}

// NewLists makes lists on a store and a bus.
func NewLists(src ListSource, bus Bus, cfg ListsConfig) *Lists {
	cfg.defaults()
	l := &Lists{
		cfg: cfg, bus: bus, entries: map[List]*listEntry{}, panics: contain.New(cfg.Metrics, cfg.Logger),
		looks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dvt_list_looks_total", Help: "Looks at what changed in watched lists of runs, by cause.",
		}, []string{"cause"}),
		pages: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dvt_list_pages", Help: "Pages of runs that are watched.",
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

// Watch opens a stream of the first f.Limit runs that f selects. Places and steps
// of f are ignored. It reads nothing itself. ErrBadPage, ErrTooMany, ErrShutdown.
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

// everyProject is the channel of a whole tenant.
const everyProject = "*"

// keep runs f in the background until ctx ends, again also after a panic.
func (l *Lists) keep(ctx context.Context, f func(context.Context)) {
	l.wg.Go(func() {
		_ = l.panics.Loop(ctx, "lists", func(ctx context.Context) error {
			f(ctx)
			return nil
		})
	})
}

// enter needs l.mu.
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

// drop makes the next viewer of p begin anew, and ends an entry without pages. It needs l.mu.
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

// Watched returns how many lists, pages and streams are open now.
func (l *Lists) Watched() (lists, pages, streams int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.entries {
		pages += len(e.pages)
	}
	return len(l.entries), pages, l.streams
}

// Run waits for the end of ctx; then every stream ends with ErrShutdown after its
// last frame, and Run returns when nothing of the lists runs any more.
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

// listCheck is what one check says of the store.
type listCheck struct {
	epoch string
	now   time.Time
	err   error
}

// check asks for the store's epoch and clock and tells every list.
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
			e.tell(c)
		}
		l.mu.Unlock()
	}
}

// checked is the last check of the store that succeeded.
func (l *Lists) checked() listCheck {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clock
}
