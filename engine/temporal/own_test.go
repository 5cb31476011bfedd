package temporal_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/run"
)

// holdID starts an execution under the id of a run, as anybody with access to Temporal can.
func (h *harness) holdID(
	id run.Identity, workflowType string, o client.StartWorkflowOptions, input ...any,
) client.WorkflowRun {
	h.t.Helper()
	o.ID = temporal.WorkflowID(id)
	w, err := h.client.ExecuteWorkflow(h.t.Context(), o, workflowType, input...)
	must(h.t, err)
	return w
}

// finishing starts a worker whose workflows of this type complete at once, and returns its queue.
func (h *harness) finishing(workflowType string) (queue string) {
	h.t.Helper()
	queue = "tq-stranger-" + uuid.NewString()[:8]
	w := worker.New(h.client, queue, worker.Options{})
	nothing := func(workflow.Context) error { return nil }
	w.RegisterWorkflowWithOptions(nothing, workflow.RegisterOptions{Name: workflowType})
	must(h.t, w.Start())
	h.t.Cleanup(w.Stop)
	return queue
}

// newApprovedRun creates a run that may start, in a harness without a dispatcher.
func (h *harness) newApprovedRun() run.Identity {
	h.t.Helper()
	return h.identity(h.start(document(0, step{id: "s1"})))
}

// An execution that dvt did not start never counts as the run's, even under the id of the run. Start ends it, lists it,
// and starts the run.
// contract: T111, T130
func TestStart_DoesNotTakeAForeignExecutionForTheRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{noStarts: true, rotateAfter: 3})
	model := h.newApprovedRun() // a run whose memo a stranger can read
	h.hold("s1")
	_, err := h.engine.Start(t.Context(), model, h.queues)
	must(t, err)
	shown, err := h.client.DescribeWorkflowExecution(t.Context(), temporal.WorkflowID(model), "")
	must(t, err)
	copied := map[string]any{}
	for k, v := range shown.GetWorkflowExecutionInfo().GetMemo().GetFields() {
		var text string
		if strings.TrimSpace(string(v.GetData())) != "" {
			text = strings.Trim(string(v.GetData()), `"`)
		}
		copied[k] = text
	}
	if len(copied) == 0 {
		t.Fatal("the execution of dvt has no memo")
	}
	done := h.finishing("stranger")
	for name, c := range map[string]struct {
		hold func(id run.Identity)
		why  string
	}{
		"of another type": {func(id run.Identity) {
			h.holdID(id, "stranger", client.StartWorkflowOptions{TaskQueue: "tq-nobody"})
		}, "of the type"},
		"of another type, which completed": {func(id run.Identity) {
			must(t, h.holdID(id, "stranger", client.StartWorkflowOptions{TaskQueue: done}).Get(t.Context(), nil))
		}, "of the type"},
		"of dvt's type on a queue that nobody serves": {func(id run.Identity) {
			h.holdID(id, temporal.WorkflowName, client.StartWorkflowOptions{TaskQueue: "tq-nobody"})
		}, "sealed its start"},
		"with the memo of another run": {func(id run.Identity) {
			h.holdID(id, temporal.WorkflowName, client.StartWorkflowOptions{TaskQueue: "tq-nobody", Memo: copied})
		}, "sealed its start"},
	} {
		t.Run(name, func(t *testing.T) {
			id := h.newApprovedRun()
			c.hold(id)
			out, err := h.engine.Start(t.Context(), id, h.queues)
			must(t, err)
			if len(out.Foreign) != 1 || !strings.Contains(out.Foreign[0].Why, c.why) {
				t.Errorf("Start names %+v, want one execution that is %s", out.Foreign, c.why)
			}
			d, err := h.engine.Describe(t.Context(), id)
			must(t, err)
			if d.Foreign != "" || d.Ref.EngineRunID != out.Ref.EngineRunID {
				t.Errorf("under the id is %+v, want the execution that Start made, %s", d, out.Ref.EngineRunID)
			}
			h.waitUntilRunning(id.RunID, "s1")
		})
	}
}

// A copy with the run's own seal and a long start delay would hold the id without working, so it counts as foreign.
// contract: T111, T130
func TestDescribe_ACopyThatIsDelayedIsForeign(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{noStarts: true})
	h.hold("s1")
	id := h.newApprovedRun()
	_, err := h.engine.Start(t.Context(), id, h.queues)
	must(t, err)
	shown, err := h.client.DescribeWorkflowExecution(t.Context(), temporal.WorkflowID(id), "")
	must(t, err)
	info := shown.GetWorkflowExecutionInfo()
	memo := map[string]any{}
	for k, v := range info.GetMemo().GetFields() {
		memo[k] = strings.Trim(string(v.GetData()), `"`)
	}
	for name, c := range map[string]struct {
		delay time.Duration
		want  string
	}{"without a delay": {0, ""}, "with a delay": {100 * 24 * time.Hour, "delayed"}} {
		err := h.client.TerminateWorkflow(t.Context(), temporal.WorkflowID(id), "", "by hand")
		// A worker may already have failed the copy, which has no input.
		if _, ended := errors.AsType[*serviceerror.NotFound](err); !ended {
			must(t, err)
		}
		h.holdID(id, temporal.WorkflowName, client.StartWorkflowOptions{
			TaskQueue: info.GetTaskQueue(), Memo: memo, StartDelay: c.delay,
		})
		d, err := h.engine.Describe(t.Context(), id)
		must(t, err)
		if !strings.Contains(d.Foreign, c.want) || (c.want == "") != (d.Foreign == "") {
			t.Errorf("a copy %s has the reason %q, want %q", name, d.Foreign, c.want)
		}
	}
}

// Temporal copies the memo to the next execution, so each execution of a chain counts as dvt's own.
func TestDescribe_AContinuedExecutionIsOwn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{rotateAfter: 2})
	var steps []step
	for _, id := range []string{"s1", "s2", "s3", "s4", "s5"} {
		steps = append(steps, step{id: id})
	}
	h.hold("s5")
	id := h.start(document(0, steps...))
	h.waitUntilRunning(id, "s5")
	// Temporal lists an execution some time after its start.
	h.waitFor(id, "in two executions", func(run.State) bool {
		debug, err := h.engine.Debug(t.Context(), h.identity(id))
		must(t, err)
		return debug.Total >= 2
	})
	d, err := h.engine.Describe(t.Context(), h.identity(id))
	must(t, err)
	if d.Foreign != "" || !d.Open {
		t.Errorf("the execution is %+v, want an open one of dvt's own", d)
	}
}

// contract: T192
func TestCensus_ShowsNoForeignExecution(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{noStarts: true})
	h.hold("s1")
	own, held := h.newApprovedRun(), h.newApprovedRun()
	_, err := h.engine.Start(t.Context(), own, h.queues)
	must(t, err)
	h.holdID(held, temporal.WorkflowName, client.StartWorkflowOptions{TaskQueue: "tq-nobody"})
	h.waitFor(own.RunID, "listed", func(run.State) bool {
		found := map[string]bool{}
		for page, more := "", true; more; more = page != "" {
			ids, next, err := h.engine.ListOpen(t.Context(), page)
			must(t, err)
			for _, id := range ids {
				found[id.TenantID+"/"+id.RunID] = true
			}
			page = next
		}
		return found["acme/"+own.RunID] && found["acme/"+held.RunID]
	})
	open, err := h.engine.FindOpen(t.Context(), []run.Identity{own, held})
	must(t, err)
	if !open[own.RunID] || open[held.RunID] {
		t.Errorf("open are %v, want %s alone", open, own.RunID)
	}
	if err := h.engine.TerminateForeign(t.Context(), own, "test"); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("dvt's own execution was ended as foreign: %v", err)
	}
	must(t, h.engine.TerminateForeign(t.Context(), held, "test"))
	d, err := h.engine.Describe(t.Context(), held)
	must(t, err)
	if d.Open || d.Foreign == "" {
		t.Errorf("the foreign execution is %+v, want a closed one", d)
	}
}

// A stranger starts dvt's workflow on the right queue with an input of his own. No step is executed.
// contract: T111
func TestWorkflow_RefusesAnInputThatNoServerSealed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{noStarts: true})
	id := h.newApprovedRun()
	w := h.holdID(id, temporal.WorkflowName, client.StartWorkflowOptions{TaskQueue: h.queues.Control},
		map[string]any{"identity": id, "heartbeatTimeoutMs": time.Hour.Milliseconds(), "rotateAfter": 50})
	err := w.Get(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "no server of this installation started") {
		t.Errorf("the workflow ended with %v, want a refusal", err)
	}
	if log := h.log(id.RunID); slices.Contains(log, "RunStarted") {
		t.Errorf("the stranger's workflow wrote into the log: %v", log)
	}
}

// A stranger ends the run's execution and starts another one under its id. The reconciler ends that one, and fails the
// run with ENGINE_TERMINATED.
// contract: T99, T192
func TestReconcile_EndsAnExecutionThatReplacedTheRuns(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{sweeping: hurried()})
	h.spawn(h.control.Reconcile)
	h.hold("s1")
	id, other := h.start(document(0, step{id: "s1"})), h.start(document(0, step{id: "s1"}))
	h.waitUntilRunning(id, "s1")
	h.waitUntilRunning(other, "s1")
	must(t, h.client.TerminateWorkflow(t.Context(), temporal.WorkflowID(h.identity(id)), "", "by hand"))
	w := h.holdID(h.identity(id), temporal.WorkflowName, client.StartWorkflowOptions{
		TaskQueue: "tq-nobody", WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	})
	if st := h.waitForEnd(id); st.Failure == nil || st.Failure.Code != string(run.CodeEngineTerminated) {
		t.Errorf("the run failed with %+v, want ENGINE_TERMINATED; log %v", st.Failure, h.log(id))
	}
	within, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.Get(within, nil); err == nil || within.Err() != nil {
		t.Errorf("the foreign execution ended with %v, want a termination", err)
	}
	if h.operator().State(other).Status != run.Running {
		t.Errorf("the other run does not run any more; log %v", h.log(other))
	}
}
