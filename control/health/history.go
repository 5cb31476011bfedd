package health

import (
	"cmp"
	"context"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
)

// Meter measures the health of this process over time. It is safe for concurrent use.
type Meter struct {
	rights   *control.Rights
	checks   *Checks
	settings MeterSettings
	samples  *sampleRing
	up       dependencyGauge
}

// NewMeter makes a Meter. MeasureHealth registers its metric with r unless r is nil.
func NewMeter(rights *control.Rights, checks *Checks, settings MeterSettings, r prometheus.Registerer) *Meter {
	settings.Every = cmp.Or(settings.Every, 15*time.Second)
	if settings.ReadCounters == nil {
		settings.ReadCounters = func() Counters { return Counters{} }
	}
	return &Meter{rights: rights, checks: checks, settings: settings, samples: &sampleRing{since: rights.Now()},
		up: newDependencyGauge(r)}
}

// MaxHealthSamples is the number of samples that a server keeps: one hour at one sample every 15 s.
const MaxHealthSamples = 240

// MeterSettings has the settings of a Meter. A zero field takes the default that its comment names.
type MeterSettings struct {
	Every        time.Duration   // time between two samples; 15 s
	Server       string          // the name of the server that measures
	ReadCounters func() Counters // returns the counters of the server; by default they are zero
}

// Counters has the counters of a server since its start. Viewers, Streams and Stale are current numbers.
type Counters struct {
	Frames  uint64      // sent by streams of runs
	Lag     []LagBucket // of frames with something new; cumulative, with ascending bounds and an infinite last one
	Viewers int         // open subscriptions to runs and lists
	Streams int         // open streams of runs
	Stale   int         // streams whose last frame was STALE
}

// LagBucket counts the frames that were sent at most UpTo seconds after the commit of their content.
type LagBucket struct {
	UpTo  float64
	Count uint64
}

// HealthSample describes a server at one moment and in the interval before it.
type HealthSample struct {
	At             time.Time
	Status         string         // HEALTHY, DEGRADED or UNHEALTHY
	LagP50, LagP99 *time.Duration // from commit to frame, in the interval; nil when no frame was measured
	FrameRate      float64        // frames per second in the interval
	Viewers        int
	Streams        int
	Stale          int
	Store, Engine  *time.Duration // response times; nil without a response
}

// HealthHistory has the samples of one server. They are kept in memory only, so the history of a server that was
// restarted is short; Since is the start of the server.
type HealthHistory struct {
	Server  string
	Since   time.Time
	Every   time.Duration
	Samples []HealthSample // oldest first, at most MaxHealthSamples
}

// sampleRing is a ring buffer of samples. It is safe for concurrent use.
type sampleRing struct {
	since   time.Time
	mu      sync.Mutex
	samples []HealthSample
}

// add adds a sample. It drops the oldest one when there are MaxHealthSamples.
func (m *sampleRing) add(one HealthSample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.samples) == MaxHealthSamples {
		m.samples = append(m.samples[:0], m.samples[1:]...)
	}
	m.samples = append(m.samples, one)
}

// newest returns a copy of the newest n samples, oldest first, or of all when there are fewer.
func (m *sampleRing) newest(n int) []HealthSample {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]HealthSample{}, m.samples[max(0, len(m.samples)-n):]...)
}

// HealthHistory returns the newest samples that MeasureHealth of this process took. Errors: FORBIDDEN as for
// DetailedHealth; BAD_USER_INPUT unless last is from 1 to MaxHealthSamples.
func (s *Meter) HealthHistory(ctx context.Context, p authz.Principal, last int) (HealthHistory, error) {
	if last < 1 || last > MaxHealthSamples {
		return HealthHistory{}, control.BadInput([]plan.Violation{control.OutOfRange("last", MaxHealthSamples)})
	}
	if err := s.rights.MaySeeInstallation(ctx, p); err != nil {
		return HealthHistory{}, err
	}
	return HealthHistory{Server: s.settings.Server, Since: s.samples.since, Every: s.settings.Every,
		Samples: s.samples.newest(last)}, nil
}

// MeasureHealth takes a sample of this process every MeterSettings.Every until ctx ends. It takes the first one after
// that interval. It writes to the store only while a part is broken, and when it works again (DEPENDENCY_DOWN).
func (s *Meter) MeasureHealth(ctx context.Context) error {
	s.up.register()
	tick := time.NewTicker(s.settings.Every)
	defer tick.Stop()
	before, at := s.settings.ReadCounters(), s.rights.Now()
	broken := brokenChecks{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, counted := s.rights.Now(), s.settings.ReadCounters()
		health := s.checks.Health(ctx)
		if ctx.Err() != nil {
			return nil // checks that were cancelled say nothing
		}
		s.tellPeople(ctx, health, broken)
		broken.note(ctx, health, now, s.rights.Log)
		s.samples.add(SampleOf(health, before, counted, now, now.Sub(at)))
		before, at = counted, now
	}
}

// SampleOf returns the sample for the interval between two readings of the counters.
func SampleOf(h Health, before, after Counters, at time.Time, within time.Duration) HealthSample {
	out := HealthSample{
		At: at, Status: h.Status, Viewers: after.Viewers, Streams: after.Streams, Stale: after.Stale,
		LagP50: LagOf(.5, before.Lag, after.Lag), LagP99: LagOf(.99, before.Lag, after.Lag),
	}
	if within > 0 {
		out.FrameRate = math.Round(10*float64(after.Frames-before.Frames)/within.Seconds()) / 10
	}
	for _, c := range h.Checks {
		switch {
		case c.Status == "UNHEALTHY": // it did not answer
		case c.Name == CheckStore:
			out.Store = new(c.Latency)
		case c.Name == CheckTemporal:
			out.Engine = new(c.Latency)
		}
	}
	return out
}

// LagOf estimates a quantile of the lag of the frames between two readings. It interpolates linearly within a bucket,
// and returns the last finite bound for a quantile beyond it. It returns nil when there were no frames.
func LagOf(q float64, before, after []LagBucket) *time.Duration {
	count := func(i int) float64 {
		n := after[i].Count
		if i < len(before) {
			n -= before[i].Count
		}
		return float64(n)
	}
	if len(after) == 0 || count(len(after)-1) == 0 {
		return nil
	}
	rank := q * count(len(after)-1)
	var from, below float64
	for i, b := range after {
		n := count(i)
		if math.IsInf(b.UpTo, 1) {
			break
		}
		if n >= rank {
			from += (b.UpTo - from) * (rank - below) / (n - below)
			break
		}
		from, below = b.UpTo, n
	}
	return new(time.Duration(from * float64(time.Second)).Round(10 * time.Microsecond))
}
