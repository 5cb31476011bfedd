package access

import (
	"context"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/store"
)

// Viewer describes the caller and its rights.
type Viewer struct {
	Principal     authz.Principal
	Grants        []ViewerGrant
	PolicyVersion int64 // 0: the tenant has no policy of its own
	// BreakGlassUntil is the end of the last role that the viewer took by break-glass; zero when there is none.
	BreakGlassUntil time.Time
	// BreakGlass lists the roles that the policy lets the viewer take by break-glass; none for an API token.
	BreakGlass []BreakGlassRole
}

// BreakGlassRole is a role that a viewer may take by break-glass, with the actions that it allows on the whole tenant.
type BreakGlassRole struct {
	authz.BreakGlass
	Actions []authz.Action
}

// ViewerGrant is a grant with the actions that it allows.
type ViewerGrant struct {
	authz.Grant
	Actions []authz.Action
}

// EngineCapability is one row of the capability matrix of the engine.
type EngineCapability struct{ Engine, Name, Support, Note string }

// ScopeStore lists the scopes in which a tenant has runs.
type ScopeStore interface {
	RunScopes(ctx context.Context, tenantID string, projects []string, limit int) ([]store.Scope, error)
}

// Viewers tells principals who they are and what they may do in which scope. It is safe for concurrent use.
type Viewers struct {
	rights *control.Rights
	store  ScopeStore
	engine engine.Engine
}

// NewViewers makes Viewers.
func NewViewers(rights *control.Rights, store ScopeStore, engine engine.Engine) *Viewers {
	return &Viewers{rights: rights, store: store, engine: engine}
}

// Viewer returns who p is and what p may do in which scope. It does no I/O.
func (s *Viewers) Viewer(p authz.Principal) Viewer {
	v := Viewer{Principal: p, PolicyVersion: s.rights.Authz.PolicyVersion(p.TenantID)}
	for _, g := range s.rights.Authz.Grants(p) {
		v.Grants = append(v.Grants, ViewerGrant{Grant: g, Actions: s.rights.Authz.Allows(p, g)})
		if g.BreakGlass && g.ExpiresAt.After(v.BreakGlassUntil) {
			v.BreakGlassUntil = g.ExpiresAt
		}
	}
	if p.TokenID != "" {
		return v
	}
	doc, _ := s.rights.Authz.Policy(p.TenantID)
	for _, b := range doc.BreakGlass {
		if b.Principal == p.ID {
			v.BreakGlass = append(v.BreakGlass, BreakGlassRole{BreakGlass: b, Actions: s.allowedBy(p, b.Role)})
		}
	}
	return v
}

// allowedBy returns what p could do with a role on the whole tenant.
func (s *Viewers) allowedBy(p authz.Principal, role authz.Role) []authz.Action {
	return slices.DeleteFunc(s.rights.Authz.Allows(p, authz.Grant{Role: role, ProjectID: "*", EnvironmentID: "*"}),
		func(a authz.Action) bool { return a == authz.SetEngineMode && p.TenantID != s.rights.Operators })
}

// Capabilities returns the capability matrix of the engine in use. Every principal may read it.
func (s *Viewers) Capabilities(authz.Principal) []EngineCapability {
	rows := s.engine.Capabilities()
	out := make([]EngineCapability, len(rows))
	for i, c := range rows {
		out[i] = EngineCapability{Engine: "temporal", Name: c.Name, Support: c.Support, Note: c.Note}
	}
	return out
}
