package authz

import (
	"slices"
	"time"
)

// Grants returns the grants of p that are in force now, not those of the time when p signed in: a revoked grant is gone
// at once. With an API token it returns the token's grants, restricted to the scopes where p itself has any grant.
func (a *Authorizer) Grants(p Principal) []Grant {
	s, now := a.state.Load(), a.directory.now()
	held := a.heldGrants(s, p)
	if p.SessionID != "" && a.liveToken(s, p, p.SessionID, now) == nil {
		return nil
	}
	if slices.ContainsFunc(held, func(g Grant) bool { return !g.lasts(now) }) {
		held = slices.DeleteFunc(slices.Clone(held), func(g Grant) bool { return !g.lasts(now) })
	}
	if p.TokenID == "" {
		return held
	}
	var out []Grant
	if t := a.liveToken(s, p, p.TokenID, now); t != nil {
		for _, narrow := range t.Grants {
			for _, own := range held {
				ofToken, ofOwn := scope{narrow.ProjectID, narrow.EnvironmentID}, scope{own.ProjectID, own.EnvironmentID}
				if at, ok := ofToken.intersect(ofOwn); ok {
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

// Until returns the earliest time at which a right of p expires; zero: no right expires.
func (a *Authorizer) Until(p Principal) time.Time {
	until := p.ExpiresAt
	for _, g := range a.Grants(p) {
		if !g.ExpiresAt.IsZero() && (until.IsZero() || g.ExpiresAt.Before(until)) {
			until = g.ExpiresAt
		}
	}
	return until
}

// MaxWhoCould bounds the names that a denial gives.
const MaxWhoCould = 10

// WhoCould returns at most ten principals of o's tenant who may do action to o and can authenticate, sorted. The result
// must be shown only to callers of that tenant.
func (a *Authorizer) WhoCould(action Action, o Object) []string {
	s := a.state.Load()
	t, names := s.tenants[o.TenantID], []string(nil)
	switch {
	case t == nil:
		names = a.directory.Principals(o.TenantID)
	case t.rules != nil && least(t.rules.tablesFor(scope{o.ProjectID, o.EnvironmentID}), action) != "":
		names = t.names
	}
	var out []string
	for _, id := range names {
		d, err := a.Decide(Principal{ID: id, TenantID: o.TenantID}, action, o)
		if err == nil && d.Allowed && !IsSystem(id) && (t == nil || a.reachable(s, o.TenantID, id)) {
			out = append(out, id)
			if len(out) == MaxWhoCould {
				break
			}
		}
	}
	return out
}

// reachable reports whether a caller could authenticate as the principal.
func (a *Authorizer) reachable(s *state, tenantID, id string) bool {
	if !IsService(id) {
		return a.directory.canSignIn(tenantID, id)
	}
	for _, t := range s.tokens {
		if t.TenantID == tenantID && t.Principal == id && a.directory.now().Before(t.ExpiresAt) {
			return true
		}
	}
	return false
}

// Allows lists the actions that a grant of p allows in its whole scope, in the order of Actions.
func (a *Authorizer) Allows(p Principal, g Grant) []Action {
	s, at := a.state.Load(), scope{g.ProjectID, g.EnvironmentID}
	tables := s.base.tablesFor(at)
	if t := s.tenants[p.TenantID]; t != nil {
		if t.rules == nil {
			return nil
		}
		tables = t.rules.tablesFor(at)
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

// MayGive reports whether p has all rights that the grants give, so that p may give them to others. The error is that
// of Decide.
func (a *Authorizer) MayGive(p Principal, grants []Grant) (bool, error) {
	s := a.state.Load()
	r := s.base
	if t := s.tenants[p.TenantID]; t != nil && t.rules != nil {
		r = t.rules
	}
	for _, g := range grants {
		for _, named := range r.named {
			at, ok := named.intersect(scope{g.ProjectID, g.EnvironmentID})
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
