package control

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/run"
)

// PreviewAction says what an action would do now, by the same interpreter and
// policy that would do it, without a trace (O10).
func (s *Service) PreviewAction(_ context.Context, _ authz.Principal, _ PreviewAction) (ActionPreview, error) {
	return ActionPreview{}, refuse(run.CodeNotSupported, "This version cannot preview.")
}
