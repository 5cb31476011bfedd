package attacks_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// waitingStep returns a step that runs until release creates a file, and then leaves the file mark.
func waitingStep(t *testing.T, id, queue string) (s step, release func(), mark string) {
	t.Helper()
	dir := t.TempDir()
	file, mark := filepath.Join(dir, "go"), filepath.Join(dir, "mark")
	script := fmt.Sprintf("while [ ! -e %s ]; do sleep 0.1; done; echo done >>%s; echo it is really done", file, mark)
	return command(id, queue, "/bin/sh", "-c", script), func() { must(t, os.WriteFile(file, nil, 0o600)) }, mark
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// expectNoEnd checks for a while that the log has no end of a step whose program still runs.
func (w *world) expectNoEnd(t *testing.T, token, runID, stepID, mark string) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		r, err := w.readRun(t.Context(), token, runID)
		if err == nil && !exists(mark) && r.countEvents("StepCompleted", stepID)+r.countEvents("StepFailed", stepID) > 0 {
			t.Fatalf("the log has an end of the step %s while its program runs: %s", stepID, r)
		}
	}
}

// expectRealEnd checks that the step ended once, with the result of its worker.
func (w *world) expectRealEnd(t *testing.T, token, runID, stepID, mark string) {
	t.Helper()
	last := w.expectEnd(t, token, runID, "COMPLETED", time.Minute)
	if !exists(mark) {
		t.Errorf("the program of the step %s did not finish: %s", stepID, last)
	}
	if n := last.countEvents("StepCompleted", stepID); n != 1 || last.countEvents("StepFailed", stepID) > 0 {
		t.Errorf("the log has %d StepCompleted of the step %s, want one and no StepFailed: %s", n, stepID, last)
	}
	if text := last.String(); strings.Contains(text, "somebody") {
		t.Errorf("the log contains text of the stranger: %s", text)
	}
}

// contract: T184, E-08
func TestStranger_CannotCompleteAStep(t *testing.T) {
	t.Parallel()
	w := installation(t)
	runs := map[string]any{
		"a made-up result": map[string]any{
			"stepId": "s", "logicalAttempt": 1, "n": 1, "engineAttempt": 1, "kind": "COMPLETED",
			"completed": map[string]any{"result": map[string]any{"tests": "all passed, said somebody"}},
		},
		"a made-up receipt": map[string]any{
			"stepId": "s", "logicalAttempt": 1, "n": 1, "engineAttempt": 1, "kind": "ENDED",
			"receipt": map[string]any{
				"type": "StepCompleted", "startedSeq": 3, "seq": 4, "head": 4, "proof": "k1.bWFkZSB1cCBieSBzb21lYm9keQ",
			},
		},
	}
	if !oldBinary {
		runs["a result that cannot be decoded"] = "tests: all passed, said somebody"
	}
	for what, result := range runs {
		if oldBinary && what == "a made-up receipt" {
			continue // the old binary has no receipts
		}
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, release, mark := waitingStep(t, "s", queueData)
			runID := w.startRun(t, operator, "shop", s)
			w.waitForStart(t, operator, runID, "s")
			w.stranger.complete(t, "acme", runID, "s/1.1", result)
			w.expectNoEnd(t, operator, runID, "s", mark)
			release()
			w.expectRealEnd(t, operator, runID, "s", mark)
			w.expectAudit(t, admin, runID, "attempt 1 of step s has ended")
		})
	}
}

// contract: T184, E-08
func TestStranger_CannotFailAStep(t *testing.T) {
	t.Parallel()
	w := installation(t)
	s, release, mark := waitingStep(t, "s", queueData)
	runID := w.startRun(t, operator, "shop", s)
	w.waitForStart(t, operator, runID, "s")
	w.stranger.fail(t, "acme", runID, "s/1.1")
	w.expectNoEnd(t, operator, runID, "s", mark)
	release()
	w.expectRealEnd(t, operator, runID, "s", mark)
	w.expectAudit(t, admin, runID, "attempt 1 of step s has ended")
}
