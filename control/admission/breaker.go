package admission

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/store"
)

// Settings of the breaker of starts (contract T135).
const (
	startWindow  = time.Minute
	startSamples = 5               // fewer samples do not open the breaker
	StartLimit   = 5 * time.Second // limit of the P95 of the samples
	probeEvery   = 5 * time.Second
	maxSamples   = 1024        // only the newest are kept
	maxRetry     = time.Minute // longest time after which a refused caller is asked to try again
)

// Breaker stops new runs while the engine does not answer or starts them too slowly. Each process has its own, which
// knows only the starts of this process. A process that starts none, such as a server of the API alone, follows the
// breakers of those that do, through their heartbeats in the store. While it is open, one start every probeEvery tests
// whether the engine has recovered; when no run waits, a call to the engine takes its place. The breaker therefore
// never waits for samples that cannot come.
type Breaker struct {
	now     func() time.Time
	mu      sync.Mutex
	samples []startSample
	open    bool
	since   time.Time // when refusals began, while new runs are refused
	probeAt time.Time // when the next probe is due, while open
	probing bool      // the next observation is that of the probe
	failing bool      // the newest observation is a failure: the engine does not answer
	starts  bool      // this process starts runs, so that it judges the engine itself
	peers   bool      // all processes that start runs report an open breaker
	away    bool      // and one of them reports that the engine does not answer
	metrics breakerMetrics
}

type startSample struct {
	at   time.Time
	took time.Duration // a failure counts as longer than StartLimit
}

type breakerMetrics struct {
	took prometheus.Histogram
	open prometheus.Gauge
}

// NewBreaker returns a closed breaker that registers its metrics with r.
func NewBreaker(now func() time.Time, r prometheus.Registerer) *Breaker {
	register := promauto.With(r)
	return &Breaker{now: now, metrics: breakerMetrics{
		took: register.NewHistogram(prometheus.HistogramOpts{
			Name: "engine_start_seconds", Help: "How long the engine took to take a run on, failures included.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}),
		open: register.NewGauge(prometheus.GaugeOpts{
			Name: "engine_start_breaker_open", Help: "1 while this process refuses new runs because the engine starts them " +
				"too slowly.",
		}),
	}}
}

// refuses reports whether new runs are refused, and after what time a caller may try again. That time is as long as
// refusals have lasted, from probeEvery to maxRetry. A caller who keeps to it therefore waits twice as long each time,
// and an engine that comes back is not met by everybody at once.
func (b *Breaker) refuses() (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open && !b.follows() {
		return 0, false
	}
	return min(max(b.now().Sub(b.since), probeEvery), maxRetry), true
}

// follows reports whether the breaker is open because those of the processes that start runs are.
func (b *Breaker) follows() bool { return b.peers && !b.starts }

// Heartbeats of the breakers of processes that start runs. A process whose engine does not answer sends two, so that
// servers of an earlier version, which know the first two names only, follow it too.
const (
	dutyBreakerOpen    = "start-breaker-open"
	dutyBreakerClosed  = "start-breaker-closed"
	dutyBreakerFailing = "start-breaker-failing"
)

// Duties returns the names of the heartbeats by which other processes learn the state of this breaker. Only a process
// that starts runs sends them.
func (b *Breaker) Duties() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.open && b.failing:
		return []string{dutyBreakerOpen, dutyBreakerFailing}
	case b.open:
		return []string{dutyBreakerOpen}
	}
	return []string{dutyBreakerClosed}
}

// followPeers takes the heartbeats of all processes, and reports whether that opened or closed this breaker. Heartbeats
// older than fresh do not count, so that a process that died open refuses nothing for long. One closed breaker is
// enough: its process starts the runs.
func (b *Breaker) followPeers(beats []store.Heartbeat, fresh time.Duration) (moved bool) {
	var open, closed *store.Heartbeat
	away := false
	for i, beat := range beats {
		switch {
		case beat.Age > fresh:
		case beat.Duty == dutyBreakerOpen:
			open = &beats[i]
		case beat.Duty == dutyBreakerClosed:
			closed = &beats[i]
		case beat.Duty == dutyBreakerFailing:
			away = true
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	was := b.follows()
	b.away = away
	b.peers = open != nil && (closed == nil || closed.Process == open.Process && open.Age < closed.Age)
	if b.follows() && !was {
		b.since = b.now()
	}
	return was != b.follows()
}

// Failing reports whether the newest start or probe failed: the engine does not answer, rather than being slow.
func (b *Breaker) Failing() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failing || b.follows() && b.away
}

// allows returns how many of at most n starts may be made now. An open breaker allows one probe each probeEvery.
func (b *Breaker) allows(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.starts = true
	now := b.now()
	switch {
	case !b.open:
		return n
	case now.Before(b.probeAt):
		return 0
	}
	b.probeAt, b.probing = now.Add(probeEvery), true
	return 1
}

// Observe records the duration of one start. It reports whether this opened or closed the breaker.
func (b *Breaker) Observe(took time.Duration, failed bool) (moved bool) {
	b.metrics.took.Observe(took.Seconds())
	if failed {
		took = max(took, StartLimit+1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failing = failed
	now := b.now()
	if b.open && !b.probing {
		return false // the start began before the breaker opened
	}
	if b.open {
		b.probing = false
		if b.probeAt = now.Add(probeEvery); took > StartLimit {
			return false
		}
		b.open, b.samples = false, nil
		b.metrics.open.Set(0)
		return true
	}
	if b.samples = append(b.samples, startSample{now, took}); len(b.samples) > maxSamples {
		b.samples = slices.Delete(b.samples, 0, len(b.samples)-maxSamples)
	}
	if p95, n := b.percentile(now); n < startSamples || p95 <= StartLimit {
		return false
	}
	b.open, b.since, b.probeAt = true, now, now.Add(probeEvery)
	b.metrics.open.Set(1)
	return true
}

// percentile returns the P95 of the starts of the last minute and their number.
func (b *Breaker) percentile(now time.Time) (p95 time.Duration, n int) {
	b.samples = slices.DeleteFunc(b.samples, func(s startSample) bool { return now.Sub(s.at) >= startWindow })
	n = len(b.samples)
	if n == 0 {
		return 0, 0
	}
	took := make([]time.Duration, n)
	for i, s := range b.samples {
		took[i] = s.took
	}
	slices.Sort(took)
	return took[(n*95+99)/100-1], n
}

// Stats returns the P95 of the starts of the last minute by this process, their number, and whether the breaker is
// open.
func (b *Breaker) Stats() (p95 time.Duration, n int, open bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p95, n = b.percentile(b.now())
	return p95, n, b.open || b.follows()
}
