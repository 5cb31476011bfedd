package mock_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine/enginetest"
	"github.com/dvt-engine/dvt/engine/mock"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

func TestConformance(t *testing.T) { enginetest.Run(t, open) }

// fixture is a dvt on a real store around a mock engine.
type fixture struct {
	t       *testing.T
	store   store.Store
	control *control.Service
	engine  *mock.Engine
	who     authz.Principal
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
	directory, err := authz.NewDirectory(authz.DevAccounts(), time.Now)
	must(t, err)
	az, err := authz.New(authz.DefaultPolicy(), directory)
	must(t, err)
	f := &fixture{t: t, store: st}
	f.who, err = directory.Authenticate("dev-admin")
	must(t, err)
	journal := control.NewJournal(control.JournalConfig{
		Store: st, Logs: logs, Blobs: logs, Queues: queues, MaxSteps: 5000, Fetch: control.NewFetcher([]string{dir}, true),
	})
	f.engine = mock.New(mock.Config{Journal: journal, Steps: scripted{o.Steps}, RotateAfter: o.RotateAfter})
	keys, err := control.ParseManualKeys([]string{"test:MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA="})
	must(t, err)
	f.control = control.New(control.Config{
		ManualKeys: keys, Store: st, Engine: f.engine, Bus: bus, Hub: live.New(st, bus, live.Config{}), Authz: az, Logs: logs, Queues: queues, Policy: o.Policy,
	})
	for _, duty := range []func(context.Context, string) error{f.control.Reconcile, f.control.Deliver} {
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

func (f *fixture) Start(doc []byte) string {
	f.t.Helper()
	out, err := f.control.StartRun(f.t.Context(), f.who, control.StartRun{
		RequestID: uuid.NewString(), ProjectID: "shop", EnvironmentID: "dev", Inline: doc,
	})
	must(f.t, err)
	return out.View.State.RunID
}

func (f *fixture) Signal(runID string, sig run.Signal) run.Receipt {
	f.t.Helper()
	if sig.ID == "" {
		sig.ID = uuid.NewString()
	}
	if sig.Type == run.CompleteManual {
		return f.complete(runID, sig)
	}
	out, err := f.control.SignalRun(f.t.Context(), f.who, control.SignalRun{RunID: runID, Signal: sig, Payload: []byte(`{}`), Reason: "a test"})
	must(f.t, err)
	return out.Receipt
}

// complete is what a person does, with the token of the open task.
func (f *fixture) complete(runID string, sig run.Signal) run.Receipt {
	f.t.Helper()
	l, err := f.store.Load(f.t.Context(), runID)
	must(f.t, err)
	_, err = f.store.Save(f.t.Context(), l.State, l.Changes) // as a projector does
	must(f.t, err)
	tasks, err := f.control.ManualTasks(f.t.Context(), f.who, control.ManualTasksQuery{RunID: runID, First: 1})
	must(f.t, err)
	if len(tasks.Tasks) != 1 || tasks.Tasks[0].StepID != sig.StepID {
		f.t.Fatalf("tasks %+v", tasks.Tasks)
	}
	out, err := f.control.CompleteManualStep(f.t.Context(), f.who, control.CompleteManualStep{
		RunID: runID, StepID: sig.StepID, Token: tasks.Tasks[0].Token, Outcome: sig.Outcome,
	})
	must(f.t, err)
	return out.Receipt
}

func (f *fixture) State(runID string) run.State {
	f.t.Helper()
	l, err := f.store.Load(f.t.Context(), runID)
	must(f.t, err)
	return l.State
}

func (f *fixture) Events(runID string) []run.Event {
	f.t.Helper()
	events, err := f.store.Events(f.t.Context(), runID, 0, store.MaxPage)
	must(f.t, err)
	return events
}

func (f *fixture) Receipt(runID, signalID string) run.Receipt {
	f.t.Helper()
	r, err := f.store.Receipt(f.t.Context(), runID, signalID)
	must(f.t, err)
	return r
}

func (f *fixture) Pass(d time.Duration) { f.engine.Advance(d) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
