package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
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
	// DecidedApprovals lists the approvals of a tenant about which the principal has decided, the newest decision first,
	// at most limit (≤ MaxPage). It searches only the last MaxDecisionsSearched decisions of the installation, so that it
	// needs no index of its own and its cost is bounded.
	DecidedApprovals(ctx context.Context, tenantID, principal string, limit int) ([]Approval, error)
	// ExpiredApprovals lists open approvals whose ExpiresAt has passed, at most limit (≤ MaxPage).
	ExpiredApprovals(ctx context.Context, limit int) ([]Approval, error)
}

// MaxDecisionsSearched bounds the search of DecidedApprovals.
const MaxDecisionsSearched = 10_000

// Approval is the approval of a run: its requirements and the decisions so far.
type Approval struct {
	RunID         string
	TenantID      string
	ProjectID     string
	EnvironmentID string
	PlanID        string
	PlanVersion   string
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

// DecisionBy returns the decision of a principal. It returns false when the principal has not decided.
func (a Approval) DecisionBy(principal string) (ApprovalDecision, bool) {
	for _, d := range a.Decisions {
		if d.Principal == principal {
			return d, true
		}
	}
	return ApprovalDecision{}, false
}

// SortByDecisionOf sorts approvals by the time of the principal's decision, the newest first.
func SortByDecisionOf(principal string, list []Approval) {
	slices.SortStableFunc(list, func(a, b Approval) int {
		of, _ := a.DecisionBy(principal)
		other, _ := b.DecisionBy(principal)
		return cmp.Or(other.At.Compare(of.At), strings.Compare(a.RunID, b.RunID))
	})
}
