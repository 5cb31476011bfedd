// Package project is the projector: the only writer of checkpoints and the only
// publisher. Whoever commits an append wakes its own projector for that run, and
// everybody sweeps what has been dirty for longer than SweepAge, so a crash
// anywhere delays a message and loses none (T189, T211). Correctness rests on
// conditional writes only: several projectors of one run are harmless (T173).
//
// Within one projector the messages of a run go out in order, at most one every
// MinInterval, and the last one of a burst is always sent (O8, T206).
package project

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Config of a Projector; zero fields take the defaults named.
type Config struct {
	Workers     int           // runs projected at once; 4
	MinInterval time.Duration // between two messages of one run; 100 ms
	SweepAge    time.Duration // 500 ms
	SweepLimit  int           // rows a sweep takes; 256
	Logger      *slog.Logger
	// OnAnomaly is told of each thing a fold noticed (PROJECTOR_CAUSAL_VIOLATION); may be nil.
	OnAnomaly func(runID string, a run.Anomaly)
}

func (c *Config) defaults() {
	if c.Workers == 0 {
		c.Workers = 4
	}
	if c.MinInterval == 0 {
		c.MinInterval = 100 * time.Millisecond
	}
	if c.SweepAge == 0 {
		c.SweepAge = 500 * time.Millisecond
	}
	if c.SweepLimit == 0 {
		c.SweepLimit = 256
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Projector folds, saves and publishes. Make it with New and give it to Run.
type Projector struct {
	cfg    Config
	states store.States
	bus    live.Bus

	mu    sync.Mutex
	runs  map[string]*pending // woken or cooling down; bounded by the runs in motion
	queue []string            // due now, each once
	woken chan struct{}
}

// pending is a run that was woken or published a moment ago.
type pending struct {
	queued bool
	busy   bool
	again  bool // woken while busy or cooling down
	last   time.Time
}

// New makes a projector on a store and a bus.
func New(states store.States, bus live.Bus, cfg Config) *Projector {
	cfg.defaults()
	return &Projector{cfg: cfg, states: states, bus: bus, runs: map[string]*pending{}, woken: make(chan struct{}, 1)}
}

// Wake says that something about a run was committed. It never blocks and may be
// called at any rate: wakes of one run coalesce.
func (p *Projector) Wake(runID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.runs[runID]
	if r == nil {
		r = &pending{}
		p.runs[runID] = r
	}
	if r.queued || r.busy || time.Since(r.last) < p.cfg.MinInterval {
		r.again = true
		return
	}
	p.enqueue(runID, r)
}

func (p *Projector) enqueue(runID string, r *pending) {
	r.queued, r.again = true, false
	p.queue = append(p.queue, runID)
	p.signal()
}

func (p *Projector) signal() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// Run projects until ctx ends, then returns nil after the work in hand.
func (p *Projector) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for range p.cfg.Workers {
		wg.Go(func() { p.work(ctx) })
	}
	wg.Go(func() { p.sweep(ctx) })
	wg.Wait()
	return nil
}

func (p *Projector) work(ctx context.Context) {
	for {
		runID, ok := p.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-p.woken:
			}
			continue
		}
		if err := p.Project(ctx, runID); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			p.cfg.Logger.WarnContext(ctx, "project", slog.String("runId", runID), slog.Any("error", err))
		}
		p.finished(runID)
	}
}

func (p *Projector) next() (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return "", false
	}
	runID := p.queue[0]
	p.queue = p.queue[1:]
	if len(p.queue) > 0 {
		p.signal() // another worker may help
	}
	r := p.runs[runID]
	r.queued, r.busy = false, true
	return runID, true
}

// finished starts the run's cool-down; what was woken meanwhile goes out at its end.
func (p *Projector) finished(runID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.runs[runID]
	r.busy, r.last = false, time.Now()
	time.AfterFunc(p.cfg.MinInterval, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch {
		case r.again:
			p.enqueue(runID, r)
		case !r.queued && !r.busy:
			delete(p.runs, runID)
		}
	})
}

// Project brings one run's checkpoint to the head of its log, publishes what was
// not yet published and clears the mark. It may be repeated and run anywhere at
// the same time. A bus that refuses leaves the mark: the sweep tries again.
func (p *Projector) Project(ctx context.Context, runID string) error {
	l, err := p.states.Load(ctx, runID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if p.cfg.OnAnomaly != nil {
		for _, a := range l.Anomalies {
			p.cfg.OnAnomaly(runID, a)
		}
	}
	if l.CheckpointAt < l.State.Seq {
		if _, err := p.states.Save(ctx, l.State, l.Changes); err != nil {
			return err
		}
	}
	d := l.State.Since(min(l.PublishedSeq, l.State.Seq))
	err = p.bus.Publish(ctx, live.Message{
		V: live.MessageVersion, TenantID: l.State.TenantID, ProjectID: l.State.ProjectID, RunID: runID,
		Epoch: l.Epoch, Rev: run.ReducerRev, From: d.From, To: d.To, OpsRev: l.Head.OpsRev, At: l.Now, Delta: &d,
	})
	if err != nil {
		return err
	}
	return p.states.Published(ctx, runID, l.State.Seq, l.Head.OpsRev)
}

// sweep wakes what somebody left dirty.
func (p *Projector) sweep(ctx context.Context) {
	tick := time.NewTicker(p.cfg.SweepAge)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !p.bus.Up() {
			continue // viewers poll; the marks stay
		}
		dirty, err := p.states.Dirty(ctx, p.cfg.SweepAge, p.cfg.SweepLimit)
		if err != nil {
			continue
		}
		for _, d := range dirty {
			p.Wake(d.RunID)
		}
	}
}
