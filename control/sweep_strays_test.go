package control_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// A sweep ends an attempt that is RUNNING in the log but that the engine does not execute. It does not end an attempt
// that the engine executes.
// contract: T166
func TestReconcile_EndsAnAttemptThatTheEngineDoesNotExecute(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	lost, held := w.running("r1", "s1<"), w.running("r2", "s1<")
	for _, id := range []string{lost, held} {
		w.begin(id, "s1", 1)
	}
	w.eye.mu.Lock()
	w.eye.pending[held] = []engine.Pending{{ID: "s1/1.1", State: "STARTED", Attempt: 1}}
	w.eye.mu.Unlock()
	eventually(t, "the checkpoints", func() bool {
		n := 0
		for _, q := range must[[]store.QuietRun](t)(w.raw.ListQuietRuns(t.Context(), 0, "", 10)) {
			n += len(q.Running)
		}
		return n == 2
	})
	w.clock.advance(time.Hour)
	w.sweep()
	eventually(t, "the end of the attempt", func() bool {
		w.clock.advance(time.Second) // two checks must agree, at least Confirm apart
		return w.count(lost, run.StepFailedEvent) == 1
	})
	if w.count(held, run.StepFailedEvent) != 0 {
		t.Error("an attempt that the engine executes was ended")
	}
}
