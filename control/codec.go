package control

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
)

// MayReadPayloads decides whether p may see in clear what Temporal stores of the runs of all tenants: with the action
// Debug on the whole tenant of the operators, and nobody where no such tenant is set. A denial leaves a row in the
// audit.
func (s *Service) MayReadPayloads(ctx context.Context, p authz.Principal) error {
	if s.cfg.OperatorsTenant == "" {
		return refuse(run.CodeForbidden, "Nobody may read payloads here: the setting operators-tenant names nobody.")
	}
	return s.maySeeInstallation(ctx, p)
}
