package enginetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// UseCases start and steer runs.
type UseCases interface {
	StartRun(ctx context.Context, p authz.Principal, in runs.StartRun) (runs.StartedRun, error)
	SignalRun(ctx context.Context, p authz.Principal, in runs.SignalRun) (runs.SignalReceipt, error)
	ManualTasks(ctx context.Context, p authz.Principal, q runs.ManualTasksQuery) (runs.ManualTasksPage, error)
	CompleteManualStep(ctx context.Context, p authz.Principal, in runs.CompleteManualStep) (runs.SignalReceipt, error)
}

// Operator implements all methods of a Fixture except Pass. It starts and steers runs through the use cases as Who, and
// reads them from the store. Any error ends the test. Fixtures embed it.
type Operator struct {
	T       testing.TB
	Store   store.Store
	Control UseCases
	Who     authz.Principal
}

// degraded is how long Start waits for an engine that starts runs slowly, as on a busy machine.
const degraded = 30 * time.Second

// Start implements Fixture.
func (o Operator) Start(doc []byte) string {
	o.T.Helper()
	in := runs.StartRun{RequestID: uuid.NewString(), ProjectID: "shop", EnvironmentID: "dev", Inline: doc}
	out, err := o.Control.StartRun(o.T.Context(), o.Who, in)
	for began := time.Now(); isDegraded(err) && time.Since(began) < degraded; {
		time.Sleep(time.Second)
		out, err = o.Control.StartRun(o.T.Context(), o.Who, in)
	}
	o.must(err)
	return out.View.State.RunID
}

func isDegraded(err error) bool {
	refused := new(control.Error)
	return errors.As(err, &refused) && refused.Code == run.CodeEngineDegraded
}

// Signal implements Fixture.
func (o Operator) Signal(runID string, sig run.Signal) run.SignalReceipt {
	o.T.Helper()
	if sig.Type == run.CompleteManual {
		return o.complete(runID, sig)
	}
	if sig.ID == "" {
		sig.ID = uuid.NewString()
	}
	out, err := o.Control.SignalRun(o.T.Context(), o.Who, runs.SignalRun{RunID: runID, Signal: sig,
		Payload: []byte(`{}`), Reason: "a test"})
	o.must(err)
	return out.SignalReceipt
}

// complete completes a manual step like a person, with the token of the open task.
func (o Operator) complete(runID string, sig run.Signal) run.SignalReceipt {
	o.T.Helper()
	l, err := o.Store.Load(o.T.Context(), runID)
	o.must(err)
	// ManualTasks reads the projection, and a fixture has no projector.
	_, err = o.Store.Save(o.T.Context(), l.State, l.Changes)
	o.must(err)
	tasks, err := o.Control.ManualTasks(o.T.Context(), o.Who, runs.ManualTasksQuery{RunID: runID, First: 1})
	o.must(err)
	if len(tasks.Tasks) != 1 || tasks.Tasks[0].StepID != sig.StepID {
		o.T.Fatalf("open tasks of run %s are %+v, want one of step %s", runID, tasks.Tasks, sig.StepID)
	}
	out, err := o.Control.CompleteManualStep(o.T.Context(), o.Who, runs.CompleteManualStep{
		RunID: runID, StepID: sig.StepID, Token: tasks.Tasks[0].Token, Outcome: sig.Outcome,
	})
	o.must(err)
	return out.SignalReceipt
}

// State implements Fixture.
func (o Operator) State(runID string) run.State {
	o.T.Helper()
	l, err := o.Store.Load(o.T.Context(), runID)
	o.must(err)
	return l.State
}

// Events implements Fixture.
func (o Operator) Events(runID string) (all []run.Event) {
	o.T.Helper()
	for {
		var after run.Seq
		if len(all) > 0 {
			after = all[len(all)-1].Seq
		}
		page, err := o.Store.Events(o.T.Context(), runID, after, store.MaxPage)
		o.must(err)
		if all = append(all, page...); len(page) < store.MaxPage {
			return all
		}
	}
}

// Receipt implements Fixture.
func (o Operator) Receipt(runID, signalID string) run.SignalReceipt {
	o.T.Helper()
	r, err := o.Store.Receipt(o.T.Context(), runID, signalID)
	o.must(err)
	return r
}

func (o Operator) must(err error) {
	o.T.Helper()
	if err != nil {
		o.T.Fatal(err)
	}
}
