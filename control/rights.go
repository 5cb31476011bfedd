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
	authz     *authz.Authorizer
	store     RunStore
	operators string
	recheck   time.Duration
	now       func() time.Time
}

// NewRights makes Rights.
func NewRights(cfg RightsConfig) *Rights {
	return &Rights{
		Trail: &Trail{
			authz: cfg.Authz, store: cfg.Store, limiter: newPerMinuteLimiter(cfg.Now),
			denials: newDenialCounter(cfg.Metrics), log: cfg.Logger,
		},
		authz: cfg.Authz, store: cfg.Store, operators: cfg.OperatorsTenant, recheck: cmp.Or(cfg.Recheck, time.Minute),
		now: cfg.Now,
	}
}

// visible reads a run that p may read. One that does not exist, one of another
// tenant and one without a grant answer alike and leave the same trace in the
// caller's tenant, so that neither words nor audit nor time tell them apart (T101).
func (s *Rights) visible(ctx context.Context, p authz.Principal, action authz.Action, runID string) (store.Run,
	error) {
	r, err := s.store.Get(ctx, runID)
	if err := s.checkVisible(ctx, p, action, r.Identity, runID, err); err != nil {
		return store.Run{}, err
	}
	return r, nil
}

// checkVisible judges what came of reading whose a run is.
func (s *Rights) checkVisible(ctx context.Context, p authz.Principal, action authz.Action, id run.Identity,
	runID string,
	err error) error {
	if err == nil {
		var d authz.Decision
		if d, err = s.authz.Decide(p, authz.Read, objectOf(id)); d.Allowed {
			return nil
		}
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return translate(err)
	}
	s.auditDenied(ctx, p, store.AuditRow{Action: string(action), RunID: runID, Code: run.CodeNotFound})
	return runNotFound()
}

// denialError explains a FORBIDDEN to p. Of a place that p may not read it says no more than that: which
// role it takes there, and who has it, is as hidden as what is in it.
func (s *Rights) denialError(p authz.Principal, a authz.Action, o authz.Object, d authz.Decision) *Error {
	e := refuse(run.CodeForbidden, "%s needs the role %s on %s/%s.", a, d.RequiredRole, o.ProjectID, o.EnvironmentID)
	e.Denial = &Denial{Action: a, PolicyVersion: d.Policy}
	if p.TokenID+p.SessionID != "" && len(s.authz.Grants(p)) == 0 {
		e.Message = "What you came with gives no rights any more: the token or the session has ended or was revoked, or " +
			"its rights were taken away."
		return e
	}
	switch whole := o.ProjectID == "*" && o.EnvironmentID == "*"; {
	case !whole && !s.mayRead(p, o.ProjectID, o.EnvironmentID):
		e.Message = fmt.Sprintf("You may not %s on %s/%s.", a, o.ProjectID, o.EnvironmentID)
		return e
	case d.RequiredRole == "":
		e.Message = fmt.Sprintf("No role may %s on %s/%s.", a, o.ProjectID, o.EnvironmentID)
	}
	e.Denial.Rule, e.Denial.WhoCould = d.Rule, s.authz.WhoCould(a, o)
	return e
}

// isInvolved is sameOne for a caller of whom it is known whether p asked for the run or approved it. A service counts
// as involved in every run: people would otherwise decide about their own runs by a token that they made.
func (s *Rights) isInvolved(wanted, did bool, p authz.Principal) bool {
	sod := s.authz.SOD(p.TenantID)
	return sod.CompleteManual && (wanted || sod.CompleteManualInEveryPlan) && (did || authz.IsService(p.ID))
}

// MayReadPayloads returns nil when p may read decrypted Temporal payloads of the runs of all tenants. The right is the
// action Debug on the whole tenant of the operators. FORBIDDEN for everybody else, recorded in the audit log; FORBIDDEN
// for everybody when no operators' tenant is set.
func (s *Rights) MayReadPayloads(ctx context.Context, p authz.Principal) error {
	if s.operators == "" {
		return refuse(run.CodeForbidden, "Nobody may read payloads here, because the setting operators-tenant is not set.")
	}
	return s.maySeeInstallation(ctx, p)
}

// mayOperate decides about row.Action on the whole tenant, or on the place of the
// run that row names. A denial leaves the row.
func (s *Rights) mayOperate(ctx context.Context, p authz.Principal, row store.AuditRow) error {
	action := authz.Action(row.Action)
	object := authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"}
	if row.RunID != "" {
		r, err := s.visible(ctx, p, action, row.RunID)
		if err != nil {
			return err
		}
		object = objectOf(r.Identity)
	}
	return s.mayOperateOn(ctx, p, row, object)
}

// mayOperateOn decides about row.Action on object. A denial leaves the row.
func (s *Rights) mayOperateOn(ctx context.Context, p authz.Principal, row store.AuditRow, object authz.Object) error {
	action := authz.Action(row.Action)
	d, err := s.authz.Decide(p, action, object)
	if err != nil {
		return translate(err)
	}
	if !d.Allowed {
		row.Code = run.CodeForbidden
		s.auditDenied(ctx, p, row)
		return s.denialError(p, action, object, d)
	}
	return nil
}

// MayObserve reports whether p may see what an installation measures of all tenants: FORBIDDEN without DEBUG on the
// whole tenant of the operators.
func (s *Rights) MayObserve(ctx context.Context, p authz.Principal) error {
	return s.maySeeInstallation(ctx, p)
}

func (s *Rights) maySeeInstallation(ctx context.Context, p authz.Principal) error {
	row := store.AuditRow{Action: string(authz.Debug)}
	if err := s.mayOperate(ctx, p, row); err != nil {
		return err
	}
	if s.operators == "" || p.TenantID == s.operators {
		return nil
	}
	row.Code = run.CodeForbidden
	s.auditDenied(ctx, p, row)
	e := refuse(run.CodeForbidden, "The details of the installation are for its operators.")
	e.Denial = &Denial{Action: authz.Debug, PolicyVersion: s.authz.PolicyVersion(p.TenantID)}
	return e
}

// othersWhoCould names who could do action to o beside one that separation of duties keeps from it.
func (s *Rights) othersWhoCould(action authz.Action, o authz.Object, one string) []string {
	return slices.DeleteFunc(s.authz.WhoCould(action, o), func(id string) bool { return id == one })
}

func objectOf(id run.Identity) authz.Object {
	return authz.Object{TenantID: id.TenantID, ProjectID: id.ProjectID, EnvironmentID: id.EnvironmentID}
}

// nothingToReadError is why p sees no list, FORBIDDEN unless the policy cannot be read.
func (s *Rights) nothingToReadError(p authz.Principal) error {
	tenant := authz.Object{TenantID: p.TenantID, ProjectID: "*", EnvironmentID: "*"}
	d, err := s.authz.Decide(p, authz.Read, tenant)
	if err != nil {
		return translate(err)
	}
	return s.denialError(p, authz.Read, tenant, d)
}

// RightsChanged gives a channel that is closed when rights may have changed since.
func (s *Rights) RightsChanged() <-chan struct{} { return s.authz.Changed() }

// checkMaySetMode decides about what holds for other tenants: for the operators alone.
func (s *Rights) checkMaySetMode(ctx context.Context, p authz.Principal, row store.AuditRow) error {
	ok, err := s.canSetMode(p)
	if err != nil || ok {
		return translate(err)
	}
	row.Code = run.CodeForbidden
	s.auditDenied(ctx, p, row)
	e := refuse(run.CodeForbidden, "This takes the action %s in the tenant of the operators.", authz.SetEngineMode)
	e.Denial = &Denial{Action: authz.SetEngineMode, PolicyVersion: s.authz.PolicyVersion(p.TenantID)}
	return e
}

// canSetMode reports whether p is an operator of the installation. It does no I/O.
func (s *Rights) canSetMode(p authz.Principal) (bool, error) {
	if s.operators == "" || p.TenantID != s.operators {
		return false, nil
	}
	d, err := s.authz.Decide(p, authz.SetEngineMode, authz.Object{TenantID: p.TenantID, ProjectID: "*",
		EnvironmentID: "*"})
	return d.Allowed, err
}
