// Package meter counts how reads of secrets and ends of leases went, for the metrics of a worker.
package meter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/secret"
)

// Meter implements secret.Observer. The number of its series is bounded by the number of providers.
type Meter struct {
	reads       *prometheus.CounterVec
	took        *prometheus.HistogramVec
	revocations *prometheus.CounterVec
	up          *prometheus.GaugeVec
}

var _ secret.Observer = (*Meter)(nil)

// New registers the metrics of the named providers with r. Each series exists from the start.
func New(r prometheus.Registerer, providers []string) *Meter {
	m := &Meter{
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "worker_secret_reads_total",
			Help: "Reads of secrets by provider and outcome."}, []string{"provider", "outcome"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "worker_secret_read_duration_seconds",
			Help:    "Time of one request for a secret, by provider. Remembered values need none.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}, []string{"provider"}),
		revocations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "worker_secret_revocations_total",
			Help: "Tries to end a lease, by provider and outcome."}, []string{"provider", "outcome"}),
		up: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "worker_secrets_provider_up",
			Help: "1 while this worker can use a provider of secrets."}, []string{"provider"}),
	}
	for _, p := range providers {
		for _, o := range secret.Outcomes() {
			m.reads.WithLabelValues(p, string(o))
		}
		m.took.WithLabelValues(p)
		m.revocations.WithLabelValues(p, "ok")
		m.revocations.WithLabelValues(p, "failed")
		m.up.WithLabelValues(p).Set(1)
	}
	r.MustRegister(m.reads, m.took, m.revocations, m.up)
	return m
}

// Resolved implements secret.Observer.
func (m *Meter) Resolved(provider string, o secret.Outcome, took time.Duration) {
	m.reads.WithLabelValues(provider, string(o)).Inc()
	if o != secret.OutcomeCached {
		m.took.WithLabelValues(provider).Observe(took.Seconds())
	}
}

// Revoked implements secret.Observer.
func (m *Meter) Revoked(provider string, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "failed"
	}
	m.revocations.WithLabelValues(provider, outcome).Inc()
}

// Up sets whether a provider can be used.
func (m *Meter) Up(provider string, up bool) {
	v := 0.0
	if up {
		v = 1
	}
	m.up.WithLabelValues(provider).Set(v)
}
