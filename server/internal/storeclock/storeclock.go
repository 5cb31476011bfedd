// Package storeclock gives a process the time of the store, whatever the clock of its own machine says.
package storeclock

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/store"
)

const (
	// every is the time between two measures. It bounds how long a clock that was set wrong, or a machine that slept, is
	// believed.
	every = 10 * time.Second
	// tolerated is the difference between the clocks up to which nothing is logged. Alerts and leases have no shorter
	// times.
	tolerated = 5 * time.Second
)

// Store is the part of a store that has its clock.
type Store interface {
	Heads(ctx context.Context, runIDs []string) (store.Heads, error)
}

// Clock estimates the time of the store. Times of rows are the store's, and the processes of an installation compare
// them with the time now. A process whose own clock is an hour wrong would otherwise take every worker for dead, or a
// dead one for alive. A Clock is safe for concurrent use. Create it with New.
type Clock struct {
	store   Store
	log     *slog.Logger
	wall    func() time.Time     // the clock of the machine, which may be wrong and may be set
	elapsed func() time.Duration // grows by one second in a second, whatever happens to wall

	mu       sync.Mutex
	measured bool
	at       time.Time     // the store's time when elapsed was since
	since    time.Duration // of elapsed
	wrong    bool          // the log says that the clocks differ
}

// New returns a clock that shows wall until the first Measure. It registers its metric with r unless r is nil.
func New(s Store, wall func() time.Time, r prometheus.Registerer, log *slog.Logger) *Clock {
	began := time.Now()
	return newClock(s, wall, func() time.Duration { return time.Since(began) }, r, log)
}

func newClock(s Store, wall func() time.Time, elapsed func() time.Duration, r prometheus.Registerer,
	log *slog.Logger) *Clock {
	c := &Clock{store: s, wall: wall, elapsed: elapsed, log: log}
	if r != nil {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "dvt_clock_skew_seconds",
			Help: "How far the clock of this process is ahead of the store's; below 0 when it is behind.",
		}, func() float64 { return c.skew().Seconds() }))
	}
	return c
}

// Now returns about the time of the store. It never runs ahead of the store by more than the time of a measure.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.measured {
		return c.wall()
	}
	return c.at.Add(c.elapsed() - c.since)
}

// skew returns how far the clock of the machine is ahead.
func (c *Clock) skew() time.Duration { return c.wall().Round(0).Sub(c.Now().Round(0)) }

// Measure asks the store for its time. The clock moves only when it was certainly wrong: the answer took a while, and
// the time of the store lies between that of the answer and that much later.
func (c *Clock) Measure(ctx context.Context) error {
	began := c.elapsed()
	heads, err := c.store.Heads(ctx, []string{})
	if err != nil {
		return err
	}
	c.set(heads.Now, c.elapsed()-began)
	c.report(ctx)
	return nil
}

func (c *Clock) set(answer time.Time, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.elapsed()
	estimate := c.at.Add(now - c.since)
	latest := answer.Add(took)
	switch {
	case !c.measured, estimate.Before(answer):
		c.at = answer
	case estimate.After(latest):
		c.at = latest
	default:
		return
	}
	c.since, c.measured = now, true
}

// report logs when the clock of the machine begins and ends to be wrong.
func (c *Clock) report(ctx context.Context) {
	skew := c.skew()
	isWrong := skew.Abs() > tolerated
	c.mu.Lock()
	changed := isWrong != c.wrong
	c.wrong = isWrong
	c.mu.Unlock()
	switch {
	case changed && isWrong:
		c.log.WarnContext(ctx, "the clock of this machine differs from the store's; dvt uses the store's, but tokens of "+
			"issuers, certificates and signatures of messages are judged by this one: set up time synchronisation",
			slog.Duration("ahead", skew.Round(time.Millisecond)))
	case changed:
		c.log.InfoContext(ctx, "the clock of this machine agrees with the store's again",
			slog.Duration("ahead", skew.Round(time.Millisecond)))
	}
}

// Run measures until ctx ends. While the store does not answer, the clock runs on by itself.
func (c *Clock) Run(ctx context.Context) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			_ = c.Measure(ctx) // the duties say that the store does not answer
		}
	}
}
