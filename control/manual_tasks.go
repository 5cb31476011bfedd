package control

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
)

// ManualTasks lists steps that wait for a person (T85, T201).
func (s *Service) ManualTasks(_ context.Context, _ authz.Principal, _ ManualTasksQuery) (ManualTasksPage, error) {
	return ManualTasksPage{}, refuse(run.CodeNotSupported, "This version has no manual steps.")
}
