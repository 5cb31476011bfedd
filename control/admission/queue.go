package admission

import (
	"cmp"
	"context"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/admission"
)

// QueueStore reads the queue of runs.
type QueueStore interface {
	Get(ctx context.Context, runID string) (store.Run, error)
	QueueRow(ctx context.Context, runID string) (store.QueueRow, error)
	Usage(ctx context.Context, tenantID string) (store.Usage, error)
	ActiveRuns(ctx context.Context) (int64, error)
	WaitingRuns(ctx context.Context, f store.WaitingFilter) ([]store.WaitingRun, error)
}

// QueueViews returns views of the waiting runs. It is safe for concurrent use.
type QueueViews struct {
	rights     *control.Rights
	store      QueueStore
	allowances *Allowances
}

// NewQueueViews makes QueueViews.
func NewQueueViews(rights *control.Rights, store QueueStore, allowances *Allowances) *QueueViews {
	return &QueueViews{rights: rights, store: store, allowances: allowances}
}

// QueueQuery asks for waiting runs of the caller's tenant.
type QueueQuery struct {
	ProjectID string // "": all projects that the caller may read
	First     int
	After     string // the last run of the page before; it must still wait
}

// QueuePage is a page of waiting runs, by project and then in queue order.
type QueuePage struct {
	Entries []control.QueueEntry
	HasNext bool
	Depth   int // all waiting runs of the tenant, also those that the caller may not see
}

// Queue lists runs that p may READ and that wait for a quota token or a slot (contract T137). Errors: BAD_USER_INPUT,
// CURSOR_INVALID when the run of the cursor no longer waits.
func (s *QueueViews) Queue(ctx context.Context, p authz.Principal, q QueueQuery) (QueuePage, error) {
	n, err := control.PageSize(q.First, 50)
	if err != nil {
		return QueuePage{}, err
	}
	asked := control.RunFilter{}
	if q.ProjectID != "" {
		asked.ProjectIDs = []string{q.ProjectID}
	}
	scope, ok := s.rights.Narrow(p, asked)
	if !ok {
		return QueuePage{}, nil
	}
	if q.After != "" { // the cursor must be a run that p may see
		r, err := s.store.Get(ctx, q.After)
		if err != nil || r.TenantID != p.TenantID || !s.rights.MayRead(p, r.ProjectID, r.EnvironmentID) {
			return QueuePage{}, control.PageError(q.After, cmp.Or(err, store.ErrNotFound))
		}
	}
	f := store.WaitingFilter{TenantID: p.TenantID, ProjectIDs: scope.ProjectIDs, After: q.After}
	rows, more, err := control.ReadOn(n, func(last *store.WaitingRun, limit int) ([]store.WaitingRun, error) {
		if f.Limit = limit; last != nil {
			f.After = last.RunID
		}
		return s.store.WaitingRuns(ctx, f)
	}, func(row store.WaitingRun) (bool, error) {
		return s.rights.MayRead(p, row.ProjectID, row.EnvironmentID), nil
	})
	if err != nil {
		return QueuePage{}, control.PageError(f.After, err)
	}
	usage, err := s.store.Usage(ctx, p.TenantID)
	if err != nil {
		return QueuePage{}, control.Translate(err)
	}
	active, err := s.store.ActiveRuns(ctx)
	if err != nil {
		return QueuePage{}, control.Translate(err)
	}
	out := QueuePage{HasNext: more, Depth: int(usage.Tenant.Waiting)}
	for _, row := range rows {
		out.Entries = append(out.Entries, s.queueEntry(row, usage, active))
	}
	return out, nil
}

// queueEntry returns a row with the reason why it waits and the estimated wait from now. active counts the runs of the
// whole installation that hold a slot.
func (s *QueueViews) queueEntry(row store.WaitingRun, u store.Usage, active int64) control.QueueEntry {
	e := control.QueueEntry{WaitingRun: row}
	if !row.Waiting {
		return e
	}
	e.ExpiresAt, _ = s.allowances.WaitsUntil(row.QueueRow)
	t, lane := s.allowances.Terms(row.TenantID, row.ProjectID), u.Projects[row.ProjectID]
	rows := admission.Rows{
		Now: u.Now, TenantFull: u.Tenant.Full[store.BucketStart], ProjectFull: lane.Full[store.BucketStart],
		Tenant:       admission.Lane{Active: u.Tenant.Active, Waiting: u.Tenant.Waiting},
		Project:      admission.Lane{Active: lane.Active, Waiting: lane.Waiting, Pace: lane.Pace},
		Installation: admission.Lane{Active: active},
	}
	first := admission.Admit(t, row.ProjectID, rows) // the verdict for the first run of the project
	switch e.Why = first.Why; {
	case first.Why == store.WaitHold:
		return e
	case first.Admitted || row.Position > 1:
		e.Why = store.WaitTurn
	}
	projects := othersWaiting(row.ProjectID, u)
	e.Wait = admission.Estimate(t, rows, row.Position, projects)
	switch admission.LacksSlot(t, rows, row.Position, projects) {
	case admission.OfProject:
		e.Slots = &control.SlotUse{Scope: control.SlotsOfProject, Active: int(lane.Active), Max: t.Project.MaxActive}
	case admission.OfTenant:
		e.Slots = &control.SlotUse{Scope: control.SlotsOfTenant, Active: int(u.Tenant.Active), Max: t.Tenant.MaxActive}
	case admission.OfInstallation:
		e.Slots = &control.SlotUse{Scope: control.SlotsOfInstallation}
	case admission.OfNobody:
	}
	return e
}

// Foresee returns the queue entry that a new run of the project would have now, with the usual priority; nil when it
// would start at once, or when the quota refuses runs instead of queueing them.
func (s *QueueViews) Foresee(ctx context.Context, tenantID, projectID string) (*control.QueueEntry, error) {
	u, err := s.store.Usage(ctx, tenantID)
	if err != nil {
		return nil, control.Translate(err)
	}
	active, err := s.store.ActiveRuns(ctx)
	if err != nil {
		return nil, control.Translate(err)
	}
	row := store.QueueRow{TenantID: tenantID, ProjectID: projectID, Waiting: true, CreatedAt: u.Now,
		Position: int(u.Projects[projectID].Waiting) + 1}
	t := s.allowances.Terms(tenantID, projectID)
	if t.TTL > 0 {
		row.ExpiresAt = u.Now.Add(t.TTL)
	}
	e := s.queueEntry(store.WaitingRun{QueueRow: row}, u, active)
	// TURN of the first in the queue is the verdict that it is admitted.
	if t.Strategy != store.StrategyQueue || row.Position == 1 && e.Why == store.WaitTurn {
		return nil, nil //nolint:nilnil // it does not wait
	}
	return &e, nil
}

// othersWaiting counts the other projects that have waiting runs.
func othersWaiting(projectID string, u store.Usage) (n int) {
	for id, lane := range u.Projects {
		if id != projectID && lane.Waiting > 0 {
			n++
		}
	}
	return n
}

// EntryOf returns the queue entry of a run that has not started, nil when it has. Error: store.ErrNotFound.
func (s *QueueViews) EntryOf(ctx context.Context, r store.Run) (*control.QueueEntry, error) {
	q, err := s.store.QueueRow(ctx, r.RunID)
	if err != nil || q.Status == store.QueueStarted {
		return nil, err
	}
	return s.Locate(ctx, store.WaitingRun{QueueRow: q, EnvironmentID: r.EnvironmentID, PlanID: r.PlanID,
		PlanVersion: r.PlanVersion, TriggeredBy: r.TriggeredBy})
}

// Locate returns the queue entry of a run whose row is known, with its position and estimate if it waits. It reads the
// queue of the tenant, but neither the run nor its row.
func (s *QueueViews) Locate(ctx context.Context, row store.WaitingRun) (*control.QueueEntry, error) {
	if !row.Waiting {
		return &control.QueueEntry{WaitingRun: row}, nil
	}
	u, err := s.store.Usage(ctx, row.TenantID)
	if err != nil {
		return nil, err
	}
	active, err := s.store.ActiveRuns(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.store.WaitingRuns(ctx, store.WaitingFilter{TenantID: row.TenantID, RunID: row.RunID, Limit: 1})
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(rows, func(w store.WaitingRun) bool { return w.RunID == row.RunID }); i >= 0 {
		row = rows[i]
	}
	e := s.queueEntry(row, u, active)
	return &e, nil
}
