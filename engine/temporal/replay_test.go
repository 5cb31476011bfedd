package temporal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/temporalproto"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

var record = flag.Bool(
	"record", false, "write the latest version's folder of testdata and testdata/bad anew, from runs on a real server")

func replay(h *historypb.History) error { return replayOn(h, temporal.RunWorkflow) }

func replayOn(h *historypb.History, w func(workflow.Context, temporal.Input) error) error {
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(w, workflow.RegisterOptions{Name: temporal.WorkflowName})
	return r.ReplayWorkflowHistory(sdklog.NewStructuredLogger(quietLog), h)
}

// recorded is the folder of the histories of this version of the workflow. The first change that must have a version of
// its own brings a second folder.
const recorded = "v1"

// kept are the situations that they show.
var kept = []string{
	"cancel", "compensation", "failure-window-expires", "fan-out-100", "linear", "manual", "parallel",
	"pause-drain-resume", "plan-missing",
	"quota", "retry", "rotation-1", "rotation-2", "skip", "sleep",
}

// TestReplay_Recorded replays the histories that each version recorded: a
// change of the workflow that breaks one needs a version.
// contract: E-02, E-03
func TestReplay_Recorded(t *testing.T) {
	if *record {
		recordAll(t)
	}
	all := histories(t, recorded)
	for path, h := range all {
		if err := replay(h); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, name := range kept {
		if all[filepath.Join("testdata", recorded, name+".json")] == nil {
			t.Errorf("testdata/%s/%s.json is missing: record it with -record", recorded, name)
		}
	}
}

// TestReplay_Unguarded changes the workflow: what it does now that it did not
// do when the histories were recorded must have a version of its own.
// contract: E-03
func TestReplay_Unguarded(t *testing.T) {
	t.Parallel()
	unguarded := func(ctx workflow.Context, in temporal.Input) error {
		if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
			return err
		}
		return temporal.RunWorkflow(ctx, in)
	}
	guarded := func(ctx workflow.Context, in temporal.Input) error {
		if workflow.GetVersion(ctx, "test", workflow.DefaultVersion, 1) == 1 {
			return unguarded(ctx, in)
		}
		return temporal.RunWorkflow(ctx, in)
	}
	for path, h := range histories(t, recorded) {
		if err := replayOn(h, unguarded); err == nil {
			t.Errorf("%s replays on a workflow that was changed without a version", path)
		}
		if err := replayOn(h, guarded); err != nil {
			t.Errorf("%s does not replay on a workflow that was changed with a version: %v", path, err)
		}
	}
}

// TestReplay_Words says of each history whether it replays, and where it does not.
func TestReplay_Words(t *testing.T) {
	t.Parallel()
	read := func(name string) (temporal.Replayed, error) {
		f, err := os.Open(filepath.Join("testdata", name+".json"))
		must(t, err)
		defer f.Close()
		return temporal.Replay(f, nil)
	}
	if out, err := read(recorded + "/linear"); err != nil || out.Events < 20 {
		t.Errorf("%+v, %v", out, err)
	}
	for name, word := range map[string]string{
		"bad/swapped-steps":   "ActivityTaskScheduled dvt.execute b/1.1",
		"bad/other-attempt":   "ActivityTaskScheduled dvt.execute s2/2.1",
		"bad/swapped-results": "", "bad/other-run": "",
	} {
		_, err := read(name)
		var m *temporal.MismatchError
		if !errors.As(err, &m) || len(m.Events) == 0 || len(m.Events) > 12 || !strings.Contains(strings.Join(m.Events, "\n"),
			word) {
			t.Errorf("%s: %+v", name, err)
			continue
		}
		t.Logf("%s: %d replay, then %q", name, m.Replayed, m.Events)
	}
	for name, doc := range map[string]string{
		"no JSON": "{", "no events": `{"events":[]}`,
		"another workflow": `{"events":[{"eventId":"1","eventType":"WorkflowExecutionStarted","workflowExecutionStartedEventAttributes":{"workflowType":{"name":"other"}}}]}`,
	} {
		if _, err := temporal.Replay(strings.NewReader(doc), nil); !errors.Is(err, temporal.ErrNotHistory) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestReplay_Bad replays histories of workflows that decided otherwise.
// contract: E-02, T184
func TestReplay_Bad(t *testing.T) {
	want := map[string]string{
		"swapped-steps":   "nondeterministic workflow",
		"other-attempt":   "nondeterministic workflow",
		"swapped-results": "lookup failed",
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

// TestReplay_Live replays what a server just recorded, often.
// contract: E-02
func TestReplay_Live(t *testing.T) {
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
	if len(paths) < 4 {
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
	h := newHarness(t, options{rotateAfter: 200, slots: 100})
	folder := recorded
	save := func(name, runID string) {
		h.closed(runID)
		write(t, filepath.Join(folder, name), h.history(runID))
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
			if c := e.GetMarkerRecordedEventAttributes(); c != nil { // the skeleton, which comes first
				c.Details["result"] = other.Events[i].GetMarkerRecordedEventAttributes().Details["result"]
				return
			}
		}
	})

	h.steps.on("s2", failing(1, failure("BROKEN", true, "")))
	retried := h.start(l3(60))
	h.until(retried, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	h.signal(retried, run.Signal{Type: run.RetryStep, StepID: "s2"})
	h.ended(retried)
	save("retry", retried)
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

	out, err := h.control.StartRun(t.Context(), h.who, runs.StartRun{
		RequestID: uuid.NewString(), ProjectID: "shop", EnvironmentID: "dev", Ref: &plan.Ref{
			URI: "file:///gone.json", SHA256: strings.Repeat("1", 64), SchemaVersion: "v1.2", PlanID: "plan-3",
			PlanVersion: "1.0",
		},
	})
	must(t, err)
	h.ended(out.View.State.RunID)
	save("plan-missing", out.View.State.RunID)

	h.steps.on("s2", failing(9, failure("BROKEN", true, "")))
	skipped := h.start(l3(60))
	h.until(skipped, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	h.signal(skipped, run.Signal{Type: run.SkipStep, StepID: "s2"})
	h.ended(skipped)
	save("skip", skipped)

	h.steps.on("s1", failing(0, nil))
	h.steps.on("s2", failing(0, nil))
	manual := h.start(document(0, step{id: "s1"}, waits("ok", "s1"), step{id: "s2", deps: "ok"}))
	h.complete(manual, "ok")
	h.ended(manual)
	save("manual", manual)

	h.steps.on("s3", failing(9, failure("BROKEN", false, "")))
	compensated := h.start(document(0, step{id: "s1", extra: undone}, step{id: "s2", deps: "s1", extra: undone},
		step{id: "s3", deps: "s2"}))
	h.ended(compensated)
	save("compensation", compensated)

	var wide []step
	for i := range 100 {
		wide = append(wide, step{id: fmt.Sprintf("w%02d", i), extra: spare})
	}
	fan := h.start(document(0, wide...))
	h.ended(fan)
	save("fan-out-100", fan)

	h = newHarness(t, options{rotateAfter: 2})
	open := h.hold("s001")
	rotated := h.start(document(0, row(4)...))
	h.running(rotated, "s001")
	h.pause(rotated)
	open()
	h.until(rotated, "rotated", func(run.State) bool { return len(h.chain(rotated)) == 2 })
	h.resume(rotated)
	h.ended(rotated)
	h.closed(rotated)
	for i, g := range h.chain(rotated) {
		write(t, filepath.Join(folder, fmt.Sprintf("rotation-%d", i+1)), g.history)
	}
	recordQuota(t, folder)
	slept := h.start(document(
		0, step{id: "nap", extra: map[string]any{"type": "SLEEP", "inputs": map[string]any{"ms": 50}}},
		step{id: "after", deps: "nap"}))
	h.ended(slept)
	h.closed(slept)
	write(t, filepath.Join(folder, "sleep"), h.history(slept))
}

// recordQuota records a heavy step that waits for a token.
func recordQuota(t *testing.T, folder string) {
	h, drain := limited(t, 30, options{})
	h.steps.on("first", func(context.Context, executor.Task) error { drain(); return nil })
	id := h.start(document(0, step{id: "first"}, step{id: "heavy", deps: "first", extra: heavyStep},
		step{id: "light", deps: "heavy"}))
	h.ended(id)
	h.closed(id)
	write(t, filepath.Join(folder, "quota"), h.history(id))
}

// waits is a MANUAL step.
func waits(id, deps string) step {
	return step{id: id, deps: deps, extra: map[string]any{
		"type": "MANUAL", "inputs": map[string]any{"instructions": "look at it"}, "manual": map[string]any{"sod": false},
	}}
}

// complete waits until a manual step waits, and completes it.
func (h *harness) complete(runID, stepID string) {
	h.t.Helper()
	h.logs(runID, "StepAwaitingManualCompletion("+stepID+",1)")
	h.operator().Signal(runID, run.Signal{Type: run.CompleteManual, StepID: stepID, Outcome: run.ManualSucceeded})
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
