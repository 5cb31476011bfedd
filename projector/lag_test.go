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
func TestProjector_LagIsAnAlertOnce(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64 // what has passed by the store's clock, however long this machine takes
	began := time.Now()
	now := func() time.Time { return began.Add(time.Duration(ahead.Load())) }
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "dvt.db"), sqlite.Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	bus, log := &post{}, &journal{}
	var metric func(*testing.T, string, ...string) float64
	p := projector.New(s, bus, quick(func(c *projector.Config) { metric, c.Logger = measured(c), logTo(log) }))
	alerts := func() float64 { return metric(t, "projector_alerts_total", "alert=PROJECTOR_LAG_HIGH") }

	one, two, idle := create(t, s, 1), create(t, s, 2), create(t, s, 3)
	ahead.Add(int64(time.Second)) // for a sweep to find them
	stop := start(t, p)
	eventually(t, 5*time.Second, "published", clean(t, s))
	ahead.Add(int64(time.Minute))                        // nothing waits for a minute
	if err := p.Project(t.Context(), idle); err != nil { // woken for nothing
		t.Fatal(err)
	}
	begin(t, s, idle, 0)
	p.Wake(idle)
	eventually(t, 5*time.Second, "published", clean(t, s))
	if alerts() != 0 {
		t.Fatal("an idle run is an alert")
	}
	stop() // the projector stands still for 6 s with pending events
	begin(t, s, one, 0)
	begin(t, s, two, 0)
	ahead.Add(int64(6 * time.Second))
	p = projector.New(s, bus, quick(func(c *projector.Config) {
		metric, c.Logger = measured(c), logTo(log)
		c.SweepAge = 500 * time.Millisecond // an alert lasts for ten sweeps after the first of the two
	}))
	start(t, p)
	eventually(t, 5*time.Second, "published", clean(t, s))
	if alerts() != 1 || len(log.lines("PROJECTOR_LAG_HIGH", `"severity":"P2"`)) != 1 {
		t.Errorf("%v alerts: %v", alerts(), log.lines("PROJECTOR_LAG_HIGH"))
	}
	eventually(t, 5*time.Second, "no lag is shown", func() bool { return metric(t, "projector_lag_seconds") == 0 })
	if metric(t, "engine_event_latency_seconds") == 0 {
		t.Error("latencies are not measured")
	}
	begin(t, s, one, 1)
	ahead.Add(int64(3 * time.Second)) // between 1 and 5 s there is no alert
	p.Wake(one)
	eventually(t, 5*time.Second, "published", clean(t, s))
	if alerts() != 1 {
		t.Errorf("%v alerts", alerts())
	}
}

// contract: R008, R015
func TestProjector_AnomaliesAreCounted(t *testing.T) {
	t.Parallel()
	s, bus := openSQLite(t), &post{}
	runID := create(t, s, 1)
	var metric func(*testing.T, string, ...string) float64
	var told atomic.Int64
	p := projector.New(s, bus, quick(func(c *projector.Config) {
		metric = measured(c)
		c.OnAnomaly = func(string, run.Anomaly) { told.Add(1) }
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
	if n := metric(t, "projector_alerts_total", "alert=PROJECTOR_CAUSAL_VIOLATION"); n == 0 || n != float64(told.Load()) {
		t.Errorf("%v counted, %d told", n, told.Load())
	}
	if n := metric(t, "projector_alerts_total", "alert=PROJECTOR_NON_CONTIGUOUS_FETCH_DETECTED"); n != 0 {
		t.Errorf("%v holes in a log that has none", n)
	}
}
