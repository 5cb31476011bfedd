package duty_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// raised raises an alert about a run as an earlier process would have.
func (w *sweptWorld) raised(id string, a store.Alert) {
	w.T.Helper()
	a.TenantID, a.ProjectID, a.RunID, a.Level, a.Actor = "acme", "shop", id, store.AlertHigh, "dvt"
	controltest.Must[store.AlertRaised](w.T)(w.Raw.RaiseAlert(w.T.Context(), a))
}

// resolutions returns why each resolved alert was resolved, by code; "" for an open one.
func (w *sweptWorld) resolutions() map[run.Code]string {
	w.T.Helper()
	out := map[run.Code]string{}
	for _, a := range w.alerts() {
		out[a.Code] = a.Resolution
	}
	return out
}

// Alerts of an earlier process are resolved when their states are left, and stay open while the states last.
func TestReconcile_ResolvesAlertsWhoseStateIsLeft(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	id := w.atWork("r1")
	w.raised(id, store.Alert{Code: run.CodePauseDrain})
	w.raised(id, store.Alert{Code: run.CodeTimeout, StepID: "s1"})
	w.raised(id, store.Alert{Code: run.CodeEngineUnavailable, Subject: "starts", Shared: true})
	w.raised(id, store.Alert{Code: run.CodeInternal, Subject: "deliver"})
	w.raised(id, store.Alert{Code: run.CodeEngineLost})
	w.raised(id, store.Alert{Subject: "signal"})
	w.sweep()
	controltest.Eventually(t, "the alerts whose state is left are resolved", func() bool {
		got := w.resolutions()
		return got[run.CodePauseDrain] != "" && got[run.CodeEngineUnavailable] != "" && got[run.CodeEngineLost] != ""
	})
	w.looksOn()
	want := map[run.Code]string{
		run.CodePauseDrain:        "The pause has drained, or the run was resumed.",
		run.CodeEngineUnavailable: "No start is overdue any more.",
		run.CodeEngineLost:        "The engine executes the run.",
		run.CodeTimeout:           "", run.CodeInternal: "", "": "",
	}
	if diff := cmp.Diff(want, w.resolutions()); diff != "" {
		t.Errorf("resolutions while the step works (-want +got):\n%s", diff)
	}
	w.Clock.Advance(time.Hour + time.Minute)
	w.FinishStep(id, "s1", 1, run.StepCompletedEvent)
	want[run.CodeTimeout], want[run.CodeInternal] = "The attempt has ended, or the run is paused.",
		"The state was not found any more."
	controltest.Eventually(t, "the alerts about the attempt and the panic are resolved", func() bool {
		return cmp.Equal(want, w.resolutions())
	})
	w.AppendEvents(id, runtest.Draft(run.RunFailed, "", 1))
	want[""] = "The run has ended."
	controltest.Eventually(t, "the escalation of a person ends with the run", func() bool {
		return cmp.Equal(want, w.resolutions())
	})
}
