package graph_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

func (f *fake) InboxCount(context.Context, authz.Principal) (int, error) { return 3, nil }

func (f *fake) WatchInbox(context.Context, authz.Principal) (graph.Stream[control.InboxFrame], error) {
	approval := control.InboxItem{RunID: "r2", ProjectID: "shop", EnvironmentID: "prod", Since: instant, Yours: true}
	task := control.InboxItem{RunID: "r1", StepID: "look", LogicalAttempt: 2, ProjectID: "shop", EnvironmentID: "dev", Since: instant}
	return stream(&control.Error{Code: run.CodeForbidden, Message: "No longer."},
		control.InboxFrame{Sync: live.Stale, Reason: live.StoreDown, Reset: true},
		control.InboxFrame{Sync: live.Live, AsOf: instant, Reset: true, Count: new(0)},
		control.InboxFrame{Sync: live.Live, AsOf: instant, Count: new(1), Changed: []control.InboxItem{approval}, Removed: []control.InboxItem{task}},
	)
}

func TestGolden_InboxUpdates(t *testing.T) {
	t.Parallel()
	a := serve(t, answering())
	got := a.do(http.MethodPost, "/graphql", request(`subscription { inboxUpdates`+everything(t, "InboxUpdate")+`}`, nil), "Accept", "text/event-stream")
	if got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	golden(t, "inboxUpdates", got.body)
}
