package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// QuotaService reads and sets the quotas of a tenant, and lists the runs that wait in its queue.
type QuotaService interface {
	Queue(ctx context.Context, p authz.Principal, q admission.QueueQuery) (admission.QueuePage, error)
	Quotas(ctx context.Context, p authz.Principal) ([]admission.QuotaSnapshot, error)
	QuotaSettings(ctx context.Context, p authz.Principal) (admission.QuotaSettings, error)
	QuotaHistory(ctx context.Context, p authz.Principal, first int, before int64) (admission.QuotaHistoryPage, error)
	PreviewQuota(ctx context.Context, p authz.Principal, doc admission.QuotaDocument) (admission.QuotaEffect, error)
	SetQuota(ctx context.Context, p authz.Principal, in admission.SetQuota) (admission.QuotaSettings, error)
}

func (q queries) Queue(ctx context.Context, projectID *string, first *int, after *string) (*model.QueueEntryConnection,
	error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	runID, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.Queue(ctx, principal(ctx), admission.QueueQuery{ProjectID: mapping.OrZero(projectID),
		First: mapping.OrZero(first), After: runID})
	if err != nil {
		return nil, err
	}
	return mapping.QueuePage(page, runID != ""), nil
}

func (q queries) Quotas(ctx context.Context) ([]model.QuotaSnapshot, error) {
	list, err := q.control.Quotas(ctx, principal(ctx))
	if err != nil {
		return nil, err
	}
	return mapping.MapSlice(list, mapping.QuotaSnapshot), nil
}

func (q queries) QuotaSettings(ctx context.Context) (*model.QuotaSettings, error) {
	s, err := q.control.QuotaSettings(ctx, principal(ctx))
	if err != nil {
		return nil, err
	}
	return mapping.QuotaSettings(s), nil
}

func (q queries) PreviewQuota(ctx context.Context, in model.QuotaSettingsInput) (*model.ChangePreview, error) {
	effect, err := q.control.PreviewQuota(ctx, principal(ctx), mapping.QuotaDocument(in))
	if err != nil {
		return nil, err
	}
	return mapping.ChangePreview(effect.Changed, effect.Warnings), nil
}

func (q queries) QuotaHistory(ctx context.Context, first *int, after *string) (*model.QuotaSettingsConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	before, err := versionCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.QuotaHistory(ctx, principal(ctx), mapping.OrZero(first), before)
	if err != nil {
		return nil, err
	}
	return mapping.QuotaHistory(page, before != 0), nil
}

func (m mutations) SetQuota(ctx context.Context, in model.SetQuotaInput) (*model.SetQuotaPayload, error) {
	s, err := m.control.SetQuota(ctx, principal(ctx), admission.SetQuota{
		RequestID: in.RequestID, ExpectedVersion: int64(in.ExpectedVersion), Document: mapping.QuotaDocument(*in.Settings),
		Reason: in.Reason,
	})
	if err != nil {
		return nil, err
	}
	return &model.SetQuotaPayload{Settings: mapping.QuotaSettings(s), Effect: mapping.ChangePreview(s.Changed, s.Warnings),
		Change: mapping.Change(control.Change{
			Action: string(authz.SetQuota), RequestID: s.RequestID, Actor: s.Actor, At: s.At, Version: s.Version})}, nil
}
