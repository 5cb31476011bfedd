package access

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/store"
)

// PolicyEffect describes a change of the policy in sentences.
type PolicyEffect struct {
	Changed  []string // as control.ChangedLines
	Warnings []string // lost rights, ended break-glass, and approvals that too few people could give
}

// Limits of an effect. A policy may have 10,000 grants and as many rules, and the names of those who could approve are
// searched for each rule, so a whole check could take seconds.
const (
	maxNamed    = 5     // names in one warning
	maxWarnings = 50    // without the line that counts the others
	maxCompared = 1_000 // principals and groups whose rights are compared
	maxRules    = 200   // approval rules that are checked
)

// PreviewPolicy returns the effect of doc as the next policy of the caller's tenant. A nil Sandbox keeps the one in
// force. It changes nothing. Errors: FORBIDDEN without READ_POLICY on the whole tenant; BAD_USER_INPUT with all
// violations, as SetPolicy.
func (s *Policies) PreviewPolicy(ctx context.Context, p authz.Principal, doc authz.Document) (PolicyEffect, error) {
	if err := s.rights.MayOperate(ctx, p, store.AuditRow{Action: string(authz.ReadPolicy)}); err != nil {
		return PolicyEffect{}, err
	}
	now, err := s.newestPolicy(ctx, p.TenantID)
	if err != nil {
		return PolicyEffect{}, err
	}
	doc = keepSandbox(doc, now.Document)
	if vs := s.violations(p.TenantID, doc); len(vs) > 0 {
		return PolicyEffect{}, control.BadInput(vs)
	}
	effect, err := s.effectOf(ctx, p.TenantID, now.Document, doc)
	return effect, control.Translate(err)
}

// effectOf compares two valid policies of a tenant. Its work is bounded, and it ends with ctx.
func (s *Policies) effectOf(ctx context.Context, tenantID string, before, after authz.Document) (PolicyEffect, error) {
	was, err := s.rights.WithPolicy(tenantID, before)
	if err != nil {
		return PolicyEffect{}, err
	}
	is, err := s.rights.WithPolicy(tenantID, after)
	if err != nil {
		return PolicyEffect{}, err
	}
	out := PolicyEffect{Changed: control.ChangedLines(policyLines(before), policyLines(after)),
		Warnings: endedBreakGlass(before, after, s.rights.Now())}
	lost, err := lostRights(ctx, was.Authz, is.Authz, tenantID, before)
	if err != nil {
		return PolicyEffect{}, err
	}
	missing, err := missingApprovers(ctx, is, tenantID, after)
	if err != nil {
		return PolicyEffect{}, err
	}
	out.Warnings = slices.Concat(out.Warnings, lost, missing)
	if more := len(out.Warnings) - maxWarnings; more > 0 {
		out.Warnings = append(out.Warnings[:maxWarnings], fmt.Sprintf("and %d more warnings", more))
	}
	return out, nil
}

// endedBreakGlass returns a warning for each active break-glass grant that the change ends.
func endedBreakGlass(before, after authz.Document, now time.Time) (out []string) {
	for _, g := range before.Grants {
		if !g.BreakGlass || g.ExpiresAt == nil || !now.Before(*g.ExpiresAt) {
			continue
		}
		stays := slices.ContainsFunc(after.Grants, func(k authz.PrincipalGrant) bool {
			return k.BreakGlass && k.Principal == g.Principal && k.Role == g.Role && k.ExpiresAt != nil &&
				!k.ExpiresAt.Before(*g.ExpiresAt)
		})
		if !stays {
			out = append(out, fmt.Sprintf("The break-glass of %s (%s until %s) ends at once.", g.Principal, g.Role.Word(),
				control.TimeWords(*g.ExpiresAt)))
		}
	}
	return out
}

// lostRights counts the principals and groups that lose a right that they have now, of the first maxCompared.
func lostRights(ctx context.Context, was, is *authz.Authorizer, tenantID string, before authz.Document) ([]string,
	error) {
	var names []string
	seen := map[string]bool{}
	for _, g := range before.Grants {
		if seen[g.Principal] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if seen[g.Principal] = true; len(seen) > maxCompared {
			break
		}
		if loses(was, is, authz.Principal{ID: g.Principal, TenantID: tenantID}) {
			names = append(names, g.Principal)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	verb := "lose"
	if len(names) == 1 {
		verb = "loses"
	}
	least := ""
	if len(seen) > maxCompared {
		least = "At least "
	}
	return []string{fmt.Sprintf("%s%s %s a right: %s.", least, control.Plural(len(names), "principal", "principals"), verb,
		someNames(names))}, nil
}

// loses reports whether p has a right now that it would not have.
func loses(was, is *authz.Authorizer, p authz.Principal) bool {
	for _, g := range was.Grants(p) {
		for _, action := range was.Allows(p, g) {
			d, err := is.Decide(p, action, authz.Object{TenantID: p.TenantID, ProjectID: g.ProjectID,
				EnvironmentID: g.EnvironmentID})
			if err == nil && !d.Allowed {
				return true
			}
		}
	}
	return false
}

// missingApprovers names the first maxRules rules by which fewer people can approve a run than must. A group counts as
// enough people, because dvt does not know its members.
func missingApprovers(ctx context.Context, is *control.Rights, tenantID string, doc authz.Document) (out []string,
	err error) {
	for _, rule := range doc.Approvals[:min(len(doc.Approvals), maxRules)] {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o := authz.Object{TenantID: tenantID, ProjectID: rule.ProjectID, EnvironmentID: rule.EnvironmentID}
		could, cut := is.WhoCouldApprove(o, "")
		if rule.Required == 0 || cut || slices.ContainsFunc(could, authz.IsGroup) {
			continue
		}
		who := "nobody"
		if len(could) > 0 {
			who = "only " + someNames(could)
		}
		needed := fmt.Sprintf("%s %s required in %s", control.Plural(rule.Required, "approval", "approvals"),
			isOrAre(rule.Required), o.Words())
		switch {
		case len(could) < rule.Required:
			out = append(out, fmt.Sprintf("%s, but %s can approve there, so no run can start.", needed, who))
		case len(could) == rule.Required && is.Authz.SOD(tenantID).Approve:
			out = append(out, fmt.Sprintf("%s, and %s can approve there: a run that one of them requests cannot start.",
				needed, who))
		}
	}
	if more := len(doc.Approvals) - maxRules; more > 0 {
		out = append(out, fmt.Sprintf("%d more approval rules were not checked.", more))
	}
	return out, nil
}

func isOrAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// someNames joins the first names and counts the others.
func someNames(names []string) string {
	if more := len(names) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), more)
	}
	return strings.Join(names, ", ")
}
