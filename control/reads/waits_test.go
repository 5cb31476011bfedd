package reads_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// waitOf returns the first wait of a run, as an engineer sees it.
func (w *world) waitOf(id string) reads.RunWait {
	w.T.Helper()
	waits, err := w.RunWaits(w.T.Context(), w.Engineer(), id)
	if err != nil || len(waits) == 0 {
		w.T.Fatalf("the run has the waits %+v with the error %v, want a cause", waits, err)
	}
	return waits[0]
}

// Whatever an open run stands still for is a cause with a sentence and with somebody who can help.
func TestRunWaits_NameEachCause(t *testing.T) {
	t.Parallel()
	since, until := time.Now().Add(-time.Minute), time.Now().Add(time.Minute)
	for name, c := range map[string]struct {
		started bool
		waits   engine.Waits
		err     error
		want    reads.WaitKind
		check   func(reads.RunWait) bool
	}{
		"a plan that is fetched": {
			waits: engine.Waits{Loading: &engine.PlanLoad{Since: since, Until: until, Try: 2, Tries: 3}},
			want:  reads.WaitPlan, check: func(w reads.RunWait) bool {
				return w.Try == 2 && w.Tries == 3 && w.Since.Equal(since) && w.Until.Equal(until)
			}},
		"no control worker": {waits: engine.Waits{WorkerSince: since}, want: reads.WaitWorker,
			check: func(w reads.RunWait) bool { return w.TaskQueue != "" && w.Since.Equal(since) }},
		"the engine is down": {err: engine.ErrUnavailable, want: reads.WaitEngine,
			check: func(w reads.RunWait) bool { return !w.Since.IsZero() }},
		"the engine is down at work":  {started: true, err: engine.ErrUnavailable, want: reads.WaitEngine},
		"the store is down for tasks": {started: true, waits: engine.Waits{StoreSince: since}, want: reads.WaitStore},
		"a blocked journal": {started: true, waits: engine.Waits{Steps: []engine.StepWait{{StepID: "s1",
			Cause: engine.WaitJournal, Status: 403, Since: since}}}, want: reads.WaitJournal,
			check: func(w reads.RunWait) bool {
				return w.Status == 403 && slices.Equal(w.Steps, []string{"s1"}) && w.Since.Equal(since)
			}},
		"no token for a heavy step": {started: true, waits: engine.Waits{Steps: []engine.StepWait{{StepID: "s1",
			Cause: engine.WaitQuota, Since: since, Until: until}}}, want: reads.WaitQuota,
			check: func(w reads.RunWait) bool { return w.Until.Equal(until) && w.StepCount == 1 }},
		"no worker of its queue": {started: true, want: reads.WaitWorker,
			check: func(w reads.RunWait) bool { return slices.Equal(w.Steps, []string{"s1"}) && w.TaskQueue != "" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.Engine.Set(func(e *controltest.FakeEngine) {
				e.OnWaits = func(run.Identity) (engine.Waits, error) { return c.waits, c.err }
			})
			id := w.CreateQueued("r", "s1")
			w.HandOver()
			if c.started {
				w.AppendEvents(id, runtest.Draft(run.RunStarted, "", 1, runtest.M{"steps": []runtest.M{
					{"stepId": "s1", "type": "COMMAND", "taskQueue": "tq-data-dev"}}}))
			}
			got := w.waitOf(id)
			if got.Kind != c.want || got.Message == "" || got.Help == "" || c.check != nil && !c.check(got) {
				t.Errorf("the wait is %+v, want %s", got, c.want)
			}
		})
	}
}

// polledEngine is an engine whose queues were polled a moment ago.
type polledEngine struct{ *controltest.FakeEngine }

func (polledEngine) Pollers(context.Context, string) (engine.QueuePollers, error) {
	return engine.QueuePollers{LastSeen: time.Now()}, nil
}

// A worker that polled its queue a moment ago is there, so nobody must start another one.
func TestRunWaits_AWorkerThatPollsIsBusy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.Engine = polledEngine{c.Engine.(*controltest.FakeEngine)} })
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnWaits = func(run.Identity) (engine.Waits, error) {
			return engine.Waits{WorkerSince: time.Now().Add(-time.Minute)}, nil
		}
	})
	id := w.CreateQueued("r", "s1")
	w.HandOver()
	if got := w.waitOf(id); got.Kind != reads.WaitWorker || !strings.Contains(got.Message, "busy") {
		t.Errorf("the wait is %+v, want one for a busy worker", got)
	}
}

// A reload of the page cancels the request while the engine is asked. The next viewer must not read that the engine is
// down.
func TestRunWaits_AViewerWhoLeavesDoesNotMakeTheEngineLookDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, leave := context.WithCancel(t.Context())
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnWaits = func(run.Identity) (engine.Waits, error) {
			leave()
			return engine.Waits{Loading: &engine.PlanLoad{Try: 1, Tries: 3}}, nil
		}
	})
	id := w.CreateQueued("r", "s1")
	w.HandOver()
	_, _ = w.RunWaits(ctx, w.Engineer(), id)
	if got := w.waitOf(id); got.Kind != reads.WaitPlan || got.Try != 1 {
		t.Errorf("after a viewer left, the wait is %+v, want the plan that loads", got)
	}
}

// One late answer is no sign that the engine is down; two in a row are.
func TestRunWaits_AnEngineThatIsLateTwiceIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnWaits = func(run.Identity) (engine.Waits, error) {
			time.Sleep(2500 * time.Millisecond) // the second question may join the first one
			return engine.Waits{}, nil
		}
	})
	id := w.CreateQueued("r", "s1")
	w.HandOver()
	if got := w.waitOf(id); got.Kind != reads.WaitPlan {
		t.Errorf("after one late answer, the wait is %+v, want the plan that loads", got)
	}
	w.Clock.Advance(3 * time.Second)
	if got := w.waitOf(id); got.Kind != reads.WaitEngine {
		t.Errorf("after two late answers, the wait is %+v, want the engine", got)
	}
}

// A server that gives the run to the engine for the first time has not failed.
func TestRunWaits_AFirstTryIsNoFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("r", "s1")
	rows := controltest.Must[[]store.QueueRow](t)(w.Store.Lease(t.Context(), "a server", time.Minute, 1))
	if got := w.waitOf(id); got.Message != "A server gives the run to the engine." {
		t.Errorf("during the first try the wait is %+v", got)
	}
	if err := w.Store.Release(t.Context(), id, rows[0].Generation, time.Minute, "the engine is down"); err != nil {
		t.Fatal(err)
	}
	const failed = "The engine did not start the run. A server tries again."
	if got := w.waitOf(id); got.Message != failed || got.Until.IsZero() {
		t.Errorf("after the first try the wait is %+v, want that it failed and when the next one comes", got)
	}
}

func TestRunWaits_OfAnotherTenantIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.RunWaits(t.Context(), w.ForeignPrincipal(), w.CreateQueued("r", "s1"))
	if code := controltest.CodeOf(err); code != run.CodeNotFound {
		t.Errorf("the error is %v, want NOT_FOUND", err)
	}
}

// The log says that the steps run. Their workers wait for the journal, one of them while the run is paused.
func TestRunWaits_AnEndThatCannotBeReported(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	w := newWorld(t)
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnWaits = func(run.Identity) (engine.Waits, error) {
			return engine.Waits{Steps: []engine.StepWait{
				{StepID: "s1", Cause: engine.WaitJournal, Since: since.Add(time.Minute), Ended: true},
				{StepID: "s2", Cause: engine.WaitJournal, Since: since, Ended: true},
				{StepID: "s3", Cause: engine.WaitStore, Ended: true}, // has not started: a worker that lies
			}}, nil
		}
	})
	id := w.CreateSteps("r", "COMMAND s1", "COMMAND s2", "COMMAND s3")
	for _, step := range []string{"s1", "s2"} {
		w.BeginStep(id, step, 1)
	}
	waits := controltest.Must[[]reads.RunWait](t)(w.RunWaits(t.Context(), w.Principal("dev-viewer"), id))
	if len(waits) == 0 || waits[0].Kind != reads.WaitJournal || !slices.Equal(waits[0].Steps, []string{"s1", "s2"}) ||
		!waits[0].Since.Equal(since) || !strings.Contains(waits[0].Message, "has ended") || waits[0].Help == "" {
		t.Errorf("the waits are %+v, want the journal first, with both steps", waits)
	}
	for _, x := range waits[1:] {
		if x.Kind == reads.WaitStore {
			t.Errorf("the waits name the store for a step that has not started: %+v", x)
		}
	}
}

// A running step between two tries is a wait of its own; one that has ended since the engine answered is none.
func TestRunWaits_StepsBetweenTwoTriesWaitForTheNextOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	until := time.Now().Add(4 * time.Minute)
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnWaits = func(run.Identity) (engine.Waits, error) {
			out := engine.Waits{Steps: []engine.StepWait{{StepID: "ended", Cause: engine.WaitRetry, Try: 2, Tries: 5}}}
			for i := range 10 {
				out.Steps = append(out.Steps, engine.StepWait{StepID: fmt.Sprint("s", i), Cause: engine.WaitRetry, Try: 3,
					Tries: 5, Until: until})
			}
			return out, nil
		}
	})
	id := w.CreateQueued("r", "s0")
	w.HandOver()
	steps := []runtest.M{{"stepId": "ended", "type": "COMMAND", "taskQueue": "tq-data-dev"}}
	drafts := []run.Draft{}
	for i := range 10 {
		steps = append(steps, runtest.M{"stepId": fmt.Sprint("s", i), "type": "COMMAND", "taskQueue": "tq-data-dev"})
		drafts = append(drafts, runtest.Draft(run.StepStartedEvent, fmt.Sprint("s", i), 1))
	}
	drafts = append(drafts, runtest.Draft(run.StepStartedEvent, "ended", 1),
		runtest.Draft(run.StepCompletedEvent, "ended", 1))
	w.AppendEvents(id, append([]run.Draft{runtest.Draft(run.RunStarted, "", 1, runtest.M{"steps": steps})}, drafts...)...)
	waits, err := w.RunWaits(t.Context(), w.Engineer(), id)
	if err != nil || len(waits) != 9 || waits[8].StepCount != 2 {
		t.Fatalf("the waits are %+v with the error %v, want one for each of eight steps and one for the other two", waits, err)
	}
	if got := waits[0]; got.Kind != reads.WaitRetry || got.Try != 3 || got.Tries != 5 || !got.Until.Equal(until) ||
		got.Message != "Step s0 failed and waits to be tried again: try 3 of 5." || got.Help == "" {
		t.Errorf("the first wait is %+v, want try 3 of 5 of s0", got)
	}
}
