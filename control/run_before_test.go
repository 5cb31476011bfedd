package control_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// ended makes a run of the steps in took and ends it. The value is the duration of the step in minutes, long enough
// that the speed of the machine does not matter; a step with 0 fails.
func (w *world) ended(requestID string, change M, end run.EventType, took map[string]int) string {
	w.t.Helper()
	doc := document(change, "s1", "s2")
	id := must[runs.StartedRun](w.t)(w.StartRun(w.t.Context(), w.eng(), startOf(requestID, doc))).View.Run.RunID
	w.handOver()
	w.append(id, runtest.Draft(run.RunStarted, "", 1, runtest.M{
		"startedAt": w.clock.now(), "steps": []runtest.M{{"stepId": "s1", "type": "NOOP"},
			{"stepId": "s2", "type": "NOOP"}},
	}))
	for _, step := range []string{"s1", "s2"} {
		switch minutes, ok := took[step]; {
		case !ok:
		case minutes == 0:
			w.finish(id, step, 1, run.StepFailedEvent)
		default:
			w.begin(id, step, 1)
			w.clock.advance(time.Duration(minutes) * time.Minute)
			w.append(id, runtest.Draft(run.StepCompletedEvent, step, 1))
		}
	}
	if end != "" {
		w.append(id, runtest.Draft(end, "", 1))
	}
	eventually(w.t, "the projection of "+id, func() bool {
		rows := must[[]store.RunRow](w.t)(w.raw.List(w.t.Context(), store.RunFilter{TenantID: "acme", Limit: 200}))
		for _, r := range rows {
			if r.Header.RunID == id {
				return r.Header.Seq == r.Head
			}
		}
		return false
	})
	return id
}

func (w *world) header(runID string) run.Header {
	w.t.Helper()
	return must[control.RunView](w.t)(w.Run(w.t.Context(), w.eng(), runID, nil)).State.Header
}

// A forecast uses only completed runs, and enough of them. One outlier in ten changes neither bound.
func TestForecast_UsesOnlyCompletedRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	viewer := w.who("dev-viewer")
	for i, minutes := range []int{60, 1, 62, 64} {
		w.ended(fmt.Sprintf("f%d", i), nil, run.RunCompleted, map[string]int{"s1": minutes})
	}
	w.ended("failed", nil, run.RunFailed, map[string]int{"s1": 5, "s2": 0})
	few := w.header(w.ended("few", nil, "", map[string]int{"s1": 1}))
	if f := must[*reads.Forecast](t)(w.Forecast(t.Context(), viewer, few)); f != nil {
		t.Errorf("the forecast of four runs is %+v, want none", f)
	}
	for i, minutes := range []int{61, 63, 900, 65, 66, 67} {
		w.ended(fmt.Sprintf("g%d", i), nil, run.RunCompleted, map[string]int{"s1": minutes})
	}
	h := w.header(w.ended("now", nil, "", map[string]int{"s1": 1}))
	got := must[*reads.Forecast](t)(w.Forecast(t.Context(), viewer, h))
	if got == nil || got.Low.Round(time.Minute) != time.Hour || got.High.Round(time.Minute) != 67*time.Minute ||
		got.Runs != 10 {
		t.Errorf("the forecast of ten runs is %+v, want from 1h0m to 1h7m", got)
	}
	if f := must[*reads.Forecast](t)(w.Forecast(t.Context(), w.foreign(), h)); f != nil {
		t.Errorf("another tenant gets the forecast %+v, want none", f)
	}
}

// Runs before a run are older runs of its plan, project and environment that have ended.
func TestRunBefore_IsOfTheSamePlanAndScope(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ended("b1", nil, run.RunCompleted, map[string]int{"s1": 100, "s2": 7})
	green := w.ended("b2", nil, run.RunCompleted, map[string]int{"s1": 300})
	w.ended("b3", nil, run.RunFailed, map[string]int{"s1": 200, "s2": 0})
	w.ended("b4", nil, "", map[string]int{"s1": 90})                                         // not ended
	w.ended("b5", M{"metadata.planId": "other"}, run.RunCompleted, map[string]int{"s1": 90}) // another plan
	// In another environment.
	w.ended("b6", M{"scope.environmentId": "prod"}, run.RunCompleted, map[string]int{"s1": 90, "s2": 90})
	h := w.header(w.ended("b7", nil, run.RunCompleted, map[string]int{"s1": 90}))
	w.ended("b8", nil, run.RunCompleted, map[string]int{"s1": 90}) // later

	viewer := w.who("dev-viewer")
	got := must[map[string]time.Duration](t)(w.StepMedians(t.Context(), viewer, h))
	for id, took := range got {
		got[id] = took.Round(time.Minute)
	}
	if diff := cmp.Diff(map[string]time.Duration{"s1": 200 * time.Minute, "s2": 7 * time.Minute}, got); diff != "" {
		t.Errorf("medians (-want +got):\n%s", diff)
	}
	last := must[*reads.RunBefore](t)(w.LastGreen(t.Context(), viewer, h))
	if last == nil || last.RunID != green || last.Status != run.Completed || last.CompletedAt == nil ||
		last.PlanVersion != "1.0" {
		t.Errorf("the last green run is %+v, want %s", last, green)
	}
	first := h
	first.CreatedAt, first.RunID = h.CreatedAt.Add(-24*time.Hour), "0"
	if last := must[*reads.RunBefore](t)(w.LastGreen(t.Context(), viewer, first)); last != nil {
		t.Errorf("the last green run before the first run is %+v, want none", last)
	}
	for _, p := range []authz.Principal{w.who("nobody"), w.foreign()} {
		if last := must[*reads.RunBefore](t)(w.LastGreen(t.Context(), p, h)); last != nil {
			t.Errorf("%s of %s gets the last green run %+v, want none", p.ID, p.TenantID, last)
		}
		if got := must[map[string]time.Duration](t)(w.StepMedians(t.Context(), p, h)); len(got) != 0 {
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
		must[map[string]time.Duration](t)(w.StepMedians(t.Context(), w.eng(), h))
		if f := <-l.asked; f.Limit != runs {
			t.Errorf("%d runs of %d steps are read, want %d", f.Limit, steps, runs)
		}
	}
}
