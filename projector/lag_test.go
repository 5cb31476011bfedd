package projector_test

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// contract: P15, T34
func TestProjector_LagRaisesOneAlert(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64 // offset of the store's clock, so that the speed of this machine does not matter
	began := time.Now()
	now := func() time.Time { return began.Add(time.Duration(ahead.Load())) }
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	bus, log := &fakeBus{}, &logBuffer{}
	var metric func(*testing.T, string, ...string) float64
	p := projector.New(s, bus, quickConfig(func(c *projector.Config) {
		metric, c.Logger = registerMetrics(c),
			logTo(log)
	}))
	alerts := func() float64 { return metric(t, "projector_alerts_total", "alert=PROJECTOR_LAG_HIGH") }

	one, two, idle := create(t, s, 1), create(t, s, 2), create(t, s, 3)
	ahead.Add(int64(time.Second)) // so that a sweep finds them
	stop := start(t, p)
	eventually(t, 5*time.Second, "published", clean(t, s))
	ahead.Add(int64(time.Minute))                        // nothing is pending for a minute
	if err := p.Project(t.Context(), idle); err != nil { // woken without new events
		t.Fatal(err)
	}
	begin(t, s, idle, 0)
	p.Wake(idle)
	eventually(t, 5*time.Second, "published", clean(t, s))
	if alerts() != 0 {
		t.Fatal("an idle run raised an alert")
	}
	stop() // pending events for 6 s without a projector
	begin(t, s, one, 0)
	begin(t, s, two, 0)
	ahead.Add(int64(6 * time.Second))
	p = projector.New(s, bus, quickConfig(func(c *projector.Config) {
		metric, c.Logger = registerMetrics(c), logTo(log)
		c.SweepAge = time.Second // an alert lasts for ten sweeps, and the gauge shows a lag for one
	}))
	start(t, p)
	eventually(t, 5*time.Second, "the lag of 6 s is shown", func() bool { return metric(t, "projector_lag_seconds") >= 6 })
	eventually(t, 5*time.Second, "published", clean(t, s))
	if alerts() != 1 || len(log.lines("PROJECTOR_LAG_HIGH", `"severity":"P2"`)) != 1 {
		t.Errorf("%v alerts, want 1; log: %v", alerts(), log.lines("PROJECTOR_LAG_HIGH"))
	}
	eventually(t, 5*time.Second, "no lag is shown", func() bool { return metric(t, "projector_lag_seconds") == 0 })
	if metric(t, "engine_event_latency_seconds") == 0 {
		t.Error("no latency was measured")
	}
	begin(t, s, one, 1)
	ahead.Add(int64(3 * time.Second)) // no alert between 1 and 5 s
	p.Wake(one)
	eventually(t, 5*time.Second, "published", clean(t, s))
	if alerts() != 1 {
		t.Errorf("%v alerts, want 1", alerts())
	}
}

// contract: R008, R015
func TestProjector_AnomaliesAreCounted(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &fakeBus{}
	runID := create(t, s, 1)
	var metric func(*testing.T, string, ...string) float64
	var reported atomic.Int64
	p := projector.New(s, bus, quickConfig(func(c *projector.Config) {
		metric = registerMetrics(c)
		c.OnAnomaly = func(string, run.Anomaly) { reported.Add(1) }
	}))
	if err := p.Project(t.Context(), runID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), store.Append{RunID: runID, Events: []run.Draft{
		runtest.Draft(run.StepCompletedEvent, steps[0], 1), runtest.Draft(run.StepStartedEvent, steps[0], 1),
	}}); err != nil {
		t.Fatal(err)
	}
	if err := p.Project(t.Context(), runID); err != nil {
		t.Fatal(err)
	}
	if n := metric(t, "projector_alerts_total",
		"alert=PROJECTOR_CAUSAL_VIOLATION"); n == 0 || n != float64(reported.Load()) {
		t.Errorf("%v anomalies counted, %d reported", n, reported.Load())
	}
	holes := func() float64 {
		return metric(t, "projector_alerts_total", "alert=PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED", "severity=P2")
	}
	if n := holes(); n != 0 {
		t.Errorf("%v holes reported in a log without holes", n)
	}
	if p.CountGap(); holes() != 1 {
		t.Errorf("a gap that a stream saw left %v alerts with the severity P2, want 1", holes())
	}
}
