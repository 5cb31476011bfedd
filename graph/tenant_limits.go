package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/retention"
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

// RetentionService reads and sets how long things of a tenant live, and keeps legal holds.
type RetentionService interface { //nolint:interfacebloat // one subject, a method for each field of the API
	RetentionPolicy(ctx context.Context, p authz.Principal) (retention.Policy, error)
	RetentionHistory(ctx context.Context, p authz.Principal, first int, before int64) (retention.PolicyPage, error)
	PreviewRetention(ctx context.Context, p authz.Principal, doc retention.Document) (retention.Effect, error)
	SetRetention(ctx context.Context, p authz.Principal, in retention.SetRetention) (retention.Policy, retention.Effect,
		error)
	PlaceHold(ctx context.Context, p authz.Principal, in retention.PlaceHold) (retention.Hold, error)
	LiftHold(ctx context.Context, p authz.Principal, in retention.LiftHold) (retention.Hold, error)
	Holds(ctx context.Context, p authz.Principal, open bool, first int, before string) (retention.HoldPage, error)
	// RunArchive returns nil while the log of the run is in the store. The caller has checked that p may see the run.
	RunArchive(ctx context.Context, runID string) (*retention.ArchivedRun, error)
}

func (q queries) RetentionPolicy(ctx context.Context) (*model.RetentionPolicy, error) {
	p, err := q.control.RetentionPolicy(ctx, principal(ctx))
	if err != nil {
		return nil, err
	}
	return mapping.RetentionPolicy(p)
}

func (q queries) PreviewRetention(ctx context.Context, in model.RetentionDaysInput) (*model.RetentionPreview, error) {
	doc, err := mapping.RetentionDocument(in)
	if err != nil {
		return nil, err
	}
	effect, err := q.control.PreviewRetention(ctx, principal(ctx), doc)
	if err != nil {
		return nil, err
	}
	return mapping.RetentionPreview(effect), nil
}

func (q queries) RetentionHistory(ctx context.Context, first *int, after *string) (*model.RetentionPolicyConnection,
	error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	before, err := versionCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.RetentionHistory(ctx, principal(ctx), mapping.OrZero(first), before)
	if err != nil {
		return nil, err
	}
	return mapping.RetentionHistory(page, before != 0)
}

func (q queries) LegalHolds(ctx context.Context, open *bool, first *int, after *string) (*model.LegalHoldConnection,
	error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	before, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.Holds(ctx, principal(ctx), mapping.OrZero(open), mapping.OrZero(first), before)
	if err != nil {
		return nil, err
	}
	return mapping.LegalHolds(page, before != ""), nil
}

func (m mutations) SetRetention(ctx context.Context, in model.SetRetentionInput) (*model.SetRetentionPayload, error) {
	doc, err := mapping.RetentionDocument(*in.Policy)
	if err != nil {
		return nil, err
	}
	made, effect, err := m.control.SetRetention(ctx, principal(ctx), retention.SetRetention{
		RequestID: in.RequestID, ExpectedVersion: int64(in.ExpectedVersion), Document: doc, Reason: in.Reason})
	if err != nil {
		return nil, err
	}
	policy, err := mapping.RetentionPolicy(made)
	if err != nil {
		return nil, err
	}
	return &model.SetRetentionPayload{Policy: policy, Effect: mapping.RetentionPreview(effect),
		Change: mapping.Change(control.Change{Action: retention.ActionSetRetention, RequestID: made.RequestID,
			Actor: made.Actor, At: made.At, Version: made.Version})}, nil
}

func (m mutations) PlaceHold(ctx context.Context, in model.PlaceHoldInput) (*model.HoldPayload, error) {
	h, err := m.control.PlaceHold(ctx, principal(ctx), retention.PlaceHold{RequestID: in.RequestID,
		Kind: retention.HoldKind(in.Kind), Subject: in.Subject, Reason: in.Reason})
	if err != nil {
		return nil, err
	}
	return &model.HoldPayload{Hold: mapping.LegalHold(h), Change: mapping.Change(control.Change{
		Action: retention.ActionPlaceHold, RequestID: in.RequestID, Actor: h.PlacedBy, At: h.PlacedAt})}, nil
}

func (m mutations) LiftHold(ctx context.Context, in model.LiftHoldInput) (*model.HoldPayload, error) {
	h, err := m.control.LiftHold(ctx, principal(ctx), retention.LiftHold{RequestID: in.RequestID, ID: in.ID,
		Reason: in.Reason})
	if err != nil {
		return nil, err
	}
	return &model.HoldPayload{Hold: mapping.LegalHold(h), Change: mapping.Change(control.Change{
		Action: retention.ActionLiftHold, RequestID: in.RequestID, Actor: h.LiftedBy, At: mapping.OrZero(h.LiftedAt)})}, nil
}

// Archive resolves Run.archive.
func (r runFields) Archive(ctx context.Context, of *model.Run) (*model.RunArchive, error) {
	a, err := r.control.RunArchive(ctx, of.RunID)
	if err != nil || a == nil {
		return nil, err
	}
	return &model.RunArchive{At: a.MarkedAt, Events: int(a.Events), SizeBytes: int(a.Bytes)}, nil
}
