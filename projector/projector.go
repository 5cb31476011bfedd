// Package projector is the projector: the only writer of checkpoints and the only
// publisher. Whoever commits an append wakes its own projector for that run, and
// everybody sweeps what has been dirty for longer than SweepAge, so a crash
// anywhere delays a message and loses none (T189, T211). Correctness rests on
// conditional writes only: several projectors of one run are harmless (T173).
//
// A run is folded, published, saved, then its lists are woken and its mark is
// cleared, in this order. A message waits for no checkpoint: whoever reads a run
// folds the tail of its log, and so sees at least what any message said, also after
// a crash between the two. A list shows what is saved, and is woken after that.
//
// A plain append also says what it added. When that is all there is behind the
// state that is kept, it is folded and published without reading the store; gaps,
// what others appended, and events in which the store sets a part are read. States
// and what was told are bounded, so that the cost of a wake is that of what changed.
// Before anything is saved, the epoch and the head are read: a log that is another
// one is folded and published anew (T194).
//
// Runs that are woken together are projected together, and nobody waits for
// company: at most one read of what is new, messages beside each other. What is to
// be saved gathers for SaveInterval behind that: one transaction for the
// checkpoints, which also clears the marks of what was sent before.
//
// Within one projector the messages of a run go out in order, at most Burst of them
// are due in any Window, and the last one of a burst is always sent (O8, T206). A
// message is due when its run was woken, or as soon as that allows.
//
// A bus that cannot be used opens a breaker: nothing is lost, nothing is counted
// against a message, checkpoints go on (T124, O02, O06). A message that the bus
// refuses is repeated with a growing delay, while its run waits, and buried after
// MaxRefusals; the run goes on behind it (T123, O03, W-16).
package projector

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/internal/sizedlru"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Config of a Projector; zero fields take the defaults named.
type Config struct {
	Workers     int           // rounds at once; 4
	RoundRuns   int           // runs of one round; 64, at most store.MaxTails
	Burst       int           // messages of one run that are due in any Window; 10
	Window      time.Duration // 1 s
	SweepAge    time.Duration // 500 ms
	SweepLimit  int           // rows a sweep takes; 256
	MaxRuns     int           // runs in motion at once; 100,000
	CacheRuns   int           // states kept; 10,000
	CacheSteps  int           // steps of all states kept; 200,000
	MaxRefusals int           // of a message before it is buried; 10
	// SaveInterval is the least time between two rounds of saving; 10 ms.
	SaveInterval time.Duration
	// Backoff and MaxBackoff bound the growing delays, with full jitter, between
	// probes of a bus that cannot be used and between refusals of a message; 1 s and 60 s.
	Backoff, MaxBackoff time.Duration
	LagHigh             time.Duration  // age of an event without a checkpoint that is an alert; 5 s
	Random              func() float64 // jitter, in [0, 1); rand.Float64
	BusName             string         // label of metrics; "redis"
	Metrics             prometheus.Registerer
	Logger              *slog.Logger
	// OnAnomaly is told of each thing a fold noticed (PROJECTOR_CAUSAL_VIOLATION); may be nil.
	OnAnomaly func(runID string, a run.Anomaly)
}

func (c *Config) defaults() {
	count := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	span := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	count(&c.Workers, 4)
	count(&c.RoundRuns, 64)
	c.RoundRuns = min(c.RoundRuns, store.MaxTails)
	count(&c.Burst, 10)
	span(&c.Window, time.Second)
	span(&c.SaveInterval, 10*time.Millisecond)
	span(&c.SweepAge, 500*time.Millisecond)
	count(&c.SweepLimit, 256)
	count(&c.MaxRuns, 100000)
	count(&c.CacheRuns, 10000)
	count(&c.CacheSteps, 200000)
	count(&c.MaxRefusals, 10)
	span(&c.Backoff, time.Second)
	span(&c.MaxBackoff, time.Minute)
	span(&c.LagHigh, 5*time.Second)
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.BusName == "" {
		c.BusName = "redis"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Store is what a projector needs of a store.
type Store interface {
	store.States
	store.Projection
	store.Outbox
	store.LogSeals
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	Audit(ctx context.Context, rows ...store.AuditRow) error
}

// Projector folds, saves and publishes. Make it with New and give it to Run.
type Projector struct {
	cfg     Config
	store   Store
	bus     live.Bus
	delay   backoff
	breaker *breaker
	cache   *sizedlru.Cache[known]
	motions *motions
	unsaved *unsaved
	seen    sighting
	watch   *watch
	panics  *contain.Guard
	sealer  *sealer
}

// New makes a projector on a store and a bus, and registers its metrics.
func New(s Store, bus live.Bus, cfg Config) *Projector {
	cfg.defaults()
	delay := backoff{base: cfg.Backoff, most: cfg.MaxBackoff, random: cfg.Random}
	p := &Projector{
		cfg: cfg, store: s, bus: bus, delay: delay, breaker: newBreaker(delay),
		cache: sizedlru.New[known](cfg.CacheRuns, cfg.CacheSteps), motions: newMotions(cfg.Window, cfg.Burst, cfg.MaxRuns),
		unsaved: newUnsaved(cfg.CacheRuns), panics: contain.New(cfg.Metrics, cfg.Logger),
		sealer: newSealer(s, cfg.CacheRuns),
	}
	p.watch = newWatch(cfg, p.Breaker)
	return p
}

// Breaker says whether messages are given to the bus now.
func (p *Projector) Breaker() BreakerState { return p.breaker.current() }

// Wake implements decorate.Waker. It may be called at any rate: wakes of one run coalesce.
// With MaxRuns in motion it does nothing, and the sweep finds the run later.
func (p *Projector) Wake(runID string) { p.motions.wake(time.Now(), runID, news{read: true}) }

// Appended implements decorate.Waker. What a is made of may be changed after it.
func (p *Projector) Appended(a store.Append, out store.Appended) {
	p.motions.wake(time.Now(), a.RunID, newsOf(a, out))
}

// Run projects until ctx ends, then returns nil after the work in hand.
func (p *Projector) Run(ctx context.Context) error {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop, kept := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(kept)
		p.keep(last, stop)
	}()
	var wg sync.WaitGroup
	for range p.cfg.Workers {
		wg.Go(func() { p.again(ctx, p.work) })
	}
	wg.Go(func() { p.again(ctx, p.sweep) })
	wg.Wait()
	close(stop)
	defer time.AfterFunc(flushTime, cancel).Stop()
	<-kept
	return nil
}

// again runs f until it returns, again also after a panic.
func (p *Projector) again(ctx context.Context, f func(context.Context)) {
	_ = p.panics.Loop(ctx, "project", func(ctx context.Context) error {
		f(ctx)
		return nil
	})
}

func (p *Projector) work(ctx context.Context) {
	for ctx.Err() == nil {
		if woken, at := p.motions.next(time.Now(), p.cfg.RoundRuns); len(woken) > 0 {
			p.project(ctx, woken)
		} else {
			p.idle(ctx, at)
		}
	}
}

// idle waits until something is woken, and not past at.
func (p *Projector) idle(ctx context.Context, at time.Time) {
	wait := p.cfg.SweepAge
	if !at.IsZero() {
		wait = min(wait, time.Until(at))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-p.motions.woken:
	case <-timer.C:
	}
}

// report logs what nobody else says: a store or a bus that is down is known.
func (p *Projector) report(ctx context.Context, runID string, err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, errBus) || errors.Is(err, store.ErrUnavailable) ||
		errors.Is(err, store.ErrOverloaded) {
		return
	}
	p.cfg.Logger.WarnContext(ctx, "a run could not be projected: its lists are out of date until it is",
		slog.String("runId", runID), slog.Any("error", err))
}

// Project brings one run's checkpoint to the head of its log, publishes what was
// not yet published and clears the mark. It may be repeated and run anywhere at
// the same time. A bus that refuses or cannot be used leaves the mark: the sweep
// tries again. A run that the store does not know is no error.
func (p *Projector) Project(ctx context.Context, runID string) error {
	w := &work{runID: runID}
	r := &round{p: p, works: []*work{w}}
	r.project(ctx)
	err := w.err
	if !w.unsaved() {
		return err
	}
	sent := p.save(ctx, r.works, nil)
	if w.err != nil {
		return errors.Join(err, w.err)
	}
	return errors.Join(err, p.record(ctx, sent))
}

// idleSweeps is how many sweeps pass between two while the bus cannot be used:
// nothing can be published, but checkpoints that a crash left behind still move,
// and lists of runs show them.
const idleSweeps = 10

// sweep wakes what somebody left dirty.
func (p *Projector) sweep(ctx context.Context) {
	tick := time.NewTicker(p.cfg.SweepAge)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.watch.settle()
		if !p.breaker.ready(time.Now(), p.bus.Up()) && n%idleSweeps != 0 {
			continue
		}
		dirty, err := p.store.Dirty(ctx, p.cfg.SweepAge, p.cfg.SweepLimit)
		if err != nil {
			continue // the next sweep asks again
		}
		for _, d := range dirty {
			p.Wake(d.RunID)
		}
	}
}
