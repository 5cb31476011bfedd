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
	waitedAll     prometheus.Histogram
	waitP95       *prometheus.GaugeVec
	misjudged     prometheus.Histogram
	queued        backpressure
	refused       backpressure
	delayed       backpressure
	rejections    *prometheus.CounterVec
	Expired       *prometheus.CounterVec
	leasesExpired prometheus.Counter
	StartFailures prometheus.Counter
	StartsGivenUp prometheus.Counter
	pending       [2]prometheus.Gauge // by the contract's name and by the conventional one
	unprojected   prometheus.Gauge
	backlog       engineBacklog

	mu      sync.Mutex
	tenants map[string]time.Time  // tenants with their own label, and when they were last busy here
	waits   map[string]*waitTimes // by label
}

// backpressure counts one outcome of starts. The contract has a name for each outcome, and one of them must not be a
// counter, because a counter without _total gets this suffix in the format OpenMetrics.
type backpressure struct {
	exact *prometheus.GaugeVec
	all   *prometheus.CounterVec
	label string
}

func (b backpressure) count(tenant string) {
	b.exact.WithLabelValues(tenant).Inc()
	b.all.WithLabelValues(tenant, b.label).Inc()
}

// Limits of labels, and the interval of measuring.
const (
	maxTenantLabels = 200
	otherTenants    = "other" // the label of tenants above the limit
	busyFor         = 5 * time.Minute
	usageEvery      = 10 * time.Second
	overdueAge      = 30 * time.Second // after which a change should have been projected
	maxOverdue      = 1000
)

// NewMetrics registers the metrics of admission with r.
func NewMetrics(r prometheus.Registerer) *Metrics {
	register, tenant := promauto.With(r), []string{"tenant"}
	counter := func(name, help string) *prometheus.CounterVec {
		return register.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, tenant)
	}
	all := register.NewCounterVec(prometheus.CounterOpts{Name: "engine_backpressure_runs_total",
		Help: "Starts of runs that met a limit, by outcome: queued, rejected or delayed."}, []string{"tenant", "outcome"})
	pressure := func(outcome, help string) backpressure {
		return backpressure{label: outcome, all: all, exact: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "engine_backpressure_" + outcome, Help: help + " It only grows; see engine_backpressure_runs_total."}, tenant)}
	}
	pending := func(name string) prometheus.Gauge {
		return register.NewGauge(prometheus.GaugeOpts{Name: name,
			Help: "Admitted runs of the whole installation that should have started by now and have not."})
	}
	return &Metrics{
		tenants: map[string]time.Time{}, waits: map[string]*waitTimes{},
		used: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "engine_tenant_quota_used", Help: "How much of a tenant's quota is used, in percent; of tenants that were " +
				"busy on this server within 5 minutes.",
		}, []string{"tenant", "action"}),
		depth: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "engine_tenant_queue_depth", Help: "Runs of a tenant that wait; of tenants that were busy on this server " +
				"within 5 minutes.",
		}, []string{"tenant", "action"}),
		waitedAll: register.NewHistogram(prometheus.HistogramOpts{
			Name: "engine_queue_wait_seconds", Help: "Time that runs waited in the queue, from RunQueued to RunApproved.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}),
		waitP95: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "engine_tenant_wait_time_p95_ms", Help: "95th percentile of the milliseconds that the last runs of a tenant " +
				"waited which this server admitted within 5 minutes.",
		}, []string{"tenant", "action"}),
		waited: register.NewHistogramVec(prometheus.HistogramOpts{
			Name: "engine_tenant_wait_time_seconds", Help: "How long runs waited until this server admitted them.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}, tenant),
		misjudged: register.NewHistogram(prometheus.HistogramOpts{
			Name: "run_queue_estimate_error_seconds", Help: "Difference between the wait that was estimated when a " +
				"run was requested and its actual wait.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}),
		queued:  pressure("queued", "Runs that had to wait."),
		refused: pressure("rejected", "Runs that were refused because of a quota or a full queue."),
		delayed: pressure("delayed", "Runs that were accepted for a later time."),
		rejections: counter("engine_backpressure_rejections_total",
			"Runs that were refused because of a quota or a full queue."),
		Expired: counter("engine_queue_ttl_exceeded_total",
			"Runs that failed because they waited longer than their TTL."),
		leasesExpired: register.NewCounter(prometheus.CounterOpts{
			Name: "run_queue_leases_expired_total", Help: "Starts that this server took over because their lease was over.",
		}),
		StartFailures: register.NewCounter(prometheus.CounterOpts{Name: "run_queue_start_failures_total",
			Help: "Starts that failed and are tried again."}),
		StartsGivenUp: register.NewCounter(prometheus.CounterOpts{Name: "run_queue_starts_rejected_total",
			Help: "Runs that failed because the engine refused to start them."}),
		pending: [2]prometheus.Gauge{pending("run_queue_pending_total"), pending("run_queue_pending")},
		unprojected: register.NewGauge(prometheus.GaugeOpts{Name: "projector_overdue_runs",
			Help: "Runs of the whole installation with changes that no projector has published for 30 s; at most 1000."}),
		backlog: newEngineBacklog(r),
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
	m.depth.DeletePartialMatch(prometheus.Labels{"tenant": tenantID})
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
func (m *Metrics) CountRejected(tenantID string) {
	tenant := m.Label(tenantID)
	m.refused.count(tenant)
	m.rejections.WithLabelValues(tenant).Inc()
}

// CountAccepted counts an accepted run that has to wait or that starts later.
func (m *Metrics) CountAccepted(v control.RunView) {
	tenant := m.Label(v.Run.TenantID)
	switch q := v.Queue; {
	case q == nil:
	case q.Waiting:
		m.queued.count(tenant)
	case q.Estimate > 0: // NotBefore alone may be after AsOf: the store's clock goes on while it writes
		m.delayed.count(tenant)
	}
}

// ObserveAdmitted counts runs that left the queue, and observes how long they waited and how good their estimates were.
func (m *Metrics) ObserveAdmitted(rows []store.QueueRow, now time.Time) {
	for _, q := range rows {
		waited := max(now.Sub(q.CreatedAt), 0)
		tenant := m.Label(q.TenantID)
		m.waited.WithLabelValues(tenant).Observe(waited.Seconds())
		m.waitedAll.(prometheus.ExemplarObserver).ObserveWithExemplar(waited.Seconds(), prometheus.Labels{"run_id": q.RunID})
		m.noteWait(tenant, waited, now)
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
