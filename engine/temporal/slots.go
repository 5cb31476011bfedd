package temporal

import (
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"github.com/dvt-engine/dvt/plan"
)

// Limits bound the executions of one worker, at once and per second, on each of its queues. The zero value sets no
// limit except the default slots.
type Limits struct {
	// Slots bounds the executions of a workload that run at once on one queue. Defaults: NOOP 50, HTTP_NOTIFY 20,
	// others WorkerConfig.DataConcurrency.
	Slots map[plan.Workload]int
	// Rates bounds the executions of a workload that this worker begins per second on one queue; at least MinRate.
	// Further ones wait in the engine's task queue.
	Rates map[plan.Workload]float64
	// QueueRates bounds the same for all workers of a queue together. The engine uses the value that a worker sent
	// last.
	QueueRates map[plan.Workload]float64
	// TenantShare is the percentage of the slots of a workload that the steps of one tenant may hold, from 1; 0 means
	// all. A tenant may always hold one slot. TenantShares holds exceptions by tenant id.
	TenantShare  int
	TenantShares map[string]int
}

// MinRate is the lowest permitted value of Limits.Rates, in executions per second. A polled task waits in the worker
// for its turn without heartbeats, so a lower rate would let it time out.
const MinRate = 0.5

// longestTurn is the longest intended wait of a polled task for its turn. It is below the default heartbeat timeouts:
// 30 s, and 10 s in `dvt dev`.
const longestTurn = 5 * time.Second

// defaultSlots returns the default of Limits.Slots for a workload.
func defaultSlots(w plan.Workload, data int) int {
	switch w {
	case plan.NoopWorkload:
		return 50
	case plan.HTTPWorkload: // these steps mostly wait for other servers
		return 20
	case plan.CommandWorkload, plan.DBTWorkload:
	}
	return data
}

// slots returns the number of executions of a workload that run at once on one queue.
func (c WorkerConfig) slots(w plan.Workload) int {
	if n := c.Limits.Slots[w]; n > 0 {
		return n
	}
	return defaultSlots(w, c.DataConcurrency)
}

// bound sets the worker options that limit the activities of a workload.
func (c WorkerConfig) bound(o *worker.Options, w plan.Workload) {
	o.MaxConcurrentActivityExecutionSize = c.slots(w)
	o.TaskQueueActivitiesPerSecond = c.Limits.QueueRates[w]
	if rate := c.Limits.Rates[w]; rate > 0 {
		o.WorkerActivitiesPerSecond = rate
		// The SDK polls first and then waits for the rate, so each poller can hold one waiting task.
		o.MaxConcurrentActivityTaskPollers = min(ActivityPollers, max(1, int(rate*longestTurn.Seconds())))
	}
	o.DisableEagerActivities = c.Limits.Rates[w] > 0 || c.Limits.QueueRates[w] > 0 // rates do not count eager activities
}

// tenantSlots counts the slots of one workload of one queue that each tenant holds. It is safe for concurrent use.
type tenantSlots struct {
	slots  int
	limits Limits

	mu   sync.Mutex
	held map[string]int // slots by tenant id; only positive values
}

func newTenantSlots(slots int, limits Limits) *tenantSlots {
	return &tenantSlots{slots: slots, limits: limits, held: map[string]int{}}
}

// most returns the number of slots that a tenant may hold.
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

// take gives a tenant a slot, or returns false when the tenant holds its whole share. With must it always gives one.
func (t *tenantSlots) take(tenantID string, must bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !must && t.held[tenantID] >= t.most(tenantID) {
		return false
	}
	t.held[tenantID]++
	return true
}

// release returns a slot of take.
func (t *tenantSlots) release(tenantID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[tenantID]--; t.held[tenantID] <= 0 {
		delete(t.held, tenantID)
	}
}

// atShare counts the tenants that hold their whole share, if the share is less than all slots.
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

// tenantOf returns the tenant in the id of a run's workflow. A forged id can evade the share of a tenant, but gives no
// rights, because the Journal checks the ticket of the dispatch.
func tenantOf(workflowID string) string {
	rest, _ := strings.CutPrefix(workflowID, workflowPrefix)
	tenantID, _, _ := strings.Cut(rest, "/")
	return tenantID
}
