package admission

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/store"
)

// Metrics are the metrics of quotas and of the queue.
type Metrics struct {
	used          *prometheus.GaugeVec
	depth         *prometheus.GaugeVec
	waited        *prometheus.HistogramVec
	misjudged     prometheus.Histogram
	queued        *prometheus.CounterVec
	refused       *prometheus.CounterVec
	delayed       *prometheus.CounterVec
	Expired       *prometheus.CounterVec
	leasesExpired prometheus.Counter
	StartFailures prometheus.Counter
	StartsGivenUp prometheus.Counter
	pending       prometheus.Gauge

	mu      sync.Mutex
	tenants map[string]time.Time // tenants with their own label, and when they were last busy here
}

// Limits of labels, and the interval of measuring.
const (
	maxTenantLabels = 200
	otherTenants    = "other" // the label of tenants above the limit
	busyFor         = 5 * time.Minute
	usageEvery      = 10 * time.Second
)

// NewMetrics registers the metrics of admission with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	register, tenant := promauto.With(r), []string{"tenant"}
	counter := func(name, help string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, tenant)
	}
	return &Metrics{
		tenants: map[string]time.Time{},
		used: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "engine_tenant_quota_used", Help: "How much of a tenant's quota is used, in percent; of tenants that were " +
				"busy on this server within 5 minutes.",
		}, []string{"tenant", "action"}),
		depth: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "engine_tenant_queue_depth", Help: "Runs of a tenant that wait; of tenants that were busy on this server " +
				"within 5 minutes.",
		}, tenant),
		waited: register.NewHistogramVec(prometheus.HistogramOpts{
			Name: "engine_tenant_wait_time_seconds", Help: "How long runs waited until this server admitted them.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}, tenant),
		misjudged: register.NewHistogram(prometheus.HistogramOpts{
			Name: "run_queue_estimate_error_seconds", Help: "Difference between the wait that was estimated when a " +
				"run was requested and its actual wait.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}),
		queued: counter("engine_backpressure_queued_total", "Runs that had to wait."),
		refused: counter("engine_backpressure_rejected_total",
			"Runs that were refused because of a quota or a full queue."),
		delayed: counter("engine_backpressure_delayed_total", "Runs that were accepted for a later time."),
		Expired: counter("engine_queue_ttl_exceeded_total",
			"Runs that failed because they waited longer than their TTL."),
		leasesExpired: register.NewCounter(prometheus.CounterOpts{
			Name: "run_queue_leases_expired_total", Help: "Starts that this server took over because their lease was over.",
		}),
		StartFailures: register.NewCounter(prometheus.CounterOpts{Name: "run_queue_start_failures_total",
			Help: "Starts that failed and are tried again."}),
		StartsGivenUp: register.NewCounter(prometheus.CounterOpts{Name: "run_queue_starts_rejected_total",
			Help: "Runs that failed because the engine refused to start them."}),
		pending: register.NewGauge(prometheus.GaugeOpts{Name: "run_queue_pending_total",
			Help: "Admitted runs of the whole installation that should have started by now and have not."}),
	}
}

// Label returns the label of a tenant and marks it as busy. At most maxTenantLabels tenants have their own label; the
// others share one.
func (m *Metrics) Label(tenantID string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.tenants[tenantID]; !known && len(m.tenants) >= maxTenantLabels {
		return otherTenants
	}
	m.tenants[tenantID] = time.Now()
	return tenantID
}

// forget removes the gauges of a tenant that is no longer busy.
func (m *Metrics) forget(tenantID string) {
	m.depth.DeleteLabelValues(tenantID)
	m.used.DeletePartialMatch(prometheus.Labels{"tenant": tenantID})
}

// busy returns the tenants that were busy within busyFor, and the other known ones.
func (m *Metrics) busy() (now, before []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for tenantID, at := range m.tenants {
		if time.Since(at) < busyFor {
			now = append(now, tenantID)
		} else {
			before = append(before, tenantID)
		}
	}
	return now, before
}

// CountRejected counts a run that was refused by a quota or a full queue.
func (m *Metrics) CountRejected(tenantID string) { m.refused.WithLabelValues(m.Label(tenantID)).Inc() }

// CountAccepted counts an accepted run that has to wait or that starts later.
func (m *Metrics) CountAccepted(v control.RunView) {
	tenant := m.Label(v.Run.TenantID)
	switch q := v.Queue; {
	case q == nil:
	case q.Waiting:
		m.queued.WithLabelValues(tenant).Inc()
	case q.NotBefore.After(v.AsOf):
		m.delayed.WithLabelValues(tenant).Inc()
	}
}

// ObserveAdmitted counts runs that left the queue, and observes how long they waited and how good their estimates were.
func (m *Metrics) ObserveAdmitted(rows []store.QueueRow, now time.Time) {
	for _, q := range rows {
		waited := max(now.Sub(q.CreatedAt), 0)
		m.waited.WithLabelValues(m.Label(q.TenantID)).Observe(waited.Seconds())
		if q.Estimate > 0 {
			m.misjudged.Observe((waited - q.Estimate).Abs().Seconds())
		}
	}
}

// CountLeased counts leases that expired. A row with an error is not counted, because its start failed instead.
func (m *Metrics) CountLeased(rows []store.QueueRow) {
	for _, q := range rows {
		if q.Attempts > 1 && q.LastError == "" {
			m.leasesExpired.Inc()
		}
	}
}
