package reads_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

func (w *world) header(runID string) run.Header {
	w.T.Helper()
	return controltest.Must[control.RunView](w.T)(w.Run(w.T.Context(), w.Engineer(), runID, nil)).State.Header
}

// A forecast uses only completed runs, and enough of them. One outlier in ten changes neither bound.
func TestForecast_UsesOnlyCompletedRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	viewer := w.Principal("dev-viewer")
	for i, minutes := range []int{60, 1, 62, 64} {
		w.CreateEnded(fmt.Sprintf("f%d", i), nil, run.RunCompleted, map[string]int{"s1": minutes})
	}
	w.CreateEnded("failed", nil, run.RunFailed, map[string]int{"s1": 5, "s2": 0})
	few := w.header(w.CreateEnded("few", nil, "", map[string]int{"s1": 1}))
	if f := controltest.Must[*reads.Forecast](t)(w.Forecast(t.Context(), viewer, few)); f != nil {
		t.Errorf("the forecast of four runs is %+v, want none", f)
	}
	for i, minutes := range []int{61, 63, 900, 65, 66, 67} {
		w.CreateEnded(fmt.Sprintf("g%d", i), nil, run.RunCompleted, map[string]int{"s1": minutes})
	}
	h := w.header(w.CreateEnded("now", nil, "", map[string]int{"s1": 1}))
	got := controltest.Must[*reads.Forecast](t)(w.Forecast(t.Context(), viewer, h))
	if got == nil || got.Low.Round(time.Minute) != time.Hour || got.High.Round(time.Minute) != 67*time.Minute ||
		got.Runs != 10 {
		t.Errorf("the forecast of ten runs is %+v, want from 1h0m to 1h7m", got)
	}
	if f := controltest.Must[*reads.Forecast](t)(w.Forecast(t.Context(), w.ForeignPrincipal(), h)); f != nil {
		t.Errorf("another tenant gets the forecast %+v, want none", f)
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

// listing records the filters of lists.
type listing struct {
	store.Store
	asked chan store.RunFilter
}

func (l *listing) List(_ context.Context, f store.RunFilter) ([]store.RunRow, error) {
	l.asked <- f
	return nil, nil
}

// The number of steps that are read for medians is bounded.
func TestStepMedians_ReadABoundedNumberOfSteps(t *testing.T) {
	t.Parallel()
	l := &listing{asked: make(chan store.RunFilter, 1)}
	w := newWorld(t, func(c *usecases.Config) { l.Store, c.Store = c.Store, l })
	for steps, runs := range map[int]int{0: 10, 3: 10, 2000: 10, 5000: 4, 30_000: 1} {
		h := run.Header{Identity: run.Identity{TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev", PlanID: "p"},
			Counts: run.StepCounts{Total: steps}}
		controltest.Must[map[string]time.Duration](t)(w.StepMedians(t.Context(), w.Engineer(), h))
		if f := <-l.asked; f.Limit != runs {
			t.Errorf("%d runs of %d steps are read, want %d", f.Limit, steps, runs)
		}
	}
}
