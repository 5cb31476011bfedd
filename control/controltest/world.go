// Package controltest is the fixture of the tests of the use cases: all of them on a real store, bus, hub and
// projector, with an engine and a clock that a test sets. Only tests import it. A package whose tests need more methods
// embeds World in a type of its own.
package controltest

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/projector"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// World has the use cases on a real store, bus, hub and projector.
type World struct {
	T         *testing.T
	Dir       string
	Clock     *clock
	Raw       *sqlite.Store
	Store     store.Store
	Redis     *miniredis.Miniredis
	Bus       *redisbus.Bus
	Engine    *FakeEngine
	Artifacts *artifact.Store
	Directory *authz.Directory
	Authz     *authz.Authorizer
	Config    usecases.Config
	*usecases.UseCases
	Journal *journal.Journal
	Tickets ticket.Keys
}

// New starts a world that ends with the test. change may replace parts before the use cases are wired.
func New(t *testing.T, change ...func(*usecases.Config)) *World {
	t.Helper()
	w := &World{T: t, Dir: t.TempDir(), Clock: &clock{}, Engine: &FakeEngine{Started: map[string]int{},
		signals: map[string][]engine.Signal{}}}
	w.Raw = Must[*sqlite.Store](t)(sqlite.Open(t.Context(), filepath.Join(w.Dir, "dvt.db"),
		sqlite.Options{Now: w.Clock.Now, Readers: 2}))
	t.Cleanup(func() { _ = w.Raw.Close() })
	w.Redis = miniredis.RunT(t)
	w.Bus = Must[*redisbus.Bus](t)(
		redisbus.Open(redisbus.Config{URL: "redis://" + w.Redis.Addr() + "/0", PingInterval: 50 * time.Millisecond}))
	t.Cleanup(func() { _ = w.Bus.Close() })
	w.Artifacts = Must[*artifact.Store](t)(artifact.Open(t.Context(), "mem://"))
	t.Cleanup(func() { _ = w.Artifacts.Close() })
	w.Directory = Must[*authz.Directory](t)(authz.NewDirectory(accounts(), w.Clock.Now))
	w.Authz = Must[*authz.Authorizer](t)(authz.New(authz.DefaultPolicy(), w.Directory))
	pr := projector.New(w.Raw, w.Bus, projector.Config{Window: 50 * time.Millisecond, SweepAge: 100 * time.Millisecond})
	w.Store = decorate.WakeOnCommit(decorate.WithApprovals(w.Raw), pr)
	// A head check that takes 3/4 of its interval reports that the store is down and refuses new streams.
	hub := live.New(w.Raw, w.Bus, live.Config{HeadInterval: 4 * time.Second, ReadTimeout: time.Minute,
		KeepAlive: 2 * time.Second})
	w.Spawn(hub.Run)
	w.Spawn(pr.Run)
	w.Config = usecases.Config{
		Store: w.Store, Engine: w.Engine, Hub: hub, Bus: w.Bus, Authz: w.Authz, Logs: w.Artifacts, Blobs: w.Artifacts,
		Queues: plan.Queues{Control: "tq-control-dev", Data: "tq-data-dev"}, Now: w.Clock.Now, KeepAlive: 2 * time.Second,
	}
	for _, f := range change {
		f(&w.Config)
	}
	w.UseCases = usecases.New(w.Config)
	w.Tickets = TicketKeys(t, "k1")
	w.Journal = w.NewJournal()
	return w
}

// accounts are the principals of `dvt dev` and some with fewer rights.
func accounts() []authz.Account {
	all := authz.DevAccounts(func(name string) string { return name })
	narrow := func(token, id string, like authz.Account, grants ...authz.Grant) {
		for _, a := range all {
			if a.ID == token {
				like = a
			}
		}
		like.ID, like.Grants = id, grants
		like.TokenSHA256 = TokenHash(id)
		all = append(all, like)
	}
	narrow("dev-viewer", "shop-viewer", authz.Account{}, authz.Grant{Role: authz.Viewer, ProjectID: "shop",
		EnvironmentID: "*"})
	narrow("dev-viewer", "two-viewer", authz.Account{},
		authz.Grant{Role: authz.Viewer, ProjectID: "shop", EnvironmentID: "*"}, authz.Grant{Role: authz.Viewer,
			ProjectID: "store", EnvironmentID: "*"},
		authz.Grant{Role: authz.Operator, ProjectID: "shop", EnvironmentID: "*"})
	narrow("dev-viewer", "env-viewer", authz.Account{}, authz.Grant{Role: authz.Viewer, ProjectID: "*",
		EnvironmentID: "dev"})
	narrow("dev-viewer", "nobody", authz.Account{})
	return all
}

// NewWithApprovals makes a world whose project shop needs approvals.
func NewWithApprovals(t *testing.T, required int, change ...func(*authz.Document)) *World {
	t.Helper()
	w := New(t)
	w.ChangePolicy(func(d *authz.Document) {
		d.Approvals = []authz.Approval{{ProjectID: "shop", EnvironmentID: "*", Required: required}}
		for _, id := range []string{"dev-admin", "dev-engineer", "dev-operator"} { // more people who may approve
			d.Grants = append(d.Grants, authz.PrincipalGrant{Principal: id, Role: authz.Planner, ProjectID: "*",
				EnvironmentID: "*"})
		}
		for _, f := range change {
			f(d)
		}
	})
	return w
}

// NewJournal returns the Journal of another process on the same store.
func (w *World) NewJournal(change ...func(*journal.Config)) *journal.Journal {
	cfg := journal.Config{
		Store: journal.On(w.Store), Logs: w.Artifacts, Blobs: w.Artifacts, Queues: w.Config.Queues, MaxSteps: w.MaxSteps(),
		Tickets: w.Tickets, Now: w.Clock.Now, Expiry: w.Expiries.OfWritten,
		Fetch: journal.NewFetcher([]string{w.Dir}, nil), WriteBudget: time.Minute, // no caller retries in these tests
	}
	for _, f := range change {
		f(&cfg)
	}
	return journal.New(cfg)
}

// TicketKeys returns keys whose secrets are derived from their ids.
func TicketKeys(t testing.TB, ids ...string) ticket.Keys {
	t.Helper()
	for i, id := range ids {
		ids[i] = id + ":" + SecretOf(id)
	}
	return Must[ticket.Keys](t)(ticket.ParseKeys(ids))
}

// Spawn runs f until the test ends or until stop is called.
func (w *World) Spawn(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil && ctx.Err() == nil {
			w.T.Errorf("the background work returned %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	w.T.Cleanup(stop)
	return stop
}

// SpawnDispatcher runs a dispatcher that starts queued runs.
func (w *World) SpawnDispatcher() {
	w.Spawn(func(ctx context.Context) error { return w.Dispatch(ctx, "r1") })
}

// Principal authenticates an account by its token.
func (w *World) Principal(token string) authz.Principal {
	w.T.Helper()
	return Must[authz.Principal](w.T)(w.Directory.Authenticate(token))
}

// Engineer returns a principal that may do everything that most tests need.
func (w *World) Engineer() authz.Principal { return w.Principal("dev-engineer") }

// ForeignPrincipal returns an admin of another tenant.
func (w *World) ForeignPrincipal() authz.Principal {
	p := w.Principal("dev-admin")
	p.TenantID = "globex"
	return p
}
