package store

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Approvals keeps who approved or rejected a run before it may start (W-20).
type Approvals interface {
	// Approval reads one run's; ErrNotFound when it never needed approval.
	Approval(ctx context.Context, runID string) (Approval, error)
	// ApprovalsOf reads those of some runs, at most MaxPage; runs that never needed one are left out.
	ApprovalsOf(ctx context.Context, runIDs []string) ([]Approval, error)
	// OpenApprovals lists undecided ones of a tenant, the oldest first.
	OpenApprovals(ctx context.Context, f ApprovalFilter) ([]Approval, error)
	// ExpiredApprovals lists undecided ones after their time, at most limit.
	ExpiredApprovals(ctx context.Context, limit int) ([]Approval, error)
}

// Approval is a run's way through approval.
type Approval struct {
	RunID         string
	TenantID      string
	ProjectID     string
	EnvironmentID string
	TriggeredBy   string // who asked for the run
	Required      int    // how many people must approve
	Priority      int    // of the run when it is queued
	CreatedAt     time.Time
	ExpiresAt     time.Time
	Rerun         *run.Rerun // of NeedApproval
	Open          bool
	Decisions     []ApprovalDecision // in the order in which they were made
}

// ApprovalDecision is what one principal decided. It never changes.
type ApprovalDecision struct {
	Principal string
	Approved  bool
	Reason    string
	RequestID string
	At        time.Time // set by the store
}

// NeedApproval makes a new run wait for approval instead of in the queue.
type NeedApproval struct {
	Required int
	TTL      time.Duration
	Priority int
	Rerun    *run.Rerun // what a rerun takes over, for its RunApproved; else nil
}

// ApprovalFilter selects approvals of one tenant.
type ApprovalFilter struct {
	TenantID   string
	ProjectIDs []string // nil: all
	After      *RunPos
	Limit      int // 1..MaxPage
}

// ApprovalTx is the approval of the locked run.
type ApprovalTx interface {
	// Approval of the run; ErrNotFound when it never needed one.
	Approval(ctx context.Context) (Approval, error)
	// Decide keeps a decision; ErrConflict when its principal has decided before, or the wait has ended.
	Decide(ctx context.Context, d ApprovalDecision) error
	// CloseApproval ends the wait; ErrConflict when it has ended. The end of the run ends it, too: who
	// appends that in this transaction need not close, or closes first.
	CloseApproval(ctx context.Context) error
}
