// Package admission decides whether a run may start: the mode of dvt and freezes of tenants, quotas, the breaker of
// starts, and the sandboxes that workers offer. It also shows the queue of the runs that wait.
package admission

import (
	"time"
)

// Admission is what decides whether a run may start, now or later, and what counts the answers.
type Admission struct {
	Modes      *Modes
	Allowances *Allowances
	Sandboxes  *Sandboxes
	Usage      *Metrics
	Waker      *Waker
	Leases     Leases
}

// Leases are how long and how many rows of the queue a process leases at a time.
type Leases struct {
	TTL   time.Duration // 30 s (O5)
	Batch int           // 16
}
