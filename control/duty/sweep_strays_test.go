package duty_test

import (
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/controltest"
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
	lost, held := w.CreateRunning("r1", "s1<"), w.CreateRunning("r2", "s1<")
	for _, id := range []string{lost, held} {
		w.BeginStep(id, "s1", 1)
	}
	w.eye.Mu.Lock()
	w.eye.Pending[held] = []engine.Pending{{ID: "s1/1.1", State: "STARTED", Attempt: 1}}
	w.eye.Mu.Unlock()
	controltest.Eventually(t, "the checkpoints", func() bool {
		n := 0
		for _, q := range controltest.Must[[]store.QuietRun](t)(w.Raw.ListQuietRuns(t.Context(), 0, "", 10)) {
			n += len(q.Running)
		}
		return n == 2
	})
	w.Clock.Advance(time.Hour)
	w.sweep()
	controltest.Eventually(t, "the end of the attempt", func() bool {
		w.Clock.Advance(time.Second) // two checks must agree, at least Confirm apart
		return w.CountEvents(lost, run.StepFailedEvent) == 1
	})
	if w.CountEvents(held, run.StepFailedEvent) != 0 {
		t.Error("an attempt that the engine executes was ended")
	}
}
