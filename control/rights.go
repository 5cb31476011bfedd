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

// RightsConfig is what Rights stands on.
type RightsConfig struct {
	Authz *authz.Authorizer
	Store interface {
		RunStore
		TrailStore
	}
	// OperatorsTenant is the tenant whose principals may see and set what concerns all tenants; "": nobody may set it.
	OperatorsTenant string
	// Recheck is the longest time between two looks at a stream's rights; 60 s (T178).
	Recheck time.Duration
	Now     func() time.Time
	Metrics prometheus.Registerer // none when nil
	Logger  *slog.Logger
}

// Rights decides what principals may do and see, and audits what it denies. It is safe for concurrent use.
type Rights struct {
	*Trail
	Authz     *authz.Authorizer
	store     RunStore
	Operators string
	recheck   time.Duration
	Now       func() time.Time
}

// NewRights makes Rights.
func NewRights(cfg RightsConfig) *Rights {
	return &Rights{
		Trail: &Trail{
			authz: cfg.Authz, Store: cfg.Store, limiter: NewPerMinuteLimiter(cfg.Now),
			denials: newDenialCounter(cfg.Metrics), Log: cfg.Logger,
		},
		Authz: cfg.Authz, store: cfg.Store, Operators: cfg.OperatorsTenant, recheck: cmp.Or(cfg.Recheck, time.Minute),
		Now: cfg.Now,
	}
}

// Visible reads a run that p may read. One that does not exist, one of another
// tenant and one without a grant answer alike and leave the same trace in the
// caller's tenant, so that neither words nor audit nor time tell them apart (T101).
func (s *Rights) Visible(ctx context.Context, p authz.Principal, action authz.Action, runID string) (store.Run,
	error) {
	r, err := s.store.Get(ctx, runID)
	if err := s.CheckVisible(ctx, p, action, r.Identity, runID, err); err != nil {
		return store.Run{}, err
	}
	return r, nil
}

// CheckVisible judges what came of reading whose a run is.
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

// DenialError explains a FORBIDDEN to p. Of a place that p may not read it says no more than that: which
// role it takes there, and who has it, is as hidden as what is in it.
func (s *Rights) DenialError(p authz.Principal, a authz.Action, o authz.Object, d authz.Decision) *Error {
	e := Refuse(run.CodeForbidden, "%s needs the role %s on %s/%s.", a, d.RequiredRole, o.ProjectID, o.EnvironmentID)
	e.Denial = &Denial{Action: a, PolicyVersion: d.Policy}
	if p.TokenID+p.SessionID != "" && len(s.Authz.Grants(p)) == 0 {
		e.Message = "What you came with gives no rights any more: the token or the session has ended or was revoked, or " +
			"its rights were taken away."
		return e
	}
	switch whole := o.ProjectID == "*" && o.EnvironmentID == "*"; {
	case !whole && !s.MayRead(p, o.ProjectID, o.EnvironmentID):
		e.Message = fmt.Sprintf("You may not %s on %s/%s.", a, o.ProjectID, o.EnvironmentID)
		return e
	case d.RequiredRole == "":
		e.Message = fmt.Sprintf("No role may %s on %s/%s.", a, o.ProjectID, o.EnvironmentID)
	}
	e.Denial.Rule, e.Denial.WhoCould = d.Rule, s.Authz.WhoCould(a, o)
	return e
}

// IsInvolved is sameOne for a caller of whom it is known whether p asked for the run or approved it. A service counts
// as involved in every run: people would otherwise decide about their own runs by a token that they made.
func (s *Rights) IsInvolved(wanted, did bool, p authz.Principal) bool {
	sod := s.Authz.SOD(p.TenantID)
	return sod.CompleteManual && (wanted || sod.CompleteManualInEveryPlan) && (did || authz.IsService(p.ID))
}

// MayReadPayloads returns nil when p may read decrypted Temporal payloads of the runs of all tenants. The right is the
// action Debug on the whole tenant of the operators. FORBIDDEN for everybody else, recorded in the audit log; FORBIDDEN
// for everybody when no operators' tenant is set.
func (s *Rights) MayReadPayloads(ctx context.Context, p authz.Principal) error {
	if s.Operators == "" {
		return Refuse(run.CodeForbidden, "Nobody may read payloads here, because the setting operators-tenant is not set.")
	}
	return s.MaySeeInstallation(ctx, p)
}

// MayOperate decides about row.Action on the whole tenant, or on the place of the
// run that row names. A denial leaves the row.
func (s *Rights) MayOperate(ctx context.Context, p authz.Principal, row store.AuditRow) error {
	action := authz.Action(row.Action)
	object := authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"}
	if row.RunID != "" {
		r, err := s.Visible(ctx, p, action, row.RunID)
		if err != nil {
			return err
		}
		object = ObjectOf(r.Identity)
	}
	return s.MayOperateOn(ctx, p, row, object)
}

// MayOperateOn decides about row.Action on object. A denial leaves the row.
func (s *Rights) MayOperateOn(ctx context.Context, p authz.Principal, row store.AuditRow, object authz.Object) error {
	action := authz.Action(row.Action)
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

// MayObserve reports whether p may see what an installation measures of all tenants: FORBIDDEN without DEBUG on the
// whole tenant of the operators.
func (s *Rights) MayObserve(ctx context.Context, p authz.Principal) error {
	return s.MaySeeInstallation(ctx, p)
}

// MaySeeInstallation returns FORBIDDEN unless p may see the state of the installation.
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

// OthersWhoCould names who could do action to o beside one that separation of duties keeps from it.
func (s *Rights) OthersWhoCould(action authz.Action, o authz.Object, one string) []string {
	return slices.DeleteFunc(s.Authz.WhoCould(action, o), func(id string) bool { return id == one })
}

// ObjectOf returns the object of rights on a run.
func ObjectOf(id run.Identity) authz.Object {
	return authz.Object{TenantID: id.TenantID, ProjectID: id.ProjectID, EnvironmentID: id.EnvironmentID}
}

// NothingToReadError is why p sees no list, FORBIDDEN unless the policy cannot be read.
func (s *Rights) NothingToReadError(p authz.Principal) error {
	tenant := authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"}
	d, err := s.Authz.Decide(p, authz.Read, tenant)
	if err != nil {
		return Translate(err)
	}
	return s.DenialError(p, authz.Read, tenant, d)
}

// RightsChanged gives a channel that is closed when rights may have changed since.
func (s *Rights) RightsChanged() <-chan struct{} { return s.Authz.Changed() }

// CheckMaySetMode decides about what holds for other tenants: for the operators alone.
func (s *Rights) CheckMaySetMode(ctx context.Context, p authz.Principal, row store.AuditRow) error {
	ok, err := s.CanSetMode(p)
	if err != nil || ok {
		return Translate(err)
	}
	row.Code = run.CodeForbidden
	s.AuditDenied(ctx, p, row)
	e := Refuse(run.CodeForbidden, "This takes the action %s in the tenant of the operators.", authz.SetEngineMode)
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
