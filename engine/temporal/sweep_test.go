package temporal_test

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/dvt-engine/dvt/control/duty"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// hurried returns settings with short intervals, so that a test does not wait.
func hurried() duty.ReconcileSettings {
	return duty.ReconcileSettings{Interval: 200 * time.Millisecond, Quiet: time.Second, Confirm: time.Second}
}

// With the default settings of a server, a run fails within a minute after somebody terminated its workflow by hand.
// contract: E-16
func TestReconcile_FailsARunWhoseWorkflowWasTerminated(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	h.spawn(h.control.Reconcile)
	h.hold("s1")
	id := h.start(document(0, step{id: "s1"}))
	other := h.start(document(0, step{id: "s1"}))
	h.waitUntilRunning(id, "s1")
	h.waitUntilRunning(other, "s1")
	must(t, h.client.TerminateWorkflow(t.Context(), temporal.WorkflowID(h.identity(id)), "", "by hand"))
	from := time.Now()
	h.patience = time.Minute
	st := h.waitForEnd(id)
	t.Logf("the run failed after %s", time.Since(from).Round(time.Second))
	if st.Failure == nil || st.Failure.Code != string(run.CodeEngineTerminated) || st.Counts.Failed != 1 {
		t.Errorf("failure %+v, want ENGINE_TERMINATED and one failed step; log %v", st.Failure, h.log(id))
	}
	if step, _ := st.Step("s1"); step.Attempts[0].Error.Code != string(run.CodeTerminated) {
		t.Errorf("attempt of s1 %+v, want the error %s", step.Attempts[0], run.CodeTerminated)
	}
	if h.operator().State(other).Status != run.Running {
		t.Errorf("the other run does not run any more; log %v", h.log(other))
	}
}

// contract: T192
func TestReconcile_StartsAnUnknownRunAndFailsADeletedOne(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{noStarts: true, sweeping: hurried()})
	h.hold("s1")
	start := func(handOver bool) string {
		id := h.start(document(0, step{id: "s1"}))
		q, err := h.store.Lease(t.Context(), "test", time.Minute, 1)
		must(t, err)
		if handOver {
			_, err = h.engine.Start(t.Context(), h.identity(id), h.queues)
			must(t, err)
		}
		must(t, h.store.MarkStarted(t.Context(), id, q[0].Generation))
		return id
	}
	never, began := start(false), start(true)
	h.waitUntilRunning(began, "s1")
	_, err := h.client.WorkflowService().DeleteWorkflowExecution(t.Context(),
		&workflowservice.DeleteWorkflowExecutionRequest{
			Namespace: testserver.TemporalNamespace, WorkflowExecution: &common.WorkflowExecution{
				WorkflowId: temporal.WorkflowID(h.identity(began))},
		})
	must(t, err)
	h.spawn(h.control.Reconcile)
	if st := h.waitForEnd(began); st.Failure == nil || st.Failure.Code != string(run.CodeEngineLost) {
		t.Errorf("failure %+v, want ENGINE_LOST; log %v", st.Failure, h.log(began))
	}
	h.spawn(func(ctx context.Context) error { return h.control.Dispatch(ctx, "test") })
	h.waitUntilRunning(never, "s1")
	q, err := h.store.QueueRow(t.Context(), never)
	if must(t, err); q.Status != store.QueueStarted {
		t.Errorf("queue row %+v, want STARTED", q)
	}
}

func TestCensus_ListsOpenAndClosedExecutions(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	h.hold("s1")
	from := time.Now().Add(-time.Minute)
	open, ended, done := h.start(document(0, step{id: "s1"})), h.start(document(0, step{id: "s1"})),
		h.start(document(0, step{id: "s2"}))
	h.waitUntilRunning(open, "s1")
	h.waitUntilRunning(ended, "s1")
	h.waitForEnd(done)
	h.waitUntilClosed(done)
	must(t, h.client.TerminateWorkflow(t.Context(), temporal.WorkflowID(h.identity(ended)), "", "by hand"))
	ids := []run.Identity{h.identity(open), h.identity(ended), h.identity(done), {RunID: "nobody", TenantID: "acme"}}
	h.waitFor(open, "alone open in the index", func(run.State) bool {
		got, err := h.engine.FindOpen(t.Context(), ids)
		must(t, err)
		return len(got) == 1 && got[open]
	})
	h.waitFor(open, "ended in the index", func(run.State) bool {
		found := map[string]engine.Description{}
		for d, err := range h.engine.ListClosed(t.Context(), from) {
			must(t, err)
			found[d.Identity.RunID] = d
		}
		if _, ok := found[done]; ok || found[open].ClosedAs != "" {
			t.Fatalf("Closed yields %+v, want only the terminated execution", found)
		}
		return found[ended].ClosedAs == "Terminated" && found[ended].Identity.TenantID == "acme"
	})
	for d, err := range h.engine.ListClosed(t.Context(), time.Now().Add(time.Hour)) {
		t.Fatalf("Closed since tomorrow yields %+v, %v; want nothing", d, err)
	}
	if _, err := h.engine.FindOpen(t.Context(), make([]run.Identity, engine.MaxCensus+1)); err == nil {
		t.Error("Open with more than MaxCensus ids succeeded, want an error")
	}
}
