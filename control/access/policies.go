package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// PolicyStore reads and writes the versions of the policies of tenants.
type PolicyStore interface {
	PolicyHistory(ctx context.Context, tenantID string, before int64, limit int) ([]store.StoredPolicy, error)
	PutPolicy(ctx context.Context, p store.StoredPolicy, audit store.AuditRow) (store.StoredPolicy, error)
	ApprovalsOf(ctx context.Context, runIDs []string) ([]store.Approval, error)
}

// Policies reads and changes the policies of tenants. It is safe for concurrent use.
type Policies struct {
	rights *control.Rights
	store  PolicyStore
	loader *Loader
}

// NewPolicies makes Policies.
func NewPolicies(rights *control.Rights, store PolicyStore, loader *Loader) *Policies {
	return &Policies{rights: rights, store: store, loader: loader}
}

// Policy is one version of the policy of the caller's tenant.
type Policy struct {
	Version   int64 // 0: the tenant has no policy of its own; Document is the default that applies
	Document  authz.Document
	Actor     string
	Reason    string
	RequestID string
	At        time.Time // zero for version 0
	// Changed lists what this version changed, in words; PolicyHistory and SetPolicy fill it in.
	Changed []string
	// OnlyBreakGlass means that this version only gave or ended roles by break-glass; only PolicyHistory fills it in.
	OnlyBreakGlass bool
	// Warnings say what the change takes away and what nobody can do any more; only SetPolicy fills it in.
	Warnings []string
}

// SetPolicy asks to replace the whole policy.
type SetPolicy struct {
	RequestID       string
	ExpectedVersion int64          // the version that Document was made from
	Document        authz.Document // a nil Sandbox keeps the one of ExpectedVersion
	Reason          string
}

// PolicyPage is a page of versions, newest first.
type PolicyPage struct {
	Policies []Policy
	HasNext  bool
}

// Policy reads the policy of the caller's tenant. Error: FORBIDDEN without READ_POLICY on the whole tenant.
func (s *Policies) Policy(ctx context.Context, p authz.Principal) (Policy, error) {
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadPolicy)}); err != nil {
		return Policy{}, err
	}
	return s.newestPolicy(ctx, p.TenantID)
}

func (s *Policies) newestPolicy(ctx context.Context, tenantID string) (Policy, error) {
	newest, err := s.store.PolicyHistory(ctx, tenantID, 0, 1)
	if err != nil {
		return Policy{}, control.Translate(err)
	}
	if len(newest) == 0 {
		doc, _ := s.rights.Authz.Policy(tenantID)
		return Policy{Document: doc}, nil
	}
	return policyOf(newest[0])
}

// policyOf decodes a stored policy. Rules that follow the defaults stay nil.
func policyOf(p store.StoredPolicy) (Policy, error) {
	out := Policy{Version: p.Version, Actor: p.Actor, Reason: p.Reason, RequestID: p.RequestID, At: p.At}
	if err := json.Unmarshal(p.Doc, &out.Document); err != nil {
		return out, control.Translate(fmt.Errorf("control: policy %d of %s: %w", p.Version, p.TenantID, err))
	}
	return out, nil
}

// PolicyHistory reads the versions below before, or from the newest when before is 0, newest first. Errors: FORBIDDEN,
// BAD_USER_INPUT.
func (s *Policies) PolicyHistory(ctx context.Context, p authz.Principal, first int, before int64) (PolicyPage, error) {
	n, err := control.PageSize(first, 20)
	if err != nil {
		return PolicyPage{}, err
	}
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadPolicy)}); err != nil {
		return PolicyPage{}, err
	}
	rows, err := s.store.PolicyHistory(ctx, p.TenantID, before, n+1)
	if err != nil {
		return PolicyPage{}, control.Translate(err)
	}
	all, _, err := control.PageOf(rows, len(rows), policyOf)
	if err != nil {
		return PolicyPage{}, err
	}
	page, last := all[:min(n, len(all))], (*Policy)(nil)
	if len(all) > n {
		last = &all[n]
	}
	s.describeChanges(p.TenantID, page, last)
	return PolicyPage{Policies: page, HasNext: len(all) > n}, nil
}

// SetPolicy puts a new policy in force: in this process before it returns, everywhere within 2 s. It is safe to repeat.
// Errors: FORBIDDEN; POLICY_MOVED when the policy is not at ExpectedVersion; REQUEST_ID_CONFLICT when the request id
// made another change; BAD_USER_INPUT with all violations of a policy that would lock the tenant out or that is
// invalid; UNAVAILABLE when the policy is stored but not in force here yet. Accepted and refused changes are audited.
func (s *Policies) SetPolicy(ctx context.Context, p authz.Principal, in SetPolicy) (Policy, error) {
	vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason)
	if in.ExpectedVersion < 0 {
		vs = append(vs, plan.Violation{Path: "expectedVersion", Code: "RANGE", Message: "must not be below 0"})
	}
	row := store.AuditRow{Action: string(authz.SetPolicy), Reason: control.Clip(in.Reason), RequestID: in.RequestID}
	if err := s.rights.MayOperate(ctx, p, row); err != nil {
		return Policy{}, err
	}
	before, known, err := s.policyVersion(ctx, p.TenantID, in.ExpectedVersion)
	if err != nil {
		return Policy{}, err
	}
	in.Document = keepSandbox(in.Document, before)
	if vs = append(vs, s.violations(p.TenantID, in.Document)...); len(vs) > 0 {
		return Policy{}, s.rights.AuditRefused(ctx, p, row, control.BadInput(vs))
	}
	var effect PolicyEffect
	if known { // else the store refuses the version
		if effect, err = s.effectOf(ctx, p.TenantID, before, in.Document); err != nil {
			return Policy{}, control.Translate(err)
		}
	}
	out, err := s.putPolicy(ctx, p, in, row, policyDetail{Changed: control.ClipLines(effect.Changed)})
	out.Changed, out.Warnings = effect.Changed, effect.Warnings
	if own, ok := control.IsStale(err, run.CodePolicyMoved); ok {
		return Policy{}, s.rights.AuditRefused(ctx, p, row, own)
	}
	return out, err
}

// violations lists what is wrong with a document as the next policy of the tenant.
func (s *Policies) violations(tenantID string, doc authz.Document) (vs []plan.Violation) {
	for _, problem := range s.rights.Authz.Check(tenantID, doc) {
		vs = append(vs, plan.Violation{Path: problem.Path, Code: problem.Code, Message: problem.Message})
	}
	return vs
}

// policyVersion reads a version of the policy; version 0 is that of the server's settings. known is false for a version
// that does not exist.
func (s *Policies) policyVersion(ctx context.Context, tenantID string, version int64) (doc authz.Document, known bool,
	err error) {
	if version == 0 {
		return s.rights.Authz.SettingsPolicy(tenantID), true, nil
	}
	rows, err := s.store.PolicyHistory(ctx, tenantID, version+1, 1)
	if err != nil {
		return doc, false, control.Translate(err)
	}
	if len(rows) == 0 || rows[0].Version != version {
		return doc, false, nil
	}
	p, err := policyOf(rows[0])
	return p.Document, true, err
}

// keepSandbox copies the sandbox ceilings of the policy before into a document that has none, because a client that
// does not know the field would remove them.
func keepSandbox(doc, before authz.Document) authz.Document {
	if doc.Sandbox == nil {
		doc.Sandbox = before.Sandbox
	}
	return doc
}

// policyDetail is the detail of an accepted change of the policy in the audit.
type policyDetail struct {
	PolicyVersion int64 `json:"policyVersion"`
	// Changed are the first lines of what the change did.
	Changed []string `json:"changed,omitempty"`
	// Role, Minutes and Until tell a break-glass, and Role and Until which role its holder gave up.
	Role    authz.Role `json:"role,omitempty"`
	Minutes int        `json:"minutes,omitempty"`
	Until   *time.Time `json:"until,omitempty"`
}

// putPolicy writes the next version and puts it in force in this process.
func (s *Policies) putPolicy(ctx context.Context, p authz.Principal, in SetPolicy, row store.AuditRow,
	detail policyDetail) (Policy, error) {
	doc, err := json.Marshal(in.Document)
	if err != nil {
		return Policy{}, control.Translate(err)
	}
	version := in.ExpectedVersion + 1
	detail.PolicyVersion = version
	told, err := json.Marshal(detail)
	if err != nil {
		return Policy{}, control.Translate(err)
	}
	s.rights.Stamp(p, &row, "ACCEPTED", string(told))
	out, repeated, err := s.repeatedPolicy(ctx, p, in, 0, control.ReuseHistory)
	if err != nil {
		return Policy{}, err
	}
	if repeated {
		return out, s.loader.InForce(ctx)
	}
	stored, err := s.store.PutPolicy(ctx, store.StoredPolicy{
		TenantID: p.TenantID, Version: version, Doc: doc, Actor: p.ID, Reason: in.Reason, RequestID: in.RequestID,
	}, row)
	switch {
	case errors.Is(err, store.ErrConflict):
		if out, repeated, err = s.repeatedPolicy(ctx, p, in, version+1, 1); err == nil && !repeated {
			err = s.policyMoved(ctx, p.TenantID, in.ExpectedVersion)
		}
	case err == nil:
		out, err = policyOf(stored)
	}
	if err != nil {
		return Policy{}, control.Translate(err)
	}
	return out, s.loader.InForce(ctx)
}

// repeatedPolicy returns the version that an earlier identical request wrote, and false without one among the newest
// limit versions below before. Error: REQUEST_ID_CONFLICT, as control.CheckReuse.
func (s *Policies) repeatedPolicy(ctx context.Context, p authz.Principal, in SetPolicy, before int64,
	limit int) (Policy, bool, error) {
	rows, err := s.store.PolicyHistory(ctx, p.TenantID, before, limit)
	if err != nil {
		return Policy{}, false, control.Translate(err)
	}
	for _, row := range rows {
		if row.RequestID != in.RequestID || row.Actor != p.ID {
			continue
		}
		out, err := policyOf(row)
		if err != nil {
			return Policy{}, false, err
		}
		return out, true, control.CheckReuse(control.DocumentVersion{Version: out.Version, Document: out.Document},
			control.DocumentVersion{Version: in.ExpectedVersion + 1, Document: in.Document})
	}
	return Policy{}, false, nil
}

// policyMoved returns POLICY_MOVED with the newest version.
func (s *Policies) policyMoved(ctx context.Context, tenantID string, expected int64) error {
	newest, err := s.newestPolicy(ctx, tenantID)
	if err != nil {
		return err
	}
	e := control.Refuse(run.CodePolicyMoved, "The policy is at version %d, not %d. Look at it and decide again.",
		newest.Version, expected)
	e.PolicyVersion = newest.Version
	return e
}

// WhoCould asks who may do an action to a run, or in a project and environment.
type WhoCould struct {
	Action authz.Action
	RunID  string
	// ProjectID and EnvironmentID name the scope; both are "" with a run.
	ProjectID, EnvironmentID string
}

// WhoCould names at most ten principals of the caller's tenant that may do an action there. The principal that
// requested a run is left out for APPROVE and COMPLETE_MANUAL_STEP, and the principals that approved it for the latter,
// unless the policy allows it. A plan may lift that for one of its steps by `sod: false`. Principals that have decided
// about the run are left out for APPROVE. Errors: BAD_USER_INPUT, NOT_FOUND, FORBIDDEN without READ_POLICY there.
func (s *Policies) WhoCould(ctx context.Context, p authz.Principal, q WhoCould) ([]string, error) {
	if err := checkWhoCould(q); err != nil {
		return nil, err
	}
	row := store.AuditRow{Action: string(authz.ReadPolicy), RunID: q.RunID}
	if q.RunID == "" {
		object := authz.Object{TenantID: p.TenantID, ProjectID: q.ProjectID, EnvironmentID: q.EnvironmentID}
		if err := s.rights.MayOperateOn(ctx, p, row, object); err != nil {
			return nil, err
		}
		return s.rights.Authz.WhoCould(q.Action, object), nil
	}
	r, err := s.rights.GetVisible(ctx, p, authz.ReadPolicy, q.RunID)
	if err != nil {
		return nil, err
	}
	object := control.ObjectOf(r.Identity)
	if err := s.rights.MayOperateOn(ctx, p, row, object); err != nil {
		return nil, err
	}
	switch q.Action {
	case authz.Approve:
		could, _ := s.rights.WhoCouldApprove(object, r.TriggeredBy)
		known, err := s.store.ApprovalsOf(ctx, []string{q.RunID})
		for _, a := range known {
			could = slices.DeleteFunc(could, func(id string) bool {
				_, decided := a.DecisionBy(id)
				return decided
			})
		}
		return could, control.Translate(err)
	case authz.CompleteManual:
		approved, err := s.store.ApprovalsOf(ctx, []string{q.RunID})
		return s.rights.WhoCouldComplete(object, r.TriggeredBy, approversOf(approved)), control.Translate(err)
	}
	return s.rights.Authz.WhoCould(q.Action, object), nil
}

func approversOf(approvals []store.Approval) (out []string) {
	for _, a := range approvals {
		for _, d := range a.Decisions {
			if d.Approved {
				out = append(out, d.Principal)
			}
		}
	}
	return out
}

func checkWhoCould(q WhoCould) error {
	var vs []plan.Violation
	if !slices.Contains(authz.Actions(), q.Action) {
		vs = append(vs, plan.Violation{Path: "action", Code: "UNKNOWN", Message: "there is no such action"})
	}
	switch placed := q.ProjectID != "" || q.EnvironmentID != ""; {
	case q.RunID == "" && !placed, q.RunID != "" && placed:
		vs = append(vs, plan.Violation{Path: "runId", Code: "INVALID",
			Message: "give either a run, or a project and an environment"})
	case placed:
		vs = control.CheckID(control.CheckID(vs, "projectId", q.ProjectID), "environmentId", q.EnvironmentID)
	}
	if len(vs) > 0 {
		return control.BadInput(vs)
	}
	return nil
}
