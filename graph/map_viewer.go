package graph

import (
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

func mapViewer(v access.Viewer, dev []DevPrincipal) *model.Viewer {
	out := &model.Viewer{
		PolicyVersion: int(v.PolicyVersion), BreakGlassUntil: optional(v.BreakGlassUntil),
		Principal: v.Principal.ID, TenantID: v.Principal.TenantID, Roles: []model.Role{}, Grants: each(v.Grants, mapGrant),
		DevPrincipals: each(dev, func(d DevPrincipal) model.DevPrincipal {
			return model.DevPrincipal{Principal: d.Principal, TenantID: d.TenantID, Role: model.Role(d.Role)}
		}),
	}
	seen := map[authz.Role]bool{}
	for _, g := range v.Grants {
		if !seen[g.Role] {
			seen[g.Role] = true
			out.Roles = append(out.Roles, model.Role(g.Role))
		}
	}
	return out
}

func mapGrant(g access.ViewerGrant) model.Grant {
	return model.Grant{
		Role: model.Role(g.Role), ProjectID: g.ProjectID, EnvironmentID: g.EnvironmentID,
		Actions:   knownEnums[model.Action](g.Actions),
		ExpiresAt: optional(g.ExpiresAt), BreakGlass: g.BreakGlass,
	}
}

func mapCapability(c access.EngineCapability) model.EngineCapability {
	return model.EngineCapability{Engine: c.Engine, Name: c.Name, Support: c.Support, Note: text(c.Note)}
}

func mapHealth(h health.Health) *model.Health {
	return &model.Health{Status: model.HealthStatus(h.Status), Checks: each(h.Checks,
		func(c health.HealthCheck) model.HealthCheck {
			return model.HealthCheck{Name: c.Name, Status: model.HealthStatus(c.Status), LatencyMs: optional(c.Latency),
				Message: text(c.Message)}
		})}
}

func mapHealthHistory(h health.HealthHistory) *model.HealthHistory {
	return &model.HealthHistory{Server: h.Server, Since: h.Since, IntervalMs: h.Every,
		Samples: each(h.Samples, func(s health.HealthSample) model.HealthSample {
			return model.HealthSample{
				At: s.At, Status: model.HealthStatus(s.Status), LagP50Ms: s.LagP50, LagP99Ms: s.LagP99,
				FramesPerSecond: s.FrameRate,
				Viewers:         s.Viewers, Streams: s.Streams, StaleStreams: s.Stale, StateStoreMs: s.Store, TemporalMs: s.Engine,
			}
		})}
}
