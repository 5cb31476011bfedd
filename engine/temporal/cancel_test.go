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

// cancelled cancels a run and waits for its end.
func (h *harness) cancelled(runID string) run.State {
	h.t.Helper()
	r := h.signal(runID, run.Signal{Type: run.Cancel})
	st := h.ended(runID)
	if st.Status != run.Cancelled {
		h.t.Fatalf("run ended as %s", st.Status)
	}
	if got := h.applied(runID, r.Signal.ID); got.Application != run.SignalApplied || got.AppliedSeq != st.Seq {
		h.t.Errorf("receipt %+v", got)
	}
	if p := payload[run.RunCancelledPayload](h, runID, "RunCancelled"); p.SignalID != r.Signal.ID || p.Actor != h.who.ID ||
		p.Reason != "a test" {
		h.t.Errorf("RunCancelled %+v", p)
	}
	return st
}

// closed waits for the workflow to be over, as Temporal sees it.
func (h *harness) closed(runID string) {
	h.t.Helper()
	h.until(runID, "closed", func(run.State) bool {
		d, err := h.engine.Describe(h.t.Context(), h.identity(runID))
		must(h.t, err)
		return !d.Open
	})
}

// pending waits until the engine knows of an execution of a step what ok says.
func (h *harness) pending(runID, stepID string, ok func(*workflowpb.PendingActivityInfo) bool) {
	h.t.Helper()
	h.until(runID, "as it should be in the engine", func(run.State) bool {
		d, err := h.client.DescribeWorkflowExecution(h.t.Context(), temporal.WorkflowID(h.identity(runID)), "")
		must(h.t, err)
		return slices.ContainsFunc(d.GetPendingActivities(), func(p *workflowpb.PendingActivityInfo) bool {
			return strings.HasPrefix(p.GetActivityId(), stepID+"/") && ok(p)
		})
	})
}

// contract: T79
func TestCancel_RunningSteps(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	h.hold("a")
	stubborn := make(gate)
	h.steps.on("b", func(ctx context.Context, _ executor.Task) error { // does not listen
		<-stubborn
		return nil
	})
	id := h.start(d4(60))
	h.running(id, "a", "b")
	time.AfterFunc(2*time.Second, func() { close(stubborn) })
	began := time.Now()
	st := h.cancelled(id)
	h.closed(id)
	t.Logf("cancelled after %s", time.Since(began))
	log := h.log(id)[4:]
	slices.Sort(log)
	if want := []string{"RunCancelled", "SignalAccepted", "StepCompleted(b,1)", "StepFailed(a,1)"}; !slices.Equal(log,
		want) {
		t.Errorf("log %q", h.log(id))
	}
	a, _ := st.Step("a")
	if e := a.Attempts[0].Error; e.Code != "CANCELLED" || e.Retryable || e.Category != run.CategoryUser {
		t.Errorf("error %+v", e)
	}
	if final, _ := st.Step("final"); final.Status != run.StepPending {
		t.Errorf("final is %s", final.Status)
	}
}

func TestCancel_StepsBehindAFullWorker(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{slots: 1})
	var steps []step
	for _, id := range []string{"s0", "s1", "s2", "s3"} {
		h.hold(id)
		steps = append(steps, step{id: id})
	}
	id := h.start(document(0, steps...))
	h.until(id, "running one", func(s run.State) bool { return s.RunningSteps() == 1 })
	st := h.cancelled(id)
	h.closed(id)
	if st.Counts.Pending != 3 || st.Counts.Failed != 1 {
		t.Errorf("counts %+v", st.Counts)
	}
	if log := h.log(id); len(log) != 6 || log[3] != "SignalAccepted" || log[5] != "RunCancelled" {
		t.Errorf("log %q", log)
	}
	if got := h.steps.called(); len(got) != 1 {
		t.Errorf("executions %q", got)
	}
}

// TestCancel_RetryBackoff cancels a step that waits for its next try: Temporal
// answers without what the runner knew.
func TestCancel_RetryBackoff(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	failed := make(chan struct{}, 9)
	h.steps.on("s1", func(context.Context, executor.Task) error {
		failed <- struct{}{}
		return failure("FLAKY", true, "transport")
	})
	id := h.start(document(60, step{id: "s1", extra: retry(3, 20000)}, step{id: "s2", deps: "s1"}))
	<-failed
	h.pending(id, "s1", func(p *workflowpb.PendingActivityInfo) bool { return p.GetLastFailure() != nil })
	h.cancelled(id)
	h.closed(id)
	h.expect(id, 3, "StepStarted(s1,1)", "SignalAccepted", "StepFailed(s1,1)", "RunCancelled")
}

// contract: T214
func TestCancel_RetryWindowAndPause(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	h.steps.on("s2", failing(9, failure("BROKEN", true, "")))
	open, paused := h.start(l3(60)), h.start(l3(60))
	h.until(open, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	h.cancelled(open)
	h.expect(open, 5, "StepStarted(s2,1)", "StepFailed(s2,1)", "SignalAccepted", "RunCancelled")
	h.until(paused, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	h.pause(paused)
	h.cancelled(paused)
	h.expect(paused, 5, "StepStarted(s2,1)", "StepFailed(s2,1)", "SignalAccepted", "RunPaused(1)", "SignalAccepted",
		"RunCancelled")
}

// contract: G24
func TestCancel_Queued(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{noStarts: true})
	id := h.start(l3(0))
	h.cancelled(id)
	h.expect(id, 1, "RunApproved", "SignalAccepted", "RunCancelled")
	if _, err := h.engine.Describe(t.Context(), h.identity(id)); !errors.Is(err, engine.ErrNotStarted) {
		t.Errorf("described with %v", err)
	}
}

// TestCancel_BeforeTheFirstStep accepts the cancellation of a run that is
// started and whose worker has not come yet.
func TestCancel_BeforeTheFirstStep(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: -1})
	id := h.start(l3(0))
	h.until(id, "in the engine", func(run.State) bool {
		q, err := h.store.QueueRow(t.Context(), id)
		must(t, err)
		return q.Status == store.QueueStarted
	})
	r := h.signal(id, run.Signal{Type: run.Cancel})
	h.worker(0)
	h.ended(id)
	h.applied(id, r.Signal.ID)
	h.expect(id, 1, "RunApproved", "SignalAccepted", "RunStarted", "RunCancelled")
	if len(h.steps.called()) != 0 {
		t.Error("a step ran")
	}
}

// TestCancel_FromOutside cancels the workflow past dvt: the log decides.
// contract: T200
func TestCancel_FromOutside(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	open := h.hold("s2")
	id := h.start(l3(0))
	h.running(id, "s2")
	must(t, h.client.CancelWorkflow(t.Context(), temporal.WorkflowID(h.identity(id)), ""))
	h.until(id, "told of the cancellation", func(run.State) bool {
		told := false
		for _, e := range h.history(id).Events {
			if told && e.GetWorkflowTaskCompletedEventAttributes() != nil {
				return true
			}
			told = told || e.GetWorkflowExecutionCancelRequestedEventAttributes() != nil
		}
		return false
	})
	open()
	if st := h.ended(id); st.Status != run.Completed {
		t.Errorf("run ended as %s", st.Status)
	}
	h.closed(id)
}

// TestCancel_OtherHand ends the run in the log while the workflow has an append
// and steps outstanding: it ends without a word.
func TestCancel_OtherHand(t *testing.T) {
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
	st := h.until(id, "running two", func(s run.State) bool { return s.RunningSteps() == 2 })
	_, err := h.store.Append(t.Context(), store.Append{RunID: id, Events: []run.Draft{{
		Type: run.RunFailed, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: time.Now(), EmittedBy: run.ByControl,
		Payload: []byte(`{"errorCode":"ENGINE_LOST","errorMessage":"test","retryable":false}`),
	}}})
	must(t, err)
	over.Store(true)
	for _, s := range st.Steps { // the append of its end stays unanswered, the next step finds the run over
		if s.Status == run.StepRunning {
			open[s.StepID]()
			break
		}
	}
	h.closed(id)
	d, err := h.engine.Describe(t.Context(), h.identity(id))
	must(t, err)
	if d.ClosedAs != "Completed" {
		t.Errorf("workflow closed as %s", d.ClosedAs)
	}
	if log := h.log(id); log[len(log)-1] != "RunFailed" {
		t.Errorf("log %q", log)
	}
}
