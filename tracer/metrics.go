package tracer

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of one process. Only the process that holds the lease moves them.
type metrics struct {
	exported, refused, failures prometheus.Counter
	oldest                      atomic.Int64 // persistedAt of the oldest event that waits, in ns; 0 for none
	now                         func() time.Time
}

func newMetrics(r prometheus.Registerer, now func() time.Time) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		now:      now,
		exported: counter("dvt_trace_spans_exported_total", "Spans of runs that the receiver of traces accepted."),
		refused: counter("dvt_trace_spans_refused_total",
			"Spans of runs that the receiver of traces refused for their content; they are dropped."),
		failures: counter("dvt_trace_send_failures_total",
			"Requests that the receiver of traces did not accept; they are repeated."),
	}
	if r == nil {
		return m
	}
	r.MustRegister(m.exported, m.refused, m.failures, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "dvt_trace_lag_seconds",
		Help: "Age of the oldest event whose spans wait for the receiver of traces; 0 when none waits.",
	}, m.lag))
	return m
}

func (m *metrics) lag() float64 {
	at := m.oldest.Load()
	if at == 0 {
		return 0
	}
	return max(0, m.now().Sub(time.Unix(0, at)).Seconds())
}
