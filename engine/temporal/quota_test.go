package temporal_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	historypb "go.temporal.io/api/history/v1"

	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

var heavyStep = map[string]any{"dispatch": map[string]any{"resourceClass": "heavy"}}

// limited returns a harness whose heavy steps take tokens of a bucket with perMinute, and a function that empties the
// bucket.
func limited(t *testing.T, perMinute int, o options) (h *harness, drain func()) {
	t.Helper()
	bucket := store.Bucket{TenantID: "acme", ProjectID: "shop", Action: store.BucketHeavy, PerMinute: perMinute}
	o.config = func(cfg *journal.Config) {
		cfg.Heavy = func(tenantID, projectID string) store.Bucket {
			b := bucket
			b.TenantID, b.ProjectID = tenantID, projectID
			return b
		}
	}
	h = newHarness(t, o)
	other := run.Identity{RunID: uuid.NewString(), TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev", PlanID: "p",
		PlanVersion: "1"}
	_, _, err := h.store.CreateRun(t.Context(), store.NewRun{Run: store.Run{Identity: other}})
	must(t, err)
	return h, func() {
		if err := h.store.InRun(t.Context(), other.RunID, func(tx store.RunTx) error {
			for {
				if wait, err := tx.Take(t.Context(), bucket); err != nil || wait != 0 {
					return err
				}
			}
		}); err != nil {
			t.Error(err)
		}
	}
}

// at returns the time at which an event was persisted.
func (h *harness) at(runID, word string) time.Time {
	h.t.Helper()
	i := slices.Index(h.log(runID), word)
	if i < 0 {
		h.t.Fatalf("the log lacks %s:\n%s", word, strings.Join(h.log(runID), "\n"))
	}
	return h.events(runID)[i].PersistedAt
}

// A step above the quota waits on a timer of the workflow and is executed once. The log does not record the wait.
// contract: Q10, T113
func TestQuota_HeavyStepsWaitAndRun(t *testing.T) {
	t.Parallel()
	h, drain := limited(t, 20, options{}) // one token every 3 s
	h.steps.on("first", func(context.Context, executor.Task) error {
		drain()
		return nil
	})
	id := h.start(document(0, step{id: "first", extra: heavyStep},
		step{id: "h1", deps: "first", extra: heavyStep}, step{id: "h2", deps: "first", extra: heavyStep},
		step{id: "dbt", deps: "first", extra: map[string]any{"type": "DBT_RUN", "inputs": map[string]any{"projectDir": "."}}},
		step{id: "light", deps: "first"}))
	s := h.waitForEnd(id)
	if s.Status != run.Completed {
		t.Fatalf("the run ended %s, want COMPLETED; log:\n%s", s.Status, strings.Join(h.log(id), "\n"))
	}
	var starts []time.Time
	for _, step := range []string{"h1", "h2", "dbt"} {
		starts = append(starts, h.at(id, "StepStarted("+step+",1)"))
		if n := h.steps.count(step); n != 1 {
			t.Errorf("%s was executed %d times, want once", step, n)
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	full := h.at(id, "StepStarted(first,1)") // drain emptied the bucket after this
	for i, at := range starts {
		if after := at.Sub(full); after < time.Duration(i+1)*3*time.Second {
			t.Errorf("step %d started after %v, want at least %ds", i+1, after, 3*(i+1))
		}
	}
	if light := h.at(id, "StepStarted(light,1)"); light.After(starts[2]) {
		t.Error("a light step waited for a token")
	}
	if n := len(h.log(id)); n != 2+2*5+1 {
		t.Errorf("the log has %d events, want two per step and three of the run:\n%s", n, strings.Join(h.log(id), "\n"))
	}
	h.waitUntilClosed(id)
	recorded := h.history(id)
	if !slices.ContainsFunc(recorded.Events, func(e *historypb.HistoryEvent) bool {
		return e.GetTimerStartedEventAttributes() != nil
	}) {
		t.Error("the workflow set no timer")
	}
	if err := replay(recorded); err != nil {
		t.Errorf("the history does not replay: %v", err)
	}
}

// A step that waits for a token is PENDING, so a pause does not wait for it. It starts after the resume.
// contract: T175
func TestQuota_APauseDoesNotWaitForAStepWithoutAToken(t *testing.T) {
	t.Parallel()
	h, drain := limited(t, 30, options{})
	drain()
	id := h.start(document(0, step{id: "h1", extra: heavyStep}, step{id: "light"}))
	h.waitForEvent(id, "StepCompleted(light,1)")
	h.pause(id)
	h.waitFor(id, "paused", func(s run.State) bool { return s.Status == run.Paused && s.RunningSteps() == 0 })
	began := slices.Contains(h.log(id), "StepStarted(h1,1)") // on a slow machine the step gets a token before the pause
	time.Sleep(2500 * time.Millisecond)                      // the timer fires meanwhile
	if now := slices.Contains(h.log(id), "StepStarted(h1,1)"); now != began {
		t.Error("h1 started while the run was paused")
	}
	h.resume(id)
	if s := h.waitForEnd(id); s.Status != run.Completed || h.steps.count("h1") != 1 {
		t.Errorf("the run ended %s and h1 ran %d times, want COMPLETED and once", s.Status, h.steps.count("h1"))
	}
}

// contract: T195
func TestQuota_TheWaitSurvivesRotation(t *testing.T) {
	t.Parallel()
	h, drain := limited(t, 30, options{rotateAfter: 2})
	drain()
	id := h.start(document(0, step{id: "h1", extra: heavyStep}, step{id: "a"}, step{id: "b", deps: "a"},
		step{id: "c", deps: "b"}, step{id: "h2", deps: "a", extra: heavyStep}))
	if s := h.waitForEnd(id); s.Status != run.Completed {
		t.Fatalf("the run ended %s, want COMPLETED", s.Status)
	}
	h.waitUntilClosed(id)
	chain := h.chain(id)
	for i, g := range chain {
		if err := replay(g.history); err != nil {
			t.Errorf("replay of execution %d: %v", i+1, err)
		}
	}
	if len(chain) < 2 || h.steps.count("h1")+h.steps.count("h2") != 2 {
		t.Errorf("%d executions, h1 ran %d times, h2 %d times; want at least 2 and once each", len(chain),
			h.steps.count("h1"), h.steps.count("h2"))
	}
}

// contract: T113
func TestQuota_ACancelEndsTheWait(t *testing.T) {
	t.Parallel()
	h, drain := limited(t, 1, options{})
	drain()
	id := h.start(document(0, step{id: "h1", extra: heavyStep}, step{id: "light"}))
	h.waitForEvent(id, "StepCompleted(light,1)")
	h.cancel(id)
	if s := h.waitForEnd(id); s.Status != run.Cancelled {
		t.Errorf("the run ended %s, want CANCELLED", s.Status)
	}
	if n := h.steps.count("h1"); n > 0 {
		t.Errorf("h1 ran %d times, want never", n)
	}
	h.waitUntilClosed(id)
}
