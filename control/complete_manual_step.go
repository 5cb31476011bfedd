package control

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
)

// CompleteManualStep completes a step that waits for a person (R166, R177 to R180).
func (s *Service) CompleteManualStep(_ context.Context, _ authz.Principal, _ CompleteManualStep) (Receipt, error) {
	return Receipt{}, refuse(run.CodeNotSupported, "This version cannot complete manual steps.")
}
