package projector_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// faultyStore panics when it loads one run.
type faultyStore struct {
	store.Store
	run string
}

func (s *faultyStore) Load(ctx context.Context, runID string) (store.Loaded, error) {
	if runID == s.run {
		panic("the log of this run cannot be folded")
	}
	return s.Store.Load(ctx, runID)
}

// A run whose projection panics stays marked and is retried. It delays no other run of the same batch.
func TestProjector_PanicOfOneRunDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	s := &faultyStore{Store: openSQLite(t), run: identity(1).RunID}
	bus := &fakeBus{}
	cfg := quickConfig()
	value := registerMetrics(&cfg)
	bad, good := create(t, s, 1), create(t, s, 2)
	p := projector.New(s, bus, cfg)
	p.Wake(bad)
	p.Wake(good)
	start(t, p)
	head := func(want run.Seq) func() bool {
		return func() bool { to, _ := bus.latest(good); return to == want }
	}
	eventually(t, 5*time.Second, "the other run is published", head(2))
	eventually(t, 5*time.Second, "the run is tried again",
		func() bool { return value(t, "dvt_panics_total", "duty=project") >= 2 })
	begin(t, s, good, 0)
	eventually(t, 5*time.Second, "the other run is published again after the panic", head(3))
	if n := len(bus.of(bad)); n != 0 {
		t.Errorf("%d messages were published for the run that cannot be folded, want none", n)
	}
}

// faultyBus panics when a message of one run is published.
type faultyBus struct {
	*fakeBus
	run string
}

func (b *faultyBus) Publish(ctx context.Context, m live.Message) error {
	if m.RunID == b.run {
		panic("the message of this run cannot be encoded")
	}
	return b.fakeBus.Publish(ctx, m)
}

// A panic while a message is published aborts the work on that run only.
func TestProjector_PanicInPublishAbortsOnlyOneRun(t *testing.T) {
	t.Parallel()
	s := openSQLite(t)
	bad, good := create(t, s, 1), create(t, s, 2)
	bus := &fakeBus{}
	cfg := quickConfig()
	metrics := prometheus.NewRegistry()
	cfg.Metrics = metrics
	faulty := &faultyBus{fakeBus: bus, run: bad}
	p := projector.New(s, faulty, cfg)
	p.Wake(bad)
	p.Wake(good)
	start(t, p)
	eventually(t, 5*time.Second, "the other run is published", func() bool { to, _ := bus.latest(good); return to == 2 })
	eventually(t, 5*time.Second, "the panic is counted", func() bool {
		n, err := testutil.GatherAndCount(metrics, "dvt_panics_total") // there is none before the first
		return err == nil && n > 0
	})
}
