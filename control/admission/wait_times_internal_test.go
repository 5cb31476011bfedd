package admission

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

func TestWaitTimes_TellThe95thPercentileOfTheNewestWaits(t *testing.T) {
	t.Parallel()
	var w waitTimes
	for i := 1; i <= 100; i++ {
		w.newest = append(w.newest, time.Duration(i)*time.Millisecond)
	}
	if got := w.p95Milliseconds(); got != 95 {
		t.Errorf("the 95th percentile of 1 to 100 ms is %v ms, want 95", got)
	}
	if got := (&waitTimes{newest: []time.Duration{2 * time.Second}}).p95Milliseconds(); got != 2000 {
		t.Errorf("the 95th percentile of one wait of 2 s is %v ms, want 2000", got)
	}
	m, now := NewMetrics(prometheus.NewRegistry()), time.Unix(1000, 0)
	for range 2 * maxWaits {
		m.noteWait("acme", time.Second, now)
	}
	if n := len(m.waits["acme"].newest); n != maxWaits {
		t.Errorf("%d waits of a tenant are kept, want %d", n, maxWaits)
	}
	if m.updateWaits(now.Add(busyFor + time.Second)); len(m.waits) != 0 {
		t.Error("the waits of a tenant that is no longer busy are kept")
	}
}

// Names of queues are labels, and a tenant can have a queue of its own.
func TestEngineBacklog_MeasuresABoundedNumberOfQueues(t *testing.T) {
	t.Parallel()
	m, now := NewMetrics(prometheus.NewRegistry()), time.Unix(1000, 0)
	for i := range maxBacklogQueues {
		name := string(rune('a'+i/26)) + string(rune('a'+i%26))
		m.NoteQueues("temporal", plan.Queues{Control: "tq-control-" + name, Data: "tq-data-" + name}, now)
	}
	if recent, _ := m.backlog.used.recent(now); len(recent) != maxBacklogQueues {
		t.Errorf("%d queues are measured, want %d", len(recent), maxBacklogQueues)
	}
	recent, forgotten := m.backlog.used.recent(now.Add(queueUsedFor + time.Second))
	if len(recent) != 0 || len(forgotten) != maxBacklogQueues {
		t.Errorf("after an hour without a start %d queues are measured and %d forgotten, want 0 and %d", len(recent),
			len(forgotten), maxBacklogQueues)
	}
}

// The store's clock goes on between the arrival of a run and the answer, so a run that starts at once can have a start
// that is microseconds after the time of its view.
func TestCountAccepted_ARunThatStartsAtOnceIsNotDelayed(t *testing.T) {
	t.Parallel()
	r, now := prometheus.NewRegistry(), time.Unix(1000, 0)
	m := NewMetrics(r)
	for _, q := range []store.QueueRow{
		{NotBefore: now.Add(7 * time.Microsecond)},
		{NotBefore: now.Add(time.Minute), Estimate: time.Minute}, // delayed
	} {
		m.CountAccepted(control.RunView{AsOf: now, Queue: &control.QueueEntry{WaitingRun: store.WaitingRun{QueueRow: q}}})
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if n := f.GetMetric()[0].GetGauge().GetValue(); f.GetName() == "engine_backpressure_delayed" && n != 1 {
			t.Errorf("%.0f runs count as delayed, want only the one that starts a minute later", n)
		}
	}
}
