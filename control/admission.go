package control

import "time"

// Admission is what decides whether a run may start, now or later, and what counts the answers.
type Admission struct {
	modes      *Modes
	allowances *Allowances
	sandboxes  *Sandboxes
	usage      *quotaMetrics
	waker      *Waker
	leases     Leases
}

// Leases are how long and how many rows of the queue a process leases at a time.
type Leases struct {
	TTL   time.Duration // 30 s (O5)
	Batch int           // 16
}
