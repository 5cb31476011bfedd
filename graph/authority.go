package graph

import (
	"context"
	"strconv"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// RoleReads reads which principals have a right.
type RoleReads interface {
	// WhoCould returns at most ten principals of the tenant of p that have the right.
	WhoCould(ctx context.Context, p authz.Principal, q access.WhoCould) ([]string, error)
	// RightHolders names for each action whom p could ask to do it.
	RightHolders(ctx context.Context, p authz.Principal, actions []authz.Action) ([]access.RightHolders, error)
}

// PolicyService reads and changes the policy of a tenant.
type PolicyService interface {
	Policy(ctx context.Context, p authz.Principal) (access.Policy, error)
	PolicyHistory(ctx context.Context, p authz.Principal, first int, before int64) (access.PolicyPage, error)
	PreviewPolicy(ctx context.Context, p authz.Principal, doc authz.Document) (access.PolicyEffect, error)
	SetPolicy(ctx context.Context, p authz.Principal, in access.SetPolicy) (access.Policy, error)
	BreakGlass(ctx context.Context, p authz.Principal, in access.BreakGlass) (access.BreakGlassGrant, error)
	// EndBreakGlass returns the policy without the roles that p took by break-glass.
	EndBreakGlass(ctx context.Context, p authz.Principal, requestID string) (access.Policy, error)
}

// TokenService creates, revokes and lists API tokens.
type TokenService interface {
	CreateToken(ctx context.Context, p authz.Principal, in access.CreateToken) (access.CreatedToken, error)
	RevokeToken(ctx context.Context, p authz.Principal, in access.RevokeToken) (access.RevokedToken, error)
	Tokens(ctx context.Context, p authz.Principal, q access.TokensQuery) (access.TokensPage, error)
}

func (q queries) Policy(ctx context.Context) (*model.Policy, error) {
	p, err := q.control.Policy(ctx, principal(ctx))
	if err != nil {
		return nil, err
	}
	return mapping.Policy(p), nil
}

func (q queries) PolicyHistory(ctx context.Context, first *int, after *string) (*model.PolicyConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	before, err := versionCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.PolicyHistory(ctx, principal(ctx), mapping.OrZero(first), before)
	if err != nil {
		return nil, err
	}
	return mapping.Policies(page, before != 0), nil
}

// versionCursor decodes the version after which a page starts; 0 is the first page. Its error is CURSOR_INVALID.
func versionCursor(after *string) (int64, error) {
	text, err := mapping.DecodeCursor(after)
	if err != nil || text == "" {
		return 0, err
	}
	version, err := strconv.ParseInt(text, 10, 64)
	if err != nil || version < 1 {
		return 0, refuse(run.CodeCursorInvalid, "This cursor cannot be read. Start from the first page.")
	}
	return version, nil
}

func (q queries) PreviewPolicy(ctx context.Context, doc model.PolicyInput) (*model.ChangePreview, error) {
	effect, err := q.control.PreviewPolicy(ctx, principal(ctx), mapping.DocumentOf(doc))
	if err != nil {
		return nil, err
	}
	return mapping.ChangePreview(effect.Changed, effect.Warnings), nil
}

func (q queries) WhoCould(ctx context.Context, action string, runID, projectID, environmentID *string) ([]string,
	error) {
	names, err := q.control.WhoCould(ctx, principal(ctx), access.WhoCould{
		Action: authz.Action(action), RunID: mapping.OrZero(runID), ProjectID: mapping.OrZero(projectID),
		EnvironmentID: mapping.OrZero(environmentID),
	})
	if err != nil {
		return nil, err
	}
	return mapping.List(names), nil
}

func (q queries) RightHolders(ctx context.Context, actions []model.Action) ([]model.RightHolders, error) {
	list, err := q.control.RightHolders(ctx, principal(ctx), mapping.MapSlice(actions,
		func(a model.Action) authz.Action { return authz.Action(a) }))
	return mapping.MapSlice(list, func(h access.RightHolders) model.RightHolders {
		return model.RightHolders{Action: model.Action(h.Action), Needs: mapping.Optional(h.Needs),
			Names: mapping.List(h.Names), More: h.More}
	}), err
}

func (q queries) Tokens(ctx context.Context, all, live *bool, first *int, after *string) (*model.TokenConnection,
	error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	id, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.Tokens(ctx, principal(ctx), access.TokensQuery{All: mapping.OrZero(all),
		Live:  mapping.OrZero(live),
		First: mapping.OrZero(first), After: id})
	if err != nil {
		return nil, err
	}
	return mapping.Tokens(page, id != ""), nil
}

func (m mutations) SetPolicy(ctx context.Context, in model.SetPolicyInput) (*model.SetPolicyPayload, error) {
	p, err := m.control.SetPolicy(ctx, principal(ctx), access.SetPolicy{
		RequestID: in.RequestID, ExpectedVersion: int64(in.ExpectedVersion), Document: mapping.DocumentOf(*in.Document),
		Reason: in.Reason,
	})
	if err != nil {
		return nil, err
	}
	return &model.SetPolicyPayload{Policy: mapping.Policy(p), Change: policyChange(authz.SetPolicy, p),
		Effect: mapping.ChangePreview(p.Changed, p.Warnings)}, nil
}

func (m mutations) BreakGlass(ctx context.Context, in model.BreakGlassInput) (*model.BreakGlassPayload, error) {
	b, err := m.control.BreakGlass(ctx, principal(ctx), access.BreakGlass{
		RequestID: in.RequestID, Role: authz.Role(in.Role), Minutes: in.Minutes, Reason: in.Reason,
	})
	if err != nil {
		return nil, err
	}
	return &model.BreakGlassPayload{Role: model.Role(b.Role), Until: b.Until, PolicyVersion: int(b.PolicyVersion),
		Change: mapping.Change(control.Change{Action: string(control.ActionBreakGlass), RequestID: in.RequestID,
			Actor: principal(ctx).ID, At: b.At, Version: b.PolicyVersion})}, nil
}

// policyChange returns the receipt of the change that made a version of the policy.
func policyChange(action authz.Action, p access.Policy) *model.ChangeReceipt {
	return mapping.Change(control.Change{Action: string(action), RequestID: p.RequestID, Actor: p.Actor, At: p.At,
		Version: p.Version})
}

func (m mutations) EndBreakGlass(ctx context.Context, in model.EndBreakGlassInput) (*model.EndBreakGlassPayload,
	error) {
	p := principal(ctx)
	policy, err := m.control.EndBreakGlass(ctx, p, in.RequestID)
	if err != nil {
		return nil, err
	}
	out := &model.EndBreakGlassPayload{PolicyVersion: int(policy.Version)}
	if policy.RequestID == in.RequestID && policy.Actor == p.ID {
		out.Change = policyChange(control.ActionEndBreakGlass, policy)
	}
	return out, nil
}

func (m mutations) CreateToken(ctx context.Context, in model.CreateTokenInput) (*model.CreateTokenPayload, error) {
	t, err := m.control.CreateToken(ctx, principal(ctx), access.CreateToken{
		RequestID: in.RequestID, Name: in.Name, Service: mapping.OrZero(in.Service), ExpiresAt: mapping.OrZero(in.ExpiresAt),
		Grants: mapping.MapSlice(in.Grants, func(g model.TokenGrantInput) authz.Grant {
			return authz.Grant{Role: authz.Role(g.Role), ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID}
		}),
	})
	if err != nil {
		return nil, err
	}
	return &model.CreateTokenPayload{Token: mapping.Token(t.Token), Secret: mapping.Text(t.Secret),
		Change: mapping.Change(control.Change{Action: string(authz.CreateToken), RequestID: in.RequestID,
			Actor: t.Token.CreatedBy, At: t.Token.CreatedAt})}, nil
}

func (m mutations) RevokeToken(ctx context.Context, in model.RevokeTokenInput) (*model.RevokeTokenPayload, error) {
	t, err := m.control.RevokeToken(ctx, principal(ctx), access.RevokeToken{RequestID: in.RequestID, ID: in.TokenID,
		Reason: in.Reason})
	if err != nil {
		return nil, err
	}
	out := &model.RevokeTokenPayload{Token: mapping.Token(t.Token)}
	if t.First && t.RevokedAt != nil {
		out.Change = mapping.Change(control.Change{Action: control.ActionRevokeToken, RequestID: in.RequestID,
			Actor: t.RevokedBy, At: *t.RevokedAt})
	}
	return out, nil
}
