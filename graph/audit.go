package graph

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/99designs/gqlgen/graphql"

	"github.com/dvt-engine/dvt/control"
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
