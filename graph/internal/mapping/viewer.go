package mapping

import (
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/health"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// Viewer maps the caller with its rights. dev are the principals of `dvt dev` that it may become.
func Viewer(v access.Viewer, dev []model.DevPrincipal) *model.Viewer {
	out := &model.Viewer{
		PolicyVersion: int(v.PolicyVersion), BreakGlassUntil: Optional(v.BreakGlassUntil),
		Principal: v.Principal.ID, TenantID: v.Principal.TenantID, Roles: []model.Role{}, Grants: MapSlice(v.Grants,
			mapGrant),
		DevPrincipals: dev,
		BreakGlass: MapSlice(v.BreakGlass, func(b access.BreakGlassRole) model.BreakGlassRole {
			return model.BreakGlassRole{Role: model.Role(b.Role), MaxMinutes: b.MaxMinutes,
				Actions: knownEnums[model.Action](b.Actions)}
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
		ExpiresAt: Optional(g.ExpiresAt), BreakGlass: g.BreakGlass,
	}
}

// Capability maps a row of the table of capabilities of an engine.
func Capability(c access.EngineCapability) model.EngineCapability {
	return model.EngineCapability{Engine: c.Engine, Name: c.Name, Support: c.Support, Note: Text(c.Note)}
}

// Health maps the health of the service.
func Health(h health.Health) *model.Health {
	return &model.Health{Status: model.HealthStatus(h.Status), Checks: MapSlice(h.Checks,
		func(c health.HealthCheck) model.HealthCheck {
			return model.HealthCheck{Name: c.Name, Status: model.HealthStatus(c.Status), LatencyMs: Optional(c.Latency),
				Message: Text(c.Message), Configured: !c.Unused}
		})}
}

// HealthHistory maps the samples of the health that one server keeps.
func HealthHistory(h health.HealthHistory) *model.HealthHistory {
	return &model.HealthHistory{Server: h.Server, Since: h.Since, IntervalMs: h.Every,
		Samples: MapSlice(h.Samples, func(s health.HealthSample) model.HealthSample {
			return model.HealthSample{
				At: s.At, Status: model.HealthStatus(s.Status), LagP50Ms: s.LagP50, LagP99Ms: s.LagP99,
				FramesPerSecond: s.FrameRate,
				Viewers:         s.Viewers, Streams: s.Streams, StaleStreams: s.Stale, StateStoreMs: s.Store, TemporalMs: s.Engine,
			}
		})}
}
