package graph

import (
	"strconv"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/plan"
)

func mapPolicy(p access.Policy) *model.Policy {
	doc, rules := p.Document, p.Document.Rules
	if rules == nil {
		rules = authz.DefaultPolicy()
	}
	return &model.Policy{
		Version: int(p.Version), DefaultRules: doc.Rules == nil,
		Rules: each(rules, func(r authz.Rule) model.PolicyRule {
			return model.PolicyRule{Role: string(r.Role), Action: string(r.Action), ProjectID: r.ProjectID,
				EnvironmentID: r.EnvironmentID}
		}),
		Grants: each(doc.Grants, func(g authz.PrincipalGrant) model.PolicyGrant {
			return model.PolicyGrant{
				Principal: g.Principal, Role: string(g.Role), ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID,
				ExpiresAt: g.ExpiresAt, BreakGlass: g.BreakGlass,
			}
		}),
		Sod: &model.PolicySod{
			Approve: doc.SOD.Approve, CompleteManual: doc.SOD.CompleteManual,
			CompleteManualInEveryPlan: doc.SOD.CompleteManualInEveryPlan,
		},
		Approvals: each(doc.Approvals, func(a authz.Approval) model.PolicyApproval {
			return model.PolicyApproval{ProjectID: a.ProjectID, EnvironmentID: a.EnvironmentID, Required: a.Required}
		}),
		BreakGlass: each(doc.BreakGlass, func(b authz.BreakGlass) model.PolicyBreakGlass {
			return model.PolicyBreakGlass{Principal: b.Principal, Role: string(b.Role), MaxMinutes: b.MaxMinutes}
		}),
		Sandbox: each(doc.Sandbox, mapSandbox),
		Actor:   text(p.Actor), Reason: text(p.Reason), At: optional(p.At),
	}
}

func mapSandbox(b authz.Sandbox) model.PolicySandbox {
	return model.PolicySandbox{
		ProjectID: b.ProjectID, EnvironmentID: b.EnvironmentID, Memory: optional(float64(b.Memory)), CPU: optional(b.CPU),
		Pids: optional(b.PIDs),
		Disk: optional(float64(b.Disk)), Connect: b.Connect,
		Require: each(b.Require, func(p plan.SandboxPart) string { return string(p) }),
	}
}

// sandboxOf reads a ceiling. Numbers of bytes are whole: half a byte is no ceiling.
func sandboxOf(in model.PolicySandboxInput) authz.Sandbox {
	return authz.Sandbox{
		ProjectID: in.ProjectID, EnvironmentID: in.EnvironmentID, Memory: bytesOf(in.Memory), CPU: orZero(in.CPU),
		PIDs: orZero(in.Pids),
		Disk: bytesOf(in.Disk), Connect: in.Connect, Require: each(in.Require,
			func(p string) plan.SandboxPart { return plan.SandboxPart(p) }),
	}
}

// bytesOf converts a number of bytes. A number outside the range of int64 becomes one that the check of the policy
// refuses.
func bytesOf(n *float64) int64 {
	const most = 1 << 53 // up to here a float64 holds each whole number
	return int64(min(max(orZero(n), -1), most))
}

func mapPolicies(page access.PolicyPage, hasPrev bool) *model.PolicyConnection {
	edges := each(page.Policies, func(p access.Policy) model.PolicyEdge {
		return model.PolicyEdge{Cursor: encodeCursor(strconv.FormatInt(p.Version, 10)), Node: mapPolicy(p)}
	})
	return &model.PolicyConnection{
		Edges: edges, PageInfo: pageInfo(edges, func(e model.PolicyEdge) string { return e.Cursor }, page.HasNext, hasPrev),
	}
}

// documentOf is what a caller wrote; control says what is wrong with it.
func documentOf(in model.PolicyInput) authz.Document {
	doc := authz.Document{
		SOD: authz.SOD{Approve: true, CompleteManual: true},
		Grants: each(in.Grants, func(g model.PolicyGrantInput) authz.PrincipalGrant {
			return authz.PrincipalGrant{
				Principal: g.Principal, Role: authz.Role(g.Role), ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID,
				ExpiresAt: g.ExpiresAt, BreakGlass: g.BreakGlass,
			}
		}),
		Approvals: each(in.Approvals, func(a model.PolicyApprovalInput) authz.Approval {
			return authz.Approval{ProjectID: a.ProjectID, EnvironmentID: a.EnvironmentID, Required: a.Required}
		}),
		BreakGlass: each(in.BreakGlass, func(b model.PolicyBreakGlassInput) authz.BreakGlass {
			return authz.BreakGlass{Principal: b.Principal, Role: authz.Role(b.Role), MaxMinutes: b.MaxMinutes}
		}),
	}
	if in.Sandbox != nil {
		doc.Sandbox = each(in.Sandbox, sandboxOf)
	}
	if in.Rules != nil {
		doc.Rules = each(in.Rules, func(r model.PolicyRuleInput) authz.Rule {
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

func mapToken(t access.Token) *model.Token {
	return &model.Token{
		TokenID: t.ID, Kind: enumOf[model.TokenKind](t.Kind), KindRaw: string(t.Kind), Provider: text(t.Provider),
		Name: t.Name, Principal: t.Principal, CreatedBy: t.CreatedBy, CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt,
		RevokedAt: t.RevokedAt, RevokedBy: text(t.RevokedBy), LastUsedAt: t.LastUsedAt,
		Grants: each(t.Grants, func(g authz.Grant) model.TokenGrant {
			return model.TokenGrant{Role: string(g.Role), ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID}
		}),
	}
}

func mapTokens(page access.TokensPage, hasPrev bool) *model.TokenConnection {
	edges := each(page.Tokens, func(t access.Token) model.TokenEdge {
		return model.TokenEdge{Cursor: encodeCursor(t.ID), Node: mapToken(t)}
	})
	return &model.TokenConnection{
		Edges: edges, PageInfo: pageInfo(edges, func(e model.TokenEdge) string { return e.Cursor }, page.HasNext, hasPrev),
	}
}
