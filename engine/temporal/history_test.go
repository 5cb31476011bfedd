package temporal_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/live/redisbus"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/storeadmin"
)

// backup copies the harness's store like an operator, while other goroutines write to it.
func (h *harness) backup() string {
	h.t.Helper()
	copied := filepath.Join(h.t.TempDir(), "backup.db")
	db, err := sql.Open("sqlite", filepath.Join(h.root, "dvt.db")+"?_pragma=busy_timeout(5000)")
	must(h.t, err)
	_, err = db.ExecContext(h.t.Context(), `VACUUM INTO '`+copied+`'`)
	must(h.t, err)
	must(h.t, db.Close())
	return copied
}

// restore returns a harness with the same engine and the store of a backup.
func (h *harness) restore(path string) *harness {
	h.t.Helper()
	st, err := sqlite.Open(h.t.Context(), path, sqlite.Options{})
	must(h.t, err)
	h.t.Cleanup(func() { _ = st.Close() })
	bus, err := redisbus.Open(redisbus.Config{URL: "redis://" + miniredis.RunT(h.t).Addr() + "/0"})
	must(h.t, err)
	h.t.Cleanup(func() { _ = bus.Close() })
	logs, err := artifact.Open(h.t.Context(), "mem://")
	must(h.t, err)
	directory, err := authz.NewDirectory(authz.DevAccounts(func(name string) string { return name }), time.Now)
	must(h.t, err)
	az, err := authz.New(authz.DefaultPolicy(), directory)
	must(h.t, err)
	again := *h
	again.store = st
	again.control = usecases.New(usecases.Config{
		Store: st, Engine: h.engine, Bus: bus, Hub: live.New(st, bus, live.Config{}), Authz: az, Logs: logs, Queues: h.queues,
	})
	again.journal = journal.New(journal.Config{Tickets: testKeys(),
		Store: journal.On(st), Logs: logs, Blobs: logs, Queues: h.queues, MaxSteps: again.control.MaxSteps(),
		Fetch: journal.NewFetcher([]string{h.root}, nil),
	})
	return &again
}

// work runs the duties and a worker until the returned function is called.
func (h *harness) work() (stop func()) {
	stops := []func(){
		h.spawn(func(ctx context.Context) error { return h.control.Dispatch(ctx, "test") }),
		h.spawn(func(ctx context.Context) error { return h.control.Deliver(ctx, "test") }),
		h.worker(0),
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// waitForHeartbeat waits until a heartbeat has reported the start of a step's work to the engine.
func (h *harness) waitForHeartbeat(runID, stepID string) {
	h.t.Helper()
	h.waitForPending(runID, stepID, func(p *workflowpb.PendingActivityInfo) bool {
		var sofar struct{ StartedAt time.Time }
		if p.GetHeartbeatDetails() != nil {
			must(h.t, converter.GetDefaultDataConverter().FromPayloads(p.GetHeartbeatDetails(), &sofar))
		}
		return !sofar.StartedAt.IsZero()
	})
}

// waitForTimers waits until the engine's history has the starts of this many timers.
func (h *harness) waitForTimers(runID string, want int) {
	h.t.Helper()
	h.waitFor(runID, fmt.Sprintf("waiting for timer %d", want), func(run.State) bool {
		n := 0
		for _, e := range h.history(runID).GetEvents() {
			if e.GetEventType() == enumspb.EVENT_TYPE_TIMER_STARTED {
				n++
			}
		}
		return n >= want
	})
}

func (h *harness) repair() storeadmin.Repaired {
	h.t.Helper()
	out, err := storeadmin.Repair(h.t.Context(), h.store, h.engine, h.journal, nil, nil)
	must(h.t, err)
	return out
}

func (h *harness) verify() {
	h.t.Helper()
	out, err := storeadmin.Verify(h.t.Context(), h.store, storeadmin.VerifyOptions{}, nil)
	must(h.t, err)
	if out.Differences > 0 {
		h.t.Errorf("the store has differences: %v", out.Found)
	}
}

// facts returns the events of a run without those of rejected signals, which the engine does not know.
func (h *harness) facts(runID string) (out []string) {
	for _, e := range h.events(runID) {
		if e.Type != run.SignalRejected {
			out = append(out, fmt.Sprintf("%s(%s%s,%d) %s", e.Type, e.StepID, e.SignalID, e.LogicalAttempt, e.Key))
		}
	}
	return out
}

func (h *harness) head(runID string) run.Seq {
	h.t.Helper()
	heads, err := h.store.Heads(h.t.Context(), []string{runID})
	must(h.t, err)
	return heads.ByRun[runID].LastSeq
}

// patient has the fields of a step that survives the loss of its worker.
var patient = map[string]any{"retry": map[string]any{"maxAttempts": 5, "initialBackoffMs": 100}}

// An operator restores a backup that lacks most events, and the repair refills the log from the engine's history.
// contract: T30, T194
func TestRepair_RefillsARestoredStore(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{server: testserver.TemporalAlone(t), workers: -1, noStarts: true, noDeliveries: true})
	stop := h.work()
	release := h.hold("first")
	simple := h.start(document(0, step{id: "first"}, step{id: "second", deps: "first"}))
	steered := h.start(document(600, step{id: "first"}, step{id: "x", deps: "first"}, step{id: "y", deps: "first"}))
	open := h.start(document(600, step{id: "first"}, step{id: "short", deps: "first"},
		step{id: "long", deps: "first", extra: patient}, step{id: "last", deps: "short long"}))
	runs := []string{simple, steered, open}
	for _, id := range runs {
		h.waitUntilRunning(id, "first")
	}
	copied := h.backup()

	breaks := failing(1, failure("EXIT_STATUS", true, "exit"))
	h.steps.on("x", func(ctx context.Context, task executor.Task) error {
		for h.steps.count("y") == 0 { // y must start before the failure, because no step starts after it
			if err := after(ctx, 5*time.Millisecond); err != nil {
				return err
			}
		}
		return breaks(ctx, task)
	})
	slow := h.hold("y")
	finish := h.hold("long")
	release()
	h.waitForEnd(simple)
	h.waitUntilRunning(steered, "y")
	h.waitForEvent(steered, "StepFailed(x,1)")
	pause, retry := uuid.NewString(), uuid.NewString()
	h.signal(steered, run.Signal{ID: pause, Type: run.Pause})
	h.waitUntilApplied(steered, pause)
	h.signal(steered, run.Signal{ID: retry, Type: run.RetryStep, StepID: "x"})
	h.signal(steered, run.Signal{Type: run.Resume})
	slow()
	h.waitForEnd(steered)
	h.waitForEvent(open, "StepCompleted(short,1)")
	refused := h.signal(open, run.Signal{Type: run.RetryStep, StepID: "long"})
	if !refused.Rejected {
		t.Fatalf("a retry of a running step has the receipt %+v, want it rejected", refused)
	}
	h.waitUntilRunning(open, "long")
	late := h.signal(open, run.Signal{Type: run.Pause})
	h.waitUntilApplied(open, late.Signal.ID)
	lost := h.start(document(0, step{id: "only"}))
	h.waitForEnd(lost)
	for _, id := range []string{simple, steered, lost} {
		h.waitUntilClosed(id)
	}
	h.waitForHeartbeat(open, "long")
	stop()
	want := map[string][]string{}
	for _, id := range runs {
		want[id] = h.facts(id)
	}
	known := h.head(open) // the position of RunPaused

	b := h.restore(copied)
	if n := len(b.events(steered)); n >= len(want[steered]) {
		t.Fatalf("the backup has %d events, want fewer than the log", n)
	}
	epoch, err := b.store.Epoch(t.Context())
	must(t, err)
	out := b.repair()
	if out.EpochBefore != epoch || out.Epoch == epoch {
		t.Errorf("the repair changed the epoch from %s to %s, want a new one after %s", out.EpochBefore, out.Epoch, epoch)
	}
	for _, id := range runs {
		got := b.facts(id)
		if id != simple { // the engine knows the times of signals and of running steps, but not their positions
			slices.Sort(got)
			slices.Sort(want[id])
		}
		if diff := cmp.Diff(want[id], got); diff != "" {
			t.Errorf("facts of %s (-before the restore +after the repair):\n%s", id, diff)
		}
	}
	b.verify()
	if len(out.Lost) != 1 || out.Lost[0].RunID != lost || out.Lost[0].Open {
		t.Errorf("lost runs %+v, want %s", out.Lost, lost)
	}
	if len(out.Refilled) != 3 {
		t.Errorf("the repair refilled %+v, want three runs", out.Refilled)
	}
	for _, r := range out.Refilled {
		var ids []string
		for _, l := range r.Receipts {
			ids = append(ids, l.SignalID)
			if l.Renumbered {
				t.Errorf("the receipt %+v was renumbered", l)
			}
		}
		switch r.RunID {
		case steered:
			if len(ids) != 3 || !slices.Contains(ids, pause) || !slices.Contains(ids, retry) {
				t.Errorf("the repair has the receipts %v of %s, want three with the pause and the retry", ids, steered)
			}
		case open:
			if r.Known != known || r.To >= known {
				t.Errorf("the repair has %+v, want an end before %d, because the rejected signal is lost", r, known)
			}
		}
		if len(r.Refused) > 0 {
			t.Errorf("the store refused %v in the repair", r.Refused)
		}
	}
	if r, err := b.store.Receipt(t.Context(), steered, retry); err != nil || r.Application != run.SignalApplied ||
		r.No != 2 {
		t.Errorf("receipt of the retry %+v, error %v; want signal number 2, APPLIED", r, err)
	}

	var before []run.Event
	for _, id := range runs {
		before = append(before, b.events(id)...)
	}
	if again := b.repair(); len(again.Refilled) > 0 {
		t.Errorf("the second repair refilled %+v", again.Refilled)
	}
	var after []run.Event
	for _, id := range runs {
		after = append(after, b.events(id)...)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the second repair changed the log:\n%s", diff)
	}

	// The open run continues, although its workflow knows a longer log.
	b.work()
	finish()
	b.signal(open, run.Signal{Type: run.Resume})
	if s := b.waitForEnd(open); s.Status != run.Completed {
		t.Errorf("the open run ended %s; log:\n%s", s.Status, strings.Join(b.log(open), "\n"))
	}
	b.verify()
}

// A SLEEP has no activity in the history. Only markers have its start and its end.
//
// contract: T30, T194
func TestRepair_RefillsTheStartsAndEndsOfSleeps(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{server: testserver.TemporalAlone(t), workers: -1, noStarts: true, noDeliveries: true})
	nap := func(ms int) map[string]any {
		return map[string]any{"type": "SLEEP", "inputs": map[string]any{"ms": ms}}
	}
	done := h.start(document(0, step{id: "nap", extra: nap(1)}, step{id: "after", deps: "nap", extra: nap(1)}))
	open := h.start(document(0, step{id: "nap", extra: nap(1)}, step{id: "long", deps: "nap", extra: nap(8000)}))
	copied := h.backup()
	stop := h.work()
	h.waitForEnd(done)
	h.waitUntilClosed(done)
	h.waitUntilRunning(open, "long")
	h.waitForTimers(open, 2)
	stop()
	want := map[string][]string{done: h.facts(done), open: h.facts(open)}

	b := h.restore(copied)
	b.repair()
	for id, facts := range want {
		if diff := cmp.Diff(facts, b.facts(id)); diff != "" {
			t.Errorf("facts of %s (-before the restore +after the repair):\n%s", id, diff)
		}
	}
	b.verify()
	b.work()
	if s := b.waitForEnd(open); s.Status != run.Completed {
		t.Errorf("the open run ended %s; log:\n%s", s.Status, strings.Join(b.log(open), "\n"))
	}
	b.verify()
}

// A workflow whose log became shorter waits, and continues after the repair. It also receives signals that are sent
// after the repair.
// contract: T194
func TestRepair_ARegressedRunWaitsForItsRepair(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{server: testserver.TemporalAlone(t), workers: -1, noStarts: true, noDeliveries: true})
	stop := h.work()
	hold := h.hold("a")
	release := h.hold("b")
	id := h.start(document(600, step{id: "a", extra: patient}, step{id: "b", deps: "a", extra: patient},
		step{id: "c", deps: "b"}))
	h.waitUntilRunning(id, "a")
	copied := h.backup()
	hold()
	h.waitUntilRunning(id, "b")
	for range 2 {
		// The engine does not know rejected signals, so the repair cannot restore them.
		if refused := h.signal(id, run.Signal{Type: run.RetryStep, StepID: "b"}); !refused.Rejected {
			t.Fatalf("a retry of a running step has the receipt %+v, want it rejected", refused)
		}
	}
	pause := h.signal(id, run.Signal{Type: run.Pause})
	h.waitUntilApplied(id, pause.Signal.ID)
	resume := h.signal(id, run.Signal{Type: run.Resume}) // waits for b
	h.waitUntilDelivered(id, resume.Signal.ID)
	h.waitForHeartbeat(id, "b")
	stop()

	b := h.restore(copied)
	stop = b.work()
	release()
	time.Sleep(2 * time.Second)
	if log := b.log(id); slices.Contains(log, "StepCompleted(b,1)") || slices.Contains(log, "RunCompleted") {
		t.Fatalf("a run whose log regressed continued:\n%s", strings.Join(log, "\n"))
	}
	stop()
	out := b.repair()
	if len(out.Refilled) != 1 || out.Refilled[0].Known == 0 {
		t.Errorf("the repair refilled %+v, want one run with a known head", out.Refilled)
	}
	gate := b.hold("c")
	stop = b.work()
	b.waitUntilRunning(id, "c")
	cancel := b.signal(id, run.Signal{Type: run.Cancel})
	if got := b.waitUntilApplied(id, cancel.Signal.ID); got.Application != run.SignalApplied {
		t.Errorf("receipt of a signal after the repair %+v, want APPLIED", got)
	}
	gate()
	if s := b.waitForEnd(id); s.Status != run.Cancelled {
		t.Errorf("the run ended %s, want CANCELLED", s.Status)
	}
	stop()
	b.verify()
}
