package temporal_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

var record = flag.Bool("record", false, "write testdata/histories and testdata/bad anew, from runs on a real server")

func replay(h *historypb.History) error {
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(temporal.RunWorkflow, workflow.RegisterOptions{Name: temporal.WorkflowName})
	return r.ReplayWorkflowHistory(sdklog.NewStructuredLogger(quietLog), h)
}

// TestReplay_E02_E03_Recorded replays the histories that earlier code recorded:
// a change of the workflow that breaks one needs a version.
func TestReplay_E02_E03_Recorded(t *testing.T) {
	if *record {
		recordAll(t)
	}
	for path, h := range histories(t, "histories") {
		if err := replay(h); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestReplay_E02_T184_Bad replays histories of workflows that decided otherwise.
func TestReplay_E02_T184_Bad(t *testing.T) {
	want := map[string]string{
		"swapped-steps":   "nondeterministic workflow",
		"other-attempt":   "nondeterministic workflow",
		"other-batch":     "nondeterministic workflow",
		"swapped-results": "answered for",
		"other-run":       "answered for",
	}
	for path, h := range histories(t, "bad") {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		err := replay(h)
		if err == nil || want[name] == "" || !strings.Contains(err.Error(), want[name]) {
			t.Errorf("%s: got %v, want one with %q", path, err, want[name])
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("testdata/bad/%s.json is missing", name)
	}
}

// TestReplay_E02_Live replays what a server just recorded, often.
func TestReplay_E02_Live(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	id := h.start(d4(0))
	h.ended(id)
	h.closed(id)
	live := h.history(id)
	for i := range 20 {
		if err := replay(live); err != nil {
			t.Fatalf("replay %d: %v", i, err)
		}
	}
	swapIDs(live, "a/1.1", "b/1.1")
	if err := replay(live); err == nil || !strings.Contains(err.Error(), "nondeterministic") {
		t.Errorf("replay of swapped steps: %v", err)
	}
}

func histories(t *testing.T, dir string) map[string]*historypb.History {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", dir, "*.json"))
	must(t, err)
	if len(paths) < 5 {
		t.Fatalf("%d files in testdata/%s: record them with -record", len(paths), dir)
	}
	out := map[string]*historypb.History{}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		must(t, err)
		out[path], err = client.HistoryFromJSON(bytes.NewReader(b), client.HistoryJSONOptions{})
		must(t, err)
		host, err := os.Hostname()
		must(t, err)
		home, err := os.UserHomeDir()
		must(t, err)
		for _, secret := range []string{"@" + host, host + ":", home + "/", os.TempDir() + "/", "stackTrace"} {
			if strings.Contains(string(b), secret) {
				t.Errorf("%s says %q", path, secret)
			}
		}
	}
	return out
}

// swapIDs gives two scheduled activities each other's id.
func swapIDs(h *historypb.History, a, b string) {
	for _, e := range h.Events {
		if s := e.GetActivityTaskScheduledEventAttributes(); s != nil {
			switch s.ActivityId {
			case a:
				s.ActivityId = b
			case b:
				s.ActivityId = a
			}
		}
	}
}

// swapResults gives two activities each other's result.
func swapResults(h *historypb.History, a, b string) {
	scheduled := map[int64]string{}
	found := map[string]*historypb.ActivityTaskCompletedEventAttributes{}
	for _, e := range h.Events {
		if s := e.GetActivityTaskScheduledEventAttributes(); s != nil {
			scheduled[e.EventId] = s.ActivityId
		}
		if c := e.GetActivityTaskCompletedEventAttributes(); c != nil {
			found[scheduled[c.ScheduledEventId]] = c
		}
	}
	found[a].Result, found[b].Result = found[b].Result, found[a].Result
}

func recordAll(t *testing.T) {
	h := newHarness(t, options{})
	save := func(name, runID string) {
		h.closed(runID)
		write(t, filepath.Join("histories", "v1-"+name), h.history(runID))
	}
	spoil := func(name, runID string, change func(*historypb.History)) {
		h.closed(runID)
		bad := h.history(runID)
		change(bad)
		write(t, filepath.Join("bad", name), bad)
	}

	linear := h.start(l3(0))
	h.ended(linear)
	save("linear", linear)
	spoil("other-attempt", linear, func(bad *historypb.History) { swapIDs(bad, "s2/1.1", "s2/2.1") })
	spoil("other-batch", linear, func(bad *historypb.History) { swapIDs(bad, "append/3", "append/9") })

	openA := h.hold("a")
	parallel := h.start(d4(0))
	h.logs(parallel, "StepCompleted(b,1)")
	openA()
	h.ended(parallel)
	save("parallel", parallel)
	spoil("swapped-steps", parallel, func(bad *historypb.History) { swapIDs(bad, "a/1.1", "b/1.1") })
	spoil("swapped-results", parallel, func(bad *historypb.History) { swapResults(bad, "a/1.1", "b/1.1") })
	spoil("other-run", parallel, func(bad *historypb.History) {
		other := h.history(linear)
		for i, e := range bad.Events {
			if c := e.GetActivityTaskCompletedEventAttributes(); c != nil { // the skeleton, which comes first
				c.Result = other.Events[i].GetActivityTaskCompletedEventAttributes().Result
				return
			}
		}
	})

	h.steps.on("s2", failing(1, failure("BROKEN", true, "")))
	retried := h.start(l3(60))
	h.until(retried, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	h.signal(retried, run.Signal{Type: run.RetryStep, StepID: "s2"})
	h.ended(retried)
	save("failure-window-retry", retried)
	h.steps.on("s2", failing(9, failure("BROKEN", true, "")))
	failed := h.start(l3(1))
	h.ended(failed)
	save("failure-window-expires", failed)

	openA, openB := h.hold("a"), h.hold("b")
	paused := h.start(d4(0))
	h.running(paused, "a", "b")
	h.pause(paused)
	openA()
	h.logs(paused, "StepCompleted(a,1)")
	h.resume(paused)
	openB()
	h.ended(paused)
	save("pause-drain-resume", paused)

	h.hold("a")
	h.hold("b")
	cancelled := h.start(d4(0))
	h.running(cancelled, "a", "b")
	h.cancelled(cancelled)
	save("cancel", cancelled)

	out, err := h.control.StartRun(t.Context(), h.who, control.StartRun{
		RequestID: uuid.NewString(), ProjectID: "shop", EnvironmentID: "dev", Ref: &plan.Ref{
			URI: "file:///gone.json", SHA256: strings.Repeat("1", 64), SchemaVersion: "v1.2", PlanID: "plan-3", PlanVersion: "1.0",
		},
	})
	must(t, err)
	h.ended(out.View.State.RunID)
	save("plan-missing", out.View.State.RunID)
}

// write saves a history without what it says of the machine that recorded it.
func write(t *testing.T, name string, h *historypb.History) {
	t.Helper()
	b, err := temporalproto.CustomJSONMarshalOptions{}.Marshal(h)
	must(t, err)
	var doc any
	must(t, json.Unmarshal(b, &doc))
	scrub(doc)
	b, err = json.MarshalIndent(doc, "", " ")
	must(t, err)
	path := filepath.Join("testdata", name+".json")
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, append(b, '\n'), 0o644))
}

func scrub(v any) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			scrub(x)
		}
	case map[string]any:
		if v["kind"] == "TASK_QUEUE_KIND_STICKY" {
			v["name"] = "sticky"
		}
		for key, x := range v {
			switch key {
			case "identity":
				v[key] = "worker"
			case "stackTrace", "workerVersion", "binaryChecksum":
				delete(v, key)
			default:
				scrub(x)
			}
		}
	}
}
