// Package projector folds the logs of runs. It is the only writer of checkpoints and the only publisher of messages.
// The process that commits an append wakes its own projector for that run. Every projector also sweeps runs that have
// been dirty for longer than SweepAge, so that a crash at any point delays a message and loses none (contract T189,
// T211). Correctness rests only on conditional writes: several projectors may work on one run (contract T173).
//
// A run is folded, published and saved; then its lists are woken and its mark is cleared, in this order. A message
// does not wait for its checkpoint: a reader folds the tail of the log and sees at least the state of any message,
// even after a crash between publication and save. A list shows saved states and is woken after the save.
//
// An append also reports the events that it added. If these directly follow the cached state, they are folded and
// published without a read of the store. The log is read after gaps, for events of other processes, and for events that
// the store completes. Cached states and reported events are bounded, so that a wake costs only the work for the
// changes. Epoch and head are read before anything is saved: if the log was replaced, it is folded and published again
// (contract T194).
//
// Runs that are woken together are projected together, without waiting for more: at most one read of new events, and
// concurrent messages. Saves are collected for SaveInterval after that: one transaction writes the checkpoints and
// clears the marks of earlier publications.
//
// Within one projector the messages of a run are sent in order. At most Burst of them are due in any Window, and the
// last one of a burst is always sent (contract O8, T206). A message is due when its run was woken, or as soon as this
// limit allows.
//
// A bus that cannot be used opens a breaker: nothing is lost, no message counts as refused, and checkpoints continue
// (contract T124, O02, O06). A message that the bus refuses is repeated with a growing delay while its run waits.
// After MaxRefusals it becomes a dead letter, and the run continues after it (contract T123, O03, W-16).
package projector

import (
	"cmp"
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

// Config configures a Projector; zero fields take the named defaults.
type Config struct {
	Workers     int           // concurrent batches; default 4
	RoundRuns   int           // runs of one batch; default 64, at most store.MaxTails
	Burst       int           // messages of one run that are due in any Window; default 10
	Window      time.Duration // default 1 s
	SweepAge    time.Duration // age in which a dirty run is swept, and the time between sweeps; default 500 ms
	SweepLimit  int           // rows of one sweep; default 256
	MaxRuns     int           // scheduled runs; default 100,000
	CacheRuns   int           // cached states; default 10,000
	CacheSteps  int           // steps of all cached states; default 200,000
	MaxRefusals int           // refusals of a message before it becomes a dead letter; default 10
	// SaveInterval is the minimum time between two saves. Default 10 ms.
	SaveInterval time.Duration
	// Backoff and MaxBackoff bound the growing delays, with full jitter, between probes of a bus that cannot be used and
	// between repetitions of a refused message. Defaults 1 s and 60 s.
	Backoff, MaxBackoff time.Duration
	LagHigh             time.Duration  // age of an event without a checkpoint that raises an alert; default 5 s
	Random              func() float64 // jitter in [0, 1); default rand.Float64
	BusName             string         // label of metrics; default "redis"
	Metrics             prometheus.Registerer
	Logger              *slog.Logger
	// OnAnomaly is called for each anomaly that a fold finds (PROJECTOR_CAUSAL_VIOLATION); may be nil.
	OnAnomaly func(runID string, a run.Anomaly)
	// OnAlert is called for each finding that people should see: PROJECTOR_LAG_HIGH without a run, as long as the lag
	// lasts, and EVENT_BUS_DELIVERY_FAILED and PROJECTOR_CAUSAL_VIOLATION about a run. It must not block; may be nil.
	OnAlert func(runID string, code run.Code, why string)
	// OnSweep is called before each sweep, as a sign of life; may be nil.
	OnSweep func()
}

func (c *Config) defaults() {
	c.Workers = cmp.Or(c.Workers, 4)
	c.RoundRuns = cmp.Or(c.RoundRuns, 64)
	c.RoundRuns = min(c.RoundRuns, store.MaxTails)
	c.Burst = cmp.Or(c.Burst, 10)
	c.Window = cmp.Or(c.Window, time.Second)
	c.SaveInterval = cmp.Or(c.SaveInterval, 10*time.Millisecond)
	c.SweepAge = cmp.Or(c.SweepAge, 500*time.Millisecond)
	c.SweepLimit = cmp.Or(c.SweepLimit, 256)
	c.MaxRuns = cmp.Or(c.MaxRuns, 100000)
	c.CacheRuns = cmp.Or(c.CacheRuns, 10000)
	c.CacheSteps = cmp.Or(c.CacheSteps, 200000)
	c.MaxRefusals = cmp.Or(c.MaxRefusals, 10)
	c.Backoff = cmp.Or(c.Backoff, time.Second)
	c.MaxBackoff = cmp.Or(c.MaxBackoff, time.Minute)
	c.LagHigh = cmp.Or(c.LagHigh, 5*time.Second)
	if c.Random == nil {
		c.Random = rand.Float64
	}
	c.BusName = cmp.Or(c.BusName, "redis")
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Store is the part of a store that a projector uses.
type Store interface {
	store.States
	store.Projection
	store.Outbox
	store.LogSeals
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	Audit(ctx context.Context, rows ...store.AuditRow) error
}

// Projector folds, saves and publishes. Make it with New and call Run. Safe for concurrent use.
type Projector struct {
	cfg      Config
	store    Store
	bus      live.Bus
	delay    backoff
	breaker  *breaker
	cache    *sizedlru.Cache[cachedState]
	schedule *schedule
	saves    *saveQueue
	epoch    epochSeen
	monitor  *monitor
	panics   *contain.Guard
	sealer   *sealer
}

// New makes a projector that reads and writes s and publishes to bus. It registers its metrics.
func New(s Store, bus live.Bus, cfg Config) *Projector {
	cfg.defaults()
	delay := backoff{base: cfg.Backoff, limit: cfg.MaxBackoff, random: cfg.Random}
	p := &Projector{
		cfg: cfg, store: s, bus: bus, delay: delay, breaker: newBreaker(delay),
		cache: sizedlru.New[cachedState](cfg.CacheRuns, cfg.CacheSteps), schedule: newSchedule(cfg.Window, cfg.Burst,
			cfg.MaxRuns),
		saves: newSaveQueue(cfg.CacheRuns), panics: contain.New(cfg.Metrics, cfg.Logger),
		sealer: newSealer(s, cfg.CacheRuns),
	}
	p.monitor = newMonitor(cfg, p.Breaker)
	return p
}

// CountGap counts a message that a stream missed as the alert PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED. The stream logs
// it.
func (p *Projector) CountGap() { p.monitor.count(alertNonContiguous) }

// Breaker returns whether messages are sent to the bus now.
func (p *Projector) Breaker() BreakerState { return p.breaker.current() }

// Wake implements decorate.Waker. Wakes of one run coalesce, so it may be called at any rate. With MaxRuns scheduled it
// does nothing, and the sweep finds the run later.
func (p *Projector) Wake(runID string) {
	p.schedule.wake(time.Now(), runID, pendingEvents{mustRead: true})
}

// Notify implements decorate.Waker. The caller may modify a afterwards.
func (p *Projector) Notify(a store.Append, out store.Appended) {
	p.schedule.wake(time.Now(), a.RunID, pendingFrom(a, out))
}

// Run projects until ctx ends, then finishes the current work and returns nil.
func (p *Projector) Run(ctx context.Context) error {
	saveCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop, saved := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(saved)
		p.saveLoop(saveCtx, stop)
	}()
	var wg sync.WaitGroup
	for range p.cfg.Workers {
		wg.Go(func() { p.restartOnPanic(ctx, p.runBatches) })
	}
	wg.Go(func() { p.restartOnPanic(ctx, p.sweep) })
	wg.Wait()
	close(stop)
	defer time.AfterFunc(flushTime, cancel).Stop()
	<-saved
	return nil
}

// restartOnPanic runs f until it returns, and restarts it after a panic.
func (p *Projector) restartOnPanic(ctx context.Context, f func(context.Context)) {
	_ = p.panics.Loop(ctx, "project", func(ctx context.Context) error {
		f(ctx)
		return nil
	})
}

func (p *Projector) runBatches(ctx context.Context) {
	for ctx.Err() == nil {
		if woken, at := p.schedule.next(time.Now(), p.cfg.RoundRuns); len(woken) > 0 {
			p.project(ctx, woken)
		} else {
			p.idle(ctx, at)
		}
	}
}

// idle waits for a wake, at most until at.
func (p *Projector) idle(ctx context.Context, at time.Time) {
	wait := p.cfg.SweepAge
	if !at.IsZero() {
		wait = min(wait, time.Until(at))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-p.schedule.signal:
	case <-timer.C:
	}
}

// logFailure logs errors that are not reported elsewhere: an unavailable store or bus is.
func (p *Projector) logFailure(ctx context.Context, runID string, err error) {
	if err == nil || ctx.Err() != nil || errors.Is(err, errBusUnavailable) || errors.Is(err, store.ErrUnavailable) ||
		errors.Is(err, store.ErrOverloaded) {
		return
	}
	p.cfg.Logger.WarnContext(ctx, "a run could not be projected; its lists stay out of date until a retry succeeds",
		slog.String("runId", runID), slog.Any("error", err))
}

// Project moves one run's checkpoint to the head of its log, publishes the unpublished changes and clears the mark.
// It is idempotent and may run concurrently anywhere. If the bus refuses or cannot be used, the mark stays and the
// sweep retries. An unknown run is not an error.
func (p *Projector) Project(ctx context.Context, runID string) error {
	w := &runWork{runID: runID}
	r := &batch{p: p, works: []*runWork{w}}
	r.project(ctx)
	err := w.err
	if !w.needsSave() {
		return err
	}
	sent := p.save(ctx, r.works, nil)
	if w.err != nil {
		return errors.Join(err, w.err)
	}
	return errors.Join(err, p.recordPublished(ctx, sent))
}

// idleSweeps is the number of ticks between two sweeps while the bus cannot be used. Nothing can be published then,
// but checkpoints that a crash left behind still advance, and lists show them.
const idleSweeps = 10

// sweep wakes runs that have been dirty for longer than SweepAge.
func (p *Projector) sweep(ctx context.Context) {
	tick := time.NewTicker(p.cfg.SweepAge)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if p.cfg.OnSweep != nil {
			p.cfg.OnSweep()
		}
		p.monitor.endSweep()
		if !p.breaker.isReady(time.Now(), p.bus.Up()) && n%idleSweeps != 0 {
			continue
		}
		dirty, err := p.store.Dirty(ctx, p.cfg.SweepAge, p.cfg.SweepLimit)
		if err != nil {
			continue // the next sweep retries
		}
		for _, d := range dirty {
			p.Wake(d.RunID)
		}
	}
}
