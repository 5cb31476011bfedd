package store

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Approvals stores the decisions of people about runs that may not start without approval.
type Approvals interface {
	// Approval reads the approval of a run; ErrNotFound when the run never needed one.
	Approval(ctx context.Context, runID string) (Approval, error)
	// ApprovalsOf reads the approvals of at most MaxPage runs, in any order. Runs that never needed one are absent.
	ApprovalsOf(ctx context.Context, runIDs []string) ([]Approval, error)
	// OpenApprovals lists the open approvals of a tenant, the oldest first.
	OpenApprovals(ctx context.Context, f ApprovalFilter) ([]Approval, error)
	// ExpiredApprovals lists open approvals whose ExpiresAt has passed, at most limit (≤ MaxPage).
	ExpiredApprovals(ctx context.Context, limit int) ([]Approval, error)
}

// Approval is the approval of a run: its requirements and the decisions so far.
type Approval struct {
	RunID         string
	TenantID      string
	ProjectID     string
	EnvironmentID string
	TriggeredBy   string // the principal that requested the run
	Required      int    // number of people who must approve
	Priority      int    // in the queue, once approved
	CreatedAt     time.Time
	ExpiresAt     time.Time
	Rerun         *run.Rerun         // see NeedApproval
	Open          bool               // the run waits for decisions
	Decisions     []ApprovalDecision // in the order in which they were made
}

// ApprovalDecision is the decision of one principal. It never changes.
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
	Rerun    *run.Rerun // the results that a rerun takes over, which its RunApproved names; nil for other runs
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
	// Approval reads the approval of the run; ErrNotFound when the run never needed one.
	Approval(ctx context.Context) (Approval, error)
	// Decide inserts a decision. ErrConflict when its principal has decided before, or the approval is not open.
	Decide(ctx context.Context, d ApprovalDecision) error
	// CloseApproval closes the approval; ErrConflict when it is not open. The end of the run closes it too, so a caller
	// that appends the end in this transaction calls CloseApproval before the append, or not at all.
	CloseApproval(ctx context.Context) error
}
