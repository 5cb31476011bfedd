package duty_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// A foreign execution holds the id of a run. A run that never began is started again. A run that had begun ends with
// ENGINE_TERMINATED, and a stop wins. The sweep does not believe claims of the foreign execution about the log.
// contract: T166, T192
func TestReconcile_EndsAnExecutionThatDvtDidNotStart(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	never, began, stopped, fine := w.CreateQueued("r1", "s1"), w.atWork("r2"), w.atWork("r3"), w.atWork("r4")
	w.HandOver()
	w.Send(w.Engineer(), controltest.SignalOf(stopped, "stop", run.Cancel))
	w.eye.Change(func() {
		for _, id := range []string{never, began, stopped} {
			w.eye.Foreign[id], w.eye.Heads[id] = "it is of the type \"x\"", 1000
		}
	})
	w.sweep()
	controltest.Eventually(t, "the start is due again", func() bool {
		return controltest.Must[store.QueueRow](t)(w.Raw.QueueRow(t.Context(), never)).Status == store.QueuePending
	})
	if st := w.ends(began); st.Failure == nil || st.Failure.Code != string(run.CodeEngineTerminated) {
		t.Errorf("the run that had begun failed with %+v, want ENGINE_TERMINATED", st.Failure)
	}
	if st := w.ends(stopped); st.Status != run.Cancelled {
		t.Errorf("the run that was to stop is %s, want CANCELLED", st.Status)
	}
	for _, id := range []string{never, began, stopped} {
		if !w.HasAuditRow("acme", "engine ENGINE_FORGERY REJECTED TICKET_REFUSED "+id) {
			t.Errorf("the audit has no row about %s: %v", id, w.AuditRows("acme"))
		}
	}
	w.eye.Change(func() {
		if !strings.Contains(strings.Join(w.eye.Ousted, "\n"), began) {
			t.Errorf("the foreign execution of %s was not ended: %v", began, w.eye.Ousted)
		}
		delete(w.eye.Foreign, never)
	})
	w.looksOn()
	if w.StateOf(fine).Status != run.Running {
		t.Errorf("the other run is %s, want it open", w.StateOf(fine).Status)
	}
}

// The sweep ends nothing when most executions look foreign, because then this server probably lacks a key.
func TestReconcile_EndsNothingWhenMostExecutionsLookForeign(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	var ids []string
	for _, r := range strings.Fields("a b c d e f g h i j k l") {
		ids = append(ids, w.atWork(r))
	}
	w.eye.Change(func() {
		for _, id := range ids {
			w.eye.Foreign[id] = "no server of this installation sealed its start"
		}
	})
	w.sweep()
	controltest.Eventually(t, "people are told", func() bool { return w.swept("workflow_foreign", "escalated") >= 1 })
	w.looksOn()
	for _, id := range ids {
		if st := w.StateOf(id); st.Status != run.Running {
			t.Errorf("run %s is %s, want it open", id, st.Status)
		}
	}
	if alerts := w.alerts(); len(alerts) == 0 || !strings.Contains(alerts[0].Note, "ticket-keys") {
		t.Errorf("the alerts do not name ticket-keys: %+v", alerts)
	}
}

// A closed execution with the run id of another tenant does not affect that run.
func TestReconcile_AClosedExecutionOfAnotherTenantEndsNoRun(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	id := w.atWork("r1")
	w.eye.Change(func() { w.eye.Ends[id], w.eye.ClosedTenant = "Terminated", "globex" })
	w.sweep()
	w.looksOn()
	if st := w.StateOf(id); st.Status != run.Running {
		t.Errorf("the run is %s, want it open: %v", st.Status, w.EventLog(id))
	}
}

// heldEngine is an engine in which other clients start executions under the ids of runs.
type heldEngine struct {
	*controltest.FakeEngine
	foreign []engine.ForeignExecution
	err     error
}

func (e *heldEngine) Start(ctx context.Context, id run.Identity, q plan.Queues) (engine.Started, error) {
	out, err := e.FakeEngine.Start(ctx, id, q)
	if e.err != nil {
		err = e.err
	}
	out.Foreign = e.foreign
	return out, err
}

// holding configures an engine that found foreign executions under the ids of runs.
func holding(err error, engineRunIDs ...string) func(*usecases.Config) {
	return func(c *usecases.Config) {
		e := &heldEngine{FakeEngine: c.Engine.(*controltest.FakeEngine), err: err}
		for _, id := range engineRunIDs {
			e.foreign = append(e.foreign, engine.ForeignExecution{EngineRunID: id, Why: "it is of the type \"x\""})
		}
		c.Engine = e
	}
}

// contract: T130
func TestDispatch_AuditsTheExecutionsThatHeldAnID(t *testing.T) {
	t.Parallel()
	w := controltest.New(t, holding(nil, "e1"))
	id := w.CreateQueued("r1", "s1")
	w.Spawn(func(ctx context.Context) error { return w.Dispatch(ctx, "test") })
	controltest.Eventually(t, "the run is started", func() bool {
		return controltest.Must[store.QueueRow](t)(w.Raw.QueueRow(t.Context(), id)).Status == store.QueueStarted
	})
	controltest.Eventually(t, "the audit row", func() bool {
		return w.HasAuditRow("acme", "engine ENGINE_FORGERY REJECTED TICKET_REFUSED "+id)
	})
}

// Foreign executions delay only their own run: the circuit breaker of starts stays closed.
func TestDispatch_AHeldRunDoesNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	w := controltest.New(t, holding(engine.ErrHeld, "e1"))
	for _, r := range strings.Fields("a b c d e f g h") {
		w.CreateQueued(r, "s1")
	}
	w.Spawn(func(ctx context.Context) error { return w.Dispatch(ctx, "test") })
	controltest.Eventually(t, "each was tried", func() bool {
		w.Engine.Mu.Lock()
		defer w.Engine.Mu.Unlock()
		return len(w.Engine.Started) == 8
	})
	w.Clock.Advance(10 * time.Second)
	if _, err := w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("next", controltest.Document(nil,
		"s1"))); err != nil {
		t.Errorf("a further start is refused: %v", err)
	}
}
