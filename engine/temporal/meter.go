package temporal

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// meterRoom is how many open executions a meter knows at once; others are not counted.
	meterRoom = 10_000
	// meterForgets is how long a reading counts: an execution that was silent for so
	// long has not grown, or is another worker's by now.
	meterForgets = 10 * time.Minute
)

// meter keeps how far the open executions of this worker have come (contract R388): what it
// offers is the most of any of them, which is what alerts ask for (contract R389, T114).
type meter struct {
	now         func() time.Time
	size, steps *prometheus.Desc

	mu   sync.Mutex
	open map[string]reading // by Temporal's run id
}

type reading struct {
	at          time.Time
	size, steps int
}

func newMeter(now func() time.Time) *meter {
	return &meter{
		now: now, open: map[string]reading{},
		size: prometheus.NewDesc("workflow_history_size_bytes",
			"The largest history of an open execution that worked here in the last ten minutes.", nil, nil),
		steps: prometheus.NewDesc("workflow_steps_since_continue",
			"The most steps that one of these executions has scheduled.", nil, nil),
	}
}

// observe takes a reading of an execution. Workflow code calls it, but not while
// it replays.
func (m *meter) observe(execution string, r reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.open[execution]; known || len(m.open) < meterRoom {
		m.open[execution] = r
	}
}

// forget drops an execution that is over.
func (m *meter) forget(execution string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.open, execution)
}

// Describe implements prometheus.Collector.
func (m *meter) Describe(ch chan<- *prometheus.Desc) { ch <- m.size; ch <- m.steps }

// Collect implements prometheus.Collector.
func (m *meter) Collect(ch chan<- prometheus.Metric) {
	size, steps := m.most()
	ch <- prometheus.MustNewConstMetric(m.size, prometheus.GaugeValue, float64(size))
	ch <- prometheus.MustNewConstMetric(m.steps, prometheus.GaugeValue, float64(steps))
}

func (m *meter) most() (size, steps int) {
	since := m.now().Add(-meterForgets)
	m.mu.Lock()
	defer m.mu.Unlock()
	for execution, r := range m.open {
		if r.at.Before(since) {
			delete(m.open, execution)
			continue
		}
		size, steps = max(size, r.size), max(steps, r.steps)
	}
	return size, steps
}
