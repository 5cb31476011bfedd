package temporal_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/run"
)

// waitsFor waits until the engine says that a step waits for cause, and returns what it says.
func (h *harness) waitsFor(runID, stepID string, cause engine.WaitCause) (found engine.StepWait) {
	h.t.Helper()
	h.waitFor(runID, fmt.Sprintf("waiting at %s for %s", stepID, cause), func(run.State) bool {
		w, err := h.engine.Waits(h.t.Context(), h.identity(runID))
		i := slices.IndexFunc(w.Steps, func(s engine.StepWait) bool { return s.StepID == stepID && s.Cause == cause })
		if err != nil || i < 0 {
			return false
		}
		found = w.Steps[i]
		return true
	})
	return found
}

// A heavy step without a token waits for the quota and not for a worker, until a known time.
// contract: R441, T37
func TestWaits_AHeavyStepWithoutATokenWaitsForTheQuota(t *testing.T) {
	t.Parallel()
	h, drain := limited(t, 4, options{}) // one token every 15 s
	h.steps.on("first", func(context.Context, executor.Task) error {
		drain()
		return nil
	})
	id := h.start(document(0, step{id: "first"}, step{id: "heavy", deps: "first", extra: heavyStep}))
	w := h.waitsFor(id, "heavy", engine.WaitQuota)
	if time.Since(w.Since) > 10*time.Second || time.Until(w.Until) < time.Second {
		t.Errorf("the wait is %+v, want it since just now and until a token is there", w)
	}
	h.cancel(id)
}

// deniedJournal answers like a proxy that blocks the path of the Journal.
type deniedJournal struct{ engine.Journal }

func (deniedJournal) StartAttempt(context.Context, engine.StartAttempt) (engine.AttemptStarted, error) {
	return engine.AttemptStarted{}, &engine.DeniedError{Status: 403, Why: "blocked"}
}

// endlessJournal answers each end like a proxy that blocks the path of the Journal, until it is opened.
type endlessJournal struct {
	engine.Journal
	open *atomic.Bool
}

func (j endlessJournal) End(ctx context.Context, e engine.End) (engine.Receipt, error) {
	if !j.open.Load() {
		return engine.Receipt{}, &engine.DeniedError{Status: 403, Why: "blocked"}
	}
	return j.Journal.End(ctx, e)
}

// The work of a step has ended, and its worker cannot report that. The log says that the step runs, so only the worker
// can tell what the run waits for.
func TestWaits_AnEndThatCannotBeReportedIsNamed(t *testing.T) {
	t.Parallel()
	var open atomic.Bool
	h := newHarness(t, options{wrap: func(j engine.Journal) engine.Journal { return endlessJournal{j, &open} }})
	id := h.start(document(0, step{id: "a"}))
	if w := h.waitsFor(id, "a", engine.WaitJournal); !w.Ended || w.Status != 403 || w.Since.IsZero() {
		t.Errorf("the wait is %+v, want an end with the status 403 and the time of the first report", w)
	}
	open.Store(true)
	h.waitFor(id, "completed", func(s run.State) bool { return s.Status == run.Completed })
}

// A worker whose Journal is blocked is the cause on the page, with the status of the answer.
func TestWaits_ABlockedJournalIsNamedWithItsStatus(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{wrap: func(j engine.Journal) engine.Journal { return deniedJournal{j} }})
	id := h.start(document(0, step{id: "a"}))
	if w := h.waitsFor(id, "a", engine.WaitJournal); w.Status != 403 || w.Since.IsZero() {
		t.Errorf("the wait is %+v, want the status 403 and a beginning", w)
	}
}

// Between two tries nothing works on a step, although the log says that it runs: only the engine can tell.
func TestWaits_AStepBetweenTwoTriesIsNamedWithItsNextTry(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{payloads: payloadsOf(t, "k1", "d1")}) // its activities have opaque ids
	h.steps.on("a", func(context.Context, executor.Task) error { return failure("FLAKY", true, "transport") })
	id := h.start(document(0, step{id: "a", extra: retry(3, 60_000)}))
	w := h.waitsFor(id, "a", engine.WaitRetry)
	if w.Try != 2 || w.Tries != 3 || w.Since.IsZero() || time.Until(w.Until) < 10*time.Second {
		t.Errorf("the wait is %+v, want try 2 of 3 in about a minute", w)
	}
	h.cancel(id)
}
