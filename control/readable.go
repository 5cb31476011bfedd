package control

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/store"
)

// Me is the value of RunFilter.TriggeredBy that stands for the caller.
const Me = "me"

// Narrow limits a filter to the runs that p may read now. It returns false when there are none. It sets Scopes only
// when ProjectIDs and EnvironmentID cannot express the rights, because a page of one environment or of some projects
// has an index of its own.
func (s *Rights) Narrow(p authz.Principal, f RunFilter) (RunFilter, bool) {
	f.TenantID, f.Scopes = p.TenantID, nil
	if f.TriggeredBy == Me {
		f.TriggeredBy = p.ID
	}
	asked := f.ProjectIDs
	f.ProjectIDs = nil
	if len(asked) > 0 {
		f.ProjectIDs = slices.Compact(slices.Sorted(slices.Values(asked)))
	}
	if s.MayRead(p, "*", cmp.Or(f.EnvironmentID, "*")) {
		return f, true
	}
	scopes := s.readableScopes(p, f)
	if len(scopes) == 0 {
		return f, false
	}
	environments, projects := map[string]bool{}, map[string]bool{}
	for _, one := range scopes {
		environments[one.EnvironmentID], projects[one.ProjectID] = true, true
	}
	if !projects[""] {
		f.ProjectIDs = slices.Sorted(maps.Keys(projects))
	}
	switch {
	case len(environments) > 1, projects[""] && len(projects) > 1:
		f.Scopes = scopes
	default:
		f.EnvironmentID = cmp.Or(f.EnvironmentID, scopes[0].EnvironmentID)
	}
	return f, true
}

// readableScopes returns the scopes of p's grants that p may read and that match the filter, sorted and without
// duplicates. A scope that another one covers is left out.
func (s *Rights) readableScopes(p authz.Principal, f RunFilter) (out store.Scopes) {
	for _, g := range s.Authz.Grants(p) {
		project, environment := strings.TrimSuffix(g.ProjectID, "*"), strings.TrimSuffix(g.EnvironmentID, "*")
		wanted := (f.EnvironmentID == "" || environment == "" || environment == f.EnvironmentID) &&
			(f.ProjectIDs == nil || project == "" || slices.Contains(f.ProjectIDs, project))
		if f.EnvironmentID != "" {
			environment = f.EnvironmentID
		}
		if !wanted || !s.MayRead(p, g.ProjectID, cmp.Or(environment, "*")) {
			continue
		}
		out = append(out, store.Scope{ProjectID: project, EnvironmentID: environment})
	}
	all := slices.Clone(out)
	out = slices.DeleteFunc(out, func(one store.Scope) bool {
		return slices.ContainsFunc(all, func(wider store.Scope) bool {
			return wider != one && wider.Covers(one.ProjectID, one.EnvironmentID)
		})
	})
	slices.SortFunc(out, func(a, b store.Scope) int {
		return cmp.Or(strings.Compare(a.ProjectID, b.ProjectID), strings.Compare(a.EnvironmentID, b.EnvironmentID))
	})
	return slices.Compact(out)
}

// MayRead reports whether p may read a project and environment of its tenant. "*" stands for all of them. It returns
// false when the policy cannot be read.
func (s *Rights) MayRead(p authz.Principal, project, environment string) bool {
	d, err := s.Authz.Decide(p, authz.Read, authz.Object{TenantID: p.TenantID, ProjectID: project,
		EnvironmentID: environment})
	return err == nil && d.Allowed
}

// ReadableScopes returns the scopes that p may read: nil for the whole tenant, an empty list for nothing. It does no
// I/O.
func (s *Rights) ReadableScopes(p authz.Principal) store.Scopes {
	if s.MayRead(p, "*", "*") {
		return nil
	}
	return append(store.Scopes{}, s.readableScopes(p, RunFilter{})...)
}
