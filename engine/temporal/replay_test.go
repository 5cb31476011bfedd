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

var (
	record = flag.Bool("record", false, "rewrite the latest version's folder of testdata, and testdata/bad, from runs on "+
		"a real server; not after a release, whose histories must still replay")
	capture = flag.Bool("capture", false, "record the situations of kept that have no history yet, and leave the others")
)

func replay(h *historypb.History) error { return replayOn(h, temporal.RunWorkflow) }

func replayOn(h *historypb.History, w func(workflow.Context, temporal.Input) error) error {
	r := worker.NewWorkflowReplayer()
	r.RegisterWorkflowWithOptions(w, workflow.RegisterOptions{Name: temporal.WorkflowName})
	return r.ReplayWorkflowHistory(sdklog.NewStructuredLogger(quietLog), h)
}

// recorded is the folder of the histories of this version of the workflow. The first change that needs a new version
// adds a second folder.
const recorded = "v1"

// kept lists the names of the recorded histories, one per situation.
var kept = []string{
	"cancel", "compensation", "compensation-fails", "failure-window-expires", "fan-out-100", "linear", "manual",
	"parallel", "pause-cancels", "pause-drain-resume", "plan-missing", "platform-retry", "quota", "rerun", "retry",
	"rotation-1", "rotation-2", "skip", "sleep",
}

// A change of the workflow after which a recorded history does not replay needs a new version.
// contract: E-02, E-03
func TestReplay_AcceptsTheRecordedHistories(t *testing.T) {
	if *record || *capture {
		recordAll(t)
	}
	all := histories(t, recorded)
	for path, h := range all {
		if err := replay(h); err != nil {
			t.Errorf("%s does not replay: %v", path, err)
		}
	}
	for _, name := range kept {
		if all[filepath.Join("testdata", recorded, name+".json")] == nil {
			t.Errorf("testdata/%s/%s.json is missing: record it with make histories", recorded, name)
		}
	}
}

// A changed workflow replays the recorded histories only if the change has its own version.
// contract: E-03
func TestReplay_DetectsAChangeWithoutAVersion(t *testing.T) {
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
			t.Errorf("%s replays on a workflow with a change without a version", path)
		}
		if err := replayOn(h, guarded); err != nil {
			t.Errorf("%s does not replay on a workflow with a change with a version: %v", path, err)
		}
	}
}

// Replay names the first event that does not replay, and rejects files that are not histories.
func TestReplay_NamesTheFirstMismatch(t *testing.T) {
	t.Parallel()
	read := func(name string) (temporal.Replayed, error) {
		f, err := os.Open(filepath.Join("testdata", name+".json"))
		must(t, err)
		defer f.Close()
		return temporal.Replay(f, nil)
	}
	if out, err := read(recorded + "/linear"); err != nil || out.Events < 20 {
		t.Errorf("Replay of a good history returned %+v, %v; want at least 20 events", out, err)
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
			t.Errorf("%s: Replay returned %+v, want a mismatch of at most 12 events with %q", name, err, word)
			continue
		}
		t.Logf("%s: %d events replay, the next are %q", name, m.Replayed, m.Events)
	}
	for name, doc := range map[string]string{
		"no JSON": "{", "no events": `{"events":[]}`,
		"another workflow": `{"events":[{"eventId":"1","eventType":"WorkflowExecutionStarted","workflowExecutionStartedEventAttributes":{"workflowType":{"name":"other"}}}]}`,
	} {
		if _, err := temporal.Replay(strings.NewReader(doc), nil); !errors.Is(err, temporal.ErrNotHistory) {
			t.Errorf("%s: Replay returned %v, want ErrNotHistory", name, err)
		}
	}
}

// The histories in testdata/bad have decisions that this workflow does not make.
// contract: E-02, T184
func TestReplay_RejectsHistoriesOfOtherDecisions(t *testing.T) {
	want := map[string]string{
		"swapped-steps":   "nondeterministic workflow",
		"other-attempt":   "nondeterministic workflow",
		"swapped-results": "lookup failed",
		"other-run":       "has the skeleton of run",
	}
	for path, h := range histories(t, "bad") {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		err := replay(h)
		if err == nil || want[name] == "" || !strings.Contains(err.Error(), want[name]) {
			t.Errorf("%s: got the error %v, want %q in it", path, err, want[name])
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("testdata/bad/%s.json is missing", name)
	}
}

// A history that the server has just recorded replays every time, because the workflow is deterministic.
// contract: E-02
func TestReplay_AcceptsANewHistoryEveryTime(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	id := h.start(d4(0))
	h.waitForEnd(id)
	h.waitUntilClosed(id)
	live := h.history(id)
	for i := range 20 {
		if err := replay(live); err != nil {
			t.Fatalf("replay %d of a new history failed: %v", i, err)
		}
	}
	swapIDs(live, "a/1.1", "b/1.1")
	if err := replay(live); err == nil || !strings.Contains(err.Error(), "nondeterministic") {
		t.Errorf("a replay of swapped steps returned %v, want a nondeterministic workflow", err)
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
				t.Errorf("%s contains %q of the machine that recorded it", path, secret)
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

// recordAll records all histories of kept and of testdata/bad.
func recordAll(t *testing.T) {
	h := newHarness(t, options{rotateAfter: 200, slots: 100})
	folder := recorded
	save := func(name, runID string) {
		h.waitUntilClosed(runID)
		write(t, filepath.Join(folder, name), h.history(runID))
	}
	spoil := func(name, runID string, change func(*historypb.History)) {
		h.waitUntilClosed(runID)
		bad := h.history(runID)
		change(bad)
		write(t, filepath.Join("bad", name), bad)
	}

	linear := h.start(l3(0))
	h.waitForEnd(linear)
	save("linear", linear)
	spoil("other-attempt", linear, func(bad *historypb.History) { swapIDs(bad, "s2/1.1", "s2/2.1") })

	openA := h.hold("a")
	parallel := h.start(d4(0))
	h.waitForEvent(parallel, "StepCompleted(b,1)")
	openA()
	h.waitForEnd(parallel)
	save("parallel", parallel)
	spoil("swapped-steps", parallel, func(bad *historypb.History) { swapIDs(bad, "a/1.1", "b/1.1") })
	spoil("swapped-results", parallel, func(bad *historypb.History) { swapResults(bad, "a/1.1", "b/1.1") })
	spoil("other-run", parallel, func(bad *historypb.History) {
		other := h.history(linear)
		for i, e := range bad.Events {
			if c := e.GetMarkerRecordedEventAttributes(); c != nil { // the first marker has the skeleton
				c.Details["result"] = other.Events[i].GetMarkerRecordedEventAttributes().Details["result"]
				return
			}
		}
	})

	h.steps.on("s2", failing(1, failure("BROKEN", true, "")))
	retried := h.start(l3(60))
	h.waitFor(retried, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	h.signal(retried, run.Signal{Type: run.RetryStep, StepID: "s2"})
	h.waitForEnd(retried)
	save("retry", retried)
	h.steps.on("s2", failing(9, failure("BROKEN", true, "")))
	failed := h.start(l3(1))
	h.waitForEnd(failed)
	save("failure-window-expires", failed)

	openA, openB := h.hold("a"), h.hold("b")
	paused := h.start(d4(0))
	h.waitUntilRunning(paused, "a", "b")
	h.pause(paused)
	openA()
	h.waitForEvent(paused, "StepCompleted(a,1)")
	h.resume(paused)
	openB()
	h.waitForEnd(paused)
	save("pause-drain-resume", paused)

	h.hold("a")
	h.hold("b")
	cancelled := h.start(d4(0))
	h.waitUntilRunning(cancelled, "a", "b")
	h.cancel(cancelled)
	save("cancel", cancelled)

	out, err := h.control.StartRun(t.Context(), h.who, runs.StartRun{
		RequestID: uuid.NewString(), ProjectID: "shop", EnvironmentID: "dev", Ref: &plan.Ref{
			URI: "file:///gone.json", SHA256: strings.Repeat("1", 64), SchemaVersion: "v1.2", PlanID: "plan-3",
			PlanVersion: "1.0",
		},
	})
	must(t, err)
	h.waitForEnd(out.View.State.RunID)
	save("plan-missing", out.View.State.RunID)

	h.steps.on("s2", failing(9, failure("BROKEN", true, "")))
	skipped := h.start(l3(60))
	h.waitFor(skipped, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	h.signal(skipped, run.Signal{Type: run.SkipStep, StepID: "s2"})
	h.waitForEnd(skipped)
	save("skip", skipped)

	h.steps.on("s1", failing(0, nil))
	h.steps.on("s2", failing(0, nil))
	manual := h.start(document(0, step{id: "s1"}, waits("ok", "s1"), step{id: "s2", deps: "ok"}))
	h.complete(manual, "ok")
	h.waitForEnd(manual)
	save("manual", manual)

	h.steps.on("s3", failing(9, failure("BROKEN", false, "")))
	compensated := h.start(document(0, step{id: "s1", extra: undone}, step{id: "s2", deps: "s1", extra: undone},
		step{id: "s3", deps: "s2"}))
	h.waitForEnd(compensated)
	save("compensation", compensated)

	var wide []step
	for i := range 100 {
		wide = append(wide, step{id: fmt.Sprintf("w%02d", i), extra: spare})
	}
	fan := h.start(document(0, wide...))
	h.waitForEnd(fan)
	save("fan-out-100", fan)

	h = newHarness(t, options{rotateAfter: 2})
	open := h.hold("s001")
	rotated := h.start(document(0, row(4)...))
	h.waitUntilRunning(rotated, "s001")
	h.pause(rotated)
	open()
	h.waitFor(rotated, "rotated", func(run.State) bool { return len(h.chain(rotated)) == 2 })
	h.resume(rotated)
	h.waitForEnd(rotated)
	h.waitUntilClosed(rotated)
	for i, g := range h.chain(rotated) {
		write(t, filepath.Join(folder, fmt.Sprintf("rotation-%d", i+1)), g.history)
	}
	recordQuota(t, folder)
	recordEnds(t, folder)
	slept := h.start(document(
		0, step{id: "nap", extra: map[string]any{"type": "SLEEP", "inputs": map[string]any{"ms": 50}}},
		step{id: "after", deps: "nap"}))
	h.waitForEnd(slept)
	h.waitUntilClosed(slept)
	write(t, filepath.Join(folder, "sleep"), h.history(slept))
}

// recordQuota records a heavy step that waits for a token.
func recordQuota(t *testing.T, folder string) {
	h, drain := limited(t, 30, options{})
	h.steps.on("first", func(context.Context, executor.Task) error { drain(); return nil })
	id := h.start(document(0, step{id: "first"}, step{id: "heavy", deps: "first", extra: heavyStep},
		step{id: "light", deps: "heavy"}))
	h.waitForEnd(id)
	h.waitUntilClosed(id)
	write(t, filepath.Join(folder, "quota"), h.history(id))
}

// recordEnds records steps that end in other ways than by their own success or failure.
func recordEnds(t *testing.T, folder string) {
	h := newHarness(t, options{})
	save := func(name, runID string) {
		h.waitForEnd(runID)
		h.waitUntilClosed(runID)
		write(t, filepath.Join(folder, name), h.history(runID))
	}
	h.steps.on("flaky", func(_ context.Context, task executor.Task) error {
		if task.EngineAttempt < 3 {
			return failure("FLAKY", true, "transport")
		}
		return nil
	})
	save("platform-retry", h.start(document(0, step{id: "flaky", extra: retry(3, 100)}, step{id: "after", deps: "flaky"})))

	h.steps.on("s2", failing(1, failure("BROKEN", false, "")))
	parent := h.start(l3(0))
	h.waitForEnd(parent)
	h.steps.on("s2", failing(0, nil))
	again, err := h.control.Rerun(t.Context(), h.who, runs.Rerun{RunID: parent, RequestID: "again", Failed: true})
	must(t, err)
	save("rerun", again.View.State.RunID)

	h.steps.on("s1", func(ctx context.Context, task executor.Task) error {
		if task.LogicalAttempt > 1 {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	paused := h.start(document(0, step{id: "s1", extra: map[string]any{"dispatch": map[string]any{"cancellable": true,
		"allowCancelOnPause": true}}}))
	h.waitUntilRunning(paused, "s1")
	h.pause(paused)
	h.waitForEvent(paused, "StepFailed(s1,1)")
	h.resume(paused)
	save("pause-cancels", paused)

	hook := func(_ context.Context, task executor.Task) error {
		if strings.HasSuffix(task.IdempotencyKey, ":compensate") {
			return failure("HTTP_STATUS", false, "")
		}
		return nil
	}
	h.steps.on("c1", hook)
	h.steps.on("c2", failing(9, failure("BROKEN", false, "")))
	save("compensation-fails", h.start(document(0, step{id: "c1", extra: undone}, step{id: "c2", deps: "c1"})))
}

// waits returns a MANUAL step without separation of duties.
func waits(id, deps string) step {
	return step{id: id, deps: deps, extra: map[string]any{
		"type": "MANUAL", "inputs": map[string]any{"instructions": "look at it"}, "manual": map[string]any{"sod": false},
	}}
}

// complete waits until a manual step waits for a person, and completes it.
func (h *harness) complete(runID, stepID string) {
	h.t.Helper()
	h.waitForEvent(runID, "StepAwaitingManualCompletion("+stepID+",1)")
	h.operator().Signal(runID, run.Signal{Type: run.CompleteManual, StepID: stepID, Outcome: run.ManualSucceeded})
}

// write saves a history without the names and paths of the machine that recorded it.
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
	if _, err := os.Stat(path); err == nil && !*record {
		return
	}
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, append(b, '\n'), 0o644))
}

// scrub removes the names and paths of a machine from decoded JSON.
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

// A worker that meets an execution of a version that it does not know fails the workflow task, so that a newer worker
// can take it. Neither does it decide by its own rules, nor does it end the run.
func TestWorkflow_LeavesExecutionsOfANewerVersionToNewerWorkers(t *testing.T) {
	t.Parallel()
	for path, h := range histories(t, recorded) {
		var in map[string]any
		input := h.Events[0].GetWorkflowExecutionStartedEventAttributes().Input.Payloads[0]
		must(t, json.Unmarshal(input.Data, &in))
		in["version"] = temporal.KnownVersion + 1
		var err error
		input.Data, err = json.Marshal(in)
		must(t, err)
		if err := replay(h); err == nil || !strings.Contains(err.Error(), "upgrade all control workers") {
			t.Errorf("%s with a newer version gave %v, want a failed task with what to do", path, err)
		}
	}
}
