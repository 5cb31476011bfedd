package projector

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// recordMeter counts what the log says that ended: attempts of steps, and runs. It reads published deltas, because all
// writers of a log meet there: workers, the engine and the use cases. Of two projectors that publish the same change
// after a crash, both count it. Safe for concurrent use.
type recordMeter struct {
	steps  *prometheus.CounterVec
	errors *prometheus.CounterVec
	runs   prometheus.Histogram
}

// categories are the values of the label of engine_errors_total.
var categories = []run.Category{run.CategoryUser, run.CategorySystem, run.CategoryPlatform, run.CategoryTimeout}

// otherCategory stands for a failure without one of the categories.
const otherCategory = "OTHER"

func newRecordMeter() recordMeter {
	m := recordMeter{
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "engine_steps_executed_total",
			Help: "Attempts of steps that ended, by type of step and status."}, []string{"type", "status"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "engine_errors_total",
			Help: "Attempts of steps that failed, and runs that failed without a failed step, by category of the failure."},
			[]string{"category"}),
		runs: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "engine_run_duration_seconds",
			Help:    "Time from the acceptance of a run to its end, waits included.",
			Buckets: []float64{1, 5, 15, 60, 300, 900, 1800, 3600, 7200, 14400, 28800, 57600, 86400, 259200}}),
	}
	for _, t := range plan.StepTypes() {
		for _, status := range []run.StepStatus{run.StepSuccess, run.StepFailed, run.StepSkipped} {
			m.steps.WithLabelValues(string(t), string(status))
		}
	}
	for _, c := range categories {
		m.errors.WithLabelValues(string(c))
	}
	m.errors.WithLabelValues(otherCategory)
	return m
}

func (m recordMeter) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.steps, m.errors, m.runs}
}

// observe counts the ends in (d.From, d.To].
func (m recordMeter) observe(d run.Delta) {
	for _, s := range d.Steps {
		for i := range s.Attempts {
			a := &s.Attempts[i]
			if a.EndedSeq <= d.From || a.EndedSeq > d.To || a.Reused != nil {
				continue
			}
			m.steps.WithLabelValues(s.Type, string(a.Status)).Inc()
			if a.Status == run.StepFailed {
				m.countError(a.Error)
			}
		}
	}
	h := d.Header
	if h.CompletedAt == nil || h.StatusSeq <= d.From || h.StatusSeq > d.To {
		return
	}
	observeOf(m.runs, max(h.CompletedAt.Sub(h.CreatedAt).Seconds(), 0), h.RunID)
	if h.Failure != nil && h.RootCause == nil {
		m.countError(&run.StepError{Category: h.Failure.Category})
	}
}

func (m recordMeter) countError(e *run.StepError) {
	category := otherCategory
	if e != nil && slices.Contains(categories, e.Category) {
		category = string(e.Category)
	}
	m.errors.WithLabelValues(category).Inc()
}

// observeOf observes a value of a run, with the run as the exemplar, so that a slow bucket leads to a run.
func observeOf(h prometheus.Histogram, v float64, runID string) {
	if e, ok := h.(prometheus.ExemplarObserver); ok && runID != "" {
		e.ObserveWithExemplar(v, prometheus.Labels{"run_id": runID})
		return
	}
	h.Observe(v)
}
