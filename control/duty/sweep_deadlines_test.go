package duty_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// createDue creates a run with one running step that should end in some time.
func (w *sweptWorld) createDue(requestID string, within time.Duration) string {
	w.T.Helper()
	id := controltest.Must[runs.StartedRun](w.T)(w.StartRun(w.T.Context(), w.Engineer(), controltest.StartOf(requestID,
		controltest.Document(controltest.M{"metadata.deadline": controltest.M{"within": within.String()}}, "s1",
			"s2<s1")))).View.Run.RunID
	w.HandOver()
	w.AppendEvents(id, runtest.Draft(run.RunStarted, "", 1, runtest.M{"startedAt": w.Clock.Now(),
		"policy": runtest.M{"dueAt": w.Clock.Now().Add(within)},
		"steps": []runtest.M{{"stepId": "s1", "type": "NOOP"},
			{"stepId": "s2", "type": "NOOP", "dependsOn": []string{"s1"}}}}))
	w.BeginStep(id, "s1", 1)
	return id
}

// deadlineAlerts lists the alerts about deadlines, with their runs and whether they are open.
func (w *sweptWorld) deadlineAlerts() map[string]string {
	w.T.Helper()
	out := map[string]string{}
	for _, a := range w.alerts() {
		if a.Code == run.CodeRunMayBeLate || a.Code == run.CodeRunLate {
			stage := "open"
			if a.ResolvedAt != nil {
				stage = a.Resolution
			}
			out[fmt.Sprintf("%s %s %s", a.RunID, a.Level, a.Code)] = stage
		}
	}
	return out
}

// People are warned before a run is late, and told when it is. A run that ends in time by the forecast raises nothing.
func TestReconcile_WarnsBeforeARunIsLate(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	for i := range 6 {
		w.CreateEnded(fmt.Sprintf("r%d", i), nil, run.RunCompleted, map[string]int{"s1": 30 + i, "s2": 30 + i})
	}
	intime := w.createDue("intime", 3*time.Hour)
	soon := w.createDue("soon", 40*time.Minute)
	w.sweep()
	warning := soon + " " + string(store.AlertMedium) + " " + string(run.CodeRunMayBeLate)
	late := soon + " " + string(store.AlertHigh) + " " + string(run.CodeRunLate)
	controltest.Eventually(t, "the warning", func() bool { return w.deadlineAlerts()[warning] == "open" })
	w.counted("run_may_be_late", "escalated", 1)
	w.Clock.Advance(41 * time.Minute)
	controltest.Eventually(t, "the alert", func() bool { return w.deadlineAlerts()[late] == "open" })
	controltest.Eventually(t, "the end of the warning",
		func() bool { return w.deadlineAlerts()[warning] == "The run is late." })
	w.counted("run_late_warned", "escalated", 1)
	w.AppendEvents(soon, runtest.Draft(run.RunCompleted, "", 1))
	controltest.Eventually(t, "the end of the alert",
		func() bool { return w.deadlineAlerts()[late] == "The run has ended." })
	for alert := range w.deadlineAlerts() {
		if strings.HasPrefix(alert, intime) {
			t.Errorf("the alert %s was raised, want none of a run that ends in time", alert)
		}
	}
}
