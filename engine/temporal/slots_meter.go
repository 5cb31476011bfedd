package temporal

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/plan"
)

// The reasons for which a worker declines an execution before it begins.
const (
	declinedShare     = "tenant_share"   // its tenant holds its whole share of slots
	declinedNotServed = "not_served"     // the worker's token is not for its tenant or queue
	declinedHeavy     = "heavy_throttle" // no token was left for a heavy step
	declinedDrained   = "drained"        // somebody drained the worker
)

// slotMeter holds the metrics of one worker's slots. The labels are workloads and reasons only, so that their number is
// fixed; tenants are counted but not named.
type slotMeter struct {
	limit, used *prometheus.GaugeVec
	begun       *prometheus.CounterVec
	declined    *prometheus.CounterVec
	atShare     prometheus.GaugeFunc
	all         []*tenantSlots // complete before the collectors are registered
}

func newSlotMeter() *slotMeter {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"type"})
	}
	m := &slotMeter{
		limit: gauge("worker_slots", "Maximum number of executions that this worker runs at once, over all of its queues."),
		used:  gauge("worker_slots_in_use", "Number of executions that run now."),
		begun: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "worker_executions_total", Help: "Executions that this worker started.",
		}, []string{"type"}),
		declined: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "worker_declined_total",
			Help: "Executions that this worker declined before they started; the engine dispatches them again later.",
		}, []string{"type", "reason"}),
	}
	m.atShare = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "worker_tenants_at_share", Help: "Tenants that hold all slots of a type that slots-by-tenant allows.",
	}, func() float64 {
		n := 0
		for _, t := range m.all {
			n += t.atShare()
		}
		return float64(n)
	})
	return m
}

// serves adds the slots of a workload. The caller calls it before the worker starts.
func (m *slotMeter) serves(w plan.Workload, t *tenantSlots) {
	m.all = append(m.all, t)
	m.limit.WithLabelValues(string(w)).Add(float64(t.slots))
	m.used.WithLabelValues(string(w))
	m.begun.WithLabelValues(string(w))
	for _, reason := range []string{declinedShare, declinedNotServed, declinedHeavy, declinedDrained} {
		m.declined.WithLabelValues(string(w), reason)
	}
}

func (m *slotMeter) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.limit, m.used, m.begun, m.declined, m.atShare}
}

// register registers collectors until the caller calls unregister. unregister is never nil; after an error it removes
// the collectors that were registered. With a nil r register does nothing.
func register(r prometheus.Registerer, all ...prometheus.Collector) (unregister func(), err error) {
	var registered []prometheus.Collector
	unregister = func() {
		for _, c := range registered {
			r.Unregister(c)
		}
	}
	if r == nil {
		return unregister, nil
	}
	for _, c := range all {
		if err := r.Register(c); err != nil {
			return unregister, err
		}
		registered = append(registered, c)
	}
	return unregister, nil
}
