package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// StartRun makes a run, approves it and queues its start, in one transaction
// that is durable before the answer (T224). It is safe to repeat: the same request
// id with the same plan answers with the same run. An inline plan is validated
// whole first; of a reference only the reference is checked here (T225).
func (s *Service) StartRun(ctx context.Context, p authz.Principal, in StartRun) (StartedRun, error) {
	if err := s.checkStart(in); err != nil {
		return StartedRun{}, err
	}
	object := authz.Object{TenantID: p.TenantID, ProjectID: in.ProjectID, EnvironmentID: in.EnvironmentID}
	d, err := s.cfg.Authz.Decide(p, authz.Start, object)
	if err != nil {
		return StartedRun{}, translate(err)
	}
	if !d.Allowed {
		s.auditDenied(ctx, p, store.AuditRow{Action: string(authz.Start), Code: run.CodeForbidden, RequestID: in.RequestID})
		return StartedRun{}, s.denied(authz.Start, object, d)
	}
	ref, body, policy, err := s.planOf(p, in)
	if err != nil {
		return StartedRun{}, err
	}
	r, created, err := s.approve(ctx, p, store.NewRun{
		Run: store.Run{
			Identity: run.Identity{
				TenantID: p.TenantID, ProjectID: in.ProjectID, EnvironmentID: in.EnvironmentID, PlanID: ref.PlanID, PlanVersion: ref.PlanVersion,
			},
			RequestID: in.RequestID, PlanRef: ref, TriggerSource: "api", Params: in.Params, Policy: policy,
		},
		Plan: body,
	}, store.AuditRow{Action: string(authz.Start)}, nil)
	if err != nil {
		return StartedRun{}, err
	}
	if !created && (r.PlanRef.SHA256 != ref.SHA256 || r.ParentRunID != "") {
		return StartedRun{}, refuse(run.CodeRequestConflict,
			"The request id %s already started another run: a rerun, or one of another document with this planId and planVersion. Use a new id.", in.RequestID)
	}
	return s.started(ctx, r, created)
}

// approve makes a run of n that is approved and waits for its start, or one that waits for
// people to approve it where the policy asks for them (W-20), and the row of
// its audit, in one transaction; pin is what a rerun takes over, else nil. It gives
// both their ids and the run its request key. false comes with the run that the
// request id made before.
func (s *Service) approve(ctx context.Context, p authz.Principal, n store.NewRun, audit store.AuditRow, pin *run.Rerun) (store.Run, bool, error) {
	approved, err := json.Marshal(run.RunApprovedPayload{Actor: "dvt", Reason: "the project approves automatically", Rerun: pin})
	if err != nil {
		return store.Run{}, false, translate(err)
	}
	r := &n.Run
	r.RunID, r.TriggeredBy = uuid.NewString(), p.ID
	r.RequestKey = run.RequestKey(r.TenantID, r.ProjectID, r.EnvironmentID, r.PlanID, r.PlanVersion, r.RequestID)
	if err := s.startable(ctx, p, *r, audit); err != nil {
		return store.Run{}, false, err
	}
	audit.ID, audit.TenantID, audit.Actor = uuid.NewString(), p.TenantID, p.ID
	audit.RunID, audit.Outcome, audit.RequestID = r.RunID, "ACCEPTED", r.RequestID
	n.Events = []run.Draft{{
		Type: run.RunApproved, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: s.cfg.Now(), EmittedBy: run.ByPlanner, Payload: approved,
	}}
	n.Enqueue, n.Audit = &store.Enqueue{Terms: store.Unlimited()}, []store.AuditRow{audit}
	s.needApproval(&n, pin)
	made, created, err := s.cfg.Store.CreateRun(ctx, n)
	return made, created, translate(err)
}

// started wakes the reconciler for a run and shows it.
func (s *Service) started(ctx context.Context, r store.Run, created bool) (StartedRun, error) {
	kick(s.starts)
	v, err := s.view(ctx, r)
	return StartedRun{View: v, Deduplicated: !created}, err
}

func (s *Service) checkStart(in StartRun) error {
	var vs []plan.Violation
	vs = checkID(vs, "runRequestId", in.RequestID)
	vs = checkID(vs, "projectId", in.ProjectID)
	vs = checkID(vs, "environmentId", in.EnvironmentID)
	if (in.Inline == nil) == (in.Ref == nil) {
		vs = append(vs, plan.Violation{Path: "plan", Code: "INVALID", Message: "give exactly one of inline and ref"})
	}
	if len(in.Params) > s.cfg.Limits.MaxParamsBytes {
		vs = append(vs, plan.Violation{Path: "params", Code: "RANGE", Message: fmt.Sprintf("must be at most %d bytes", s.cfg.Limits.MaxParamsBytes)})
	}
	if len(vs) > 0 {
		return badInput(vs)
	}
	return nil
}

// planOf checks the plan and pins it: its reference, the body to keep (nil for a
// reference) and the policy of the run.
func (s *Service) planOf(p authz.Principal, in StartRun) (plan.Ref, []byte, run.Policy, error) {
	if in.Ref != nil {
		if err := in.Ref.Validate(); err != nil {
			return plan.Ref{}, nil, run.Policy{}, translate(err)
		}
		return *in.Ref, nil, s.cfg.Policy, nil
	}
	if len(in.Inline) > plan.MaxDocumentBytes {
		return plan.Ref{}, nil, run.Policy{}, translate(plan.ErrTooLarge)
	}
	pl, err := plan.Parse(in.Inline, s.cfg.Queues)
	if err != nil {
		return plan.Ref{}, nil, run.Policy{}, translate(err)
	}
	at := run.Identity{TenantID: p.TenantID, ProjectID: in.ProjectID, EnvironmentID: in.EnvironmentID}
	if err := checkPlace(pl, at, s.cfg.Limits.MaxSteps); err != nil {
		return plan.Ref{}, nil, run.Policy{}, err
	}
	var body bytes.Buffer
	if err := json.Compact(&body, in.Inline); err != nil {
		return plan.Ref{}, nil, run.Policy{}, translate(err)
	}
	sum := sha256.Sum256(body.Bytes())
	ref := plan.RefOf(body.Bytes(), pl, "dvt:plan/"+hex.EncodeToString(sum[:]))
	return ref, body.Bytes(), s.cfg.Policy.For(pl), nil
}

// checkPlace refuses a plan made for another place, and one too long to run here.
func checkPlace(pl plan.Plan, at run.Identity, maxSteps int) error {
	var vs []plan.Violation
	for _, c := range []struct{ path, got, want string }{
		{"scope.tenantId", pl.Scope.TenantID, at.TenantID},
		{"scope.projectId", pl.Scope.ProjectID, at.ProjectID},
		{"scope.environmentId", pl.Scope.EnvironmentID, at.EnvironmentID},
	} {
		if c.got != c.want {
			vs = append(vs, plan.Violation{Path: c.path, Code: "INVALID", Message: fmt.Sprintf("must be %q, where the run is asked for", c.want)})
		}
	}
	if len(vs) > 0 {
		return &Error{Code: run.CodePlanInvalid, Message: "The plan is made for another place.", Violations: vs}
	}
	if n := len(pl.Steps); n > maxSteps {
		e := refuse(run.CodePlanTooManySteps, "The plan has %d steps; this version runs plans of at most %d.", n, maxSteps)
		e.Limit = int64(maxSteps)
		return e
	}
	return nil
}
