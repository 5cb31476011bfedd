package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// RightsConfig holds the dependencies and settings of Rights.
type RightsConfig struct {
	Authz *authz.Authorizer
	Store interface {
		RunStore
		TrailStore
	}
	// OperatorsTenant is the tenant whose principals may see and set what concerns all tenants. When it is "", nobody
	// may.
	OperatorsTenant string
	// CheckInterval is the maximum time between two checks of a stream's rights; the default is 60 s (contract T178).
	CheckInterval time.Duration
	Now           func() time.Time
	Metrics       prometheus.Registerer // nil registers no metrics
	Logger        *slog.Logger
}

// Rights decides what principals may do and see, and audits what it denies. It is safe for concurrent use.
type Rights struct {
	*Trail
	Authz         *authz.Authorizer
	store         RunStore
	Operators     string
	checkInterval time.Duration
	Now           func() time.Time
}

// NewRights makes Rights.
func NewRights(cfg RightsConfig) *Rights {
	return &Rights{
		Trail: &Trail{
			authz: cfg.Authz, Store: cfg.Store, limiter: NewPerMinuteLimiter(cfg.Now),
			denials: newDenialCounter(cfg.Metrics), Log: cfg.Logger,
		},
		Authz: cfg.Authz, store: cfg.Store, Operators: cfg.OperatorsTenant, checkInterval: cmp.Or(cfg.CheckInterval,
			time.Minute),
		Now: cfg.Now,
	}
}

// GetVisible reads a run that p may read. A run that does not exist, a run of another tenant and a run without a grant
// give the same NOT_FOUND and the same audit row in the caller's tenant, so that neither the text, the audit nor the
// time tells them apart (contract T101). action is the action that the audit row names.
func (s *Rights) GetVisible(ctx context.Context, p authz.Principal, action authz.Action, runID string) (store.Run,
	error) {
	r, err := s.store.Get(ctx, runID)
	if err := s.CheckVisible(ctx, p, action, r.Identity, runID, err); err != nil {
		return store.Run{}, err
	}
	return r, nil
}

// CheckVisible decides whether p may see a run whose identity was read with the result err. It returns the errors of
// GetVisible and audits a denial in the same way.
func (s *Rights) CheckVisible(ctx context.Context, p authz.Principal, action authz.Action, id run.Identity,
	runID string,
	err error) error {
	if err == nil {
		var d authz.Decision
		if d, err = s.Authz.Decide(p, authz.Read, ObjectOf(id)); d.Allowed {
			return nil
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Translate(err)
	}
	s.AuditDenied(ctx, p, store.AuditRow{Action: string(action), RunID: runID, Code: run.CodeNotFound})
	return RunNotFound()
}

// DenialError returns the FORBIDDEN that explains d to p. When p may not read the scope of o, the error names neither
// the role that a needs there nor who has it: both are as secret as the runs of that scope.
func (s *Rights) DenialError(p authz.Principal, a authz.Action, o authz.Object, d authz.Decision) *Error {
	e := Refuse(run.CodeForbidden, "%s", authz.NeedsRole(d.RequiredRole, a, o))
	e.Denial = &Denial{Action: a, PolicyVersion: d.Policy}
	if p.TokenID+p.SessionID != "" && len(s.Authz.Grants(p)) == 0 {
		e.Message = "Your token or session gives no rights any more: it has ended or was revoked, or its rights were " +
			"taken away."
		return e
	}
	switch whole := o.ProjectID == "*" && o.EnvironmentID == "*"; {
	case !whole && !s.MayRead(p, o.ProjectID, o.EnvironmentID):
		e.Message = fmt.Sprintf("You may not %s on %s.", a.Words(), o.Words())
		return e
	case d.RequiredRole == "":
		e.Message = fmt.Sprintf("No role allows anybody to %s on %s.", a.Words(), o.Words())
	}
	e.Denial.Rule, e.Denial.WhoCould = d.Rule, s.Authz.WhoCould(a, o)
	return e
}

// IsInvolved reports whether separation of duties keeps p from completing a step. wanted says that the step asks for
// another person; did says that p asked for the run or approved it. A service counts as involved in every run:
// otherwise people could decide about their own runs with a token that they made.
func (s *Rights) IsInvolved(wanted, did bool, p authz.Principal) bool {
	sod := s.Authz.SOD(p.TenantID)
	return sod.CompleteManual && (wanted || sod.CompleteManualInEveryPlan) && (did || authz.IsService(p.ID))
}

// MayReadPayloads returns nil when p may read decrypted Temporal payloads of the runs of all tenants. The right is the
// action Debug on the whole tenant of the operators. FORBIDDEN for everybody else, recorded in the audit; FORBIDDEN
// for everybody when no operators' tenant is set.
func (s *Rights) MayReadPayloads(ctx context.Context, p authz.Principal) error {
	if s.Operators == "" {
		return Refuse(run.CodeForbidden, "Nobody may read payloads here, because the setting operators-tenant is not set.")
	}
	return s.MaySeeInstallation(ctx, p)
}

// MayOperate decides about row.Action on the scope of the run that row names, or on the whole tenant when row names
// none. It writes row to the audit when the action is denied. Errors: NOT_FOUND for a run that p may not see,
// FORBIDDEN.
func (s *Rights) MayOperate(ctx context.Context, p authz.Principal, row store.AuditRow) error {
	action := authz.Action(row.Action)
	object := authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"}
	if row.RunID != "" {
		r, err := s.GetVisible(ctx, p, action, row.RunID)
		if err != nil {
			return err
		}
		object = ObjectOf(r.Identity)
	}
	return s.MayOperateOn(ctx, p, row, object)
}

// MayOperateOn decides about row.Action on object. It returns FORBIDDEN and writes row to the audit when the action is
// denied.
func (s *Rights) MayOperateOn(ctx context.Context, p authz.Principal, row store.AuditRow, object authz.Object) error {
	return s.MayOperateAs(ctx, p, authz.Action(row.Action), row, object)
}

// MayOperateAs is MayOperateOn for a change that needs the right to action and has a name of its own in the audit.
func (s *Rights) MayOperateAs(ctx context.Context, p authz.Principal, action authz.Action, row store.AuditRow,
	object authz.Object) error {
	d, err := s.Authz.Decide(p, action, object)
	if err != nil {
		return Translate(err)
	}
	if !d.Allowed {
		row.Code = run.CodeForbidden
		s.AuditDenied(ctx, p, row)
		return s.DenialError(p, action, object, d)
	}
	return nil
}

// MayObserve returns nil when p may see metrics of the installation, which cover all tenants. It returns FORBIDDEN
// unless p may DEBUG the whole tenant of the operators.
func (s *Rights) MayObserve(ctx context.Context, p authz.Principal) error {
	return s.MaySeeInstallation(ctx, p)
}

// MaySeeInstallation returns FORBIDDEN unless p may see the state of the installation. Without an operators' tenant,
// the right to DEBUG the whole of its own tenant is enough. A denial is audited.
func (s *Rights) MaySeeInstallation(ctx context.Context, p authz.Principal) error {
	row := store.AuditRow{Action: string(authz.Debug)}
	if err := s.MayOperate(ctx, p, row); err != nil {
		return err
	}
	if s.Operators == "" || p.TenantID == s.Operators {
		return nil
	}
	row.Code = run.CodeForbidden
	s.AuditDenied(ctx, p, row)
	e := Refuse(run.CodeForbidden, "The details of the installation are for its operators.")
	e.Denial = &Denial{Action: authz.Debug, PolicyVersion: s.Authz.PolicyVersion(p.TenantID)}
	return e
}

// CanSeeInstallation reports whether MaySeeInstallation would return nil. It does no I/O and audits nothing.
func (s *Rights) CanSeeInstallation(p authz.Principal) bool {
	if s.Operators != "" && p.TenantID != s.Operators {
		return false
	}
	d, err := s.Authz.Decide(p, authz.Debug, authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"})
	return err == nil && d.Allowed
}

// OthersWhoCould names the principals that may do action to o, without those whom separation of duties excludes.
func (s *Rights) OthersWhoCould(action authz.Action, o authz.Object, excluded func(id string) bool) []string {
	return slices.DeleteFunc(s.Authz.WhoCould(action, o), excluded)
}

// WhoCouldApprove names principals that may decide about a run of the requester, without those whom separation of
// duties excludes. It reports whether the list was cut, so that there may be more.
func (s *Rights) WhoCouldApprove(o authz.Object, requester string) (could []string, cut bool) {
	could = s.Authz.WhoCould(authz.Approve, o)
	cut = len(could) == authz.MaxWhoCould
	if s.Authz.SOD(o.TenantID).Approve {
		could = slices.DeleteFunc(could, func(id string) bool { return id == requester || authz.IsService(id) })
	}
	return could, cut
}

// WhoCouldComplete names principals that may complete a manual step of a run, without those whom separation of duties
// excludes from a step that asks for another person: the requester, those who approved the run, and services.
func (s *Rights) WhoCouldComplete(o authz.Object, requester string, approvers []string) []string {
	return s.OthersWhoCould(authz.CompleteManual, o, func(id string) bool {
		did := id == requester || slices.Contains(approvers, id)
		return s.IsInvolved(true, did, authz.Principal{ID: id, TenantID: o.TenantID})
	})
}

// WithPolicy returns Rights that decide as s would if doc, which is valid, were the policy of the tenant.
func (s *Rights) WithPolicy(tenantID string, doc authz.Document) (*Rights, error) {
	a, err := s.Authz.WithPolicy(tenantID, doc)
	if err != nil {
		return nil, err
	}
	out := *s
	out.Authz = a
	return &out, nil
}

// ObjectOf returns the authorisation object of a run: its tenant, project and environment.
func ObjectOf(id run.Identity) authz.Object {
	return authz.Object{TenantID: id.TenantID, ProjectID: id.ProjectID, EnvironmentID: id.EnvironmentID}
}

// NothingToReadError returns the error for a p that may read no project: FORBIDDEN, or UNAVAILABLE when the policy
// cannot be read.
func (s *Rights) NothingToReadError(p authz.Principal) error {
	tenant := authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"}
	d, err := s.Authz.Decide(p, authz.Read, tenant)
	if err != nil {
		return Translate(err)
	}
	return s.DenialError(p, authz.Read, tenant, d)
}

// RightsChanged returns a channel that is closed when rights may have changed after this call.
func (s *Rights) RightsChanged() <-chan struct{} { return s.Authz.Changed() }

// CheckMaySetMode returns FORBIDDEN unless p may set modes that affect other tenants, which only operators may. what
// names the change in the refusal, such as "change the mode". It writes row to the audit when it denies.
func (s *Rights) CheckMaySetMode(ctx context.Context, p authz.Principal, row store.AuditRow, what string) error {
	ok, err := s.CanSetMode(p)
	if err != nil || ok {
		return Translate(err)
	}
	row.Code = run.CodeForbidden
	s.AuditDenied(ctx, p, row)
	e := Refuse(run.CodeForbidden, "Only an SRE of the operators' tenant can %s.", what)
	e.Denial = &Denial{Action: authz.SetEngineMode, PolicyVersion: s.Authz.PolicyVersion(p.TenantID)}
	return e
}

// CanSetMode reports whether p is an operator of the installation. It does no I/O.
func (s *Rights) CanSetMode(p authz.Principal) (bool, error) {
	if s.Operators == "" || p.TenantID != s.Operators {
		return false, nil
	}
	d, err := s.Authz.Decide(p, authz.SetEngineMode, authz.Object{TenantID: p.TenantID, ProjectID: "*",
		EnvironmentID: "*"})
	return d.Allowed, err
}
