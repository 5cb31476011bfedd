package temporal_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine/enginetest"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
)

func TestConformance(t *testing.T) {
	server := testserver.Temporal(t)
	enginetest.Run(t, func(t *testing.T, o enginetest.Options) enginetest.Fixture {
		h := newHarness(t, options{server: server, policy: o.Policy, rotateAfter: o.RotateAfter, workers: -1})
		h.spawn(func(ctx context.Context) error {
			return temporal.Run(ctx, h.client, temporal.WorkerConfig{
				Control: []string{h.queues.Control}, Data: h.queues.Known[1:], DataConcurrency: 32,
				Namespace: testserver.TemporalNamespace, StopTimeout: time.Second,
			}, h.journal, runner(h.journal, h.root, played{o.Steps}))
		})
		admin := *h
		directory, err := authz.NewDirectory(authz.DevAccounts(), time.Now)
		must(t, err)
		admin.who, err = directory.Authenticate("dev-admin")
		must(t, err)
		return &fixture{&admin}
	})
}

// fixture is a harness as the suite sees it.
type fixture struct{ *harness }

func (f *fixture) Start(doc []byte) string         { return f.start(doc) }
func (f *fixture) Events(runID string) []run.Event { return f.events(runID) }
func (f *fixture) Pass(d time.Duration)            { time.Sleep(d) }

func (f *fixture) Signal(runID string, sig run.Signal) run.Receipt {
	f.t.Helper()
	if sig.Type != run.CompleteManual {
		return f.signal(runID, sig).Receipt
	}
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

func (f *fixture) Receipt(runID, signalID string) run.Receipt {
	f.t.Helper()
	r, err := f.store.Receipt(f.t.Context(), runID, signalID)
	must(f.t, err)
	return r
}

// played is an executor that plays the suite's script.
type played struct{ steps *enginetest.Steps }

func (p played) Execute(ctx context.Context, t executor.Task, _ executor.Host) (executor.Result, error) {
	hook := strings.HasSuffix(t.IdempotencyKey, ":compensate")
	try := p.steps.Next(t.Step.StepID, t.LogicalAttempt, t.EngineAttempt, hook)
	for wait := try.Takes; wait > 0 || p.steps.Held(t.Step.StepID) && !hook; wait = 0 {
		select {
		case <-time.After(max(wait, 2*time.Millisecond)):
		case <-ctx.Done():
			return executor.Result{}, context.Cause(ctx)
		}
	}
	if try.Fails != "" {
		return executor.Result{}, failure(try.Fails, !try.NotRetryable, try.Class)
	}
	return executor.Result{}, nil
}
