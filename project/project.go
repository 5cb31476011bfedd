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
	MaxRuns     int           // runs in motion at once; 100,000
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
	if c.MaxRuns == 0 {
		c.MaxRuns = 100000
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

	mu      sync.Mutex
	runs    map[string]*motion // runs in motion, at most MaxRuns
	queue   []string           // queued runs, each once
	cooling []cooling          // cooling runs, each once, the first due first
	woken   chan struct{}
}

// motion is a run that is not idle.
type motion struct {
	stage stage
	again bool // woken while busy or cooling: it is queued once more at the end
}

type stage int

const (
	queued stage = iota
	busy
	cooled
)

// cooling is a run that waits until its next message may go out.
type cooling struct {
	runID string
	until time.Time
}

// New makes a projector on a store and a bus.
func New(states store.States, bus live.Bus, cfg Config) *Projector {
	cfg.defaults()
	return &Projector{cfg: cfg, states: states, bus: bus, runs: map[string]*motion{}, woken: make(chan struct{}, 1)}
}

// Wake says that something about a run was committed. It never blocks and may be
// called at any rate: wakes of one run coalesce. With MaxRuns in motion it does
// nothing, and the sweep finds the run later.
func (p *Projector) Wake(runID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.runs[runID]
	switch {
	case m == nil && len(p.runs) < p.cfg.MaxRuns:
		p.runs[runID] = &motion{}
		p.enqueue(runID)
	case m != nil && m.stage != queued:
		m.again = true
	}
}

func (p *Projector) enqueue(runID string) {
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
	for ctx.Err() == nil {
		runID, wait := p.next()
		if runID == "" {
			idle := time.NewTimer(wait)
			select {
			case <-ctx.Done():
			case <-p.woken:
			case <-idle.C:
			}
			idle.Stop()
			continue
		}
		if err := p.Project(ctx, runID); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable) {
			p.cfg.Logger.WarnContext(ctx, "project", slog.String("runId", runID), slog.Any("error", err))
		}
		p.finished(runID)
	}
}

// next takes a run, or says how long there will be none unless one is woken.
func (p *Projector) next() (runID string, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	wait = p.thaw()
	if len(p.queue) == 0 {
		return "", wait
	}
	runID, p.queue = p.queue[0], p.queue[1:]
	if len(p.queue)+len(p.cooling) > 0 {
		p.signal() // another worker may help, or watch the cool-downs
	}
	p.runs[runID].stage = busy
	return runID, 0
}

// thaw ends the cool-downs that are over and says when the next one will be.
// What was woken meanwhile is queued: the last message of a burst is always sent.
func (p *Projector) thaw() time.Duration {
	for len(p.cooling) > 0 {
		c := p.cooling[0]
		if wait := time.Until(c.until); wait > 0 {
			return wait
		}
		p.cooling = p.cooling[1:]
		m := p.runs[c.runID]
		if !m.again {
			delete(p.runs, c.runID)
			continue
		}
		m.stage, m.again = queued, false
		p.enqueue(c.runID)
	}
	return p.cfg.SweepAge
}

// finished starts the run's cool-down.
func (p *Projector) finished(runID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs[runID].stage = cooled
	p.cooling = append(p.cooling, cooling{runID: runID, until: time.Now().Add(p.cfg.MinInterval)})
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

// idleSweeps is how many sweeps pass between two while the bus is down: nothing
// can be published, but checkpoints that a crash left behind still move, and
// lists of runs show them.
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
		if !p.bus.Up() && n%idleSweeps != 0 {
			continue
		}
		dirty, err := p.states.Dirty(ctx, p.cfg.SweepAge, p.cfg.SweepLimit)
		if err != nil {
			continue // the next sweep asks again
		}
		for _, d := range dirty {
			p.Wake(d.RunID)
		}
	}
}
