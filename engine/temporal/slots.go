package temporal

import (
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/dvt-engine/dvt/plan"
)

// Limits bound what one worker does at once and per second on each of its queues. The zero value limits nothing but the
// slots, by their defaults.
type Limits struct {
	// Slots are how many executions of a workload run at once on one queue. Defaults: NOOP 50, HTTP_NOTIFY 20, others
	// WorkerConfig.DataConcurrency.
	Slots map[plan.Workload]int
	// Rates are how many executions of a workload this worker begins per second on one queue, at least MinRate. What is
	// above waits in the engine's task queue.
	Rates map[plan.Workload]float64
	// QueueRates are the same for all workers of a queue together. The engine keeps the one that a worker sent last.
	QueueRates map[plan.Workload]float64
	// TenantShare is how many percent of the slots of a workload the steps of one tenant may hold, from 1; 0 is all.
	// A tenant may always hold one. TenantShares are exceptions by tenant id.
	TenantShare  int
	TenantShares map[string]int
}

// MinRate is the least of Limits.Rates, in executions a second: a task that was polled waits in the worker for its
// turn, and nobody reports it alive there.
const MinRate = 0.5

// longestTurn is how long a task that was polled should wait for its turn at most. It is below the heartbeat timeouts
// that installations have by default: 30 s, and 10 s in `dvt dev`.
const longestTurn = 5 * time.Second

// defaultSlots are how many executions of a workload run at once on one queue.
func defaultSlots(w plan.Workload, data int) int {
	switch w {
	case plan.NoopWorkload:
		return 50
	case plan.HTTPWorkload: // they wait for others and cost this machine little
		return 20
	case plan.CommandWorkload, plan.DBTWorkload:
	}
	return data
}

func (c WorkerConfig) slots(w plan.Workload) int {
	if n := c.Limits.Slots[w]; n > 0 {
		return n
	}
	return defaultSlots(w, c.DataConcurrency)
}

// bound sets the options that limit the activities of a workload.
func (c WorkerConfig) bound(o *worker.Options, w plan.Workload) {
	o.MaxConcurrentActivityExecutionSize = c.slots(w)
	o.TaskQueueActivitiesPerSecond = c.Limits.QueueRates[w]
	if rate := c.Limits.Rates[w]; rate > 0 {
		o.WorkerActivitiesPerSecond = rate
		// The SDK polls first and then waits for the rate, so that each poller can have one task that waits.
		o.MaxConcurrentActivityTaskPollers = min(ActivityPollers, max(1, int(rate*longestTurn.Seconds())))
	}
	o.DisableEagerActivities = c.Limits.Rates[w] > 0 || c.Limits.QueueRates[w] > 0 // no rate counts them
}

// tenantSlots are the slots of one workload of one queue, by the tenants that hold them. It is safe for concurrent use.
type tenantSlots struct {
	slots  int
	limits Limits

	mu   sync.Mutex
	held map[string]int // positive; at most as many as there are slots
}

func newTenantSlots(slots int, limits Limits) *tenantSlots {
	return &tenantSlots{slots: slots, limits: limits, held: map[string]int{}}
}

// most is how many slots a tenant may hold.
func (t *tenantSlots) most(tenantID string) int {
	share, ok := t.limits.TenantShares[tenantID]
	if !ok {
		share = t.limits.TenantShare
	}
	if share <= 0 || share >= 100 {
		return t.slots
	}
	return max(1, t.slots*share/100)
}

// take gives a tenant a slot, unless it holds all that it may; must gives it one in any case.
func (t *tenantSlots) take(tenantID string, must bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !must && t.held[tenantID] >= t.most(tenantID) {
		return false
	}
	t.held[tenantID]++
	return true
}

// release gives back a slot that was taken.
func (t *tenantSlots) release(tenantID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[tenantID]--; t.held[tenantID] <= 0 {
		delete(t.held, tenantID)
	}
}

// atShare counts the tenants that hold all that they may and less than all.
func (t *tenantSlots) atShare() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, held := range t.held {
		if most := t.most(id); held >= most && most < t.slots {
			n++
		}
	}
	return n
}

// tenantOf reads the tenant from the id of a run's workflow. Whoever reaches Temporal can give a workflow any id, and
// gains by it no more than a place in a queue: the Journal decides by the ticket whose step it is.
func tenantOf(workflowID string) string {
	rest, _ := strings.CutPrefix(workflowID, workflowPrefix)
	tenantID, _, _ := strings.Cut(rest, "/")
	return tenantID
}
