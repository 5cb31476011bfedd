package health

import (
	"context"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
)

// Meter measures the health of this process over time. It is safe for concurrent use.
type Meter struct {
	rights   *control.Rights
	checks   *Checks
	settings Measuring
	measured *Measured
}

// NewMeter makes a Meter.
func NewMeter(rights *control.Rights, checks *Checks, settings Measuring) *Meter {
	return &Meter{rights: rights, checks: checks, settings: settings, measured: &Measured{since: rights.Now()}}
}

// MaxHealthSamples is how many samples of itself a server keeps, the newest: an hour of one every 15 s.
const MaxHealthSamples = 240

// Measuring is what MeasureHealth needs; zero fields take the defaults named.
type Measuring struct {
	Every   time.Duration  // between two samples; 15 s
	Server  string         // the name of the server that measures
	Counted func() Counted // what it has counted; nothing
}

// Counted is what a server has counted of what it shows, since it started. Viewers, Streams and Stale are of now.
type Counted struct {
	Frames  uint64      // that streams of runs gave out
	Lag     []LagBucket // of the frames that show something new; the bounds ascend, the last is infinite
	Viewers int         // subscriptions to runs and lists that are served
	Streams int         // of runs
	Stale   int         // of those: said STALE last
}

// LagBucket counts the frames that came at most UpTo seconds after the commit of what they show.
type LagBucket struct {
	UpTo  float64
	Count uint64
}

// HealthSample is one moment of a server, and the interval before it.
type HealthSample struct {
	At             time.Time
	Status         string         // HEALTHY, DEGRADED or UNHEALTHY
	LagP50, LagP99 *time.Duration // from commit to frame, of the interval; nil: no frame was measured
	FrameRate      float64        // frames in a second, of the interval
	Viewers        int
	Streams        int
	Stale          int
	Store, Engine  *time.Duration // in which they answered; nil: they did not
}

// HealthHistory is what one server knows of itself. It is in memory alone: a server that
// started anew has a short one, and Since says so.
type HealthHistory struct {
	Server  string
	Since   time.Time
	Every   time.Duration
	Samples []HealthSample // oldest first, at most MaxHealthSamples
}

// Measured is the ring of samples.
type Measured struct {
	since   time.Time
	mu      sync.Mutex
	Samples []HealthSample
}

// Add keeps a sample in place of the oldest one when there are MaxHealthSamples.
func (m *Measured) Add(one HealthSample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.Samples) == MaxHealthSamples {
		m.Samples = append(m.Samples[:0], m.Samples[1:]...)
	}
	m.Samples = append(m.Samples, one)
}

// Newest are the last n, or as many as there are; a copy.
func (m *Measured) Newest(n int) []HealthSample {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]HealthSample{}, m.Samples[max(0, len(m.Samples)-n):]...)
}

// HealthHistory is the last samples that MeasureHealth of this process took, for those whom
// DetailedHealth is for: FORBIDDEN; BAD_USER_INPUT unless last is from 1 to MaxHealthSamples.
func (s *Meter) HealthHistory(ctx context.Context, p authz.Principal, last int) (HealthHistory, error) {
	if last < 1 || last > MaxHealthSamples {
		return HealthHistory{}, control.BadInput(
			[]plan.Violation{{Path: "last", Code: plan.CodeRange, Message: "must be from 1 to " +
				strconv.Itoa(MaxHealthSamples)}})
	}
	if err := s.rights.MaySeeInstallation(ctx, p); err != nil {
		return HealthHistory{}, err
	}
	return HealthHistory{Server: s.settings.Server, Since: s.measured.since, Every: s.settings.Every,
		Samples: s.measured.Newest(last)}, nil
}

// MeasureHealth takes a sample of this process every Measuring.Every until ctx ends, the first one
// after that time. It writes nothing to the store.
func (s *Meter) MeasureHealth(ctx context.Context) error {
	tick := time.NewTicker(s.settings.Every)
	defer tick.Stop()
	before, at := s.settings.Counted(), s.rights.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, counted := s.rights.Now(), s.settings.Counted()
		health := s.checks.Health(ctx)
		if ctx.Err() != nil {
			return nil // what did not answer was told not to
		}
		s.measured.Add(SampleOf(health, before, counted, now, now.Sub(at)))
		before, at = counted, now
	}
}

// SampleOf is what happened between two counts.
func SampleOf(h Health, before, after Counted, at time.Time, within time.Duration) HealthSample {
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

// LagOf estimates a quantile of the frames between two counts, as if those of one bucket lay evenly
// in it. Of what lies beyond the last bound it says that bound. Nil: there were no frames.
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
