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

// Limits of Places.
const (
	MaxPlaces = 500
	// maxPlacesLooked is how many places of a tenant are looked at for those that somebody may read.
	maxPlacesLooked = store.MaxPage
)

// Place is a project and environment of the caller's tenant.
type Place = store.Scope

// Places lists where p may READ: those of its grants that name one, and those that have runs; by name, at most
// first (1 to MaxPlaces, 0: 200). Of the places that have runs 1000 are looked at. Where p may not READ there is
// no place (T101).
func (s *Viewers) Places(ctx context.Context, p authz.Principal, first int) ([]Place, error) {
	n := min(cmp.Or(first, 200), MaxPlaces)
	projects, found := s.granted(p)
	if projects == nil || len(projects) > 0 {
		known, err := s.store.RunScopes(ctx, p.TenantID, projects, maxPlacesLooked)
		if err != nil {
			return nil, control.Translate(err)
		}
		found = append(found, known...)
	}
	slices.SortFunc(found, func(a, b Place) int {
		return cmp.Or(strings.Compare(a.ProjectID, b.ProjectID), strings.Compare(a.EnvironmentID, b.EnvironmentID))
	})
	var out []Place
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

// granted are the projects that the grants of p are for, nil when one is for all, and the places that they name.
func (s *Viewers) granted(p authz.Principal) (projects []string, named []Place) {
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
			named = append(named, Place{ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID})
		}
	}
	if every {
		return nil, named
	}
	slices.Sort(projects)
	return slices.Compact(projects), named
}
