package store

import (
	"context"
	"time"
)

// Limits of stored heartbeats.
const (
	MaxHeartbeats = 2000           // rows of an installation; the oldest are deleted first
	HeartbeatLife = 24 * time.Hour // older rows are deleted
)

// Heartbeat is the newest sign of life of a duty in any process.
type Heartbeat struct {
	Duty    string
	Process string // HOST/PID of the newest one
	At      time.Time
	Age     time.Duration // by the store's clock
}

// OverdueWork is how long the oldest work of each kind has waited. 0 means that none waits.
type OverdueWork struct {
	Project  time.Duration // a run with events that no view has
	Dispatch time.Duration // an admitted start that is due and not leased
	Deliver  time.Duration // an accepted signal that is due and not leased
	OpenRuns bool          // a started run has not ended
}

// Heartbeats stores signs of life of duties, by which processes notice that a duty has died everywhere.
type Heartbeats interface {
	// Beat records that these duties of a process are alive. It also deletes rows older than HeartbeatLife and the oldest
	// ones above MaxHeartbeats.
	Beat(ctx context.Context, process string, duties []string) error
	// Heartbeats lists the newest heartbeat of each duty, by duty.
	Heartbeats(ctx context.Context) ([]Heartbeat, error)
	// OverdueWork measures the work that waits, by the store's clock. Each measure reads one entry of an index.
	OverdueWork(ctx context.Context) (OverdueWork, error)
}
