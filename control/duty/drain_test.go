package duty_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// contract: R116, T46, N7, G12
func TestReconcile_APauseThatDoesNotDrainRaisesOneAlert(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	id := w.atWork("r1")
	other := w.atWork("r2") // it is not paused
	paused := runtest.Draft(run.RunPaused, "p1", 1)
	paused.EmittedAt = w.Clock.Now()
	controltest.Must[store.Appended](t)(w.Raw.Append(t.Context(), store.Append{RunID: id, SetGate: run.GatePaused,
		Events: []run.Draft{paused}}))
	controltest.Eventually(t, "the checkpoints", func() bool {
		n := 0
		for _, q := range controltest.Must[[]store.QuietRun](t)(w.Raw.ListQuietRuns(t.Context(), 0, "", 10)) {
			n += len(q.Running)
		}
		return n == 2
	})
	w.sweep()
	w.Clock.Advance(4 * time.Minute)
	w.looksOn()
	if a := w.alerts(); len(a) != 0 {
		t.Fatalf("there are alerts after 4 minutes: %+v", a)
	}
	w.Clock.Advance(2 * time.Minute)
	controltest.Eventually(t, "the alert", func() bool { return len(w.alerts()) == 1 })
	w.looksOn()
	a := w.alerts()
	if len(a) != 1 || a[0].RunID != id || a[0].Code != "PAUSE_DRAIN_TIMEOUT" || a[0].Level != store.AlertHigh ||
		!strings.Contains(a[0].Note, "UTC, and 5 min later it still runs step s1") {
		t.Errorf("the alerts are %+v, want one of %s that names s1 and the time in words, and none of %s", a, id, other)
	}
	w.counted("pause_drains", "escalated", 1)
}
