package executor

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/plan"
)

// Meter measures the executions of one worker process. All its Runners share it. Safe for concurrent use.
type Meter struct{ took *prometheus.HistogramVec }

// NewMeter registers the metrics of executions with r.
func NewMeter(r prometheus.Registerer) *Meter {
	m := &Meter{took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "engine_execution_duration_seconds",
		Help:    "Time that one execution of a step took on this worker, by type of step; every engine attempt is one.",
		Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 2 * 3600},
	}, []string{"type"})}
	for _, t := range plan.StepTypes() {
		if t != plan.Manual && t != plan.Sleep { // no worker executes these
			m.took.WithLabelValues(string(t))
		}
	}
	r.MustRegister(m.took)
	return m
}

// observe records an execution. A nil Meter records nothing.
func (m *Meter) observe(t plan.StepType, runID string, took time.Duration) {
	if m == nil {
		return
	}
	h := m.took.WithLabelValues(string(t))
	if e, ok := h.(prometheus.ExemplarObserver); ok && runID != "" {
		e.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"run_id": runID})
		return
	}
	h.Observe(took.Seconds())
}
