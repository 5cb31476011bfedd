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

// finishing serves a queue with workflows of a type that complete at once, and returns the queue.
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

// approved creates a run that is due and that no dispatcher starts.
func (h *harness) approved() run.Identity {
	h.t.Helper()
	return h.identity(h.start(document(0, step{id: "s1"})))
}

// An execution under the id of a run that dvt did not start never counts as the run's: Start ends it, names it, and
// the run is executed.
// contract: T111, T130
func TestStart_DoesNotTakeAForeignExecutionForTheRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{noStarts: true, rotateAfter: 3})
	model := h.approved() // a run whose memo a stranger can read
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
		t.Fatal("the executions of dvt carry no memo")
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
			id := h.approved()
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
			h.running(id.RunID, "s1")
		})
	}
}

// A start with the run's own seal and a long delay is as foreign as one without a seal.
// contract: T111, T130
func TestDescribe_ACopyThatIsDelayedIsForeign(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{noStarts: true})
	h.hold("s1")
	id := h.approved()
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
		if _, ended := errors.AsType[*serviceerror.NotFound](err); !ended { // a worker has ended the copy without an input
			must(t, err)
		}
		h.holdID(id, temporal.WorkflowName, client.StartWorkflowOptions{
			TaskQueue: info.GetTaskQueue(), Memo: memo, StartDelay: c.delay,
		})
		d, err := h.engine.Describe(t.Context(), id)
		must(t, err)
		if !strings.Contains(d.Foreign, c.want) || (c.want == "") != (d.Foreign == "") {
			t.Errorf("a copy %s is foreign because %q, want %q", name, d.Foreign, c.want)
		}
	}
}

// Each execution of a chain counts as dvt's own.
func TestDescribe_AnExecutionThatContinuesIsOwn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{rotateAfter: 2})
	var steps []step
	for _, id := range []string{"s1", "s2", "s3", "s4", "s5"} {
		steps = append(steps, step{id: id})
	}
	h.hold("s5")
	id := h.start(document(0, steps...))
	h.running(id, "s5")
	debug, err := h.engine.Debug(t.Context(), h.identity(id))
	must(t, err)
	if debug.Total < 2 {
		t.Fatalf("the run has %d executions, so nothing continued", debug.Total)
	}
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
	own, held := h.approved(), h.approved()
	_, err := h.engine.Start(t.Context(), own, h.queues)
	must(t, err)
	h.holdID(held, temporal.WorkflowName, client.StartWorkflowOptions{TaskQueue: "tq-nobody"})
	h.until(own.RunID, "listed", func(run.State) bool {
		found := map[string]bool{}
		for page, more := "", true; more; more = page != "" {
			ids, next, err := h.engine.Running(t.Context(), page)
			must(t, err)
			for _, id := range ids {
				found[id.TenantID+"/"+id.RunID] = true
			}
			page = next
		}
		return found["acme/"+own.RunID] && found["acme/"+held.RunID]
	})
	open, err := h.engine.Open(t.Context(), []run.Identity{own, held})
	must(t, err)
	if !open[own.RunID] || open[held.RunID] {
		t.Errorf("open are %v, want %s alone", open, own.RunID)
	}
	if err := h.engine.Oust(t.Context(), own, "test"); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("dvt's own execution was ended as foreign: %v", err)
	}
	must(t, h.engine.Oust(t.Context(), held, "test"))
	d, err := h.engine.Describe(t.Context(), held)
	must(t, err)
	if d.Open || d.Foreign == "" {
		t.Errorf("the foreign execution is %+v, want a closed one", d)
	}
}

// A stranger who starts dvt's workflow with his own input, on the right queue, gets nothing executed.
// contract: T111
func TestWorkflow_RefusesAnInputThatNoServerSealed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{noStarts: true})
	id := h.approved()
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

// Somebody ends the run's execution and starts his own in its place. The sweep ends that one, and the run as one whose
// execution was ended.
// contract: T99, T192
func TestSweep_AnExecutionTookThePlaceOfTheRuns(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{sweeping: hurried()})
	h.spawn(h.control.Reconcile)
	h.hold("s1")
	id, other := h.start(document(0, step{id: "s1"})), h.start(document(0, step{id: "s1"}))
	h.running(id, "s1")
	h.running(other, "s1")
	must(t, h.client.TerminateWorkflow(t.Context(), temporal.WorkflowID(h.identity(id)), "", "by hand"))
	w := h.holdID(h.identity(id), temporal.WorkflowName, client.StartWorkflowOptions{
		TaskQueue: "tq-nobody", WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	})
	if st := h.ended(id); st.Failure == nil || st.Failure.Code != string(run.CodeEngineTerminated) {
		t.Errorf("the run failed with %+v, want ENGINE_TERMINATED; log %v", st.Failure, h.log(id))
	}
	within, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.Get(within, nil); err == nil || within.Err() != nil {
		t.Errorf("the foreign execution ended with %v, want that it was terminated", err)
	}
	if h.until(other, "as it was", func(run.State) bool { return true }).Status != run.Running {
		t.Errorf("the other run: %v", h.log(other))
	}
}
