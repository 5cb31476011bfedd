package admission

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/store"
)

// maxWaits is the number of waits of one tenant from which its percentile is computed.
const maxWaits = 256

// waitTimes are the newest waits of the runs of one tenant, at most maxWaits.
type waitTimes struct {
	newest []time.Duration
	next   int // index that the next wait replaces
	at     time.Time
}

// noteWait records the wait of a run that this server admitted.
func (m *Metrics) noteWait(tenant string, waited time.Duration, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.waits[tenant]
	if w == nil || now.Sub(w.at) > busyFor {
		w = &waitTimes{}
		m.waits[tenant] = w
	}
	w.at = now
	if len(w.newest) < maxWaits {
		w.newest = append(w.newest, waited)
		return
	}
	w.newest[w.next] = waited
	w.next = (w.next + 1) % maxWaits
}

// updateWaits sets the percentiles of the waits, and removes those of tenants without a recent wait.
func (m *Metrics) updateWaits(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for tenant, w := range m.waits {
		if now.Sub(w.at) > busyFor {
			delete(m.waits, tenant)
			m.waitP95.DeletePartialMatch(prometheus.Labels{"tenant": tenant})
			continue
		}
		m.waitP95.WithLabelValues(tenant, string(store.BucketStart)).Set(w.p95Milliseconds())
	}
}

func (w *waitTimes) p95Milliseconds() float64 {
	sorted := slices.Sorted(slices.Values(w.newest))
	return float64(sorted[(len(sorted)*95+99)/100-1]) / float64(time.Millisecond)
}
