package admission

import (
	"context"
	"testing"
	"time"

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
	u := NewUsageMeter(rights, st, nil, m, func(_ context.Context, queue string) (int64, bool) {
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
