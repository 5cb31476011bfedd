package graph_test

import (
	"context"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// office issues real tickets for the fake use cases. All callers get tickets of officeViewer, who may read all of acme.
var office = sync.OnceValue(func() *usecases.UseCases {
	directory, err := authz.NewDirectory(authz.DevAccounts(func(name string) string { return name }), time.Now)
	if err != nil {
		panic(err)
	}
	rights, err := authz.New(authz.DefaultPolicy(), directory)
	if err != nil {
		panic(err)
	}
	return usecases.New(usecases.Config{Authz: rights, Store: everyRun{}})
})

// everyRun is a store that contains every run id, in the tenant acme.
type everyRun struct{ store.Store }

func (everyRun) Get(_ context.Context, runID string) (store.Run, error) {
	return store.Run{Identity: identity(runID)}, nil
}

func officeViewer() authz.Principal {
	return authz.Principal{ID: "dev-viewer", TenantID: "acme",
		Grants: []authz.Grant{{Role: authz.Viewer, ProjectID: "*", EnvironmentID: "*"}}}
}

func (f *fake) AdmitRun(ctx context.Context, _ authz.Principal, runID string) (*watch.Ticket, error) {
	return office().AdmitRun(ctx, officeViewer(), runID)
}

func (f *fake) AdmitRuns(ctx context.Context, _ authz.Principal, q control.RunsQuery) (*watch.Ticket, error) {
	return office().AdmitRuns(ctx, officeViewer(), q)
}

func (f *fake) OpenRun(context.Context, *watch.Ticket) (graph.Stream[live.Frame], error) {
	if f.openRun != nil {
		return f.openRun()
	}
	return f.watchRun(watch.WatchRun{})
}

func (f *fake) OpenRuns(context.Context, *watch.Ticket) (graph.Stream[watch.RunsFrame], error) {
	if f.openRuns != nil {
		return f.openRuns()
	}
	return f.watchRuns(control.RunsQuery{})
}

func (f *fake) RightsChanged() <-chan struct{} { return office().RightsChanged() }
