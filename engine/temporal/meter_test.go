package temporal_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
)

// gauges returns the values of a registry's gauges by name.
func gauges(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	all, err := r.Gather()
	must(t, err)
	out := map[string]float64{}
	for _, f := range all {
		for _, m := range f.GetMetric() {
			out[f.GetName()] = m.GetGauge().GetValue()
		}
	}
	return out
}

// The metrics of a worker count the current execution of a run, and no execution after the run has ended.
// contract: R388
func TestMeter_CountsOnlyOpenExecutions(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	h := newHarness(t, options{rotateAfter: 3, workers: -1})
	h.serve(temporal.WorkerConfig{
		Namespace: testserver.TemporalNamespace, Control: []string{h.queues.Control}, Data: h.queues.Known[1:],
		Metrics: registry,
	})
	open := h.hold("s004")
	id := h.start(document(0, row(6)...))
	h.waitUntilRunning(id, "s004")
	h.waitFor(id, "measured", func(run.State) bool { return gauges(t, registry)["workflow_steps_since_continue"] == 2 })
	if size := gauges(t, registry)["workflow_history_size_bytes"]; size < 1000 || size > 100_000 {
		t.Errorf("the history has %.0f bytes, want 1000 to 100000", size)
	}
	open()
	h.waitForEnd(id)
	h.waitUntilClosed(id)
	h.waitFor(id, "forgotten", func(run.State) bool { return gauges(t, registry)["workflow_history_size_bytes"] == 0 })
}

// contract: R388
func TestMeter_SilentExecutionsDoNotCount(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	size, steps := temporal.Most(func() time.Time { return now }, map[string][3]int64{
		"fresh": {990, 500, 7}, "silent": {300, 9000, 90}, "young": {999, 400, 9},
	})
	if size != 500 || steps != 9 {
		t.Errorf("the maxima are %d bytes and %d steps, want 500 and 9", size, steps)
	}
}
