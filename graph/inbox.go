package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// InboxReads reads the approvals and manual steps that wait for p.
type InboxReads interface {
	InboxCount(ctx context.Context, p authz.Principal) (int, error)
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
		RunID: i.RunID, StepID: mapping.Text(i.StepID), LogicalAttemptID: mapping.Optional(i.LogicalAttempt),
		ProjectID: i.ProjectID, EnvironmentID: i.EnvironmentID, Since: i.Since, Yours: i.Yours,
	}
}
