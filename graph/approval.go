package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/model"
)

func (q queries) Approvals(context.Context, *int, *string) (*model.RunConnection, error) {
	return nil, errNotBuilt
}

func (m mutations) ApproveRun(context.Context, model.ApproveRunInput) (*model.RunPayload, error) {
	return nil, errNotBuilt
}

func (f runFields) Approval(context.Context, *model.Run) (*model.RunApproval, error) {
	return nil, nil //nolint:nilnil // a run that needs no approval
}
