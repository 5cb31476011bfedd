package temporal_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// cancel cancels a run and waits for its end.
func (h *harness) cancel(runID string) run.State {
	h.t.Helper()
	r := h.signal(runID, run.Signal{Type: run.Cancel})
	st := h.waitForEnd(runID)
	if st.Status != run.Cancelled {
		h.t.Fatalf("the run ended %s, want CANCELLED", st.Status)
	}
	if got := h.waitUntilApplied(runID, r.Signal.ID); got.Application != run.SignalApplied || got.AppliedSeq != st.Seq {
		h.t.Errorf("receipt %+v, want it applied by the last event, %d", got, st.Seq)
	}
	if p := payload[run.RunCancelledPayload](h, runID, "RunCancelled"); p.SignalID != r.Signal.ID || p.Actor != h.who.ID ||
		p.Reason != "a test" {
		h.t.Errorf("RunCancelled has %+v, want the signal, its actor and its reason", p)
	}
	return st
}

// waitUntilClosed waits until Temporal has closed the workflow.
func (h *harness) waitUntilClosed(runID string) {
	h.t.Helper()
	h.waitFor(runID, "closed", func(run.State) bool {
		d, err := h.engine.Describe(h.t.Context(), h.identity(runID))
		must(h.t, err)
		return !d.Open
	})
}

// waitForPending waits until Temporal's description of a pending execution of a step satisfies ok.
func (h *harness) waitForPending(runID, stepID string, ok func(*workflowpb.PendingActivityInfo) bool) {
	h.t.Helper()
	h.waitFor(runID, "pending at "+stepID+" as expected", func(run.State) bool {
		d, err := h.client.DescribeWorkflowExecution(h.t.Context(), temporal.WorkflowID(h.identity(runID)), "")
		must(h.t, err)
		return slices.ContainsFunc(d.GetPendingActivities(), func(p *workflowpb.PendingActivityInfo) bool {
			return strings.HasPrefix(p.GetActivityId(), stepID+"/") && ok(p)
		})
	})
}

// contract: T79
func TestCancel_StopsRunningSteps(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	h.hold("a")
	stubborn := make(gate)
	h.steps.on("b", func(ctx context.Context, _ executor.Task) error { // ignores the cancellation
		<-stubborn
		return nil
	})
	id := h.start(d4(60))
	h.waitUntilRunning(id, "a", "b")
	time.AfterFunc(2*time.Second, func() { close(stubborn) })
	began := time.Now()
	st := h.cancel(id)
	h.waitUntilClosed(id)
	t.Logf("cancelled after %s", time.Since(began))
	log := h.log(id)[4:]
	slices.Sort(log)
	if want := []string{"RunCancelled", "SignalAccepted", "StepCompleted(b,1)", "StepFailed(a,1)"}; !slices.Equal(log,
		want) {
		t.Errorf("log %q, want the ends of a and b after the signal", h.log(id))
	}
	a, _ := st.Step("a")
	if e := a.Attempts[0].Error; e.Code != "CANCELLED" || e.Retryable || e.Category != run.CategoryUser {
		t.Errorf("error of a %+v, want CANCELLED by the user", e)
	}
	if final, _ := st.Step("final"); final.Status != run.StepPending {
		t.Errorf("final is %s, want PENDING", final.Status)
	}
}

func TestCancel_StepsThatWaitForASlotDoNotStart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{slots: 1})
	var steps []step
	for _, id := range []string{"s0", "s1", "s2", "s3"} {
		h.hold(id)
		steps = append(steps, step{id: id})
	}
	id := h.start(document(0, steps...))
	h.waitFor(id, "running one", func(s run.State) bool { return s.RunningSteps() == 1 })
	st := h.cancel(id)
	h.waitUntilClosed(id)
	if st.Counts.Pending != 3 || st.Counts.Failed != 1 {
		t.Errorf("counts %+v, want one failed and three pending steps", st.Counts)
	}
	if log := h.log(id); len(log) != 6 || log[3] != "SignalAccepted" || log[5] != "RunCancelled" {
		t.Errorf("log %q, want one start and one end", log)
	}
	if got := h.steps.called(); len(got) != 1 {
		t.Errorf("executions %q, want one", got)
	}
}

// A step waits for its next try. Temporal reports its cancellation without an answer of a worker.
func TestCancel_EndsAStepThatWaitsForItsNextTry(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	failed := make(chan struct{}, 9)
	h.steps.on("s1", func(context.Context, executor.Task) error {
		failed <- struct{}{}
		return failure("FLAKY", true, "transport")
	})
	id := h.start(document(60, step{id: "s1", extra: retry(3, 20000)}, step{id: "s2", deps: "s1"}))
	<-failed
	h.waitForPending(id, "s1", func(p *workflowpb.PendingActivityInfo) bool { return p.GetLastFailure() != nil })
	h.cancel(id)
	h.waitUntilClosed(id)
	h.expect(id, 3, "StepStarted(s1,1)", "SignalAccepted", "StepFailed(s1,1)", "RunCancelled")
}

// contract: T214
func TestCancel_EndsARetryWindowAndAPause(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	h.steps.on("s2", failing(9, failure("BROKEN", true, "")))
	open, paused := h.start(l3(60)), h.start(l3(60))
	h.waitFor(open, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	h.cancel(open)
	h.expect(open, 5, "StepStarted(s2,1)", "StepFailed(s2,1)", "SignalAccepted", "RunCancelled")
	h.waitFor(paused, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	h.pause(paused)
	h.cancel(paused)
	h.expect(paused, 5, "StepStarted(s2,1)", "StepFailed(s2,1)", "SignalAccepted", "RunPaused(1)", "SignalAccepted",
		"RunCancelled")
}

// contract: G24
func TestCancel_AQueuedRunEndsWithoutTheEngine(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{noStarts: true})
	id := h.start(l3(0))
	h.cancel(id)
	h.expect(id, 1, "RunApproved", "SignalAccepted", "RunCancelled")
	if _, err := h.engine.Describe(t.Context(), h.identity(id)); !errors.Is(err, engine.ErrNotStarted) {
		t.Errorf("Describe returned %v, want ErrNotStarted", err)
	}
}

// The cancellation is accepted after the start of the run and before a worker serves its queue.
func TestCancel_BeforeTheFirstWorkerRunsNoStep(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: -1})
	id := h.start(l3(0))
	h.waitFor(id, "in the engine", func(run.State) bool {
		q, err := h.store.QueueRow(t.Context(), id)
		must(t, err)
		return q.Status == store.QueueStarted
	})
	r := h.signal(id, run.Signal{Type: run.Cancel})
	h.worker(0)
	h.waitForEnd(id)
	h.waitUntilApplied(id, r.Signal.ID)
	h.expect(id, 1, "RunApproved", "SignalAccepted", "RunCancelled")
	if len(h.steps.called()) != 0 {
		t.Error("a step of the cancelled run was executed")
	}
}

// A cancellation of the workflow past dvt has no effect, because the log decides when a run ends.
// contract: T200
func TestCancel_OfTheWorkflowDoesNotEndTheRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	open := h.hold("s2")
	id := h.start(l3(0))
	h.waitUntilRunning(id, "s2")
	must(t, h.client.CancelWorkflow(t.Context(), temporal.WorkflowID(h.identity(id)), ""))
	h.waitFor(id, "at a workflow task after the cancellation", func(run.State) bool {
		requested := false
		for _, e := range h.history(id).Events {
			if requested && e.GetWorkflowTaskCompletedEventAttributes() != nil {
				return true
			}
			requested = requested || e.GetWorkflowExecutionCancelRequestedEventAttributes() != nil
		}
		return false
	})
	open()
	if st := h.waitForEnd(id); st.Status != run.Completed {
		t.Errorf("the run ended %s, want COMPLETED", st.Status)
	}
	h.waitUntilClosed(id)
}

// Another writer ends the run in the log while the workflow waits for an append and for steps. The workflow completes
// and writes nothing more.
func TestCancel_AWorkflowEndsWithARunThatAnotherWriterEnded(t *testing.T) {
	t.Parallel()
	var over atomic.Bool
	unanswered := make(chan struct{})
	defer close(unanswered)
	l := &lossy{append: func(_ store.Append, err error) error {
		if over.Load() {
			<-unanswered
		}
		return err
	}}
	h := newHarness(t, options{slots: 2, wrap: func(j engine.Journal) engine.Journal { l.Journal = j; return l }})
	open := map[string]func(){}
	var steps []step
	for _, name := range []string{"a", "b", "c", "d"} {
		open[name] = h.hold(name)
		steps = append(steps, step{id: name})
	}
	id := h.start(document(0, steps...))
	st := h.waitFor(id, "running two", func(s run.State) bool { return s.RunningSteps() == 2 })
	_, err := h.store.Append(t.Context(), store.Append{RunID: id, Events: []run.Draft{{
		Type: run.RunFailed, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: time.Now(), EmittedBy: run.ByControl,
		Payload: []byte(`{"errorCode":"ENGINE_LOST","errorMessage":"test","retryable":false}`),
	}}})
	must(t, err)
	over.Store(true)
	for _, s := range st.Steps { // the append of its end stays unanswered, and the next step finds that the run has ended
		if s.Status == run.StepRunning {
			open[s.StepID]()
			break
		}
	}
	h.waitUntilClosed(id)
	d, err := h.engine.Describe(t.Context(), h.identity(id))
	must(t, err)
	if d.ClosedAs != "Completed" {
		t.Errorf("the workflow closed as %s, want Completed", d.ClosedAs)
	}
	if log := h.log(id); log[len(log)-1] != "RunFailed" {
		t.Errorf("log %q, want RunFailed at its end", log)
	}
}
