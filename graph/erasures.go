package graph

import (
	"context"
	"maps"
	"slices"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/erasing"
	"github.com/dvt-engine/dvt/graph/internal/mapping"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// ErasureService decides about erasures of the caller's tenant, and of people of it.
type ErasureService interface {
	RequestErasure(ctx context.Context, p authz.Principal, in erasing.Request) (erasing.Decided, error)
	DecideErasure(ctx context.Context, p authz.Principal, in erasing.Decision) (erasing.Decided, error)
	Erasures(ctx context.Context, p authz.Principal, first int, after string) (erasing.Page, error)
}

func (q queries) Erasures(ctx context.Context, first *int, after *string) (*model.ErasureConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	cursor, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.Erasures(ctx, principal(ctx), mapping.OrZero(first), cursor)
	if err != nil {
		return nil, err
	}
	edges := make([]model.ErasureEdge, len(page.Erasures))
	for i, e := range page.Erasures {
		edges[i] = model.ErasureEdge{Cursor: mapping.EncodeCursor(erasing.Cursor(e)), Node: erasureOf(e)}
	}
	return &model.ErasureConnection{Edges: edges, PageInfo: mapping.PageInfo(edges,
		func(e model.ErasureEdge) string { return e.Cursor }, page.HasNext, cursor != "")}, nil
}

func (m mutations) RequestErasure(ctx context.Context, in model.RequestErasureInput) (*model.ErasurePayload, error) {
	out, err := m.control.RequestErasure(ctx, principal(ctx), erasing.Request{RequestID: in.RequestID,
		TenantID: mapping.OrZero(in.TenantID), Subject: mapping.OrZero(in.Subject), Reason: in.Reason})
	return erasurePayload(out, err)
}

func (m mutations) DecideErasure(ctx context.Context, in model.DecideErasureInput) (*model.ErasurePayload, error) {
	out, err := m.control.DecideErasure(ctx, principal(ctx), erasing.Decision{RequestID: in.RequestID, ID: in.ID,
		Confirm: in.Confirm, Reason: in.Reason})
	return erasurePayload(out, err)
}

func erasurePayload(out erasing.Decided, err error) (*model.ErasurePayload, error) {
	if err != nil {
		return nil, err
	}
	return &model.ErasurePayload{Erasure: erasureOf(out.Erasure), Change: mapping.Change(out.Change)}, nil
}

func erasureOf(e erasing.Erasure) *model.Erasure {
	out := &model.Erasure{
		ID: e.ID, Kind: model.ErasureKind(e.Kind), Subject: mapping.Text(e.Subject), Reason: e.Reason,
		RequestedBy: mapping.Text(e.RequestedBy), RequestedAt: e.RequestedAt, ExpiresAt: e.ExpiresAt,
		ConfirmedBy: mapping.Text(e.ConfirmedBy), ConfirmedAt: e.ConfirmedAt,
		CancelledBy: mapping.Text(e.CancelledBy), CancelledAt: e.CancelledAt,
		StartedAt: e.StartedAt, Phase: mapping.Text(e.Phase), FinishedAt: e.FinishedAt, Erased: []model.ErasedPlace{},
	}
	for _, place := range slices.Sorted(maps.Keys(e.Counts)) {
		out.Erased = append(out.Erased, model.ErasedPlace{Place: place, Count: run.Seq(e.Counts[place])})
	}
	if e.FinishedAt != nil && len(e.Certificate) > 0 {
		text := string(e.Certificate)
		out.Certificate = &text
	}
	return out
}
