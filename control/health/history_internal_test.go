package health

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// contract: H01
func TestMeasured_KeepsTheNewest(t *testing.T) {
	t.Parallel()
	m := &sampleRing{}
	if got := m.newest(5); len(got) != 0 || got == nil {
		t.Errorf("before the first sample: %v", got)
	}
	for i := range 3*MaxHealthSamples + 7 {
		m.add(HealthSample{Viewers: i})
		if len(m.samples) > MaxHealthSamples || cap(m.samples) > 2*MaxHealthSamples {
			t.Fatalf("%d samples are kept in the place of %d", len(m.samples), cap(m.samples))
		}
	}
	all := m.newest(MaxHealthSamples)
	for i, s := range all {
		if want := 2*MaxHealthSamples + 7 + i; s.Viewers != want {
			t.Fatalf("sample %d is number %d, want number %d", i, s.Viewers, want)
		}
	}
	last := m.newest(2)
	if diff := cmp.Diff(all[MaxHealthSamples-2:], last); diff != "" {
		t.Error(diff)
	}
	last[0].Viewers = -1
	if m.newest(2)[0].Viewers == -1 {
		t.Error("Newest returned the stored samples, want a copy")
	}
}

// contract: H01
func TestLagOf_EstimatesAnInterval(t *testing.T) {
	t.Parallel()
	buckets := func(counts ...uint64) []LagBucket {
		out := make([]LagBucket, len(counts))
		for i, n := range counts {
			out[i] = LagBucket{UpTo: []float64{.01, .1, 1, math.Inf(1)}[i], Count: n}
		}
		return out
	}
	for name, test := range map[string]struct {
		before, after []LagBucket
		p50, p99      time.Duration // -1: none
	}{
		"nothing is counted":   {nil, nil, -1, -1},
		"no frame ever":        {buckets(0, 0, 0, 0), buckets(0, 0, 0, 0), -1, -1},
		"an empty interval":    {buckets(5, 9, 9, 9), buckets(5, 9, 9, 9), -1, -1},
		"all within the first": {nil, buckets(100, 100, 100, 100), 5 * time.Millisecond, 9900 * time.Microsecond},
		"earlier counts are left out": {buckets(1000, 1000, 1000, 1000), buckets(1000, 1100, 1100, 1100),
			55 * time.Millisecond, 99100 * time.Microsecond},
		"a slow one in a hundred": {buckets(0, 0, 0, 0), buckets(98, 98, 100, 100), 5100 * time.Microsecond,
			550 * time.Millisecond},
		"one frame": {buckets(7, 7, 7, 7), buckets(7, 7, 8, 8), 550 * time.Millisecond,
			991 * time.Millisecond},
		"beyond the last bound":     {buckets(0, 0, 0, 0), buckets(0, 0, 0, 4), time.Second, time.Second},
		"only the tail lies beyond": {buckets(0, 0, 0, 0), buckets(10, 10, 10, 11), 5500 * time.Microsecond, time.Second},
	} {
		for q, want := range map[float64]time.Duration{.5: test.p50, .99: test.p99} {
			got := LagOf(q, test.before, test.after)
			if want < 0 && got != nil || want >= 0 && (got == nil || *got != want) {
				t.Errorf("%s: the quantile %v is %v, want %v", name, q, got, want)
			}
		}
	}
}

// contract: H01
func TestSampleOf_SaysWhatDidNotAnswer(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 3, 12, 7, 0, time.UTC)
	checks := func(store, temporal string) Health {
		return Health{Status: "DEGRADED", Checks: []HealthCheck{
			{Name: CheckTemporal, Status: temporal, Latency: 4 * time.Millisecond}, {Name: CheckStore, Status: store,
				Latency: time.Millisecond}, {Name: CheckBus, Status: "HEALTHY", Latency: time.Hour},
		}}
	}
	before, after := Counters{Frames: 100}, Counters{Frames: 250, Viewers: 9, Streams: 4, Stale: 1}
	want := HealthSample{At: at, Status: "DEGRADED", FrameRate: 10, Viewers: 9, Streams: 4, Stale: 1,
		Store: new(time.Millisecond), Engine: new(4 * time.Millisecond)}
	if diff := cmp.Diff(want, SampleOf(checks("HEALTHY", "DEGRADED"), before, after, at, 15*time.Second)); diff != "" {
		t.Error(diff)
	}
	want.Store, want.Engine = nil, nil
	if diff := cmp.Diff(want, SampleOf(checks("UNHEALTHY", "UNHEALTHY"), before, after, at, 15*time.Second)); diff != "" {
		t.Error(diff)
	}
	if got := SampleOf(checks("HEALTHY", "HEALTHY"), before, after, at, 0).FrameRate; got != 0 {
		t.Errorf("%v frames a second in no time", got)
	}
}
