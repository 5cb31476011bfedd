package authz

import (
	"slices"
	"time"
)

// Grants of a principal are those in force now, so that a right that was taken away is
// gone for one that signed in before. With an API token they are those of the token,
// where the principal has any.
func (a *Authorizer) Grants(p Principal) []Grant {
	s, now := a.state.Load(), a.directory.now()
	held := a.held(s, p)
	if p.SessionID != "" && a.live(s, p, p.SessionID, now) == nil {
		return nil
	}
	if slices.ContainsFunc(held, func(g Grant) bool { return !g.lasts(now) }) {
		held = slices.DeleteFunc(slices.Clone(held), func(g Grant) bool { return !g.lasts(now) })
	}
	if p.TokenID == "" {
		return held
	}
	var out []Grant
	if t := a.live(s, p, p.TokenID, now); t != nil {
		for _, narrow := range t.Grants {
			for _, own := range held {
				if at, ok := (place{narrow.ProjectID, narrow.EnvironmentID}).and(place{own.ProjectID, own.EnvironmentID}); ok {
					g := Grant{Role: narrow.Role, ProjectID: at.project, EnvironmentID: at.environment, ExpiresAt: own.ExpiresAt,
						BreakGlass: own.BreakGlass}
					if !slices.Contains(out, g) {
						out = append(out, g)
					}
				}
			}
		}
	}
	return out
}

// Until is when rights of p end by themselves at the earliest; zero: not known to end.
func (a *Authorizer) Until(p Principal) time.Time {
	until := p.ExpiresAt
	for _, g := range a.Grants(p) {
		if !g.ExpiresAt.IsZero() && (until.IsZero() || g.ExpiresAt.Before(until)) {
			until = g.ExpiresAt
		}
	}
	return until
}

// maxWhoCould bounds the names that a denial gives.
const maxWhoCould = 10

// WhoCould names principals of o's tenant with an account that may do action to
// o, sorted, at most ten. Ask only for a caller of that tenant.
func (a *Authorizer) WhoCould(action Action, o Object) []string {
	s := a.state.Load()
	t, names := s.tenants[o.TenantID], []string(nil)
	switch {
	case t == nil:
		names = a.directory.Principals(o.TenantID)
	case t.rules != nil && least(t.rules.covering(place{o.ProjectID, o.EnvironmentID}), action) != "":
		names = t.names
	}
	var out []string
	for _, id := range names {
		d, err := a.Decide(Principal{ID: id, TenantID: o.TenantID}, action, o)
		if err == nil && d.Allowed && (t == nil || a.reachable(s, o.TenantID, id)) {
			out = append(out, id)
			if len(out) == maxWhoCould {
				break
			}
		}
	}
	return out
}

// reachable reports whether anybody could come as the principal.
func (a *Authorizer) reachable(s *state, tenantID, id string) bool {
	if !IsService(id) {
		return a.directory.mayCome(tenantID, id)
	}
	for _, t := range s.tokens {
		if t.TenantID == tenantID && t.Principal == id && a.directory.now().Before(t.ExpiresAt) {
			return true
		}
	}
	return false
}

// Allows lists the actions that a grant of p gives everywhere in its place, in the order of Actions.
func (a *Authorizer) Allows(p Principal, g Grant) []Action {
	s, at := a.state.Load(), place{g.ProjectID, g.EnvironmentID}
	tables := s.base.covering(at)
	if t := s.tenants[p.TenantID]; t != nil {
		if t.rules == nil {
			return nil
		}
		tables = t.rules.covering(at)
	}
	var out []Action
	for _, action := range Actions() {
		if allow(tables, g.Role, action) == "" {
			continue
		}
		if p.TokenID != "" {
			if d, err := a.Decide(p, action, Object{p.TenantID, at.project, at.environment}); err != nil || !d.Allowed {
				continue
			}
		}
		out = append(out, action)
	}
	return out
}

// MayGive reports whether p has all the rights that the grants give, so that it may
// give them away.
func (a *Authorizer) MayGive(p Principal, grants []Grant) (bool, error) {
	s := a.state.Load()
	r := s.base
	if t := s.tenants[p.TenantID]; t != nil && t.rules != nil {
		r = t.rules
	}
	for _, g := range grants {
		for _, named := range r.named {
			at, ok := named.and(place{g.ProjectID, g.EnvironmentID})
			if !ok {
				continue
			}
			for given := range r.at[named].allows {
				if given.role != g.Role {
					continue
				}
				d, err := a.Decide(p, given.action, Object{p.TenantID, at.project, at.environment})
				if err != nil || !d.Allowed {
					return false, err
				}
			}
		}
	}
	return true, nil
}
