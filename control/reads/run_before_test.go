package reads_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/forecast"
)

func (w *world) header(runID string) run.Header {
	w.T.Helper()
	return controltest.Must[control.RunView](w.T)(w.Run(w.T.Context(), w.Engineer(), runID, nil)).State.Header
}

// A forecast uses only completed runs, and enough of them. Another tenant's run does not exist.
func TestForecast_UsesOnlyCompletedRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	viewer := w.Principal("dev-viewer")
	for i, minutes := range []int{60, 1, 62, 64} {
		w.CreateEnded(fmt.Sprintf("f%d", i), nil, run.RunCompleted, map[string]int{"s1": minutes, "s2": minutes})
	}
	w.CreateEnded("failed", nil, run.RunFailed, map[string]int{"s1": 5, "s2": 0})
	few := w.CreateEnded("few", nil, "", map[string]int{"s1": 1})
	got := controltest.Must[forecast.Forecast](t)(w.Forecast(t.Context(), viewer, few))
	if got.Gap != forecast.TooFewRuns || got.Runs != 4 {
		t.Errorf("the forecast of four runs is %+v, want TOO_FEW_RUNS", got)
	}
	for i, minutes := range []int{61, 63, 65, 66, 67, 68} {
		w.CreateEnded(fmt.Sprintf("g%d", i), nil, run.RunCompleted, map[string]int{"s1": minutes, "s2": minutes})
	}
	id := w.CreateEnded("now", nil, "", map[string]int{"s1": 62})
	at := w.Clock.Now()
	got = controltest.Must[forecast.Forecast](t)(w.Forecast(t.Context(), viewer, id))
	if got.Gap != "" || got.Runs != 10 || got.Basis != forecast.PlanRuns || got.Earliest.Before(at) ||
		got.Expected.Before(got.Earliest) || got.Latest.Before(got.Expected) || got.Latest.After(at.Add(3*time.Hour)) {
		t.Errorf("the forecast of ten runs at %s is %+v, want a range of the next three hours", at, got)
	}
	if f, err := w.Forecast(t.Context(), w.ForeignPrincipal(), id); err == nil {
		t.Errorf("another tenant gets the forecast %+v, want NOT_FOUND", f)
	}
}

// Runs before a run are older runs of its plan, project and environment that have ended.
func TestRunBefore_IsOfTheSamePlanAndScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.CreateEnded("b1", nil, run.RunCompleted, map[string]int{"s1": 100, "s2": 7})
	green := w.CreateEnded("b2", nil, run.RunCompleted, map[string]int{"s1": 300})
	w.CreateEnded("b3", nil, run.RunFailed, map[string]int{"s1": 200, "s2": 0})
	w.CreateEnded("b4", nil, "", map[string]int{"s1": 90}) // not ended
	// Of another plan.
	w.CreateEnded("b5", controltest.M{"metadata.planId": "other"}, run.RunCompleted, map[string]int{"s1": 90})
	// In another environment.
	w.CreateEnded("b6", controltest.M{"scope.environmentId": "prod"}, run.RunCompleted, map[string]int{"s1": 90, "s2": 90})
	h := w.header(w.CreateEnded("b7", nil, run.RunCompleted, map[string]int{"s1": 90}))
	w.CreateEnded("b8", nil, run.RunCompleted, map[string]int{"s1": 90}) // later

	viewer := w.Principal("dev-viewer")
	got := controltest.Must[map[string]time.Duration](t)(w.StepMedians(t.Context(), viewer, h))
	for id, took := range got {
		got[id] = took.Round(time.Minute)
	}
	if diff := cmp.Diff(map[string]time.Duration{"s1": 200 * time.Minute, "s2": 7 * time.Minute}, got); diff != "" {
		t.Errorf("medians (-want +got):\n%s", diff)
	}
	last := controltest.Must[*reads.RunBefore](t)(w.LastGreen(t.Context(), viewer, h))
	if last == nil || last.RunID != green || last.Status != run.Completed || last.CompletedAt == nil ||
		last.PlanVersion != "1.0" {
		t.Errorf("the last green run is %+v, want %s", last, green)
	}
	first := h
	first.CreatedAt, first.RunID = h.CreatedAt.Add(-24*time.Hour), "0"
	if last := controltest.Must[*reads.RunBefore](t)(w.LastGreen(t.Context(), viewer, first)); last != nil {
		t.Errorf("the last green run before the first run is %+v, want none", last)
	}
	for _, p := range []authz.Principal{w.Principal("nobody"), w.ForeignPrincipal()} {
		if last := controltest.Must[*reads.RunBefore](t)(w.LastGreen(t.Context(), p, h)); last != nil {
			t.Errorf("%s of %s gets the last green run %+v, want none", p.ID, p.TenantID, last)
		}
		if got := controltest.Must[map[string]time.Duration](t)(w.StepMedians(t.Context(), p, h)); len(got) != 0 {
			t.Errorf("%s of %s gets the medians %v, want none", p.ID, p.TenantID, got)
		}
	}
}
