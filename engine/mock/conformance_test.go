package mock_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine/enginetest"
	"github.com/dvt-engine/dvt/engine/mock"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store/sqlite"
)

func TestConformance(t *testing.T) { enginetest.Run(t, open) }

// fixture is a dvt on a real store around a mock engine. Its duties run in goroutines until the test ends.
type fixture struct {
	enginetest.Operator
	engine *mock.Engine
}

func open(t *testing.T, o enginetest.Options) enginetest.Fixture {
	t.Helper()
	dir := t.TempDir()
	st, err := sqlite.Open(t.Context(), filepath.Join(dir, "dvt.db"), sqlite.Options{})
	must(t, err)
	t.Cleanup(func() { _ = st.Close() })
	bus, err := redisbus.Open(redisbus.Config{URL: "redis://" + miniredis.RunT(t).Addr() + "/0"})
	must(t, err)
	t.Cleanup(func() { _ = bus.Close() })
	logs, err := artifact.Open(t.Context(), "mem://")
	must(t, err)
	directory, err := authz.NewDirectory(authz.DevAccounts(func(name string) string { return name }), time.Now)
	must(t, err)
	az, err := authz.New(authz.DefaultPolicy(), directory)
	must(t, err)
	f := &fixture{Operator: enginetest.Operator{T: t, Store: st}}
	f.Who, err = directory.Authenticate("dev-admin")
	must(t, err)
	tickets, err := ticket.ParseKeys([]string{"test:MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="})
	must(t, err)
	journal := journal.New(journal.Config{
		Now: func() time.Time { return f.engine.Clock() }, Tickets: tickets, Store: journal.On(st), Logs: logs, Blobs: logs,
		Queues: queues, MaxSteps: 5000, Fetch: journal.NewFetcher([]string{dir}, nil),
	})
	f.engine = mock.New(mock.Config{Journal: journal, Tickets: tickets, Steps: scripted{o.Steps},
		RotateAfter: o.RotateAfter})
	keys, err := runs.ParseManualKeys([]string{"test:MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="})
	must(t, err)
	control := usecases.New(usecases.Config{
		ManualKeys: keys, Store: st, Engine: f.engine, Bus: bus, Hub: live.New(st, bus, live.Config{}), Authz: az, Logs: logs,
		Queues: queues, Policy: o.Policy,
	})
	f.Control = control
	for _, duty := range []func(context.Context, string) error{control.Dispatch, control.Deliver} {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := duty(ctx, "test"); err != nil {
				t.Error(err)
			}
		}()
		t.Cleanup(func() { cancel(); <-done })
	}
	return f
}

// scripted plays the suite's script.
type scripted struct{ steps *enginetest.Steps }

func (s scripted) Attempt(x mock.Execution) mock.Attempt {
	try := s.steps.Next(x.StepID, x.LogicalAttempt, x.EngineAttempt, x.Compensation)
	a := mock.Attempt{Takes: try.Takes}
	if try.Fails != "" {
		a.Fails = &mock.Failure{Code: try.Fails, Message: "it failed", NotRetryable: try.NotRetryable, Class: try.Class}
	}
	if s.steps.Held(x.StepID) && !x.Compensation {
		a.Held = func() bool { return s.steps.Held(x.StepID) }
	}
	return a
}

func (f *fixture) Pass(d time.Duration) { f.engine.Advance(d) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
