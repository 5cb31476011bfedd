package watch

import (
	"context"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/store"
)

// InboxStore lists runs and steps that wait for people.
type InboxStore interface {
	ListWaits(ctx context.Context, f store.WaitFilter) ([]store.Wait, error)
	ApprovalsOf(ctx context.Context, runIDs []string) ([]store.Approval, error)
	Heads(ctx context.Context, runIDs []string) (store.Heads, error)
	ListAwaitingRuns(ctx context.Context, f store.WaitFilter) ([]store.RunRow, error)
	List(ctx context.Context, f store.RunFilter) ([]store.RunRow, error)
}

// InboxReader reads the inbox: runs and steps that wait for people. It is safe for concurrent use.
type InboxReader struct {
	rights   *control.Rights
	store    InboxStore
	tasks    *runs.TaskReader
	approver *runs.Approver
	late     *lateReader
}

// NewInboxReader makes an InboxReader.
func NewInboxReader(rights *control.Rights, store InboxStore, tasks *runs.TaskReader, approver *runs.Approver,
	lists *reads.RunLists) *InboxReader {
	return &InboxReader{rights: rights, store: store, tasks: tasks, approver: approver, late: newLateReader(lists, store)}
}

// InboxItem is a run that waits for approval or, with a StepID, an attempt of a MANUAL step that waits for a person.
type InboxItem struct {
	RunID, StepID            string
	StepName                 string // empty when the plan names none
	LogicalAttempt           int    // 0 for an approval
	ProjectID, EnvironmentID string
	Since                    time.Time
	Yours                    bool // the viewer may decide it now
}

// InboxFrame has the changes of a viewer's inbox since the frame before.
type InboxFrame struct {
	Sync    live.Sync
	Reason  live.Reason
	AsOf    time.Time // the store's clock; zero when nothing could be read yet
	Reset   bool      // the client must read the whole inbox again, because Changed and Removed are not complete
	Count   *int      // as InboxCount returns it; nil when nothing could be read yet
	Changed []InboxItem
	Removed []InboxItem
}

const (
	// MaxInboxCount is the highest count. It means "this many or more".
	MaxInboxCount = 100
	// maxInbox bounds the approvals, and the tasks, that an inbox reads: the oldest ones.
	maxInbox = 500
)

// InboxCount counts the approvals and manual tasks that p may decide now, up to MaxInboxCount. It reads only the oldest
// maxInbox of each that p may see. New tasks appear with the lag of the projection.
func (s *InboxReader) InboxCount(ctx context.Context, p authz.Principal) (int, error) {
	scope, ok := s.rights.Narrow(p, control.RunFilter{})
	if !ok {
		return 0, nil
	}
	v, err := s.readInbox(ctx, scope, nil)
	if err != nil {
		return 0, control.Translate(err)
	}
	yours, err := s.canDecideEach(p, v)
	return countInbox(yours), control.Translate(err)
}

func countInbox(yours []bool) (n int) {
	for _, is := range yours {
		if is {
			n++
		}
	}
	return min(n, MaxInboxCount)
}

// inboxView is the inbox of a scope, independent of the viewer. It is immutable.
type inboxView struct {
	asOf  time.Time
	items []pending
	index map[pendingKey]int // into items
	// failed await an operator, the earliest deadline first; late run longer than earlier runs. readAttention sets them.
	failed []store.RunRow
	late   []lateRun
	// blocked counts the steps that depend on the failed step of each run of failed.
	blocked map[stepOfPlan]int
}

type pendingKey struct {
	runID, stepID  string
	logicalAttempt int
}

// pending is an item with the facts that decide whose it is.
type pending struct {
	InboxItem
	planID, planVersion string
	deadline            *time.Time // when it expires; nil: never
	triggeredBy         string
	approval            store.Approval // for a task, the approval of its run
	sod                 bool           // for a task: another person must complete it
}

func (p *pending) key() pendingKey { return pendingKey{p.RunID, p.StepID, p.LogicalAttempt} }

// readInbox reads the inbox of a scope. The number of queries is constant, except for one for each plan that is not
// cached. before is the previous view, or nil.
func (s *InboxReader) readInbox(ctx context.Context, scope control.RunFilter, before *inboxView) (*inboxView, error) {
	heads, err := s.store.Heads(ctx, nil)
	if err != nil {
		return nil, err
	}
	v := &inboxView{asOf: heads.Now, index: map[pendingKey]int{}}
	open, _, err := s.approver.OpenApprovals(ctx, scope, nil, maxInbox)
	if err != nil {
		return nil, err
	}
	for _, a := range open {
		v.add(pending{triggeredBy: a.TriggeredBy, planID: a.PlanID, planVersion: a.PlanVersion, deadline: &a.ExpiresAt,
			approval: a, InboxItem: InboxItem{
				RunID: a.RunID, ProjectID: a.ProjectID, EnvironmentID: a.EnvironmentID, Since: a.CreatedAt,
			}})
	}
	waits, err := s.store.ListWaits(ctx, store.WaitFilter{
		TenantID: scope.TenantID, ProjectIDs: scope.ProjectIDs, EnvironmentID: scope.EnvironmentID, Scopes: scope.Scopes,
		Limit: maxInbox,
	})
	if err != nil {
		return nil, err
	}
	return v, s.addTasks(ctx, v, waits, before)
}

func (s *InboxReader) addTasks(ctx context.Context, v *inboxView, waits []store.Wait, before *inboxView) error {
	if len(waits) == 0 {
		return nil
	}
	ids := make([]string, len(waits))
	for i, w := range waits {
		ids[i] = w.RunID
	}
	approved, err := s.store.ApprovalsOf(ctx, ids)
	if err != nil {
		return err
	}
	of := make(map[string]store.Approval, len(approved))
	for _, a := range approved {
		of[a.RunID] = a
	}
	for _, w := range waits {
		task := pending{triggeredBy: w.TriggeredBy, planID: w.PlanID, planVersion: w.PlanVersion, deadline: w.Deadline,
			approval: of[w.RunID], InboxItem: InboxItem{
				RunID: w.RunID, StepID: w.StepID, LogicalAttempt: w.LogicalAttempt, ProjectID: w.ProjectID,
				EnvironmentID: w.EnvironmentID, Since: w.Since,
			}}
		if at, known := before.find(task.key()); known {
			task.sod, task.StepName = before.items[at].sod, before.items[at].StepName // a plan never changes
		} else {
			f, err := s.tasks.ManualFacts(ctx, w.PlanRef, w.StepID)
			if err != nil {
				return err
			}
			task.sod, task.StepName = f.Sod, f.Name
		}
		v.add(task)
	}
	return nil
}

func (v *inboxView) add(p pending) {
	v.index[p.key()] = len(v.items)
	v.items = append(v.items, p)
}

func (v *inboxView) find(k pendingKey) (at int, ok bool) {
	if v == nil {
		return 0, false
	}
	at, ok = v.index[k]
	return at, ok
}

// canDecideEach returns for each item of v whether p may decide it now. It does no I/O.
func (s *InboxReader) canDecideEach(p authz.Principal, v *inboxView) ([]bool, error) {
	may := s.allowed(p)
	out := make([]bool, len(v.items))
	for i := range v.items {
		item := &v.items[i]
		action := authz.Approve
		if item.StepID != "" {
			action = authz.CompleteManual
		}
		allowed, err := may(action, item.ProjectID, item.EnvironmentID)
		if err != nil {
			return nil, err
		}
		out[i] = allowed && s.canDecide(p, item)
	}
	return out, nil
}

// allowed returns a function that decides the rights of p, each once.
func (s *InboxReader) allowed(p authz.Principal) func(action authz.Action, project, environment string) (bool, error) {
	type right struct {
		action authz.Action
		object authz.Object
	}
	rights := map[right]bool{}
	return func(action authz.Action, project, environment string) (bool, error) {
		r := right{action, authz.Object{TenantID: p.TenantID, ProjectID: project, EnvironmentID: environment}}
		if may, known := rights[r]; known {
			return may, nil
		}
		d, err := s.rights.Authz.Decide(p, r.action, r.object)
		rights[r] = d.Allowed
		return d.Allowed, err
	}
}

// canDecide reports whether p, who has the right, still has a decision to make. It checks a rejection, which the mode
// of the engine never forbids.
func (s *InboxReader) canDecide(p authz.Principal, item *pending) bool {
	if item.StepID != "" {
		return len(s.tasks.Keys) > 0 && !s.isInvolved(p, item)
	}
	return !runs.HasDecided(item.approval, p) && s.approver.CheckMayDecide(p, item.triggeredBy, item.approval,
		true) == nil
}

// isInvolved reports whether separation of duties keeps p from completing the task.
func (s *InboxReader) isInvolved(p authz.Principal, task *pending) bool {
	return s.rights.IsInvolved(task.sod, task.triggeredBy == p.ID || runs.HasApproved(task.approval, p), p)
}
