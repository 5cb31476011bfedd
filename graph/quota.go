package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/model"
)

func (q queries) Queue(context.Context, *string, *int, *string) (*model.QueueEntryConnection, error) {
	return nil, errNotBuilt
}

func (q queries) Quotas(context.Context) ([]model.QuotaSnapshot, error) { return nil, errNotBuilt }

func (q queries) QuotaSettings(context.Context) (*model.QuotaSettings, error) {
	return nil, errNotBuilt
}

func (m mutations) SetQuota(context.Context, model.SetQuotaInput) (*model.SetQuotaPayload, error) {
	return nil, errNotBuilt
}
