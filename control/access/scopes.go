package access

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/store"
)

// Limits of Viewers.Scopes.
const (
	MaxScopes = 500
	// maxScopesChecked bounds the scopes of a tenant that one call checks for p's right to read.
	maxScopesChecked = store.MaxPage
)

// Scope is a project and an environment of the caller's tenant.
type Scope = store.Scope

// Scopes lists the scopes where p may READ: those that its grants name and those that have runs. They are sorted by
// name. first limits them, at most MaxScopes; 0 means 200. The call checks at most maxScopesChecked scopes that have
// runs. A scope where p may not READ is left out (contract T101).
func (s *Viewers) Scopes(ctx context.Context, p authz.Principal, first int) ([]Scope, error) {
	n := min(cmp.Or(first, 200), MaxScopes)
	projects, found := s.grantedScopes(p)
	if projects == nil || len(projects) > 0 {
		known, err := s.store.RunScopes(ctx, p.TenantID, projects, maxScopesChecked)
		if err != nil {
			return nil, control.Translate(err)
		}
		found = append(found, known...)
	}
	slices.SortFunc(found, func(a, b Scope) int {
		return cmp.Or(strings.Compare(a.ProjectID, b.ProjectID), strings.Compare(a.EnvironmentID, b.EnvironmentID))
	})
	var out []Scope
	for _, at := range slices.Compact(found) {
		d, err := s.rights.Authz.Decide(p, authz.Read, authz.Object{TenantID: p.TenantID, ProjectID: at.ProjectID,
			EnvironmentID: at.EnvironmentID})
		if err != nil {
			return nil, control.Translate(err)
		}
		if d.Allowed && len(out) < n {
			out = append(out, at)
		}
	}
	return out, nil
}

// grantedScopes returns the projects that the grants of p name, nil when a grant covers all of them, and the scopes
// that the grants name.
func (s *Viewers) grantedScopes(p authz.Principal) (projects []string, named []Scope) {
	projects = []string{}
	every := false
	for _, g := range s.rights.Authz.Grants(p) {
		switch {
		case g.ProjectID == "*":
			every = true
		case g.EnvironmentID == "*":
			projects = append(projects, g.ProjectID)
		default:
			projects = append(projects, g.ProjectID)
			named = append(named, Scope{ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID})
		}
	}
	if every {
		return nil, named
	}
	slices.Sort(projects)
	return slices.Compact(projects), named
}
