package graph

import (
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/erasing"
	"github.com/dvt-engine/dvt/graph/internal/mapping"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

func (q queries) Audit(ctx context.Context, f *model.AuditFilter, oldestFirst *bool, first *int,
	after *string) (*model.AuditConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	cursor, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	in := control.AuditQuery{First: mapping.OrZero(first), After: cursor, Loose: graphql.FieldRequested(ctx, "waiting") ||
		graphql.FieldRequested(ctx, "stray") || graphql.FieldRequested(ctx, "oldestWaitingSeconds")}
	if in.Filter.Newest = !mapping.OrZero(oldestFirst); f != nil {
		in.Filter.From, in.Filter.To = mapping.OrZero(f.From), mapping.OrZero(f.To)
		in.Actor, in.Action, in.Run = mapping.OrZero(f.Actor), mapping.OrZero(f.Action), mapping.OrZero(f.RunID)
		in.Filter.Outcome, in.Filter.RequestID = mapping.OrZero(f.Outcome), mapping.OrZero(f.RequestID)
	}
	in.Filter.WithoutSeals = f != nil && f.Seals != nil && !*f.Seals
	in.Filter.WithMissingRows = f == nil || *f == model.AuditFilter{Seals: f.Seals}
	page, err := q.control.Audit(ctx, principal(ctx), in)
	if err != nil {
		return nil, err
	}
	edges := make([]model.AuditEdge, len(page.Links))
	for i, l := range page.Links {
		e := &model.AuditEntry{No: run.Seq(l.No), ID: l.ID, Hash: hex.EncodeToString(l.Hash[:])}
		if r := l.Row; r != nil {
			e.Row = &model.AuditRow{
				At: printableTime(r.At), TenantID: r.TenantID, Actor: r.Actor, Action: r.Action, RunID: r.RunID,
				SignalID: r.SignalID, Outcome: r.Outcome,
				Code: string(r.Code), Reason: r.Reason, RequestID: r.RequestID, Detail: string(r.Detail), Format: r.Format,
				Credential: r.Credential, Address: r.Address, Via: r.Via, Object: r.Object, Digest: r.Digest,
			}
			if s := r.Sealed; s != nil {
				e.Row.Sealed = &model.SealedTexts{Actor: s.Actor, Reason: s.Reason, Address: s.Address}
			}
		}
		edges[i] = model.AuditEdge{Cursor: mapping.EncodeCursor(control.AuditCursor(l)), Node: e}
	}
	info := mapping.PageInfo(edges, func(e model.AuditEdge) string { return e.Cursor }, page.HasNext, cursor != "")
	if page.HasNext {
		end := mapping.EncodeCursor(page.Next)
		info.EndCursor = &end // behind the last row that was searched, not behind the last that matched
	}
	var searched *model.AuditSearched
	if page.SearchedTo > 0 {
		searched = &model.AuditSearched{From: run.Seq(page.SearchedFrom), To: run.Seq(page.SearchedTo)}
	}
	return &model.AuditConnection{
		Edges: edges, PageInfo: info, Searched: searched,
		Waiting: float64(page.Waiting), Stray: float64(page.Stray), OldestWaitingSeconds: page.Oldest.Seconds(),
	}, nil
}

func (q queries) AuditCheck(ctx context.Context, after *string) (*model.AuditCheck, error) {
	cursor, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.CheckAudit(ctx, principal(ctx), cursor)
	if err != nil {
		return nil, err
	}
	out := &model.AuditCheck{
		Checked: page.Checked, Problems: append([]string{}, page.Problems...),
	}
	if page.Next != "" {
		next := mapping.EncodeCursor(page.Next)
		out.Next = &next
	}
	return out, nil
}

// printableTime returns t, or the nearest time that RFC 3339 can express. dvt writes only times in that range, but a
// row that somebody changed in the database may have another one. A client must get that row too, because it detects
// the change by the hash.
func printableTime(t time.Time) time.Time {
	if first := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC); t.Before(first) {
		return first
	}
	if last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC); t.After(last) {
		return last
	}
	return t
}

// ErasureService decides about erasures of the caller's tenant, and of people of it.
type ErasureService interface {
	RequestErasure(ctx context.Context, p authz.Principal, in erasing.Request) (erasing.Decided, error)
	DecideErasure(ctx context.Context, p authz.Principal, in erasing.Decision) (erasing.Decided, error)
	Erasures(ctx context.Context, p authz.Principal, first int, after string) (erasing.Page, error)
	PreviewErasure(ctx context.Context, p authz.Principal, person string) (erasing.Preview, error)
}

func (q queries) PreviewErasure(ctx context.Context, subject *string) (*model.ErasurePreview, error) {
	out, err := q.control.PreviewErasure(ctx, principal(ctx), mapping.OrZero(subject))
	if err != nil {
		return nil, err
	}
	return &model.ErasurePreview{Kind: model.ErasureKind(out.Kind), Erased: previewedPlaces(out.Erased),
		Remaining: previewedPlaces(out.Remaining), Holds: int(out.Holds), Missing: append([]string{}, out.Missing...)}, nil
}

func previewedPlaces(places []erasing.Place) []model.PreviewedPlace {
	out := make([]model.PreviewedPlace, len(places))
	for i, p := range places {
		out[i] = model.PreviewedPlace{Place: p.Name, Count: run.Seq(p.Count), More: p.More}
	}
	return out
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

func workOf(o erasing.OpenItem) model.ErasureWork {
	if o.BulkID != "" {
		return model.ErasureWork{BulkID: &o.BulkID}
	}
	w := model.ErasureWork{RunID: &o.Run.RunID}
	if o.Status != "" {
		status := model.RunStatus(o.Status)
		w.ProjectID, w.EnvironmentID, w.PlanID = &o.Run.ProjectID, &o.Run.EnvironmentID, &o.Run.PlanID
		w.CreatedAt, w.Status = &o.Run.CreatedAt, &status
	}
	return w
}

func erasureOf(e erasing.Erasure) *model.Erasure {
	out := &model.Erasure{
		ID: e.ID, Kind: model.ErasureKind(e.Kind), Subject: mapping.Text(e.Subject), Reason: e.Reason,
		RequestedBy: mapping.Text(e.RequestedBy), RequestedAt: e.RequestedAt, ExpiresAt: e.ExpiresAt,
		ConfirmedBy: mapping.Text(e.ConfirmedBy), ConfirmedAt: e.ConfirmedAt,
		CancelledBy: mapping.Text(e.CancelledBy), CancelledAt: e.CancelledAt,
		StartedAt: e.StartedAt, Phase: mapping.Text(e.Phase), FinishedAt: e.FinishedAt, Erased: []model.ErasedPlace{},
		Holds: int(e.Holds), DueAt: e.DueAt,
	}
	if e.Waits != erasing.WaitNothing {
		wait := model.ErasureWait(e.Waits)
		out.WaitsFor = &wait
	}
	out.OpenWork, out.OpenWorkCount = []model.ErasureWork{}, e.OpenCount
	if e.OpenCount > 0 {
		out.OpenWorkAt = &e.OpenAt
	}
	for _, o := range e.Open {
		out.OpenWork = append(out.OpenWork, workOf(o))
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
