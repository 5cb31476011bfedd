package store

import (
	"context"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Admissions decides when a requested run may start: when its tenant and its project have a token and a slot for it. A
// run that may not start waits in the lane of its project. Lanes and tenants take turns by their weights, so that a
// long queue of one does not delay another. All times are the store's.
//
// An admitted run keeps its slot until it ends; the write that ends the run frees the slot in the same transaction.
type Admissions interface {
	// AdmitWaiting admits up to limit (≤ MaxPage) waiting runs in fair order and makes them due for Lease. terms returns
	// the terms of a tenant and project; it is called under locks and must do no I/O. The cost of one admission does not
	// grow with the number of waiting runs. AdmitWaiting takes several transactions, so an error may follow admissions
	// that were committed.
	AdmitWaiting(ctx context.Context, terms func(tenantID, projectID string) Terms, limit int) (Admitted, error)
	// ListExpiredWaits lists runs that wait although their ExpiresAt has passed, the earliest ExpiresAt first, at most
	// limit (≤ MaxPage).
	ListExpiredWaits(ctx context.Context, limit int) ([]QueueRow, error)
	// WaitingRuns lists waiting runs by project, then in the order of their lane. ErrNotFound when f.After does not wait.
	WaitingRuns(ctx context.Context, f WaitingFilter) ([]WaitingRun, error)
	// Usage reads the current usage of a tenant and its projects.
	Usage(ctx context.Context, tenantID string) (Usage, error)
	// ActiveRuns counts the runs of the whole installation that hold a slot. It is one cheap read.
	ActiveRuns(ctx context.Context) (int64, error)
	// DueStarts counts the admitted runs of the whole installation that should have started by now and have not.
	DueStarts(ctx context.Context) (int64, error)
}

// WaitingRun is the queue row of a waiting run, with facts of the run.
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
	// TTL is how long an arriving run may wait; 0: without limit.
	TTL time.Duration
	// Hold makes all runs wait, because of a freeze of the tenant or of the engine's mode.
	Hold bool
}

// Share is the limits of a tenant or of one of its projects.
type Share struct {
	// PerMinute is the size of the token bucket of starts, which refills evenly within a minute; negative: there is no
	// bucket. A run takes one token, from the bucket of its project if there is one, else from that of its tenant.
	PerMinute  int
	MaxActive  int // runs that hold a slot; negative: not limited
	MaxWaiting int // negative: not limited
	Weight     int // at least 1
}

// Strategy says what happens to an arriving run that exceeds a quota.
type Strategy string

// Strategies. If there is no slot, a run waits under StrategyQueue and StrategyDelay; StrategyReject refuses it.
const (
	StrategyQueue  Strategy = "QUEUE"  // the run waits in its lane
	StrategyReject Strategy = "REJECT" // the run is refused
	StrategyDelay  Strategy = "DELAY"  // the run is admitted now and starts when its token exists
)

// WaitReason says what a waiting run waits for.
type WaitReason string

// Reasons to wait.
const (
	WaitQuota WaitReason = "QUOTA" // a token
	WaitSlot  WaitReason = "PLACE" // a slot
	WaitTurn  WaitReason = "TURN"  // other waiting runs go first: of its lane, or of others that share a limit with it
	WaitHold  WaitReason = "HOLD"  // the end of a hold, see Terms.Hold
)

// Admission is the decision about a run that was put into the queue.
type Admission struct {
	Waiting   bool
	Why       WaitReason    // "" unless Waiting
	Position  int           // in its lane, from 1; 0 unless Waiting
	Estimate  time.Duration // until the run is admitted or starts; 0: unknown, or at once
	NotBefore time.Time     // start of a run that StrategyDelay delays; zero otherwise
}

// RefusedError says that a run was not taken into the queue. Nothing was changed.
type RefusedError struct {
	Code       run.Code      // CodeQuotaExceeded or CodeQueueFull
	RetryAfter time.Duration // 0: unknown, or waiting does not help
}

// Error implements error.
func (e *RefusedError) Error() string {
	if e.RetryAfter == 0 {
		return fmt.Sprintf("store: the run was refused: %s", e.Code)
	}
	return fmt.Sprintf("store: the run was refused: %s (retry after %s)", e.Code, e.RetryAfter)
}

// Admitted is the result of AdmitWaiting.
type Admitted struct {
	Rows []QueueRow // of the runs that this call admitted
	// Next is the time until a waiting run may be admitted although no run has ended; 0: only the end of a run can admit
	// one.
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
	// After is the id of a waiting run; the page begins after it. "": from the first.
	After string
	Limit int // 1..MaxPage
}

// Usage is the usage of a tenant.
type Usage struct {
	Now      time.Time // the store's clock
	Tenant   LaneUsage
	Projects map[string]LaneUsage // by project; only projects that have had a run or used a bucket
}

// LaneUsage is the usage of a tenant or project.
type LaneUsage struct {
	Active, Waiting int64
	// Pace is a moving average of the time between two admissions of waiting runs from the lane; 0: unknown.
	Pace time.Duration
	Full map[BucketAction]time.Time // when each bucket that was ever used is full again if nothing takes a token
}

// BucketAction is the action that a token pays for.
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
	PerMinute int // its size; it refills evenly within a minute. Negative: there is no bucket, and Take always succeeds
}

// QuotaTx is the quotas of the tenant of the locked run.
type QuotaTx interface {
	// Take takes a token and returns 0. If there is no token it takes none and returns the time until there is one, which
	// is negative when there will never be one (a bucket of size 0).
	Take(ctx context.Context, b Bucket) (time.Duration, error)
	// RecentSignals returns 0 when the run has received fewer than most signals within the last span, else the time until
	// that is so. Receipts that were rejected with CodeForbidden do not count, so that a sender without rights cannot use
	// up the limit of a run (contract T96).
	RecentSignals(ctx context.Context, most int, span time.Duration) (time.Duration, error)
	// Enqueue inserts the queue row of a run that has none, under the head lock. The caller appends the events that
	// follow from the decision. After a *RefusedError nothing is inserted, but the transaction goes on: the caller
	// decides whether to roll back by the error that it returns to InRun.
	Enqueue(ctx context.Context, e Enqueue) (Admission, error)
}

// Unlimited returns terms under which every run is admitted at once.
func Unlimited() Terms {
	free := Share{PerMinute: -1, MaxActive: -1, MaxWaiting: -1, Weight: 1}
	return Terms{Tenant: free, Project: free, MaxActive: -1, Strategy: StrategyQueue}
}
