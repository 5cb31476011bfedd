package control

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
)

// Rerun starts a new run of the plan of a run that has ended (O2, T209).
func (s *Service) Rerun(_ context.Context, _ authz.Principal, _ Rerun) (StartedRun, error) {
	return StartedRun{}, refuse(run.CodeNotSupported, "This version cannot rerun.")
}
