package admission

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/plan"
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
