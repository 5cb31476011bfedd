package mapping

import (
	"strconv"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/plan"
)

// Policy maps one version of a policy with its document.
func Policy(p access.Policy) *model.Policy {
	doc, rules := p.Document, p.Document.Rules
	if rules == nil {
		rules = authz.DefaultPolicy()
	}
	return &model.Policy{
		Version: int(p.Version), DefaultRules: doc.Rules == nil, Changed: append([]string{}, p.Changed...),
		OnlyBreakGlass: p.OnlyBreakGlass,
		Rules: MapSlice(rules, func(r authz.Rule) model.PolicyRule {
			return model.PolicyRule{Role: string(r.Role), Action: string(r.Action), ProjectID: r.ProjectID,
				EnvironmentID: r.EnvironmentID}
		}),
		Grants: MapSlice(doc.Grants, func(g authz.PrincipalGrant) model.PolicyGrant {
			return model.PolicyGrant{
				Principal: g.Principal, Role: string(g.Role), ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID,
				ExpiresAt: g.ExpiresAt, BreakGlass: g.BreakGlass,
			}
		}),
		Sod: &model.PolicySod{
			Approve: doc.SOD.Approve, CompleteManual: doc.SOD.CompleteManual,
			CompleteManualInEveryPlan: doc.SOD.CompleteManualInEveryPlan,
		},
		Approvals: MapSlice(doc.Approvals, func(a authz.Approval) model.PolicyApproval {
			return model.PolicyApproval{ProjectID: a.ProjectID, EnvironmentID: a.EnvironmentID, Required: a.Required}
		}),
		BreakGlass: MapSlice(doc.BreakGlass, func(b authz.BreakGlass) model.PolicyBreakGlass {
			return model.PolicyBreakGlass{Principal: b.Principal, Role: string(b.Role), MaxMinutes: b.MaxMinutes}
		}),
		Sandbox: MapSlice(doc.Sandbox, mapSandbox),
		Actor:   Text(p.Actor), Reason: Text(p.Reason), At: Optional(p.At),
	}
}

// ChangePreview maps what a change does.
func ChangePreview(changed, warnings []string) *model.ChangePreview {
	return &model.ChangePreview{Changed: List(changed), Warnings: List(warnings)}
}

func mapSandbox(b authz.Sandbox) model.PolicySandbox {
	return model.PolicySandbox{
		ProjectID: b.ProjectID, EnvironmentID: b.EnvironmentID, Memory: Optional(float64(b.Memory)), CPU: Optional(b.CPU),
		Pids: Optional(b.PIDs),
		Disk: Optional(float64(b.Disk)), Connect: b.Connect,
		Require: MapSlice(b.Require, func(p plan.SandboxPart) string { return string(p) }),
	}
}

// sandboxOf converts a limit of sandboxes. It truncates numbers of bytes, so less than one byte is no limit.
func sandboxOf(in model.PolicySandboxInput) authz.Sandbox {
	return authz.Sandbox{
		ProjectID: in.ProjectID, EnvironmentID: in.EnvironmentID, Memory: bytesOf(in.Memory), CPU: OrZero(in.CPU),
		PIDs: OrZero(in.Pids),
		Disk: bytesOf(in.Disk), Connect: in.Connect, Require: MapSlice(in.Require,
			func(p string) plan.SandboxPart { return plan.SandboxPart(p) }),
	}
}

// bytesOf converts a number of bytes. A number outside the range of int64 becomes one that the check of the policy
// rejects.
func bytesOf(n *float64) int64 {
	const most = 1 << 53 // up to here a float64 holds each whole number
	return int64(min(max(OrZero(n), -1), most))
}

// Policies maps a page of policy versions. hasPrev says that the caller came from an earlier page.
func Policies(page access.PolicyPage, hasPrev bool) *model.PolicyConnection {
	edges := MapSlice(page.Policies, func(p access.Policy) model.PolicyEdge {
		return model.PolicyEdge{Cursor: EncodeCursor(strconv.FormatInt(p.Version, 10)), Node: Policy(p)}
	})
	return &model.PolicyConnection{
		Edges: edges, PageInfo: PageInfo(edges, func(e model.PolicyEdge) string { return e.Cursor }, page.HasNext, hasPrev),
	}
}

// DocumentOf returns the policy document that a caller wrote. It does not validate: control does.
func DocumentOf(in model.PolicyInput) authz.Document {
	doc := authz.Document{
		SOD: authz.SOD{Approve: true, CompleteManual: true},
		Grants: MapSlice(in.Grants, func(g model.PolicyGrantInput) authz.PrincipalGrant {
			return authz.PrincipalGrant{
				Principal: g.Principal, Role: authz.Role(g.Role), ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID,
				ExpiresAt: g.ExpiresAt, BreakGlass: g.BreakGlass,
			}
		}),
		Approvals: MapSlice(in.Approvals, func(a model.PolicyApprovalInput) authz.Approval {
			return authz.Approval{ProjectID: a.ProjectID, EnvironmentID: a.EnvironmentID, Required: a.Required}
		}),
		BreakGlass: MapSlice(in.BreakGlass, func(b model.PolicyBreakGlassInput) authz.BreakGlass {
			return authz.BreakGlass{Principal: b.Principal, Role: authz.Role(b.Role), MaxMinutes: b.MaxMinutes}
		}),
	}
	if in.Sandbox != nil {
		doc.Sandbox = MapSlice(in.Sandbox, sandboxOf)
	}
	if in.Rules != nil {
		doc.Rules = MapSlice(in.Rules, func(r model.PolicyRuleInput) authz.Rule {
			return authz.Rule{Role: authz.Role(r.Role), Action: authz.Action(r.Action), ProjectID: r.ProjectID,
				EnvironmentID: r.EnvironmentID}
		})
	}
	if in.Sod != nil {
		doc.SOD = authz.SOD{
			Approve: in.Sod.Approve, CompleteManual: in.Sod.CompleteManual,
			CompleteManualInEveryPlan: in.Sod.CompleteManualInEveryPlan,
		}
	}
	return doc
}

// Token maps a token. Its secret is not part of it.
func Token(t access.Token) *model.Token {
	return &model.Token{
		TokenID: t.ID, Kind: enumOf[model.TokenKind](t.Kind), KindRaw: string(t.Kind), Provider: Text(t.Provider),
		Prefix: Text(t.Prefix), Name: t.Name, Principal: t.Principal, CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt,
		ExpiresAt: t.ExpiresAt,
		RevokedAt: t.RevokedAt, RevokedBy: Text(t.RevokedBy), LastUsedAt: t.LastUsedAt,
		Grants: MapSlice(t.Grants, func(g authz.Grant) model.TokenGrant {
			return model.TokenGrant{Role: string(g.Role), ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID}
		}),
	}
}

// Tokens maps a page of tokens. hasPrev says that the caller came from an earlier page.
func Tokens(page access.TokensPage, hasPrev bool) *model.TokenConnection {
	edges := MapSlice(page.Tokens, func(t access.Token) model.TokenEdge {
		return model.TokenEdge{Cursor: EncodeCursor(t.ID), Node: Token(t)}
	})
	return &model.TokenConnection{
		Edges: edges, PageInfo: PageInfo(edges, func(e model.TokenEdge) string { return e.Cursor }, page.HasNext, hasPrev),
	}
}

// Change maps the receipt of a change; nil when nothing changed.
func Change(c control.Change) *model.ChangeReceipt {
	if c == (control.Change{}) {
		return nil
	}
	out := &model.ChangeReceipt{Action: c.Action, RequestID: c.RequestID, Actor: c.Actor, At: c.At}
	if c.Version > 0 {
		out.Version, out.VersionBefore = new(int(c.Version)), new(int(c.Version-1))
	}
	return out
}
