package store

import (
	"context"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Admissions decides when a run that was asked for may start: its tenant and project
// have a token and a slot for it. A run that may not start waits in the lane of its
// project; lanes and tenants take turns by their weights, so that a long queue of one does not
// delay another. All times are the store's.
//
// An admitted run keeps its slot until it ends: the write that ends the run frees the
// slot in the same transaction.
type Admissions interface {
	// AdmitWaiting admits up to limit waiting runs, fairly, and makes them due for
	// Lease. terms returns the terms of a tenant and project; it does no I/O. What admitting one costs does
	// not grow with the number that wait.
	AdmitWaiting(ctx context.Context, terms func(tenantID, projectID string) Terms, limit int) (Admitted, error)
	// ExpiredWaiting lists runs that still wait after their time, the longest first, at most limit.
	ExpiredWaiting(ctx context.Context, limit int) ([]QueueRow, error)
	// WaitingRuns lists waiting runs by project, then in the order of their lane.
	WaitingRuns(ctx context.Context, f WaitingFilter) ([]WaitingRun, error)
	// Usage reads what a tenant and its projects use now.
	Usage(ctx context.Context, tenantID string) (Usage, error)
	// ActiveRuns counts the runs of the whole installation that hold a slot. It is one cheap read.
	ActiveRuns(ctx context.Context) (int64, error)
}

// WaitingRun is a row that waits, with what is to be run.
type WaitingRun struct {
	QueueRow
	EnvironmentID, PlanID, PlanVersion, TriggeredBy string
}

// Terms are the limits of a tenant and project.
type Terms struct {
	Tenant, Project Share
	// MaxActive is how many runs of the whole installation may hold a slot; negative: not limited.
	MaxActive int
	Strategy  Strategy
	// TTL is how long an arriving run may wait; 0: for ever.
	TTL time.Duration
	// Hold keeps everything waiting: a freeze of the tenant, or the engine's mode.
	Hold bool
}

// Share is what a tenant or one of its projects may have.
type Share struct {
	// PerMinute is the size of the token bucket, which is filled evenly; negative: none.
	// A run takes one token: of its project when that has a bucket, else of its tenant.
	PerMinute  int
	MaxActive  int // runs that hold a slot; negative: not limited
	MaxWaiting int // negative: not limited
	Weight     int // at least 1
}

// Strategy says what becomes of a run that is over a quota (§12.1).
type Strategy string

// Strategies. A run for which there is no slot waits under each of them but StrategyReject.
const (
	StrategyQueue  Strategy = "QUEUE"
	StrategyReject Strategy = "REJECT"
	StrategyDelay  Strategy = "DELAY" // it is admitted for the time of its token
)

// WaitReason says what a waiting run waits for.
type WaitReason string

// Reasons to wait.
const (
	WaitQuota WaitReason = "QUOTA"
	WaitSlot  WaitReason = "PLACE"
	WaitTurn  WaitReason = "TURN" // others of its lane wait before it
	WaitHold  WaitReason = "HOLD"
)

// Admission is what became of a run that was put into the queue.
type Admission struct {
	Waiting   bool
	Why       WaitReason    // of a waiting one
	Position  int           // in its lane, from 1; 0: it does not wait
	Estimate  time.Duration // until it is admitted or started; 0: nothing is known, or at once
	NotBefore time.Time     // of a delayed one
}

// RefusedError says that a run was not taken in. Nothing was changed.
type RefusedError struct {
	Code       run.Code      // CodeQuotaExceeded or CodeQueueFull
	RetryAfter time.Duration // 0: not by waiting
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("store: refused: %s, again in %s", e.Code, e.RetryAfter)
}

// Admitted answers AdmitWaiting.
type Admitted struct {
	Rows []QueueRow // those that were admitted now
	// Next is when something that waits may be admitted without a run ending before;
	// 0: nothing waits for time to pass.
	Next time.Duration
}

// Enqueue puts a run into the queue.
type Enqueue struct {
	Terms    Terms
	Priority int // 0 to MaxPriority; higher goes first within a lane
}

// MaxPriority of a run.
const MaxPriority = 9

// WaitingFilter selects waiting runs of one tenant.
type WaitingFilter struct {
	TenantID   string
	ProjectIDs []string // nil: all
	RunID      string   // "": all
	// After is the run after which the page begins: one that waits still. ErrNotFound when it does not.
	After string
	Limit int // 1..MaxPage
}

// Usage is what a tenant uses.
type Usage struct {
	Now      time.Time
	Tenant   LaneUsage
	Projects map[string]LaneUsage // those that ever had a run
}

// LaneUsage is what a tenant or project uses.
type LaneUsage struct {
	Active, Waiting int64
	Pace            time.Duration              // between two admissions of late, while runs waited; 0: not known
	Full            map[BucketAction]time.Time // when each bucket that was ever used is full again, if nobody takes of it
}

// BucketAction is what a token is taken for (§12.2).
type BucketAction string

// Bucket actions.
const (
	BucketStart  BucketAction = "START_RUN"
	BucketHeavy  BucketAction = "HEAVY_STEP"
	BucketSignal BucketAction = "SIGNAL"
)

// Bucket names a token bucket.
type Bucket struct {
	TenantID  string
	ProjectID string // "": the tenant's
	Action    BucketAction
	PerMinute int // its size; it is filled evenly. Negative: nothing is taken
}

// QuotaTx is the quotas of the tenant of the locked run.
type QuotaTx interface {
	// Take takes a token and returns 0, or takes none and returns after what time there
	// is one; negative when there never is.
	Take(ctx context.Context, b Bucket) (time.Duration, error)
	// RecentSignals returns after what time the run has had fewer than most receipts within
	// the last span, those of CodeForbidden not counted; 0: it has now (T96).
	RecentSignals(ctx context.Context, most int, span time.Duration) (time.Duration, error)
	// Enqueue makes the queue row of a run that has none, under the head lock. The caller
	// appends what follows from the answer. A *RefusedError rolls nothing back by itself.
	Enqueue(ctx context.Context, e Enqueue) (Admission, error)
}

// Unlimited are terms under which everything is admitted at once.
func Unlimited() Terms {
	free := Share{PerMinute: -1, MaxActive: -1, MaxWaiting: -1, Weight: 1}
	return Terms{Tenant: free, Project: free, MaxActive: -1, Strategy: StrategyQueue}
}
