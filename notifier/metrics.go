package notifier

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are those of one process, by destination. The process that holds the lease of a destination moves its own.
type metrics struct {
	sent, failed, dead *prometheus.CounterVec
	oldest             *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"destination"})
	}
	m := &metrics{
		sent:   counter("dvt_destination_sent_total", "Messages that a destination accepted."),
		failed: counter("dvt_destination_failures_total", "Tries that a destination did not accept; most are repeated."),
		dead: counter("dvt_destination_dead_letters_total",
			"Messages that a destination refused or did not accept within all tries."),
		oldest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dvt_destination_oldest_waiting_seconds",
			Help: "Age of the oldest message that waits for a destination; 0 when none waits.",
		}, []string{"destination"}),
	}
	if r != nil {
		r.MustRegister(m.sent, m.failed, m.dead, m.oldest)
	}
	return m
}

// begin makes the counters of a destination, so that a rate sees the first failure of one that never accepted anything.
func (m *metrics) begin(name string) {
	for _, c := range []*prometheus.CounterVec{m.sent, m.failed, m.dead} {
		c.WithLabelValues(name)
	}
}

// setOldest publishes the age of the oldest message that waits; 0 when none waits.
func (m *metrics) setOldest(name string, age time.Duration) {
	m.oldest.WithLabelValues(name).Set(age.Seconds())
}

// forget removes the gauge of a destination for which this process no longer works.
func (m *metrics) forget(name string) { m.oldest.DeleteLabelValues(name) }
