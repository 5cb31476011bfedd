package control

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
)

// MayReadPayloads returns nil when p may read decrypted Temporal payloads of the runs of all tenants. The right is the
// action Debug on the whole tenant of the operators. FORBIDDEN for everybody else, recorded in the audit log; FORBIDDEN
// for everybody when no operators' tenant is set.
func (s *Service) MayReadPayloads(ctx context.Context, p authz.Principal) error {
	if s.cfg.OperatorsTenant == "" {
		return refuse(run.CodeForbidden, "Nobody may read payloads here, because the setting operators-tenant is not set.")
	}
	return s.maySeeInstallation(ctx, p)
}
