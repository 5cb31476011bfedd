package duty_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// dispatchFor lets a dispatcher work until ok, and moves the clock past the pause after each try.
func dispatchFor(t *testing.T, w *controltest.World, id, what string, ok func() bool) {
	t.Helper()
	w.Clock.Hold() // no lease expires
	w.Spawn(func(ctx context.Context) error { return w.Dispatch(ctx, "here") })
	tries := 0
	controltest.Eventually(t, what, func() bool {
		row := controltest.Must[store.QueueRow](t)(w.Raw.QueueRow(t.Context(), id))
		if row.Status == store.QueuePending && row.Attempts > tries {
			tries = row.Attempts
			w.Clock.Advance(31 * time.Second)
		}
		return ok()
	})
}

// contract: R357
func TestDispatch_AStartThatTheEngineAlwaysRefusesFailsTheRun(t *testing.T) {
	t.Parallel()
	w := controltest.New(t)
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnStart = func(run.Identity) error { return fmt.Errorf("%w: the queue is too long", engine.ErrRejected) }
	})
	id := w.CreateQueued("r1", "s1")
	dispatchFor(t, w, id, "the run ends", func() bool { return w.StateOf(id).Status.Terminal() })
	st := w.StateOf(id)
	if f := st.Failure; st.Status != run.Failed || f.Code != "ENGINE_START_REJECTED" || !f.Retryable ||
		f.Category != run.CategoryPlatform || !strings.Contains(f.Message, "the queue is too long") {
		t.Errorf("the run is %s with %+v, want FAILED with ENGINE_START_REJECTED and the engine's reason", st.Status, f)
	}
	row := controltest.Must[store.QueueRow](t)(w.Raw.QueueRow(t.Context(), id))
	if n := w.Engine.StartsOf(id); n != 6 || row.Status != store.QueueFailed {
		t.Errorf("%d starts and the row is %s, want 6 starts and FAILED", n, row.Status)
	}
}

// An engine that does not answer is no reason to give a run up, and neither is its first refusal after an outage.
func TestDispatch_AnOutageNeverFailsTheRun(t *testing.T) {
	t.Parallel()
	w := controltest.New(t)
	starts := 0
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnStart = func(run.Identity) error {
			starts++ // one run, so one start at a time
			switch {
			case starts < 10:
				return engine.ErrUnavailable
			case starts == 10:
				return engine.ErrRejected
			}
			return nil
		}
	})
	id := w.CreateQueued("r1", "s1")
	dispatchFor(t, w, id, "the run is started", func() bool {
		return controltest.Must[store.QueueRow](t)(w.Raw.QueueRow(t.Context(), id)).Status == store.QueueStarted
	})
	if st := w.StateOf(id); st.Status != run.Approved {
		t.Errorf("the run is %s, want APPROVED", st.Status)
	}
}
