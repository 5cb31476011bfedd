package temporal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/api/temporalproto"
	workflowpb "go.temporal.io/api/workflow/v1"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// Texts that must not appear in any byte of Temporal's database.
const (
	canaryStep    = "canary-step"
	canaryResult  = "canary-result"
	canaryMessage = "canary-message"
	canaryClass   = "transport" // error classes are public, so this one may appear
)

// canaryRun runs a plan that leaves every kind of data in Temporal: inputs, results, heartbeats, retried failures, a
// timer, a signal, a hook, and a chain of executions.
func canaryRun(t *testing.T, server *testserver.TemporalServer, payloads *temporal.Payloads) (h *harness,
	runID string) {
	t.Helper()
	h = newHarness(t, options{server: server, rotateAfter: 2, payloads: payloads})
	h.steps.result = json.RawMessage(`{"value":"` + canaryResult + `"}`)
	fails := func(times int32) func(context.Context, executor.Task) error {
		var n atomic.Int32
		return func(context.Context, executor.Task) error {
			if n.Add(1) > times {
				return nil
			}
			return &executor.Failure{Code: "BROKEN", Message: canaryMessage, Retryable: true, Class: canaryClass,
				Category: run.CategorySystem}
		}
	}
	h.steps.on(canaryStep+"-fails", fails(1))
	h.steps.on(canaryStep+"-ends", fails(9))
	h.steps.on(canaryStep+"-beats", func(context.Context, executor.Task) error {
		<-time.After(3 * time.Second) // longer than the first two heartbeats
		return nil
	})
	hook := map[string]any{"operation": "HTTP_NOTIFY", "input": map[string]any{"url": "https://example.com/" +
		canaryStep}}
	retry := map[string]any{"maxAttempts": 2, "initialBackoffMs": 100, "retryableErrors": []string{canaryClass}}
	runID = h.start(document(0,
		step{canaryStep + "-beats", "", map[string]any{"compensation": hook}},
		step{canaryStep + "-sleeps", canaryStep + "-beats", map[string]any{"type": "SLEEP",
			"inputs": map[string]any{"ms": 50}}},
		step{canaryStep + "-fails", canaryStep + "-sleeps", map[string]any{"retry": retry}},
		step{canaryStep + "-ends", canaryStep + "-fails", map[string]any{"retry": retry}},
	))
	if st := h.waitForEnd(runID); st.Status != run.Failed {
		t.Fatalf("the run ended %s, its log:\n%s", st.Status, strings.Join(h.log(runID), "\n"))
	}
	h.waitUntilClosed(runID)
	return h, runID
}

// contract: T115
func TestPayloads_TemporalStoresNothingInClear(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		payloads *temporal.Payloads
		seen     bool
	}{"without keys": {nil, true}, "with keys": {payloadsOf(t, "k1", "d1"), false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testserver.TemporalAlone(t)
			h, runID := canaryRun(t, server, c.payloads)
			stored := server.ReadDatabase(t)
			if !bytes.Contains(stored, []byte(runID)) {
				t.Fatal("the server's database does not contain the run id, so the search is wrong")
			}
			for _, canary := range []string{canaryStep, canaryResult, canaryMessage} {
				if got := bytes.Contains(stored, []byte(canary)); got != c.seen {
					t.Errorf("the server's database contains %s: %t, want %t", canary, got, c.seen)
				}
			}
			named := attributesIn(t, h.client, h.identity(runID))
			if _, got := named[temporal.AttributePlan]; got != c.seen || named[temporal.AttributeEnvironment] == "" {
				t.Errorf("the search attributes are %v, want the environment, and the plan %t", named, c.seen)
			}
			recorded := map[run.EventType]int{}
			for r, err := range h.engine.History(t.Context(), h.identity(runID)) {
				must(t, err)
				for _, e := range r.Append.Events {
					recorded[e.Type]++
				}
			}
			for _, want := range []run.EventType{run.RunStarted, run.StepStartedEvent, run.StepCompletedEvent,
				run.StepFailedEvent, run.RunFailed} {
				if recorded[want] == 0 {
					t.Errorf("the Historian read %v, want also a %s", recorded, want)
				}
			}
		})
	}
}

// The keys of a process change while a run is open. The keys after the first one still decrypt older payloads.
func TestPayloads_ARotatedKeyReadsOldHistories(t *testing.T) {
	t.Parallel()
	var keys atomic.Pointer[temporal.PayloadKeys]
	set := func(own, dispatch string) { k := keysOf(t, own, dispatch); keys.Store(&k) }
	set("k1", "")
	payloads := temporal.NewPayloads(func() temporal.PayloadKeys { return *keys.Load() })
	h := newHarness(t, options{payloads: payloads, workers: -1})
	stop := h.worker(0)
	release := h.hold("b")
	runID := h.start(document(0, step{id: "a"}, step{id: "b", deps: "a"}, step{id: "c", deps: "b"}))
	h.waitUntilRunning(runID, "b")
	set("k2 k1", "d2")
	release()
	stop() // another worker replays payloads that k1 encrypted
	h.worker(0)
	if st := h.waitForEnd(runID); st.Status != run.Completed {
		t.Fatalf("the run ended %s, want COMPLETED", st.Status)
	}
	h.waitUntilClosed(runID)
	history, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h.history(runID))
	must(t, err)
	used := map[string]bool{}
	for _, e := range h.history(runID).GetEvents() {
		raw, err := e.Marshal()
		must(t, err)
		for _, id := range []string{"k1", "k2", "d2"} {
			used[id] = used[id] || bytes.Contains(raw, []byte("\n\x11encryption-key-id\x12\x02"+id))
		}
	}
	if !used["k1"] || !used["k2"] || !used["d2"] {
		t.Errorf("the history has payloads of the keys %v, want all", used)
	}
	if out, err := temporal.Replay(bytes.NewReader(history), payloads); err != nil || out.Events < 20 {
		t.Errorf("Replay returned %+v, %v; want that the history of two keys replays", out, err)
	}
	walk := func() error {
		for _, err := range h.engine.History(t.Context(), h.identity(runID)) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	must(t, walk())
	set("k2", "d2")
	if err := walk(); !errors.Is(err, temporal.ErrPayloadKey) {
		t.Errorf("the Historian without the old key returned %v, want ErrPayloadKey", err)
	}
	for name, by := range map[string]*temporal.Payloads{"without keys": nil, "without the old key": payloads} {
		if _, err := temporal.Replay(bytes.NewReader(history), by); !errors.Is(err, temporal.ErrPayloadKey) {
			t.Errorf("a replay %s returned %v, want ErrPayloadKey", name, err)
		}
	}
}

// A worker with the wrong keys must not end runs. They wait for a worker with the right keys.
func TestPayloads_AWorkerWithoutTheKeyEndsNoRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{payloads: payloadsOf(t, "k1", ""), workers: -1})
	wrong := *h
	c, err := temporal.Connect(temporal.Connection{
		HostPort: testserver.Temporal(t).Addr, Namespace: testserver.TemporalNamespace,
		Payloads: payloadsOf(t, "k2", ""),
	}, quietLog)
	must(t, err)
	t.Cleanup(c.Close)
	wrong.client = c
	stop := wrong.worker(0)
	runID := h.start(document(0, step{id: "a"}))
	h.waitFor(runID, "a run with a failed workflow task", func(run.State) bool {
		failed := 0
		if _, err := h.engine.Describe(t.Context(), h.identity(runID)); errors.Is(err, engine.ErrNotStarted) {
			return false
		}
		for _, e := range h.history(runID).GetEvents() {
			if e.GetWorkflowTaskFailedEventAttributes() != nil {
				failed++
			}
			if e.GetWorkflowExecutionFailedEventAttributes() != nil {
				t.Fatalf("the workflow failed: %v", e)
			}
		}
		return failed > 0
	})
	stop()
	h.worker(0)
	if st := h.waitForEnd(runID); st.Status != run.Completed {
		t.Errorf("the run ended %s, want COMPLETED", st.Status)
	}
}

// A data worker needs only the keys of dispatches, and they decrypt nothing else of a run.
func TestPayloads_ADataWorkerNeedsOnlyTheKeysOfDispatches(t *testing.T) {
	t.Parallel()
	server := testserver.Temporal(t)
	h := newHarness(t, options{payloads: payloadsOf(t, "k1", "d1"), workers: -1})
	h.serve(temporal.WorkerConfig{Control: []string{h.queues.Control}})
	data := payloadsOf(t, "", "d1")
	c, err := temporal.Connect(temporal.Connection{HostPort: server.Addr, Namespace: server.Namespace,
		Payloads: data}, quietLog)
	must(t, err)
	t.Cleanup(c.Close)
	worker := *h
	worker.client = c
	worker.serve(temporal.WorkerConfig{Data: []string{h.queues.Data}})
	runID := h.start(document(0, step{id: "a"}, step{"n", "a",
		map[string]any{"type": string(plan.Noop), "inputs": map[string]any{}}}))
	if st := h.waitForEnd(runID); st.Status != run.Completed {
		t.Fatalf("the run ended %s, its log:\n%s", st.Status, strings.Join(h.log(runID), "\n"))
	}
	started := h.history(runID).GetEvents()[0].GetWorkflowExecutionStartedEventAttributes()
	var in temporal.Input
	if err := temporal.ConverterOf(data).FromPayloads(started.GetInput(), &in); !errors.Is(err,
		temporal.ErrPayloadKey) {
		t.Errorf("a data worker reads the input of a workflow as %+v with error %v, want ErrPayloadKey", in, err)
	}
}

// People see the message of a pending execution in clear, although Temporal stores it encrypted.
func TestDebug_ReadsTheMessageOfAnEncryptedFailure(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{payloads: payloadsOf(t, "k1", "d1")})
	h.steps.on("a", func(context.Context, executor.Task) error { return failure("BROKEN", true, canaryClass) })
	retry := map[string]any{"maxAttempts": 2, "initialBackoffMs": 60_000, "maxBackoffMs": 60_000,
		"retryableErrors": []string{canaryClass}}
	runID := h.start(document(0, step{"a", "", map[string]any{"retry": retry}}))
	h.waitFor(runID, "described with its last failure", func(run.State) bool {
		d, err := h.engine.Debug(t.Context(), h.identity(runID))
		if errors.Is(err, engine.ErrNotStarted) {
			return false
		}
		must(t, err)
		if len(d.Pending) != 1 || d.Pending[0].LastFailure == "" {
			return false
		}
		if got := d.Pending[0]; got.LastFailure == "Encoded failure" || strings.Contains(got.ID, "a") {
			t.Fatalf("the pending execution is %+v, want a readable message and no step id", got)
		}
		return true
	})
}

// A repair that lacks the key of a step's heartbeats must not treat a running step as one that never started.
func TestHistory_FailsWithoutTheKeyOfAHeartbeat(t *testing.T) {
	t.Parallel()
	server := testserver.Temporal(t)
	h := newHarness(t, options{payloads: payloadsOf(t, "k1", "d1"), workers: -1})
	h.serve(temporal.WorkerConfig{Control: []string{h.queues.Control}})
	c, err := temporal.Connect(temporal.Connection{
		HostPort: server.Addr, Namespace: server.Namespace, Payloads: payloadsOf(t, "", "d2 d1"),
	}, quietLog)
	must(t, err)
	t.Cleanup(c.Close)
	worker := *h
	worker.client = c
	worker.serve(temporal.WorkerConfig{Data: []string{h.queues.Data}})
	h.hold("a")
	runID := h.start(document(0, step{id: "a"}))
	h.waitUntilRunning(runID, "a")
	h.waitForPending(runID, "#1", func(p *workflowpb.PendingActivityInfo) bool { return p.GetHeartbeatDetails() != nil })
	var last error
	for _, err := range h.engine.History(t.Context(), h.identity(runID)) {
		last = err
	}
	if !errors.Is(last, temporal.ErrPayloadKey) {
		t.Errorf("the history ends with %v, want ErrPayloadKey", last)
	}
}
