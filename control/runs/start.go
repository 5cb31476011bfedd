// Package runs has the use cases that change a run and the reads that they need: start and rerun, signals and stops,
// approvals, manual steps, previews of each, and views of runs and plans.
package runs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/internal/secretvalue"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// StartRun asks for a run. Exactly one of Inline and Ref is set.
type StartRun struct {
	RequestID     string
	ProjectID     string
	EnvironmentID string
	Inline        json.RawMessage
	Ref           *plan.Ref
	Params        json.RawMessage
	Priority      int // 0 to store.MaxPriority; among waiting runs of a project, higher goes first
}

// DefaultPriority is the priority of reruns, and the default of the API for starts.
const DefaultPriority = 5

// StartedRun is the result of StartRun. The run is durable before it is returned.
type StartedRun struct {
	View         control.RunView
	Deduplicated bool
}

// StartRules are the rules and limits for every new run.
type StartRules struct {
	Queues         plan.Queues
	Policy         run.Policy // default for runs whose plan sets none
	MaxSteps       int        // of a plan
	MaxParamsBytes int
	ApprovalTTL    time.Duration // maximum time that a run waits for approval
}

// StartStore creates runs.
type StartStore interface {
	CreateRun(ctx context.Context, n store.NewRun) (r store.Run, created bool, err error)
	ByRequest(ctx context.Context, key run.Key) (store.Run, error)
	Load(ctx context.Context, runID string) (store.Loaded, error)
	Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error)
	Approval(ctx context.Context, runID string) (store.Approval, error)
}

// Starter creates runs and reruns. It is safe for concurrent use.
type Starter struct {
	rights    *control.Rights
	store     StartStore
	views     *Views
	admission *admission.Admission
	rules     StartRules
	versions  *lru.Cache[string, string]
}

// NewStarter makes a Starter.
func NewStarter(rights *control.Rights, store StartStore, views *Views, admission *admission.Admission,
	rules StartRules) *Starter {
	return &Starter{rights: rights, store: store, views: views, admission: admission, rules: rules,
		versions: control.NewLRU[string](maxRequestVersions)}
}

// CheckAdmits returns why the mode, a freeze or a failing engine admits no new run of a tenant; nil when they do.
func (s *Starter) CheckAdmits(tenantID string) *control.Error {
	return s.admission.Modes.CheckAdmits(tenantID)
}

// checkStartable refuses a new run in a mode that admits none, and one whose reference to the plan has expired, unless
// the same request created a run before. A rerun has the plan that the first run read.
func (s *Starter) checkStartable(ctx context.Context, p authz.Principal, r store.Run, row store.AuditRow) error {
	refusal := s.admission.Modes.CheckAdmits(r.TenantID)
	expired := r.ParentRunID == "" && r.PlanRef.Expired(s.rights.Now())
	if refusal == nil && !expired {
		return nil
	}
	_, err := s.store.ByRequest(ctx, r.RequestKey)
	if err == nil || !errors.Is(err, store.ErrNotFound) {
		return control.Translate(err)
	}
	if refusal == nil {
		return control.BadInput(expiredRef())
	}
	row.Code, row.RequestID, row.Detail = refusal.Code, r.RequestID, nil
	s.rights.AuditDenied(ctx, p, row)
	return refusal
}

func expiredRef() []plan.Violation {
	return []plan.Violation{{Path: "plan.ref.expiresAt", Code: plan.CodeInvalid,
		Message: "has passed: ask the planner for a new reference"}}
}

// requireApproval makes a new run wait for approval when the policy requires some: the run is created without an event
// and without a queue row (contract W-20). The number of approvals is stored with the run, so later changes of the
// policy do not affect it.
func (s *Starter) requireApproval(n *store.NewRun, pin *run.Rerun, required int) {
	if required == 0 {
		return
	}
	n.NeedApproval = &store.NeedApproval{Required: required, TTL: s.rules.ApprovalTTL, Priority: n.Enqueue.Priority,
		Rerun: pin}
	n.Enqueue, n.Wait, n.Events = nil, nil, nil
}

// StartRun creates a run, approves it and queues its start, in one transaction that is durable before the answer
// (contract T224). A run without a quota token or a free slot waits for them and is approved when it gets them. The
// call is safe to repeat: the same request id with the same plan returns the same run. An inline plan is validated
// completely first; of a plan by reference only the reference is checked (contract T225). Errors: BAD_USER_INPUT,
// PLAN_INVALID, FORBIDDEN, REQUEST_ID_CONFLICT, and QUOTA_EXCEEDED and QUEUE_FULL with RetryAfter.
func (s *Starter) StartRun(ctx context.Context, p authz.Principal, in StartRun) (StartedRun, error) {
	if err := s.checkStart(in); err != nil {
		return StartedRun{}, err
	}
	object := authz.Object{TenantID: p.TenantID, ProjectID: in.ProjectID, EnvironmentID: in.EnvironmentID}
	d, err := s.rights.Authz.Decide(p, authz.Start, object)
	if err != nil {
		return StartedRun{}, control.Translate(err)
	}
	if !d.Allowed {
		s.rights.AuditDenied(ctx, p, store.AuditRow{Action: string(authz.Start), Code: run.CodeForbidden,
			RequestID: in.RequestID})
		return StartedRun{}, s.rights.DenialError(p, authz.Start, object, d)
	}
	row := store.AuditRow{Action: string(authz.Start), RequestID: in.RequestID}
	pinned, err := s.planOf(p, in)
	if err != nil {
		return StartedRun{}, err
	}
	ref := pinned.ref
	written := make(chan store.Written, 1)
	r, created, err := s.approve(ctx, p, store.NewRun{
		Written: func(w store.Written) { written <- w },
		Run: store.Run{
			Identity: run.Identity{
				TenantID: p.TenantID, ProjectID: in.ProjectID, EnvironmentID: in.EnvironmentID, PlanID: ref.PlanID,
				PlanVersion: ref.PlanVersion,
			},
			RequestID: in.RequestID, PlanRef: ref, TriggerSource: "api", Params: in.Params, Policy: pinned.policy,
		},
		Plan: pinned.body,
	}, in.Priority, row, nil, pinned.plan)
	if err != nil {
		return StartedRun{}, err
	}
	if created {
		s.warnOfVersion(ctx, r)
	}
	if !created && (r.PlanRef.SHA256 != ref.SHA256 || r.ParentRunID != "") {
		return StartedRun{}, control.Refuse(run.CodeRequestConflict,
			"The request id %s already started another run: a rerun, or one of another document with this planId and "+
				"planVersion. Use a new id.", in.RequestID)
	}
	select {
	case w := <-written:
		if w.Queue != nil {
			v := writtenView(r, w)
			v.Queue, err = s.views.queue.Locate(ctx, v.Queue.WaitingRun)
			return s.answerView(v, created), control.Translate(err)
		}
	default: // the store did not report its write
	}
	return s.answerStart(ctx, r, created)
}

// writtenView returns the view of a run in its queue from what its creation wrote, without another read.
func writtenView(r store.Run, w store.Written) control.RunView {
	v := control.RunView{Run: r, State: w.Loaded.State, Epoch: w.Loaded.Epoch, OpsRev: w.Loaded.Head.OpsRev,
		AsOf: w.Loaded.Now}
	control.Complete(&v)
	v.Queue = &control.QueueEntry{WaitingRun: store.WaitingRun{
		QueueRow: *w.Queue, EnvironmentID: r.EnvironmentID, PlanID: r.PlanID, PlanVersion: r.PlanVersion,
		TriggeredBy: r.TriggeredBy,
	}}
	return v
}

// startDetail returns the JSON members of more with those that name the plan, the scope and the number of approvals of
// the start. CheckAudit compares the run with them.
func startDetail(r store.Run, approvals int, more json.RawMessage) (json.RawMessage, error) {
	out := map[string]any{}
	if more != nil {
		if err := json.Unmarshal(more, &out); err != nil {
			return nil, err
		}
	}
	out["projectId"], out["environmentId"] = r.ProjectID, r.EnvironmentID
	out["planId"], out["planVersion"], out["planSha256"] = r.PlanID, r.PlanVersion, r.PlanRef.SHA256
	if approvals > 0 {
		out["approvals"] = approvals
	}
	return json.Marshal(out)
}

// approve creates the run of n and its audit row in one transaction. The run is approved and waits for its start or for
// its slot; where the policy asks for approvals, it waits for people (contract W-20). pin holds the results that a
// rerun takes over, nil for other runs. pl is the plan, nil when it is not known. approve sets the ids of n and its
// request key. It returns false with the earlier run when the request id has created one.
func (s *Starter) approve(ctx context.Context, p authz.Principal, n store.NewRun, priority int, audit store.AuditRow,
	pin *run.Rerun, pl *plan.Plan) (store.Run, bool, error) {
	approved, err := s.RunApprovedDraft(pin)
	if err != nil {
		return store.Run{}, false, control.Translate(err)
	}
	r := &n.Run
	r.RunID, r.TriggeredBy = uuid.NewString(), p.ID
	r.RequestKey = run.RequestKey(r.TenantID, r.ProjectID, r.EnvironmentID, r.PlanID, r.PlanVersion, r.RequestID)
	if err := s.checkStartable(ctx, p, *r, audit); err != nil {
		return store.Run{}, false, err
	}
	if err := s.admission.Sandboxes.AdmitSandboxes(ctx, p, *r, pl, audit); err != nil {
		return store.Run{}, false, err
	}
	row := audit
	control.NameActor(p, &row)
	required := s.rights.Authz.Approval(r.TenantID, r.ProjectID, r.EnvironmentID)
	if row.Detail, err = startDetail(*r, required, audit.Detail); err != nil {
		return store.Run{}, false, control.Translate(err)
	}
	row.ID = uuid.NewString()
	row.RunID, row.Outcome, row.RequestID = r.RunID, "ACCEPTED", r.RequestID
	row = store.AuditRowOfRun(row, *r)
	n.Events, n.Audit = []run.Draft{approved}, []store.AuditRow{row}
	n.Enqueue = &store.Enqueue{Terms: s.admission.Allowances.Terms(r.TenantID, r.ProjectID), Priority: priority}
	n.Wait = func(a store.Admission) ([]run.Draft, error) { return s.runQueuedDrafts(a, pin) }
	s.requireApproval(&n, pin, required)
	made, created, err := s.store.CreateRun(ctx, n)
	if refused := (*store.RefusedError)(nil); errors.As(err, &refused) {
		s.admission.Usage.CountRejected(r.TenantID)
		return store.Run{}, false, s.rights.AuditRejected(ctx, p, audit, control.Translate(err))
	}
	return made, created, control.Translate(err)
}

// RunApprovedDraft returns the RunApproved event of a project that needs no approvals.
func (s *Starter) RunApprovedDraft(pin *run.Rerun) (run.Draft, error) {
	payload, err := json.Marshal(run.RunApprovedPayload{Actor: "dvt", Reason: "the project approves automatically",
		Rerun: pin})
	return run.Draft{
		Type: run.RunApproved, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: s.rights.Now(), EmittedBy: run.ByPlanner,
		Payload: payload,
	}, err
}

// runQueuedDrafts returns the events of a run that has to wait (contract T137).
func (s *Starter) runQueuedDrafts(a store.Admission, pin *run.Rerun) ([]run.Draft, error) {
	payload, err := json.Marshal(
		run.RunQueuedPayload{QueuePosition: a.Position, EstimatedWaitMS: a.Estimate.Milliseconds(), Rerun: pin})
	return []run.Draft{{
		Type: run.RunQueued, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: s.rights.Now(), EmittedBy: run.ByAdmission,
		Payload: payload,
	}}, err
}

// answerStart wakes the dispatchers and returns the view of the run.
func (s *Starter) answerStart(ctx context.Context, r store.Run, created bool) (StartedRun, error) {
	v, err := s.views.View(ctx, r)
	if err != nil {
		s.admission.Waker.WakeDispatchers()
		return StartedRun{View: v, Deduplicated: !created}, err
	}
	return s.answerView(v, created), nil
}

func (s *Starter) answerView(v control.RunView, created bool) StartedRun {
	if q := v.Queue; q != nil && !q.Waiting && q.NotBefore.After(v.AsOf) {
		s.admission.Waker.WakeAfter(q.NotBefore.Sub(v.AsOf))
	} else {
		s.admission.Waker.WakeDispatchers()
	}
	if created {
		s.admission.Usage.CountAccepted(v)
	}
	return StartedRun{View: v, Deduplicated: !created}
}

// maxRequestVersions bounds the number of request ids that are remembered for warnOfVersion.
const maxRequestVersions = 10_000

// warnOfVersion logs a request id that comes again with another version of its plan: such a request starts a second run
// (contract T138). Each server only knows its own requests.
func (s *Starter) warnOfVersion(ctx context.Context, r store.Run) {
	key := strings.Join([]string{r.TenantID, r.ProjectID, r.EnvironmentID, r.PlanID, r.RequestID}, "/")
	if before, ok := s.versions.Get(key); ok && before != r.PlanVersion {
		s.rights.Log.WarnContext(ctx, "a request id started a second run because its plan has another version",
			slog.String("requestId", r.RequestID),
			slog.String("runId", r.RunID), slog.String("planId", r.PlanID), slog.String("before", before),
			slog.String("now", r.PlanVersion))
	}
	s.versions.Add(key, r.PlanVersion)
}

// checkNotHidden adds a violation for each parameter of a new run that has the placeholder of a hidden value. Somebody
// copied it from an answer, and the steps of the run would take it for the value. advice ends the message.
func checkNotHidden(vs []plan.Violation, params json.RawMessage, advice string) []plan.Violation {
	secretvalue.EachPlaceholder(params, "params", func(path string) {
		vs = append(vs, plan.Violation{Path: path, Code: plan.CodeInvalid,
			Message: secretvalue.Hidden + " only stands for its hidden value: " + advice})
	})
	return vs
}

func (s *Starter) checkStart(in StartRun) error {
	var vs []plan.Violation
	vs = checkRequestNotReserved(control.CheckID(vs, "runRequestId", in.RequestID), in.RequestID)
	vs = control.CheckID(vs, "projectId", in.ProjectID)
	vs = control.CheckID(vs, "environmentId", in.EnvironmentID)
	if (in.Inline == nil) == (in.Ref == nil) {
		vs = append(vs, plan.Violation{Path: "plan", Code: "INVALID", Message: "give exactly one of inline and ref"})
	}
	if len(in.Params) > s.rules.MaxParamsBytes {
		vs = append(vs, plan.Violation{Path: "params", Code: "RANGE", Message: fmt.Sprintf("must be at most %d bytes",
			s.rules.MaxParamsBytes)})
	}
	vs = checkNotHidden(vs, in.Params, "give the value")
	if in.Priority < 0 || in.Priority > store.MaxPriority {
		vs = append(vs, plan.Violation{Path: "priority", Code: "RANGE", Message: fmt.Sprintf("must be from 0 to %d",
			store.MaxPriority)})
	}
	if len(vs) > 0 {
		return control.BadInput(append(vs, s.planProblems(in)...))
	}
	return nil
}

// planProblems returns the violations of the plan for a request that is refused for other violations, so that the
// caller gets all of them at once.
func (s *Starter) planProblems(in StartRun) []plan.Violation {
	var err error
	switch {
	case in.Inline != nil:
		_, err = plan.Parse(in.Inline, s.rules.Queues)
	case in.Ref != nil:
		err = in.Ref.Validate()
	}
	var invalid *plan.InvalidError
	if !errors.As(err, &invalid) {
		return nil
	}
	return invalid.Violations
}

// pinnedPlan is the plan of a new run. body and plan are nil for a plan by reference.
type pinnedPlan struct {
	ref    plan.Ref
	body   []byte
	plan   *plan.Plan
	policy run.Policy
}

// planOf validates the plan of a request and computes its reference.
func (s *Starter) planOf(p authz.Principal, in StartRun) (pinnedPlan, error) {
	if in.Ref != nil {
		if err := in.Ref.Validate(); err != nil {
			return pinnedPlan{}, control.Translate(err)
		}
		return pinnedPlan{ref: *in.Ref, policy: s.rules.Policy}, nil
	}
	if len(in.Inline) > plan.MaxDocumentBytes {
		return pinnedPlan{}, control.Translate(plan.ErrTooLarge)
	}
	pl, err := plan.Parse(in.Inline, s.rules.Queues)
	if err != nil {
		return pinnedPlan{}, control.Translate(err)
	}
	at := run.Identity{TenantID: p.TenantID, ProjectID: in.ProjectID, EnvironmentID: in.EnvironmentID}
	if err := CheckScope(pl, at, s.rules.MaxSteps); err != nil {
		return pinnedPlan{}, err
	}
	var body bytes.Buffer
	if err := json.Compact(&body, in.Inline); err != nil {
		return pinnedPlan{}, control.Translate(err)
	}
	sum := sha256.Sum256(body.Bytes())
	ref := plan.RefOf(body.Bytes(), pl, store.InlinePlan+hex.EncodeToString(sum[:]))
	return pinnedPlan{ref: ref, body: body.Bytes(), plan: &pl, policy: s.rules.Policy.For(pl)}, nil
}

// CheckScope refuses a plan that was made for another scope, and one with more than maxSteps steps.
func CheckScope(pl plan.Plan, at run.Identity, maxSteps int) error {
	var vs []plan.Violation
	for _, c := range []struct{ path, got, want string }{
		{"scope.tenantId", pl.Scope.TenantID, at.TenantID},
		{"scope.projectId", pl.Scope.ProjectID, at.ProjectID},
		{"scope.environmentId", pl.Scope.EnvironmentID, at.EnvironmentID},
	} {
		if c.got != c.want {
			vs = append(vs, plan.Violation{Path: c.path, Code: "INVALID",
				Message: fmt.Sprintf("must be %q, as in the request", c.want)})
		}
	}
	if len(vs) > 0 {
		return &control.Error{Code: run.CodePlanInvalid, Violations: vs,
			Message: "The plan was made for another tenant, project or environment."}
	}
	if n := len(pl.Steps); n > maxSteps {
		e := control.Refuse(run.CodePlanTooManySteps, "The plan has %d steps; this version runs plans of at most %d.", n,
			maxSteps)
		e.Limit = int64(maxSteps)
		return e
	}
	return nil
}
