package temporal

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// meterRoom is the maximum number of open executions in a meter; it ignores further ones.
	meterRoom = 10_000
	// meterForgets is the time after which a meter drops a reading. An execution without a newer reading has not grown, or
	// another worker executes it.
	meterForgets = 10 * time.Minute
)

// meter measures the histories of the open executions of this worker (contract R388). It exports the maximum over all
// executions, because the alerts compare it with the thresholds of a rotation (contract R389, T114). Safe for
// concurrent use.
type meter struct {
	now         func() time.Time
	size, steps *prometheus.Desc

	mu   sync.Mutex
	open map[string]reading // by Temporal's run id
}

// reading is one measurement: the size of the history in bytes and the number of steps scheduled.
type reading struct {
	at          time.Time
	size, steps int
}

func newMeter(namespace string, now func() time.Time) *meter {
	labels := prometheus.Labels{"namespace": namespace}
	return &meter{
		now: now, open: map[string]reading{},
		size: prometheus.NewDesc("workflow_history_size_bytes",
			"Size of the largest history among the open executions that this worker served in the last ten minutes.", nil, labels),
		steps: prometheus.NewDesc("workflow_steps_since_continue",
			"Largest number of steps that one of these executions has scheduled.", nil, labels),
	}
}

// observe stores a reading of an execution. Workflow code calls it, except in a replay, because a replayed history has
// not grown.
func (m *meter) observe(execution string, r reading) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.open[execution]; known || len(m.open) < meterRoom {
		m.open[execution] = r
	}
}

// forget drops an execution that has ended.
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

// most returns the maxima over all recent readings and drops the others.
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
