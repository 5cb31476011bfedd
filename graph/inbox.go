package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// InboxReads reads the approvals and manual steps that wait for p.
type InboxReads interface {
	InboxCount(ctx context.Context, p authz.Principal) (int, error)
	Attention(ctx context.Context, p authz.Principal, first int, after string) (watch.AttentionPage, error)
	AttentionCount(ctx context.Context, p authz.Principal) (int, error)
	WatchAttention(ctx context.Context, p authz.Principal, first int) (Stream[watch.AttentionFrame], error)
	WatchInbox(ctx context.Context, p authz.Principal) (Stream[watch.InboxFrame], error)
}

func (v viewerFields) InboxCount(ctx context.Context, _ *model.Viewer) (int, error) {
	return v.control.InboxCount(ctx, principal(ctx))
}

func (s subscriptions) InboxUpdates(ctx context.Context) (<-chan *model.InboxUpdate, error) {
	frames, err := s.control.WatchInbox(ctx, principal(ctx))
	return pump(ctx, frames, err, mapInboxFrame)
}

func mapInboxFrame(f watch.InboxFrame) *model.InboxUpdate {
	return &model.InboxUpdate{
		Sync: model.SyncState(f.Sync), Reason: mapping.SyncReason(f.Reason), AsOf: mapping.Optional(f.AsOf), Reset: f.Reset,
		Count:   f.Count,
		Changed: mapping.MapSlice(f.Changed, mapInboxItem), Removed: mapping.MapSlice(f.Removed, mapInboxItem),
	}
}

func mapInboxItem(i watch.InboxItem) model.InboxItem {
	return model.InboxItem{
		RunID: i.RunID, StepID: mapping.Text(i.StepID), StepName: mapping.Text(i.StepName),
		LogicalAttemptID: mapping.Optional(i.LogicalAttempt),
		ProjectID:        i.ProjectID, EnvironmentID: i.EnvironmentID, Since: i.Since, Yours: i.Yours,
	}
}

func (v viewerFields) AttentionCount(ctx context.Context, _ *model.Viewer) (int, error) {
	return v.control.AttentionCount(ctx, principal(ctx))
}

func (q queries) Attention(ctx context.Context, first *int, after *string) (*model.AttentionConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	cursor, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := q.control.Attention(ctx, principal(ctx), mapping.OrZero(first), cursor)
	if err != nil {
		return nil, err
	}
	edges := make([]model.AttentionEdge, len(page.Items))
	for i, item := range page.Items {
		edges[i] = model.AttentionEdge{Cursor: mapping.EncodeCursor(page.Cursors[i]), Node: new(mapAttention(item))}
	}
	return &model.AttentionConnection{
		Edges: edges, Count: page.Count, AsOf: mapping.Optional(page.AsOf),
		PageInfo: mapping.PageInfo(edges, func(e model.AttentionEdge) string { return e.Cursor }, page.HasNext,
			cursor != ""),
	}, nil
}

func (s subscriptions) AttentionUpdates(ctx context.Context, first *int) (<-chan *model.AttentionUpdate, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	frames, err := s.control.WatchAttention(ctx, principal(ctx), mapping.OrZero(first))
	return pump(ctx, frames, err, func(f watch.AttentionFrame) *model.AttentionUpdate {
		out := &model.AttentionUpdate{Sync: model.SyncState(f.Sync), Reason: mapping.SyncReason(f.Reason),
			AsOf: mapping.Optional(f.AsOf), Count: f.Count}
		if f.Items != nil {
			out.Items = mapping.MapSlice(f.Items, mapAttention)
		}
		return out
	})
}

func mapAttention(i watch.AttentionItem) model.AttentionItem {
	out := model.AttentionItem{
		Kind: model.AttentionKind(i.Kind), RunID: i.RunID, ProjectID: i.ProjectID, EnvironmentID: i.EnvironmentID,
		PlanID: i.PlanID, PlanVersion: i.PlanVersion, StepID: mapping.Text(i.StepID),
		StepName:         mapping.Text(i.StepName),
		LogicalAttemptID: mapping.Optional(i.LogicalAttempt), Since: i.Since, Deadline: i.Deadline, ExpectedBy: i.ExpectedBy,
		Code: mapping.Text(i.Code), Message: mapping.Text(i.Message), HeldSteps: i.HeldSteps, FailedSteps: i.FailedSteps,
		BlockedSteps: i.BlockedSteps, WhoCould: mapping.MapSlice(i.WhoCould, func(id string) string { return id }),
		Actions: mapping.MapSlice(i.Actions, func(a authz.Action) model.Action { return model.Action(a) }),
		Stuck:   i.Stuck,
	}
	if i.Required > 0 {
		out.Approvals, out.ApprovalsRequired = &i.Approvals, &i.Required
	}
	return out
}

// AlertService reads, watches, acknowledges and silences alerts.
type AlertService interface { //nolint:interfacebloat // one subject: alerts and their silences
	ListAlerts(ctx context.Context, p authz.Principal, q reads.AlertsQuery) (reads.AlertsPage, error)
	GetAlert(ctx context.Context, p authz.Principal, id string) (reads.Alert, error)
	CountOpenAlerts(ctx context.Context, p authz.Principal) (int, error)
	WatchAlerts(ctx context.Context, p authz.Principal) (Stream[watch.AlertsFrame], error)
	AcknowledgeAlert(ctx context.Context, p authz.Principal, in reads.AcknowledgeAlert) (reads.AcknowledgedAlert, error)
	SilenceAlerts(ctx context.Context, p authz.Principal, in reads.SilenceAlerts) (reads.SilencedAlerts, error)
	Silences(ctx context.Context, p authz.Principal) ([]reads.AlertSilence, error)
	EndSilence(ctx context.Context, p authz.Principal, id, requestID string) (control.Change, error)
}

func (v viewerFields) AlertCount(ctx context.Context, _ *model.Viewer) (int, error) {
	return v.control.CountOpenAlerts(ctx, principal(ctx))
}

func (q queries) Alerts(ctx context.Context, filter *model.AlertFilter, first *int,
	after *string) (*model.AlertConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	cursor, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	in := mapping.AlertsQuery(filter)
	in.First, in.After = mapping.OrZero(first), cursor
	page, err := q.control.ListAlerts(ctx, principal(ctx), in)
	if err != nil {
		return nil, err
	}
	return mapping.Alerts(page, cursor), nil
}

func (q queries) Alert(ctx context.Context, id string) (*model.Alert, error) {
	a, err := q.control.GetAlert(ctx, principal(ctx), id)
	if err != nil {
		return nullIfNotFound[model.Alert](err)
	}
	return new(mapping.Alert(a)), nil
}

func (q queries) AlertSilences(ctx context.Context) ([]model.AlertSilence, error) {
	all, err := q.control.Silences(ctx, principal(ctx))
	return mapping.MapSlice(all, mapping.Silence), err
}

func (m mutations) AcknowledgeAlert(ctx context.Context,
	in model.AcknowledgeAlertInput) (*model.AcknowledgeAlertPayload, error) {
	out, err := m.control.AcknowledgeAlert(ctx, principal(ctx), reads.AcknowledgeAlert{ID: in.ID, RequestID: in.RequestID,
		Note: mapping.OrZero(in.Note)})
	if err != nil {
		return nil, err
	}
	return &model.AcknowledgeAlertPayload{Alert: new(mapping.Alert(out.Alert)), Change: mapping.Change(out.Change)}, nil
}

func (m mutations) SilenceAlerts(ctx context.Context,
	in model.SilenceAlertsInput) (*model.SilenceAlertsPayload, error) {
	out, err := m.control.SilenceAlerts(ctx, principal(ctx), reads.SilenceAlerts{
		RequestID: in.RequestID, Code: run.Code(mapping.OrZero(in.Code)), ProjectID: mapping.OrZero(in.ProjectID),
		RunID: mapping.OrZero(in.RunID), PlanID: mapping.OrZero(in.PlanID), Until: in.Until, Reason: in.Reason,
	})
	if err != nil {
		return nil, err
	}
	return &model.SilenceAlertsPayload{Silence: new(mapping.Silence(out.Silence)), Change: mapping.Change(out.Change)}, nil
}

func (m mutations) EndSilence(ctx context.Context, in model.EndSilenceInput) (*model.EndSilencePayload, error) {
	change, err := m.control.EndSilence(ctx, principal(ctx), in.ID, in.RequestID)
	if err != nil {
		return nil, err
	}
	return &model.EndSilencePayload{Change: mapping.Change(change)}, nil
}

func (s subscriptions) AlertUpdates(ctx context.Context) (<-chan *model.AlertUpdate, error) {
	frames, err := s.control.WatchAlerts(ctx, principal(ctx))
	return pump(ctx, frames, err, func(f watch.AlertsFrame) *model.AlertUpdate {
		out := &model.AlertUpdate{Sync: model.SyncState(f.Sync), Reason: mapping.SyncReason(f.Reason)}
		if f.Known {
			out.Count = new(f.Count)
		}
		return out
	})
}
