package store

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// PlanHistories reads runs by plan. A plan here is a plan id in one project and environment of a tenant.
type PlanHistories interface {
	// ListPlans lists plans that have runs, the plan with the newest run first. It uses two statements, whose cost grows
	// with f.Limit and f.Runs. Plans that do not match f are passed over in an index of plans.
	ListPlans(ctx context.Context, f PlanFilter) ([]PlanRow, error)
	// PlanRuns reads what created the newest runs of a plan, newest first, at most limit (≤ MaxPage).
	PlanRuns(ctx context.Context, k PlanKey, limit int) ([]PlanRun, error)
	// StepEvents reads the events about one step in the logs of up to MaxStepRuns runs of a tenant, by run in the order
	// of run ids, then by Seq. Unknown runs and those of other tenants have none. ErrTooMany when there are more than
	// MaxStepEvents.
	StepEvents(ctx context.Context, tenantID, stepID string, runIDs []string) ([]run.Event, error)
}

// Limits of PlanHistories.
const (
	MaxPlans      = 101 // plans of one ListPlans: a page of 100 and one row that shows whether there are more
	MaxPlanRuns   = 50  // runs of each plan in one ListPlans
	MaxOpenRuns   = 100 // PlanRow.Open counts up to it
	MaxStepRuns   = 100
	MaxStepEvents = 10_000
)

// PlanKey names a plan.
type PlanKey struct{ TenantID, ProjectID, EnvironmentID, PlanID string }

// Filter selects the runs of the plan, whatever their status. Adapters find them by the index of scope and status.
func (k PlanKey) Filter(limit int) RunFilter {
	return RunFilter{TenantID: k.TenantID, ProjectIDs: []string{k.ProjectID}, EnvironmentID: k.EnvironmentID,
		PlanID: k.PlanID, Statuses: run.Statuses(), Limit: limit}
}

// PlanFilter selects plans of one tenant. Empty fields do not restrict, but an empty TenantID matches no plan.
type PlanFilter struct {
	TenantID      string
	ProjectIDs    []string // nil: every project of the tenant
	EnvironmentID string
	Scopes        Scopes // nil: unrestricted
	PlanID        string
	Text          string // a substring of planId
	Runs          int    // 1..MaxPlanRuns
	Limit         int    // 1..MaxPlans
	// After returns only plans after this one in the order of the list. A plan that gets a run moves to the front.
	After *PlanPos
}

// PlanPos is a position in a list of plans.
type PlanPos struct {
	LastRunAt                        time.Time
	ProjectID, EnvironmentID, PlanID string
}

// PlanRow is a plan in a list.
type PlanRow struct {
	PlanKey
	LastRunAt time.Time // when the newest run was created
	Open      int       // runs that have not ended as of their checkpoints; MaxOpenRuns means that many or more
	Runs      []RunRow  // newest first, without steps
}

// Pos returns the position of the row in its list.
func (r PlanRow) Pos() PlanPos {
	return PlanPos{LastRunAt: r.LastRunAt, ProjectID: r.ProjectID, EnvironmentID: r.EnvironmentID, PlanID: r.PlanID}
}

// PlanRun is what created a run of a plan.
type PlanRun struct {
	RunID       string
	CreatedAt   time.Time
	PlanVersion string
	PlanSHA256  string
	TriggeredBy string
}

// NewestFirst orders rows as List does.
func NewestFirst(a, b RunRow) int {
	return cmp.Or(b.Header.CreatedAt.Compare(a.Header.CreatedAt), cmp.Compare(b.Header.RunID, a.Header.RunID))
}

// SHA256OfRef returns the digest in the stored reference of a plan.
func SHA256OfRef(doc []byte) (string, error) {
	var ref struct{ SHA256 string }
	err := json.Unmarshal(doc, &ref)
	return ref.SHA256, err
}

// SortStepEvents sorts events as PlanHistories.StepEvents returns them. ErrTooMany if there are more than
// MaxStepEvents.
func SortStepEvents(evs []run.Event) ([]run.Event, error) {
	if len(evs) > MaxStepEvents {
		return nil, ErrTooMany
	}
	slices.SortFunc(evs, func(a, b run.Event) int {
		return cmp.Or(cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Seq, b.Seq))
	})
	return evs, nil
}
