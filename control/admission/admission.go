// Package admission decides whether a run may start: the mode of dvt and freezes of tenants, quotas, the breaker of
// starts, and the sandboxes that workers offer. It also shows the queue of the runs that wait.
package admission

import (
	"time"
)

// Admission groups the parts that decide whether a run may start, and the metrics of their decisions.
type Admission struct {
	Modes      *Modes
	Allowances *Allowances
	Sandboxes  *Sandboxes
	Usage      *Metrics
	Waker      *Waker
	Leases     Leases
}

// Leases configures how many queue rows a process leases at a time, and for how long. A zero field takes the default
// that its comment names.
type Leases struct {
	TTL   time.Duration // 30 s (contract O5)
	Batch int           // 16
}
