package health_test

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
)

// contract: H01
func TestHealthHistory_IsOfThisProcessAlone(t *testing.T) {
	t.Parallel()
	var frames, looks atomic.Uint64
	counted := func() health.Counters {
		looks.Add(1)
		n := frames.Load()
		return health.Counters{Frames: n, Lag: []health.LagBucket{{UpTo: .1, Count: n}, {UpTo: math.Inf(1), Count: n}},
			Viewers: 3}
	}
	w := controltest.New(t, func(c *usecases.Config) {
		c.Meter = health.MeterSettings{Every: 20 * time.Millisecond, Server: "host/7", ReadCounters: counted}
		c.OperatorsTenant = "acme"
	})
	sre := w.Principal("dev-sre")
	h := controltest.Must[health.HealthHistory](t)(w.HealthHistory(t.Context(), sre, health.MaxHealthSamples))
	if h.Samples == nil || len(h.Samples) != 0 || h.Server != "host/7" || h.Every != 20*time.Millisecond ||
		h.Since.IsZero() {
		t.Errorf("before the first sample the history is %+v, want no samples and a start", h)
	}
	stop := w.Spawn(w.MeasureHealth)
	newest := func() health.HealthSample {
		h := controltest.Must[health.HealthHistory](t)(w.HealthHistory(t.Context(), sre, 1))
		if len(h.Samples) == 0 {
			return health.HealthSample{}
		}
		return h.Samples[0]
	}
	controltest.Eventually(t, "a sample of an empty interval", func() bool {
		s := newest()
		return s.Status == "HEALTHY" && s.LagP50 == nil && s.LagP99 == nil && s.FrameRate == 0 && s.Viewers == 3 &&
			s.Store != nil && s.Engine != nil
	})
	frames.Add(40)
	controltest.Eventually(t, "a sample with frames", func() bool {
		h := controltest.Must[health.HealthHistory](t)(w.HealthHistory(t.Context(), sre, health.MaxHealthSamples))
		for _, s := range h.Samples {
			if s.LagP50 != nil && *s.LagP50 == 50*time.Millisecond && *s.LagP99 == 99*time.Millisecond && s.FrameRate > 0 {
				return true
			}
		}
		return false
	})
	controltest.Eventually(t, "an empty interval again", func() bool { return newest().LagP50 == nil })
	if err := w.Raw.Close(); err != nil {
		t.Fatal(err)
	}
	controltest.Eventually(t, "the store gone", func() bool {
		s := newest()
		return s.Status == "UNHEALTHY" &&
			s.Store == nil
	})
	stop()
	kept := looks.Load()
	time.Sleep(60 * time.Millisecond)
	if looks.Load() != kept {
		t.Error("MeasureHealth took samples after its end")
	}

	again := usecases.New(w.Config)
	later := controltest.Must[health.HealthHistory](t)(again.HealthHistory(t.Context(), sre, health.MaxHealthSamples))
	if len(later.Samples) != 0 || !later.Since.After(h.Since) {
		t.Errorf("a server that was restarted has %d samples since %s, want none since the restart",
			len(later.Samples), later.Since)
	}
}

// contract: T136
func TestHealthHistory_IsForTheOperatorsSRE(t *testing.T) {
	t.Parallel()
	w := controltest.New(t, func(c *usecases.Config) { c.OperatorsTenant = "acme" })
	want := map[string]run.Code{"dev-sre": "", "dev-admin": run.CodeForbidden, "dev-viewer": run.CodeForbidden,
		"dev-mallory": run.CodeForbidden}
	got := map[string]run.Code{}
	for who := range want {
		_, err := w.HealthHistory(t.Context(), w.Principal(who), 1)
		got[who] = controltest.CodeOf(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	sre := w.Principal("dev-sre")
	sre.TenantID = "globex"
	if _, err := w.HealthHistory(t.Context(), sre, 1); controltest.CodeOf(err) != run.CodeForbidden {
		t.Errorf("an SRE of another tenant than the operators' gets %v, want FORBIDDEN", err)
	}
	for _, last := range []int{-1, 0, health.MaxHealthSamples + 1} {
		if _, err := w.HealthHistory(t.Context(), w.Principal("dev-sre"), last); controltest.CodeOf(err) != run.CodeBadInput {
			t.Errorf("HealthHistory of the last %d returned %v, want BAD_USER_INPUT", last, err)
		}
	}
}
