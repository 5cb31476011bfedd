package attacks_test

import (
	"testing"
	"time"
)

// contract: T203, T218
func TestWorkerOfAnotherTenant_SpendsNoAttempt(t *testing.T) {
	t.Parallel()
	w := installation(t)
	w.spawnFor(t, "acme's worker on the shared queue", acmeWorker, queueShared, w.url)
	w.spawnFor(t, "globex's worker on the shared queue", globexWorker, queueShared, w.url)
	var runs []string
	for range 4 {
		runs = append(runs, w.startRun(t, foreign, "shop", command("one", queueShared, "true"),
			command("two", queueShared, "true")))
	}
	for _, id := range runs {
		last := w.expectEnd(t, foreign, id, "COMPLETED", time.Minute)
		for _, s := range last.Steps {
			if s.LogicalAttemptID != 1 || s.EngineAttemptID != 1 {
				t.Errorf("the step %s took attempt %d, engine attempt %d, want 1 and 1", s.StepID, s.LogicalAttemptID,
					s.EngineAttemptID)
			}
		}
	}
}

// contract: T203, T218
func TestStepWithOnlyAWorkerOfAnotherTenant_WaitsForAWorkerOfItsTenant(t *testing.T) {
	t.Parallel()
	w := installation(t)
	w.spawnFor(t, "acme's worker on a queue alone", acmeWorker, queueLonely, w.url)
	runID := w.startRun(t, foreign, "shop", command("s", queueLonely, "true"))
	var last runState
	for deadline := time.Now().Add(6 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		r, err := w.readRun(t.Context(), foreign, runID)
		if err != nil {
			continue
		}
		if last = r; r.hasEnded() || r.countEvents("StepStarted", "s") > 0 {
			t.Fatalf("a worker of another tenant used the attempt: %s", r)
		}
	}
	if s := last.step("s"); s.Wait == nil || s.Wait.Kind != "WORKER" {
		t.Errorf("the step does not say that it waits for a worker: %+v", s)
	}
	w.spawnFor(t, "globex's worker on the same queue", globexWorker, queueLonely, w.url)
	last = w.expectEnd(t, foreign, runID, "COMPLETED", time.Minute)
	if s := last.step("s"); s.LogicalAttemptID != 1 || s.EngineAttemptID != 1 {
		t.Errorf("the step took attempt %d, engine attempt %d, want 1 and 1", s.LogicalAttemptID, s.EngineAttemptID)
	}
}
