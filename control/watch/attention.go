package watch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// AttentionKind is the reason why a run needs somebody.
type AttentionKind string

// Kinds of attention.
const (
	FailedWaiting AttentionKind = "FAILED_WAITING" // a step failed and the retry window is open
	NeedsApproval AttentionKind = "APPROVAL"
	NeedsTask     AttentionKind = "MANUAL_TASK"
	Late          AttentionKind = "LATE" // it missed its deadline, or runs longer than earlier runs of its plan
)

// AttentionItem is a run, or a step of one, that needs somebody.
type AttentionItem struct {
	Kind                     AttentionKind
	RunID, StepID            string // StepID is that of the failed or of the manual step
	StepName                 string // empty when the plan names none
	LogicalAttempt           int    // of the step; 0 without one
	ProjectID, EnvironmentID string
	PlanID, PlanVersion      string
	Since                    time.Time
	// Deadline is when dvt decides by itself: the run fails, the approval or the task expires. Nil: never.
	Deadline *time.Time
	// ExpectedBy is the deadline that the run missed, or the time by which nine of ten earlier runs of the plan had
	// ended; only for Late.
	ExpectedBy *time.Time
	Code       string // of the failed step's error; RUN_LATE for a Late run that missed its deadline
	Message    string
	HeldSteps  int // steps that wait for the decision
	// BlockedSteps are those of HeldSteps that depend on the failed step, directly or not. It is set only for
	// FailedWaiting, and 0 while the plan is not known.
	BlockedSteps int
	FailedSteps  int
	// Approvals and Required count the approvals that were given and that are needed; only for NeedsApproval.
	Approvals, Required int
	// Actions are what the viewer may do about it now.
	Actions []authz.Action
	// WhoCould names principals whom the viewer could ask, at most authz.MaxWhoCould, when Actions lacks the answer: to
	// retry the step, to approve, to complete the task, to pause the late run. Empty then: nobody could unless the policy
	// changes.
	WhoCould []string
	// Stuck reports that fewer people could still approve than approvals are missing: unless the policy changes, the run
	// cannot start. It is set only for NeedsApproval.
	Stuck bool

	decision *pending // what an approval or a task asks; nil for other kinds
}

// AttentionPage is a page of the items that need attention.
type AttentionPage struct {
	Items   []AttentionItem
	Cursors []string
	HasNext bool
	Count   int // of all items, up to MaxInboxCount
	AsOf    time.Time
}

// AttentionFrame is the first page of a viewer's items. Items is nil when they did not change since the frame before.
type AttentionFrame struct {
	Sync   live.Sync
	Reason live.Reason
	AsOf   time.Time // the store's clock; zero when nothing could be read yet
	Count  *int      // nil when nothing could be read yet
	Items  []AttentionItem
}

// Attention reads a page of the runs that need somebody and that p may read: with the least time left first, then the
// one that holds up the most steps. It considers the first maxInbox of each kind. Errors: BAD_USER_INPUT,
// CURSOR_INVALID.
func (s *InboxReader) Attention(ctx context.Context, p authz.Principal, first int, after string) (AttentionPage,
	error) {
	n, err := control.PageSize(first, 50)
	if err != nil {
		return AttentionPage{}, err
	}
	scope, ok := s.rights.Narrow(p, control.RunFilter{})
	if !ok {
		return AttentionPage{}, nil
	}
	v, err := s.readInbox(ctx, scope, nil)
	if err == nil {
		err = s.readAttention(ctx, scope, v, nil)
	}
	if err != nil {
		return AttentionPage{}, control.Translate(err)
	}
	items, err := s.attentionOf(p, v)
	if err != nil {
		return AttentionPage{}, control.Translate(err)
	}
	out := AttentionPage{Count: min(len(items), MaxInboxCount), AsOf: v.asOf}
	if after != "" {
		i := slices.IndexFunc(items, func(i AttentionItem) bool { return i.cursor() == after })
		if i < 0 {
			return AttentionPage{}, control.CursorInvalid()
		}
		items = items[i+1:]
	}
	out.HasNext = len(items) > n
	out.Items = s.nameOthers(p, items[:min(n, len(items))])
	for _, i := range out.Items {
		out.Cursors = append(out.Cursors, i.cursor())
	}
	return out, nil
}

// AttentionCount counts the items of Attention, up to MaxInboxCount.
func (s *InboxReader) AttentionCount(ctx context.Context, p authz.Principal) (int, error) {
	page, err := s.Attention(ctx, p, 1, "")
	return page.Count, err
}

// cursor names the item: a cursor is invalid after its item has gone.
func (i *AttentionItem) cursor() string { return string(i.Kind) + " " + i.RunID + " " + i.StepID }

// attentionOf returns the items of a view as p sees them. It does no I/O.
func (s *InboxReader) attentionOf(p authz.Principal, v *inboxView) ([]AttentionItem, error) {
	yours, err := s.canDecideEach(p, v)
	if err != nil {
		return nil, err
	}
	may := s.allowed(p)
	out := []AttentionItem{}
	for _, row := range v.failed {
		out = append(out, failedItem(row.Header, v.blocked))
	}
	for i := range v.items {
		out = append(out, v.items[i].attention(yours[i]))
	}
	for _, l := range v.late {
		out = append(out, l.item())
	}
	for i := range out {
		item := &out[i]
		for _, action := range answers[item.Kind] {
			ok, err := may(action, item.ProjectID, item.EnvironmentID)
			if err != nil {
				return nil, err
			}
			if ok {
				item.Actions = append(item.Actions, action)
			}
		}
	}
	slices.SortStableFunc(out, compareAttention)
	return out, nil
}

// manyApprovers is the number of names from which on more people may exist: the list is cut before the names of those
// who have decided are removed.
const manyApprovers = authz.MaxWhoCould / 2

// nameOthers sets WhoCould of each item that p cannot answer, and Stuck of each approval. It does no I/O. It is called
// only for the items of one page, because it costs more than the decision about p alone. p may READ the runs, so that a
// refusal would name the same people.
func (s *InboxReader) nameOthers(p authz.Principal, items []AttentionItem) []AttentionItem {
	for i := range items {
		item := &items[i]
		o := authz.Object{TenantID: p.TenantID, ProjectID: item.ProjectID, EnvironmentID: item.EnvironmentID}
		var approvers []string // p among them
		if item.Kind == NeedsApproval {
			approvers = s.approver.OthersWhoCould(o, item.decision.triggeredBy, item.decision.approval)
			item.Stuck = len(approvers) < min(item.Required-item.Approvals, manyApprovers)
		}
		if len(item.Actions) > 0 && (answers[item.Kind] == nil || item.Actions[0] == answers[item.Kind][0]) {
			continue
		}
		switch item.Kind {
		case NeedsApproval:
			item.WhoCould = approvers
		case NeedsTask:
			item.WhoCould = s.rights.OthersWhoCould(authz.CompleteManual, o, func(id string) bool {
				return s.isInvolved(authz.Principal{ID: id, TenantID: p.TenantID}, item.decision)
			})
		case FailedWaiting, Late:
			item.WhoCould = s.rights.Authz.WhoCould(answers[item.Kind][0], o)
		}
	}
	return items
}

// answers are the actions that answer each kind, the main one first. Those of approvals and tasks depend on more than a
// right.
var answers = map[AttentionKind][]authz.Action{ //nolint:gochecknoglobals // a table
	FailedWaiting: {authz.RetryStep, authz.SkipStep, authz.Cancel},
	Late:          {authz.Pause, authz.Cancel},
}

// compareAttention orders by the time left, then by the number of steps that are held up, then by age.
func compareAttention(a, b AttentionItem) int {
	switch {
	case a.Deadline != nil && b.Deadline != nil:
		if c := a.Deadline.Compare(*b.Deadline); c != 0 {
			return c
		}
	case a.Deadline != nil:
		return -1
	case b.Deadline != nil:
		return 1
	}
	return cmp.Or(cmp.Compare(b.HeldSteps, a.HeldSteps), a.Since.Compare(b.Since), strings.Compare(a.RunID, b.RunID),
		strings.Compare(a.StepID, b.StepID))
}

func failedItem(h run.Header, blocked map[stepOfPlan]int) AttentionItem {
	item := itemOf(FailedWaiting, h)
	item.Deadline = h.AwaitingUntil()
	if c := h.RootCause; c != nil {
		item.StepID, item.StepName, item.LogicalAttempt = c.StepID, c.Name, c.LogicalAttempt
		if h.PlanRef != nil {
			item.BlockedSteps = blocked[stepOfPlan{h.PlanRef.SHA256, c.StepID}]
		}
		if c.Error != nil {
			item.Code, item.Message = c.Error.Code, c.Error.Message
		}
	}
	if h.Policy != nil && item.Deadline != nil {
		item.Since = item.Deadline.Add(-time.Duration(h.Policy.RetryWindowMS) * time.Millisecond)
	}
	return item
}

func itemOf(kind AttentionKind, h run.Header) AttentionItem {
	item := AttentionItem{
		Kind: kind, RunID: h.RunID, ProjectID: h.ProjectID, EnvironmentID: h.EnvironmentID, PlanID: h.PlanID,
		PlanVersion: h.PlanVersion, Since: h.CreatedAt, HeldSteps: h.Counts.Pending, FailedSteps: h.Counts.Failed,
	}
	if h.StartedAt != nil {
		item.Since = *h.StartedAt
	}
	return item
}

// attention returns the item; yours says that the viewer may decide it now.
func (p *pending) attention(yours bool) AttentionItem {
	item := AttentionItem{
		Kind: NeedsApproval, RunID: p.RunID, StepID: p.StepID, StepName: p.StepName,
		LogicalAttempt: p.LogicalAttempt, ProjectID: p.ProjectID,
		EnvironmentID: p.EnvironmentID, PlanID: p.planID, PlanVersion: p.planVersion, Since: p.Since, Deadline: p.deadline,
		decision: p,
	}
	action := authz.Approve
	if p.StepID != "" {
		item.Kind, action = NeedsTask, authz.CompleteManual
	} else {
		item.Required = p.approval.Required
		for _, d := range p.approval.Decisions {
			if d.Approved {
				item.Approvals++
			}
		}
	}
	if yours {
		item.Actions = []authz.Action{action}
	}
	return item
}

// readAttention adds to a view the runs that await an operator and those that are late. before is the previous view, or
// nil.
func (s *InboxReader) readAttention(ctx context.Context, scope control.RunFilter, v, before *inboxView) (err error) {
	if v.failed, err = s.store.ListAwaitingRuns(ctx, store.WaitFilter{
		TenantID: scope.TenantID, ProjectIDs: scope.ProjectIDs, EnvironmentID: scope.EnvironmentID, Scopes: scope.Scopes,
		Limit: maxInbox,
	}); err != nil {
		return err
	}
	if err := s.countBlocked(ctx, v, before); err != nil {
		return err
	}
	waiting := make(map[string]bool, len(v.failed)+len(v.items))
	for _, row := range v.failed {
		waiting[row.Header.RunID] = true
	}
	for i := range v.items {
		waiting[v.items[i].RunID] = true
	}
	late, err := s.late.read(ctx, scope, v.asOf)
	for _, l := range late { // found earlier than the rest: a run that waits for somebody since is no longer late
		if !waiting[l.header.RunID] {
			v.late = append(v.late, l)
		}
	}
	return err
}

// stepOfPlan is a step of the plan with a digest.
type stepOfPlan struct{ sha256, stepID string }

// countBlocked counts the steps that depend on the failed step of each run that awaits an operator. It takes the
// numbers of the previous view, because a plan never changes, and reads only plans that are not cached.
func (s *InboxReader) countBlocked(ctx context.Context, v, before *inboxView) error {
	v.blocked = make(map[stepOfPlan]int, len(v.failed))
	for _, row := range v.failed {
		h := row.Header
		if h.RootCause == nil || h.RootCause.StepID == "" || h.PlanRef == nil {
			continue
		}
		key := stepOfPlan{h.PlanRef.SHA256, h.RootCause.StepID}
		if _, counted := v.blocked[key]; counted {
			continue
		}
		if before != nil {
			if n, known := before.blocked[key]; known {
				v.blocked[key] = n
				continue
			}
		}
		n, err := s.tasks.CountDependents(ctx, plan.Ref{SHA256: h.PlanRef.SHA256}, key.stepID)
		if err != nil {
			return err
		}
		v.blocked[key] = n
	}
	return nil
}

// WatchAttention returns a stream of the first page of Attention, at most first items (1 to 100): at once, after each
// change, and a frame without items at least once in the quiet interval. It reads as WatchInbox does, and viewers with
// the same scope share the reads. Errors: BAD_USER_INPUT; FORBIDDEN for a caller who may read no run.
func (s *InboxWatcher) WatchAttention(ctx context.Context, p authz.Principal,
	first int) (control.Stream[AttentionFrame], error) {
	n, err := control.PageSize(first, 50)
	if err != nil {
		return nil, err
	}
	frames := &attentionFrames{reader: s.reader, p: p, first: n}
	return openInboxStream(ctx, s, p, frames.advance)
}

// attentionFrames makes the frames of one viewer.
type attentionFrames struct {
	reader *InboxReader
	p      authz.Principal
	first  int

	began bool
	shown inboxState
	items []AttentionItem
}

// advance returns the frame that brings the viewer to the state now, and whether it has a change.
func (a *attentionFrames) advance(_ *inbox, now inboxState) (f AttentionFrame, moved bool, err error) {
	f = AttentionFrame{Sync: now.sync, Reason: now.reason}
	moved = now.sync != a.shown.sync || now.reason != a.shown.reason
	if now.view != nil {
		items, err := a.reader.attentionOf(a.p, now.view)
		if err != nil {
			return f, false, err
		}
		f.AsOf, f.Count = now.view.asOf, new(min(len(items), MaxInboxCount))
		items = a.reader.nameOthers(a.p, items[:min(len(items), a.first)])
		if !a.began || !slices.EqualFunc(a.items, items, equalAttention) {
			f.Items, moved, a.began, a.items = items, true, true, items
		}
	}
	a.shown = now
	return f, moved, nil
}

func equalAttention(a, b AttentionItem) bool {
	return a.cursor() == b.cursor() && a.LogicalAttempt == b.LogicalAttempt && a.HeldSteps == b.HeldSteps &&
		a.BlockedSteps == b.BlockedSteps && a.FailedSteps == b.FailedSteps && a.Approvals == b.Approvals &&
		a.Stuck == b.Stuck &&
		slices.Equal(a.Actions, b.Actions) && slices.Equal(a.WhoCould, b.WhoCould) &&
		equalTimes(a.Deadline, b.Deadline) && equalTimes(a.ExpectedBy, b.ExpectedBy)
}

func equalTimes(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}
