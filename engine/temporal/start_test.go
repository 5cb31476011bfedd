package temporal_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// contract: T111, T130, T107
func TestStart_FindsTheExecutionOfTheRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	open := h.hold("s2")
	id := h.start(l3(0))
	h.waitUntilRunning(id, "s2")
	at := h.identity(id)
	started, err := h.engine.Start(t.Context(), at, h.queues)
	must(t, err)
	first := started.Ref
	want := first
	want.PauseAhead = true // the workflow adds this capability
	begun := payload[run.RunStartedPayload](h, id, "RunStarted")
	if begun.Engine != want || begun.Engine.TaskQueue != h.queues.For(at.TenantID, at.EnvironmentID).Control {
		t.Errorf("RunStarted has the reference %+v, want %+v of Start, with the queue of the workflow", begun.Engine, want)
	}
	if begun.EngineType != "temporal" || begun.Context == nil || begun.Context.TriggerSource == "" {
		t.Errorf("RunStarted has the engine type %q and the context %+v, want temporal and the source of the request",
			begun.EngineType, begun.Context)
	}
	open()
	h.waitForEnd(id)
	h.waitFor(id, "closed", func(run.State) bool {
		d, err := h.engine.Describe(t.Context(), at)
		must(t, err)
		return !d.Open
	})
	again, err := h.engine.Start(t.Context(), at, h.queues)
	must(t, err)
	if again.Ref != first || len(again.Foreign) > 0 {
		t.Errorf("the second Start returned %+v, want %+v", again, first)
	}
	d, err := h.engine.Describe(t.Context(), at)
	if err != nil || d.Open || d.ClosedAs != "Completed" {
		t.Errorf("Describe returned %+v, %v; want a completed execution", d, err)
	}
	if err := h.engine.Signal(t.Context(), at, engine.Signal{No: 1}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a signal to a closed run returned %v, want ErrClosed", err)
	}
	if err := h.engine.Terminate(t.Context(), at, "test"); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("a termination of a closed run returned %v, want ErrClosed", err)
	}
	h.expect(id, 3, "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)", "StepCompleted(s2,1)",
		"StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")

	at.RunID = uuid.NewString()
	if err := h.engine.Signal(t.Context(), at, engine.Signal{No: 1}); !errors.Is(err, engine.ErrNotStarted) {
		t.Errorf("a signal to a run that was never started returned %v, want ErrNotStarted", err)
	}
}

// A start that Temporal refuses is not the silence of Temporal: repeating it does not help.
// contract: R357
func TestStart_SaysThatTemporalRefusesTheInput(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: -1})
	at := run.Identity{TenantID: "acme", ProjectID: "p", EnvironmentID: "dev", RunID: uuid.NewString()}
	long := h.queues
	long.Control = strings.Repeat("q", 2000)
	if _, err := h.engine.Start(t.Context(), at, long); !errors.Is(err, engine.ErrRejected) {
		t.Errorf("a start on a queue with a name of 2,000 bytes returned %v, want ErrRejected", err)
	}
	server := testserver.Temporal(t)
	c, err := temporal.Dial(server.Addr, "no-such-namespace", quietLog)
	must(t, err)
	t.Cleanup(c.Close)
	elsewhere := temporal.New(c, "no-such-namespace", temporal.Config{Tickets: h.keys})
	if _, err := elsewhere.Start(t.Context(), at, h.queues); !errors.Is(err, engine.ErrRejected) {
		t.Errorf("a start in a namespace that does not exist returned %v, want ErrRejected", err)
	}
}

// attributesIn returns the search attributes of dvt that the execution of a run has, by name.
func attributesIn(t *testing.T, c client.Client, id run.Identity) map[string]string {
	t.Helper()
	d, err := c.DescribeWorkflowExecution(t.Context(), temporal.WorkflowID(id), "")
	must(t, err)
	found := map[string]string{}
	for name, p := range d.GetWorkflowExecutionInfo().GetSearchAttributes().GetIndexedFields() {
		var v string
		if strings.HasPrefix(name, "Dvt") {
			must(t, converter.GetDefaultDataConverter().FromPayload(p, &v))
			found[name] = v
		}
	}
	return found
}

// contract: R313
func TestStart_TemporalFindsARunByItsSearchAttributes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: -1})
	at := run.Identity{RunID: uuid.NewString(), TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev",
		PlanID: "plan-" + uuid.NewString(), PlanVersion: "1.2"}
	_, err := h.engine.Start(t.Context(), at, h.queues)
	must(t, err)
	want := map[string]string{"DvtRunId": at.RunID, "DvtTenantId": "acme", "DvtProjectId": "shop",
		"DvtEnvironmentId": "dev", "DvtPlanId": at.PlanID, "DvtPlanVersion": "1.2"}
	if d := cmp.Diff(want, attributesIn(t, h.client, at)); d != "" {
		t.Errorf("search attributes (-want +got):\n%s", d)
	}
	query := "DvtPlanId = '" + at.PlanID + "' AND DvtPlanVersion = '1.2' AND DvtEnvironmentId = 'dev'"
	for deadline := time.Now().Add(testtime.Of(h.patience)); ; time.Sleep(50 * time.Millisecond) {
		out, err := h.client.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Query: query})
		must(t, err)
		if out.GetCount() == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("Temporal finds %d executions by %s, want 1", out.GetCount(), query)
		}
	}
}

// A namespace that was set up for an earlier version does not know all search attributes. Runs start without them, and
// with them once somebody has created them.
// contract: R313
func TestStart_InANamespaceThatLacksSearchAttributes(t *testing.T) {
	t.Parallel()
	server := testserver.Temporal(t)
	name := "early-" + uuid.NewString()[:8]
	c, err := temporal.Dial(server.Addr, name, quietLog)
	must(t, err)
	t.Cleanup(c.Close)
	_, err = c.WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
	must(t, err)
	create := func(names ...string) {
		t.Helper()
		add := map[string]enumspb.IndexedValueType{}
		for _, n := range names {
			add[n] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
		}
		for deadline := time.Now().Add(testtime.Of(time.Minute)); ; time.Sleep(200 * time.Millisecond) {
			_, err := c.OperatorService().AddSearchAttributes(t.Context(),
				&operatorservice.AddSearchAttributesRequest{Namespace: name, SearchAttributes: add})
			var early *serviceerror.NamespaceNotFound // a server learns of a new namespace after a while
			if !errors.As(err, &early) || time.Now().After(deadline) {
				must(t, err)
				return
			}
		}
	}
	var lines bytes.Buffer
	// start starts a run with an engine of its own, and returns the number of its search attributes.
	start := func() int {
		t.Helper()
		e := temporal.New(c, name, temporal.Config{Tickets: testKeys(), Log: slog.New(slog.NewTextHandler(&lines, nil))})
		at := run.Identity{RunID: uuid.NewString(), TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev", PlanID: "p",
			PlanVersion: "1"}
		for deadline := time.Now().Add(testtime.Of(time.Minute)); ; time.Sleep(200 * time.Millisecond) {
			_, err := e.Start(t.Context(), at, plan.Queues{Control: "tq-control-early"})
			if err == nil {
				break
			}
			if !errors.Is(err, engine.ErrRejected) || time.Now().After(deadline) {
				t.Fatalf("the start of a run in a namespace with some search attributes returned %v, want none", err)
			}
		}
		return len(attributesIn(t, c, at))
	}
	create("DvtRunId", "DvtTenantId", "DvtProjectId")
	if n := start(); n != 3 {
		t.Errorf("the execution has %d search attributes, want the 3 that the namespace knows", n)
	}
	if said := lines.String(); strings.Count(said, "level=WARN") != 1 || !strings.Contains(said, "DvtPlanVersion") {
		t.Errorf("the log is %q, want one warning that names the attributes to create", said)
	}
	create("DvtEnvironmentId", "DvtPlanId", "DvtPlanVersion")
	for deadline := time.Now().Add(testtime.Of(time.Minute)); ; time.Sleep(500 * time.Millisecond) {
		n := start()
		if n == 6 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the execution has %d search attributes after all were created, want 6", n)
		}
	}
}
