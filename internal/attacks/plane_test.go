package attacks_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// thief returns a program that copies the environment and command line of its parent, a worker, into the file loot.
func (w *world) thief(t *testing.T) (argv []string, loot string) {
	t.Helper()
	loot = filepath.Join(t.TempDir(), "loot")
	return []string{"/bin/sh", "-c", `tr '\0' '\n' </proc/$PPID/environ >` + loot +
		`.part; tr '\0' ' ' </proc/$PPID/cmdline >>` + loot + `.part; mv ` + loot + `.part ` + loot}, loot
}

// expectNoLoot fails the test when the program of thief ran, and reports the store's credentials that it found.
func (w *world) expectNoLoot(t *testing.T, loot string) {
	t.Helper()
	seen, err := os.ReadFile(loot)
	if err != nil {
		return // it did not run
	}
	for line := range strings.Lines(string(seen)) {
		if strings.Contains(line, w.dsn) || strings.Contains(line, "DVT_STORE") {
			t.Errorf("the program of the plan found the store: %s", strings.TrimSpace(line))
		}
	}
	t.Errorf("the program of the plan ran on a worker whose environment or command line ends with %.200s",
		strings.ReplaceAll(string(seen[max(0, len(seen)-200):]), "\n", " "))
}

// expectInvalid submits a plan that the API must refuse. If the API accepts it, expectInvalid waits for the run.
func (w *world) expectInvalid(t *testing.T, what string, steps ...step) {
	t.Helper()
	name := planName(t) + "-" + what
	id, err := w.submit(t.Context(), operator, name, "shop",
		map[string]any{"inline": planOf("acme", "shop", name, steps...)})
	if err == nil {
		t.Errorf("a %s on the control queue: the plan was accepted", what)
		w.waitForEnd(t, operator, id, 20*time.Second)
		return
	}
	if !strings.Contains(err.Error(), "PLAN_INVALID") || !strings.Contains(err.Error(), "taskQueue") &&
		!strings.Contains(err.Error(), "ueue") {
		t.Errorf("a %s on the control queue: %v, want PLAN_INVALID about the queue", what, err)
	}
}

// An operator's program must never run beside the credentials of the store.
//
// contract: T203, T218
func TestPlan_CannotSendAProgramToTheControlWorker(t *testing.T) {
	t.Parallel()
	w := installation(t)
	argv, loot := w.thief(t)
	w.expectInvalid(t, "step", command("steal", controlQueue, argv...))
	w.expectNoLoot(t, loot)

	argv, loot = w.thief(t)
	undone := noop("a").withCompensation("COMMAND", map[string]any{"argv": argv})
	undone["dispatch"] = map[string]any{"taskQueue": controlQueue}
	fails := command("b", queueData, "false").after("a")
	id := "hook-" + planName(t)
	runID, err := w.submit(t.Context(), operator, id, "shop",
		map[string]any{"inline": planOf("acme", "shop", id, undone, fails)})
	if err == nil { // a plan may name the queue of its step; the hook must not run there
		w.expectEnd(t, operator, runID, "FAILED", time.Minute)
		if seen, err := os.ReadFile(loot); err == nil && strings.Contains(string(seen), w.dsn) {
			w.expectNoLoot(t, loot)
		}
	} else if !strings.Contains(err.Error(), "PLAN_INVALID") {
		t.Errorf("the hook on the control queue: %v, want PLAN_INVALID", err)
	}
}

// A plan from before the check of planes, or one that was written into the store by hand, must not run there either.
//
// contract: T203
func TestStoredPlan_RunsNoProgramOnTheControlWorker(t *testing.T) {
	t.Parallel()
	w := installation(t)
	argv, loot := w.thief(t)
	name := planName(t)
	doc, err := json.Marshal(planOf("acme", "shop", name, command("steal", controlQueue, argv...)))
	must(t, err)
	sum := sha256.Sum256(doc)
	digest := hex.EncodeToString(sum[:])
	w.exec(t, `INSERT INTO plan_body (sha256, body) VALUES ($1, $2)`, digest, doc)
	runID, err := w.submit(t.Context(), operator, name, "shop", map[string]any{"ref": map[string]any{
		"uri": "file://" + filepath.Join(w.dir, "plans", "stored.json"), "sha256": digest, "schemaVersion": "v1.2",
		"planId": name, "planVersion": "1.0",
	}})
	if err != nil {
		if !strings.Contains(err.Error(), "PLAN_INVALID") {
			t.Errorf("the start of the stored plan: %v, want PLAN_INVALID or a run that fails", err)
		}
		return
	}
	last := w.expectEnd(t, operator, runID, "FAILED", time.Minute)
	w.expectNoLoot(t, loot)
	if !strings.Contains(last.String(), "TYPE_UNSUPPORTED") && !strings.Contains(last.String(), "PLAN_INVALID") {
		t.Errorf("the run has neither TYPE_UNSUPPORTED nor PLAN_INVALID: %s", last)
	}
}

// A stranger with access to Temporal schedules the execution of a step on a worker with the store's credentials. He
// uses the ticket of the step's own dispatch.
//
// contract: T203, T218
func TestStranger_CannotMoveAStepToTheControlWorker(t *testing.T) {
	t.Parallel()
	w := installation(t)
	argv, loot := w.thief(t)
	runID := w.startRun(t, operator, "shop", command("steal", queueLate, argv...))
	ticket := w.stranger.waitForTicket(t, "acme", runID, "steal")
	result := w.stranger.call(t, controlQueue, "dvt.execute", map[string]any{
		"runId": runID, "stepId": "steal", "logicalAttempt": 1, "n": 1, "maxAttempts": 1, "ticket": ticket,
	})
	t.Logf("the control worker answered %.200s", result)
	w.expectNoLoot(t, loot)
	w.spawnFor(t, "late data worker", acmeWorker, queueLate, w.url)
	last := w.expectEnd(t, operator, runID, "COMPLETED", time.Minute)
	if n := last.countEvents("StepFailed", "steal"); n > 0 {
		t.Errorf("the stranger made the step fail: %s", last)
	}
}
