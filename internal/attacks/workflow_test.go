package attacks_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	sdk "go.temporal.io/sdk/client"
)

func identity(runID, project, plan string) map[string]any {
	return map[string]any{"runId": runID, "tenantId": "acme", "projectId": project, "environmentId": "dev", "planId": plan,
		"planVersion": "1.0"}
}

// startWorkflow starts a run's workflow and waits a short time for its end.
func (s *stranger) startWorkflow(t *testing.T, id string, input any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patient(10*time.Second))
	defer cancel()
	w, err := s.client.ExecuteWorkflow(ctx, sdk.StartWorkflowOptions{
		ID: id, TaskQueue: controlQueue, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
	}, "dvt.run", input)
	must(t, err)
	waiting, stop := context.WithTimeout(ctx, 3*time.Second)
	defer stop()
	t.Logf("the workflow %s: %v", id, w.Get(waiting, nil))
}

// expectNotStarted checks that a run still waits for its approval. Then it approves the run and checks that it
// completes.
func (w *world) expectNotStarted(t *testing.T, runID, mark string) {
	t.Helper()
	r, err := w.readRun(t.Context(), operator, runID)
	must(t, err)
	if r.countEvents("RunStarted", "") > 0 || r.hasEnded() || exists(mark) {
		t.Fatalf("the run started without its approval (its program ran: %t): %s", exists(mark), r)
	}
	w.approve(t, runID)
	w.expectEnd(t, operator, runID, "COMPLETED", time.Minute)
}

// contract: T111, T130
func TestStranger_CannotStartARunThatWaitsForApproval(t *testing.T) {
	t.Parallel()
	w := installation(t)
	for what, id := range map[string]func(runID string) string{
		"under its own id":     func(runID string) string { return workflowID("acme", runID) },
		"under another id":     func(runID string) string { return "stranger/" + runID },
		"under another tenant": func(runID string) string { return workflowID("globex", runID) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			mark := filepath.Join(t.TempDir(), "mark")
			runID := w.startRun(t, operator, "vault", command("s", queueData, "touch", mark))
			in := identity(runID, "vault", planName(t))
			if what == "under another tenant" {
				in["tenantId"] = "globex"
			}
			w.stranger.startWorkflow(t, id(runID), map[string]any{"identity": in, "heartbeatTimeoutMs": 5000, "rotateAfter": 50})
			w.expectNotStarted(t, runID, mark)
		})
	}
}

// wideSteps returns the steps of a plan that is too large for one execution of its workflow. The last step leaves a
// mark named for the run.
func wideSteps(dir string) (steps []step) {
	for i := range 52 {
		steps = append(steps, noop(fmt.Sprintf("n%02d", i)))
	}
	return append(steps, command("mark", queueData, "/bin/sh", "-c", "touch "+dir+"/$(basename $PWD)").after("n50", "n51"))
}

// contract: T105, T195
func TestStranger_CannotContinueFromAForgedState(t *testing.T) {
	t.Parallel()
	w := installation(t)
	dir := t.TempDir()
	model := w.startRun(t, operator, "shop", wideSteps(dir)...)
	w.expectEnd(t, operator, model, "COMPLETED", time.Minute)
	events := w.stranger.readHistory(t, "acme", model)
	var in map[string]any
	must(t, json.Unmarshal(events[0].GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads()[0].GetData(),
		&in))
	if in["continued"] == nil {
		t.Fatalf("the run's workflow did not continue as new: %v", in)
	}
	for what, own := range map[string]bool{"under its own id": true, "under another id": false} {
		t.Run(what, func(t *testing.T) {
			victim := w.startRun(t, operator, "vault", wideSteps(dir)...)
			forged := map[string]any{}
			for k, v := range in {
				forged[k] = v
			}
			forged["identity"] = identity(victim, "vault", planName(t))
			id := "stranger/" + victim
			if own {
				id = workflowID("acme", victim)
			}
			w.stranger.startWorkflow(t, id, forged)
			w.expectNotStarted(t, victim, filepath.Join(dir, victim))
		})
	}
}

// contract: T184, T203
func TestStranger_CannotWriteIntoTheLogByItsActivities(t *testing.T) {
	t.Parallel()
	w := installation(t)
	s, release, mark := waitingStep(t, "s", queueData)
	runID := w.startRun(t, operator, "shop", s, step{"stepId": "z", "type": "SLEEP",
		"inputs": map[string]any{"ms": 15_000}, "dependsOn": []string{}, "timeout": "1m"})
	w.waitForStart(t, operator, runID, "s")
	w.waitForStart(t, operator, runID, "z")
	draft := func(eventType, stepID string) map[string]any {
		return map[string]any{
			"type": eventType, "stepId": stepID, "logicalAttempt": 1, "engineAttempt": 1, "emittedAt": time.Now().UTC(),
			"emittedBy": "engine",
			"payload":   map[string]any{"result": map[string]any{"said": "somebody"}, "durationMs": 1},
		}
	}
	forged := map[string]any{
		"batch": 9, "append": map[string]any{"runId": runID, "events": []any{draft("StepCompleted", "s")}}}
	const logQueue = controlQueue + "-log"
	sealed := func(in any) map[string]any {
		body, err := json.Marshal(in)
		must(t, err)
		return map[string]any{"body": base64.StdEncoding.EncodeToString(body), "seal": "k1.bWFkZSB1cCBieSBzb21lYm9keQ"}
	}
	sleeper := map[string]any{"runId": runID, "stepId": "z", "logicalAttempt": 1, "n": 1, "maxAttempts": 1, "slept": 1}
	for _, c := range []struct {
		activity string
		input    any
	}{
		{"dvt.append", forged},
		{"dvt.append", sealed(forged)},
		{"dvt.wake-up", sleeper},
		{"dvt.wake-up", sealed(sleeper)},
		{"dvt.sleep", map[string]any{"runId": runID, "stepId": "s", "logicalAttempt": 2, "n": 1, "maxAttempts": 1,
			"ticket": "k1.e30.e30"}},
	} {
		if oldBinary && c.activity != "dvt.append" {
			continue // the old binary does not have these activities
		}
		t.Logf("%s: %.160s", c.activity, w.stranger.call(t, logQueue, c.activity, c.input))
	}
	r, err := w.readRun(t.Context(), operator, runID)
	must(t, err)
	if !exists(mark) && r.countEvents("StepCompleted", "s") > 0 || r.countEvents("StepStarted", "s") != 1 {
		t.Errorf("the stranger's activity wrote into the log: %s", r)
	}
	release()
	if last := w.waitForEnd(t, operator, runID, time.Minute); last.StatusRaw != "COMPLETED" ||
		last.countEvents("StepCompleted", "s") != 1 || !exists(mark) {
		t.Errorf("the run did not complete its step once (its program ended: %t): %s", exists(mark), last)
	}
	if raw, err := os.ReadFile(mark); err == nil && string(raw) != "done\n" {
		t.Errorf("the program ran more than once, and its file has %q", raw)
	}
}

// contract: T111
func TestStranger_CannotStartAWaitingRunByAnActivity(t *testing.T) {
	t.Parallel()
	w := installation(t)
	mark := filepath.Join(t.TempDir(), "mark")
	runID := w.startRun(t, operator, "vault", command("s", queueData, "touch", mark))
	in := map[string]any{"identity": identity(runID, "vault", planName(t)), "at": time.Now().UTC()}
	if oldBinary {
		in = map[string]any{"batch": 1, "append": map[string]any{"runId": runID, "events": []any{map[string]any{
			"type": "RunStarted", "logicalAttempt": 1, "engineAttempt": 1, "emittedAt": time.Now().UTC(), "emittedBy": "engine",
			"payload": map[string]any{},
		}}}}
	}
	t.Logf("dvt.start: %.200s", w.stranger.call(t, controlQueue+"-log", "dvt.start", in))
	w.expectNotStarted(t, runID, mark)
}
