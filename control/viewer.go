package control

import (
	"github.com/dvt-engine/dvt/authz"
)

// Viewer says who p is and what p may do where.
func (s *Service) Viewer(p authz.Principal) Viewer {
	v := Viewer{Principal: p, PolicyVersion: s.cfg.Authz.PolicyVersion(p.TenantID)}
	for _, g := range s.cfg.Authz.Grants(p) {
		v.Grants = append(v.Grants, ViewerGrant{Grant: g, Actions: s.cfg.Authz.Allows(p, g)})
		if g.BreakGlass && g.ExpiresAt.After(v.BreakGlassUntil) {
			v.BreakGlassUntil = g.ExpiresAt
		}
	}
	return v
}

// Capabilities is the capability matrix of the engine in use; it is no secret.
func (s *Service) Capabilities(authz.Principal) []EngineCapability {
	rows := s.cfg.Engine.Capabilities()
	out := make([]EngineCapability, len(rows))
	for i, c := range rows {
		out[i] = EngineCapability{Engine: "temporal", Name: c.Name, Support: c.Support, Note: c.Note}
	}
	return out
}
