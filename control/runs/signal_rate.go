package runs

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// maxRatedRuns bounds the runs whose signals are counted. The signals of further runs are not measured.
const maxRatedRuns = 10_000

// SignalRates measures how many signals this process accepted for one run within the last minute. It exports the
// highest number of each tenant and never a run. It is safe for concurrent use.
type SignalRates struct {
	now   func() time.Time
	label func(tenantID string) string
	desc  *prometheus.Desc

	mu   sync.Mutex
	runs map[string]*ratedRun
}

// ratedRun has the times of the signals of one run within a minute. The limit of signals a minute bounds their number.
type ratedRun struct {
	tenant string
	at     []time.Time
}

// NewSignalRates registers the metric with r. label returns the bounded label of a tenant.
func NewSignalRates(r prometheus.Registerer, label func(tenantID string) string, now func() time.Time) *SignalRates {
	s := &SignalRates{now: now, label: label, runs: map[string]*ratedRun{}, desc: prometheus.NewDesc("signal_rate_per_run",
		"Highest number of signals within the last minute that this server accepted for one run of a tenant.",
		[]string{"tenant"}, nil)}
	if r != nil {
		r.MustRegister(s)
	}
	return s
}

// note counts an accepted signal. A nil SignalRates counts nothing.
func (s *SignalRates) note(tenantID, runID string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	x := s.runs[runID]
	if x == nil {
		if len(s.runs) >= maxRatedRuns {
			if s.forget(now); len(s.runs) >= maxRatedRuns {
				return
			}
		}
		x = &ratedRun{tenant: s.label(tenantID)}
		s.runs[runID] = x
	}
	x.at = append(recent(x.at, now), now)
}

// recent returns the times within the last minute, in place.
func recent(at []time.Time, now time.Time) []time.Time {
	for len(at) > 0 && now.Sub(at[0]) > time.Minute {
		at = at[1:]
	}
	return at
}

// forget drops the runs without a signal within the last minute.
func (s *SignalRates) forget(now time.Time) {
	for id, x := range s.runs {
		if x.at = recent(x.at, now); len(x.at) == 0 {
			delete(s.runs, id)
		}
	}
}

// Describe implements prometheus.Collector.
func (s *SignalRates) Describe(ch chan<- *prometheus.Desc) { ch <- s.desc }

// Collect implements prometheus.Collector.
func (s *SignalRates) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(s.now())
	most := map[string]int{}
	for _, x := range s.runs {
		most[x.tenant] = max(most[x.tenant], len(x.at))
	}
	for tenant, n := range most {
		ch <- prometheus.MustNewConstMetric(s.desc, prometheus.GaugeValue, float64(n), tenant)
	}
}
