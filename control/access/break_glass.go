package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// BreakGlass asks for a role on the whole tenant for a number of minutes.
type BreakGlass struct {
	RequestID string
	Role      authz.Role
	Minutes   int
	Reason    string
}

// BreakGlassGrant is a role that break-glass granted.
type BreakGlassGrant struct {
	Role          authz.Role
	Until         time.Time
	PolicyVersion int64
	At            time.Time // of the change
}

// breakTries bounds the tries when others change the policy at the same time.
const breakTries = 5

// BreakGlass gives the caller a role for a limited time, if the policy names the caller for it. It writes a new version
// of the policy with a grant that expires. It is safe to repeat. Errors: BAD_USER_INPUT; REQUEST_ID_CONFLICT;
// UNAVAILABLE when the policy keeps changing; FORBIDDEN for all other callers and for API tokens, because an emergency
// needs a person.
func (s *Policies) BreakGlass(ctx context.Context, p authz.Principal, in BreakGlass) (BreakGlassGrant, error) {
	row := store.AuditRow{Action: string(control.ActionBreakGlass), Reason: control.Clip(in.Reason),
		RequestID: in.RequestID}
	vs := control.CheckReason(control.CheckID(nil, "requestId", in.RequestID), in.Reason)
	if in.Minutes < 1 {
		vs = append(vs, plan.Violation{Path: "minutes", Code: "RANGE", Message: "must be at least 1"})
	}
	if len(vs) > 0 {
		return BreakGlassGrant{}, control.BadInput(vs)
	}
	for range breakTries {
		out, err := s.breakGlass(ctx, p, in, row)
		if own := (*control.Error)(nil); !errors.As(err, &own) || own.Code != run.CodePolicyMoved {
			return out, err
		}
	}
	return BreakGlassGrant{}, policyKeepsMoving()
}

func (s *Policies) breakGlass(ctx context.Context, p authz.Principal, in BreakGlass,
	row store.AuditRow) (BreakGlassGrant,
	error) {
	newest, err := s.store.PolicyHistory(ctx, p.TenantID, 0, 20)
	if err != nil {
		return BreakGlassGrant{}, control.Translate(err)
	}
	for _, old := range newest {
		if old.RequestID == in.RequestID && old.Actor == p.ID {
			return s.repeatedBreakGlass(ctx, p, in, old)
		}
	}
	var now Policy
	if len(newest) > 0 {
		if now, err = policyOf(newest[0]); err != nil {
			return BreakGlassGrant{}, err
		}
	}
	if err := s.mayBreak(ctx, p, in, now, row); err != nil {
		return BreakGlassGrant{}, err
	}
	at := s.rights.Now().UTC()
	until := at.Add(time.Duration(in.Minutes) * time.Minute).Truncate(time.Second)
	doc := now.Document
	doc.Grants = slices.DeleteFunc(slices.Clone(doc.Grants), func(g authz.PrincipalGrant) bool {
		return g.BreakGlass && (g.ExpiresAt == nil || at.After(*g.ExpiresAt) || g.Principal == p.ID && g.Role == in.Role)
	})
	doc.Grants = append(doc.Grants, authz.PrincipalGrant{
		Principal: p.ID, Role: in.Role, ProjectID: "*", EnvironmentID: "*", ExpiresAt: &until, BreakGlass: true,
	})
	made, err := s.putPolicy(ctx, p, SetPolicy{RequestID: in.RequestID, ExpectedVersion: now.Version, Document: doc,
		Reason: in.Reason}, row, policyDetail{Role: in.Role, Minutes: in.Minutes, Until: &until})
	if made.Version == 0 {
		return BreakGlassGrant{}, err
	}
	s.rights.Log.WarnContext(ctx, "break-glass: a principal took a role", slog.String("tenantId", p.TenantID),
		slog.String("principal", p.ID),
		slog.String("role", string(in.Role)), slog.Time("until", until), slog.String("reason", in.Reason))
	return BreakGlassGrant{Role: in.Role, Until: until, PolicyVersion: made.Version, At: made.At}, err
}

// EndBreakGlass takes back the roles that the caller took by break-glass and returns the policy without them. Giving up
// a role needs no right. Without such a role it changes nothing, so it is safe to repeat. Errors:
// BAD_USER_INPUT; UNAVAILABLE when the policy keeps changing; FORBIDDEN for API tokens, so that a program cannot end
// what a person relies on.
func (s *Policies) EndBreakGlass(ctx context.Context, p authz.Principal, requestID string) (Policy, error) {
	row := store.AuditRow{Action: string(control.ActionEndBreakGlass), RequestID: requestID, Code: run.CodeForbidden}
	if vs := control.CheckID(nil, "requestId", requestID); len(vs) > 0 {
		return Policy{}, control.BadInput(vs)
	}
	if p.TokenID != "" {
		s.rights.AuditDenied(ctx, p, row)
		return Policy{}, control.Refuse(run.CodeForbidden, "An API token cannot end break-glass. Sign in as yourself.")
	}
	row.Code = ""
	for range breakTries {
		now, err := s.newestPolicy(ctx, p.TenantID)
		if err != nil {
			return Policy{}, err
		}
		doc, ended := now.Document, policyDetail{}
		doc.Grants = slices.DeleteFunc(slices.Clone(doc.Grants), func(g authz.PrincipalGrant) bool {
			is := g.BreakGlass && g.Principal == p.ID
			if is {
				ended.Role, ended.Until = g.Role, g.ExpiresAt
			}
			return is
		})
		if len(doc.Grants) == len(now.Document.Grants) {
			return now, s.loader.InForce(ctx)
		}
		made, err := s.putPolicy(ctx, p, SetPolicy{RequestID: requestID, ExpectedVersion: now.Version, Document: doc,
			Reason: "break-glass ended by its holder"}, row, ended)
		if own := (*control.Error)(nil); !errors.As(err, &own) || own.Code != run.CodePolicyMoved {
			return made, err
		}
	}
	return Policy{}, policyKeepsMoving()
}

// policyKeepsMoving is the refusal of a change that met another change of the policy in each of its tries.
func policyKeepsMoving() error {
	e := control.Refuse(run.CodeUnavailable, "Others changed the policy during every try. Try again.")
	e.RetryAfter = time.Second
	return e
}

// repeatedBreakGlass answers a repeated request with the grant that the first one made.
func (s *Policies) repeatedBreakGlass(ctx context.Context, p authz.Principal, in BreakGlass,
	old store.StoredPolicy) (BreakGlassGrant, error) {
	was, err := policyOf(old)
	if err != nil {
		return BreakGlassGrant{}, err
	}
	for _, g := range was.Document.Grants {
		if g.BreakGlass && g.Principal == p.ID && g.Role == in.Role && g.ExpiresAt != nil {
			return BreakGlassGrant{Role: g.Role, Until: *g.ExpiresAt, PolicyVersion: was.Version,
				At: was.At}, s.loader.InForce(ctx)
		}
	}
	return BreakGlassGrant{}, control.Refuse(run.CodeRequestConflict, "This requestId was used for another change.")
}

// mayBreak returns nil when the policy has an entry for the caller and the role.
func (s *Policies) mayBreak(ctx context.Context, p authz.Principal, in BreakGlass, now Policy,
	row store.AuditRow) error {
	var could []string
	most := 0
	for _, b := range now.Document.BreakGlass {
		if b.Role != in.Role {
			continue
		}
		if len(could) < 10 {
			could = append(could, b.Principal)
		}
		if b.Principal == p.ID {
			most = b.MaxMinutes
		}
	}
	if p.TokenID == "" && most > 0 && in.Minutes > most {
		return s.rights.AuditRefused(
			ctx, p, row, control.BadInput(
				[]plan.Violation{{Path: "minutes", Code: "RANGE", Message: fmt.Sprintf("must be at most %d", most)}}))
	}
	if p.TokenID == "" && most > 0 {
		return nil
	}
	row.Code = run.CodeForbidden
	s.rights.AuditDenied(ctx, p, row)
	e := control.Refuse(run.CodeForbidden, "The policy does not let you take the %s role.", in.Role.Word())
	if p.TokenID != "" {
		e.Message = "An API token cannot take a role. Sign in as yourself."
	}
	e.Denial = &control.Denial{Action: control.ActionBreakGlass, WhoCould: could, PolicyVersion: now.Version}
	return e
}
