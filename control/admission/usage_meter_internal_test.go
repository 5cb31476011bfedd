package admission

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// backlogged is a store with starts that are due and runs that no projector takes.
type backlogged struct{ asked time.Duration }

func (s *backlogged) Usage(context.Context, string) (store.Usage, error) { return store.Usage{}, nil }
func (s *backlogged) DueStarts(context.Context) (int64, error)           { return 4, nil }
func (s *backlogged) Dirty(_ context.Context, age time.Duration, _ int) ([]store.DirtyRun, error) {
	s.asked = age
	return make([]store.DirtyRun, 3), nil
}

// A dead projector cannot say so itself: every server measures what is overdue.
func TestUsageMeter_MeasuresWhatIsOverdueAndTheQueuesOfTheEngine(t *testing.T) {
	t.Parallel()
	now, r := time.Unix(1000, 0), prometheus.NewRegistry()
	m, st := NewMetrics(r), &backlogged{}
	m.NoteQueues("temporal", plan.Queues{Control: "tq-control-dev", Data: "tq-data-dev"}, now)
	rights := &control.Rights{Now: func() time.Time { return now }}
	u := NewUsageMeter(rights, st, nil, m, nil, func(_ context.Context, queue string) (int64, bool) {
		return 7, queue == "tq-data-dev" // the engine has not answered about the other one
	})
	if err := u.measureQuotas(t.Context()); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, x := range f.GetMetric() {
			got[f.GetName()] += x.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{"projector_overdue_runs": 3, "run_queue_pending": 4,
		"run_queue_pending_total": 4, "engine_queue_depth": 7, "engine_queue_backlog": 7} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if st.asked != overdueAge {
		t.Errorf("runs are overdue after %s, want %s", st.asked, overdueAge)
	}
}

// alertLog records what happens to alerts.
type alertLog struct {
	control.AlertStore
	lines []string
}

func (l *alertLog) RaiseAlert(_ context.Context, a store.Alert) (store.AlertRaised, error) {
	l.lines = append(l.lines, "raised "+string(a.Code)+" "+a.ProjectID)
	return store.AlertRaised{}, nil
}

func (l *alertLog) ResolveAlerts(_ context.Context, fingerprints []string, _ string) ([]store.AlertState, error) {
	for _, f := range fingerprints {
		l.lines = append(l.lines, "resolved "+strings.Split(f, "\n")[1])
	}
	return nil, nil
}

func TestUsageMeter_AlertsAboutFullQueuesUntilTheyTakeRuns(t *testing.T) {
	t.Parallel()
	recorded, now := &alertLog{}, time.Unix(1000, 0)
	clock := func() time.Time { return now }
	alerts := control.NewAlerts(recorded, nil, clock, slog.New(slog.DiscardHandler))
	u := NewUsageMeter(&control.Rights{Now: clock}, nil, nil, nil, alerts, nil)
	own := noLimits()
	own[limitDepth] = 2
	q := &tenantQuota{limits: limits{10, 10, 10, 1, 5}, projects: map[string]projectQuota{
		"shop": {limits: own}, "etl": {limits: noLimits()}}} // etl has no maximum of its own
	for _, waiting := range []struct{ tenant, shop int64 }{{4, 1}, {5, 1}, {5, 2}, {4, 2}, {1, 1}, {1, 1}} {
		err := u.full.check(t.Context(), "acme", q, store.Usage{Tenant: store.LaneUsage{Waiting: waiting.tenant},
			Projects: map[string]store.LaneUsage{"shop": {Waiting: waiting.shop}, "etl": {Waiting: 5}}, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		now = now.Add(10 * time.Second)
	}
	want := []string{"raised QUEUE_FULL ", "raised QUEUE_FULL shop", "resolved ", "resolved shop"}
	if diff := cmp.Diff(want, recorded.lines); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
}
