package runs

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// ManualTasksQuery asks for steps that wait for a person. RunID narrows it to one run.
type ManualTasksQuery struct {
	RunID string
	First int
	After string // cursor of ManualTasksPage
}

// ManualTask is a step that waits for a person. Token is empty for callers who may not complete it (contract T85,
// T201).
type ManualTask struct {
	Identity       run.Identity
	StepID         string
	StepName       string // empty when the plan cannot be read or has none
	LogicalAttempt int
	Instructions   string
	Evidence       json.RawMessage
	Since          time.Time
	Deadline       *time.Time
	Action         ActionAvailability
	Token          string
}

// ManualTasksPage is a page of tasks, the longest wait first.
type ManualTasksPage struct {
	Tasks   []ManualTask
	Cursors []string // one per task
	HasNext bool
}

// WaitStore lists the steps that wait for people.
type WaitStore interface {
	ListWaits(ctx context.Context, f store.WaitFilter) ([]store.Wait, error)
	ApprovalsOf(ctx context.Context, runIDs []string) ([]store.Approval, error)
}

// TaskReader lists the steps that wait for people. It is safe for concurrent use.
type TaskReader struct {
	rights *control.Rights
	store  WaitStore
	plans  *PlanReader
	Keys   []ManualKey
}

// NewTaskReader makes a TaskReader.
func NewTaskReader(rights *control.Rights, store WaitStore, plans *PlanReader, keys []ManualKey) *TaskReader {
	return &TaskReader{rights: rights, store: store, plans: plans, Keys: keys}
}

// ManualTasks lists steps of the tenant's runs that p may see and that wait for a person, longest wait first, with one
// query (contract T85, T201). Only a caller who may complete a task gets its token. New tasks appear with the lag of
// the projection, like in every list; a completed task disappears at once. Errors: NOT_FOUND for a run that p may not
// see, CURSOR_INVALID for a cursor of another list, BAD_USER_INPUT.
func (s *TaskReader) ManualTasks(ctx context.Context, p authz.Principal, q ManualTasksQuery) (ManualTasksPage, error) {
	n, err := control.PageSize(q.First, 50)
	if err != nil {
		return ManualTasksPage{}, err
	}
	after, err := decodeWait(q.After)
	if err != nil {
		return ManualTasksPage{}, err
	}
	if q.RunID != "" {
		if _, err := s.rights.GetVisible(ctx, p, authz.Read, q.RunID); err != nil {
			return ManualTasksPage{}, err
		}
	}
	scope, ok := s.rights.Narrow(p, control.RunFilter{})
	if !ok {
		return ManualTasksPage{}, nil
	}
	waits, err := s.store.ListWaits(ctx, store.WaitFilter{
		TenantID: p.TenantID, ProjectIDs: scope.ProjectIDs, EnvironmentID: scope.EnvironmentID, Scopes: scope.Scopes,
		RunID: q.RunID, Limit: n + 1, After: after,
	})
	if err != nil {
		return ManualTasksPage{}, control.Translate(err)
	}
	out := ManualTasksPage{HasNext: len(waits) > n}
	waits = waits[:min(n, len(waits))]
	approvers, err := s.approversOf(ctx, waits)
	if err != nil {
		return ManualTasksPage{}, control.Translate(err)
	}
	for _, w := range waits {
		task, err := s.manualTask(ctx, p, w, approvers[w.RunID])
		if err != nil {
			return ManualTasksPage{}, control.Translate(err)
		}
		out.Tasks = append(out.Tasks, task)
		out.Cursors = append(out.Cursors, encodeWait(store.WaitPos{Since: w.Since, RunID: w.RunID, StepID: w.StepID}))
	}
	return out, nil
}

func (s *TaskReader) manualTask(ctx context.Context, p authz.Principal, w store.Wait, approvers []string) (ManualTask,
	error) {
	f, err := s.ManualFacts(ctx, w.PlanRef, w.StepID)
	if err != nil {
		return ManualTask{}, err
	}
	involved := func(id string) bool {
		did := id == w.TriggeredBy || slices.Contains(approvers, id)
		return s.rights.IsInvolved(f.Sod, did, authz.Principal{ID: id, TenantID: w.TenantID})
	}
	t := ManualTask{
		Identity: w.Identity, StepID: w.StepID, StepName: f.Name, LogicalAttempt: w.LogicalAttempt,
		Instructions: f.instructions,
		Evidence:     f.evidence,
		Since:        w.Since, Deadline: w.Deadline, Action: s.mayComplete(p, control.ObjectOf(w.Identity), involved,
			whyInvolved(p.ID, w.TriggeredBy, approvers)),
	}
	if t.Action.Outcome == "APPLY" {
		t.Token = s.Keys[0].token(w.RunID, w.StepID, w.LogicalAttempt)
	}
	return t, nil
}

// approversOf returns the principals that approved each of the runs, with one read.
func (s *TaskReader) approversOf(ctx context.Context, waits []store.Wait) (map[string][]string, error) {
	out := map[string][]string{}
	var ids []string
	for _, w := range waits {
		if _, known := out[w.RunID]; !known {
			out[w.RunID] = nil
			ids = append(ids, w.RunID)
		}
	}
	if len(ids) == 0 {
		return out, nil
	}
	found, err := s.store.ApprovalsOf(ctx, ids)
	for _, at := range found {
		for _, d := range at.Decisions {
			if d.Approved {
				out[at.RunID] = append(out[at.RunID], d.Principal)
			}
		}
	}
	return out, err
}

// ManualFacts returns the facts of one step. When the plan cannot be read, only Sod is set, to the default true
// (contract O4).
func (s *TaskReader) ManualFacts(ctx context.Context, ref plan.Ref, stepID string) (StepFacts, error) {
	facts, err := s.plans.PlanFacts(ctx, ref)
	var broken *plan.InvalidError
	if errors.Is(err, store.ErrNotFound) || errors.As(err, &broken) {
		return StepFacts{Sod: true}, nil
	}
	if err != nil {
		return StepFacts{}, err
	}
	f, ok := facts[stepID]
	f.Sod = f.Sod || !ok
	return f, nil
}

// CountDependents counts the steps of a plan that depend on a step, directly or not. It returns 0 when the plan cannot
// be read: no worker has fetched it, or it is invalid.
func (s *TaskReader) CountDependents(ctx context.Context, ref plan.Ref, stepID string) (int, error) {
	facts, err := s.plans.PlanFacts(ctx, ref)
	var broken *plan.InvalidError
	if errors.Is(err, store.ErrNotFound) || errors.As(err, &broken) {
		return 0, nil
	}
	return facts.countDependents(stepID), err
}

// mayComplete returns whether p may complete a task, and otherwise why not. It checks the policy, separation of duties
// (contract T87), and whether this server has keys.
//
// involved tells whom separation of duties excludes, and why says to p why it excludes them.
func (s *TaskReader) mayComplete(p authz.Principal, o authz.Object, involved func(id string) bool,
	why string) ActionAvailability {
	a := ActionAvailability{Action: authz.CompleteManual, Outcome: "REFUSED", Strength: strength(run.CompleteManual)}
	d, err := s.rights.Authz.Decide(p, a.Action, o)
	a.Rule, a.RequiredRole = d.Rule, d.RequiredRole
	switch {
	case err != nil:
		a.Code, a.Reason = run.CodeUnavailable, "The access policy cannot be read now. Try again."
	case !d.Allowed:
		a.Code, a.WhoCould = run.CodeForbidden, s.rights.OthersWhoCould(a.Action, o, involved)
		a.Reason = authz.NeedsRole(d.RequiredRole, a.Action, o)
	case involved(p.ID):
		a.Code, a.Reason, a.WhoCould = run.CodeSOD, why, s.rights.OthersWhoCould(a.Action, o, involved)
	case len(s.Keys) == 0:
		a.Outcome, a.Code, a.Reason = "UNSUPPORTED", run.CodeNotSupported, noManualKeys
	default:
		a.Outcome, a.Reason = "APPLY", "The step ends with your outcome, and the run continues."
		a.WhoCould = s.rights.OthersWhoCould(a.Action, o, involved)
	}
	return a
}

// whyInvolved says to a principal why separation of duties excludes them from the manual steps of a run.
func whyInvolved(id, triggeredBy string, approvers []string) string {
	switch {
	case id == triggeredBy:
		return "You started the run, so another person must complete this step."
	case slices.Contains(approvers, id):
		return "You approved the run, so another person must complete this step."
	}
	return sodReason // a service
}

// Reasons why people may not, or cannot, complete a task.
const (
	sodReason = "A person who requested or approved the run may not complete this step, nor may a service; " +
		"another person must."
	noManualKeys = "This server has no manual-keys, so it makes no completion tokens. Ask its operators to set them."
)

func encodeWait(at store.WaitPos) string {
	return at.Since.UTC().Format(time.RFC3339Nano) + " " + at.RunID + " " + at.StepID
}

func decodeWait(c string) (*store.WaitPos, error) {
	if c == "" {
		return nil, nil //nolint:nilnil // no cursor means the beginning
	}
	parts := strings.Split(c, " ")
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return nil, control.CursorInvalid()
	}
	since, err := control.CursorTime(parts[0])
	if err != nil {
		return nil, err
	}
	return &store.WaitPos{Since: since, RunID: parts[1], StepID: parts[2]}, nil
}
