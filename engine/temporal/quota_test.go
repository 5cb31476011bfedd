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

// limited is a harness whose heavy steps take of a bucket of perMinute, and what empties it.
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

// at is when an event was persisted.
func (h *harness) at(runID, word string) time.Time {
	h.t.Helper()
	i := slices.Index(h.log(runID), word)
	if i < 0 {
		h.t.Fatalf("no %s; the log is\n%s", word, strings.Join(h.log(runID), "\n"))
	}
	return h.events(runID)[i].PersistedAt
}

// Q10: what is over the quota waits by a timer, is executed once, and nothing in the log
// says that it waited.
// contract: Q10, T113
func TestQuota_HeavyStepsWaitAndRun(t *testing.T) {
	t.Parallel()
	h, drain := limited(t, 20, options{}) // one each 3 s
	h.steps.on("first", func(context.Context, executor.Task) error {
		drain()
		return nil
	})
	id := h.start(document(0, step{id: "first", extra: heavyStep},
		step{id: "h1", deps: "first", extra: heavyStep}, step{id: "h2", deps: "first", extra: heavyStep},
		step{id: "dbt", deps: "first", extra: map[string]any{"type": "DBT_RUN", "inputs": map[string]any{"projectDir": "."}}},
		step{id: "light", deps: "first"}))
	s := h.ended(id)
	if s.Status != run.Completed {
		t.Fatalf("the run is %s:\n%s", s.Status, strings.Join(h.log(id), "\n"))
	}
	var starts []time.Time
	for _, step := range []string{"h1", "h2", "dbt"} {
		starts = append(starts, h.at(id, "StepStarted("+step+",1)"))
		if n := h.steps.count(step); n != 1 {
			t.Errorf("%s was executed %d times", step, n)
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	full := h.at(id, "StepStarted(first,1)") // what flows in from then on is not drained
	for i, at := range starts {
		if after := at.Sub(full); after < time.Duration(i+1)*3*time.Second {
			t.Errorf("token %d was there after %v", i+1, after)
		}
	}
	if light := h.at(id, "StepStarted(light,1)"); light.After(starts[2]) {
		t.Error("a light step waited for a token")
	}
	if n := len(h.log(id)); n != 2+2*5+1 {
		t.Errorf("%d events:\n%s", n, strings.Join(h.log(id), "\n"))
	}
	h.closed(id)
	recorded := h.history(id)
	if !slices.ContainsFunc(recorded.Events, func(e *historypb.HistoryEvent) bool {
		return e.GetTimerStartedEventAttributes() != nil
	}) {
		t.Error("no timer was set")
	}
	if err := replay(recorded); err != nil {
		t.Errorf("replay: %v", err)
	}
}

// T175: a step that waits for a token is PENDING: a pause does not wait for it, and it goes on after.
// contract: T175
func TestQuota_PauseDoesNotWaitForIt(t *testing.T) {
	t.Parallel()
	h, drain := limited(t, 30, options{})
	drain()
	id := h.start(document(0, step{id: "h1", extra: heavyStep}, step{id: "light"}))
	h.logs(id, "StepCompleted(light,1)")
	h.pause(id)
	h.until(id, "paused", func(s run.State) bool { return s.Status == run.Paused && s.RunningSteps() == 0 })
	began := slices.Contains(h.log(id), "StepStarted(h1,1)") // on a slow machine there was a token before the pause
	time.Sleep(2500 * time.Millisecond)                      // the timer fires meanwhile
	if now := slices.Contains(h.log(id), "StepStarted(h1,1)"); now != began {
		t.Error("it began while the run was paused")
	}
	h.resume(id)
	if s := h.ended(id); s.Status != run.Completed || h.steps.count("h1") != 1 {
		t.Errorf("the run is %s, h1 ran %d times", s.Status, h.steps.count("h1"))
	}
}

// contract: T195
func TestQuota_TheWaitSurvivesRotation(t *testing.T) {
	t.Parallel()
	h, drain := limited(t, 30, options{rotateAfter: 2})
	drain()
	id := h.start(document(0, step{id: "h1", extra: heavyStep}, step{id: "a"}, step{id: "b", deps: "a"},
		step{id: "c", deps: "b"}, step{id: "h2", deps: "a", extra: heavyStep}))
	if s := h.ended(id); s.Status != run.Completed {
		t.Fatalf("the run is %s", s.Status)
	}
	h.closed(id)
	chain := h.chain(id)
	for i, g := range chain {
		if err := replay(g.history); err != nil {
			t.Errorf("replay of execution %d: %v", i+1, err)
		}
	}
	if len(chain) < 2 || h.steps.count("h1")+h.steps.count("h2") != 2 {
		t.Errorf("%d executions; h1 ran %d times, h2 %d times", len(chain), h.steps.count("h1"), h.steps.count("h2"))
	}
}

// contract: T113
func TestQuota_CancelWhileItWaits(t *testing.T) {
	t.Parallel()
	h, drain := limited(t, 1, options{})
	drain()
	id := h.start(document(0, step{id: "h1", extra: heavyStep}, step{id: "light"}))
	h.logs(id, "StepCompleted(light,1)")
	h.cancelled(id)
	if s := h.ended(id); s.Status != run.Cancelled {
		t.Errorf("the run is %s", s.Status)
	}
	if n := h.steps.count("h1"); n > 0 {
		t.Errorf("h1 ran %d times", n)
	}
	h.closed(id)
}
