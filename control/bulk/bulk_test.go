package bulk_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// A bulk to 200 runs gets a receipt for each of them; 3 refuse. A second bulk with failedOf targets only these 3.
func TestBulk_Of200RunsThe3RefusalsCanBeRepeatedAlone(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids := w.many(200)
	for _, i := range []int{7, 77, 177} {
		w.AppendEvents(ids[i], runtest.Draft(run.RunCancelled, "", 1))
	}
	b := w.bulk(w.Engineer(), bulkOf("b1", 200, bulk.BulkRuns{IDs: ids}))
	w.sends() // without a viewer
	b = w.bulkDone(w.Engineer(), b.ID)
	if diff := cmp.Diff([]int{200, 0, 197, 3, 0}, counts(b)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	applied := controltest.Must[bulk.BulkProgress](t)(w.BulkProgress(t.Context(), w.Engineer(), b.ID)).Applications
	if want := (bulk.BulkApplications{Pending: 197}); applied != want {
		t.Errorf("applications %+v, want %+v", applied, want)
	}
	var failed []string
	for i, r := range w.bulkRows(w.Engineer(), b.ID) {
		if r.RunID != ids[i] || r.Receipt == nil || r.Receipt.Reason != "release" || r.Receipt.Actor != "dev-engineer" ||
			r.At == nil {
			t.Fatalf("row %d is %+v, want an outcome with a time", i, r)
		}
		if r.Failed() {
			failed = append(failed, fmt.Sprintf("%d %s %s", r.No, r.Outcome, r.Receipt.Rejection))
		}
	}
	if diff := cmp.Diff([]string{"8 REJECTED RUN_TERMINAL", "78 REJECTED RUN_TERMINAL", "178 REJECTED RUN_TERMINAL"},
		failed); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	again := w.bulk(w.Engineer(), bulkOf("b2", 3, bulk.BulkRuns{FailedOf: b.ID}))
	again = w.bulkDone(w.Engineer(), again.ID)
	if diff := cmp.Diff([]int{3, 0, 0, 3, 0}, counts(again)); diff != "" {
		t.Errorf("counts of the second bulk (-want +got):\n%s", diff)
	}
	if n := w.CountEvents(ids[0], run.SignalAccepted); n != 1 {
		t.Errorf("the run that had not failed accepted %d signals, want 1", n)
	}
	for _, row := range []string{"dev-engineer SIGNAL_RUNS ACCEPTED", "dev-engineer PAUSE ACCEPTED  " + ids[0],
		"dev-engineer PAUSE REJECTED RUN_TERMINAL " + ids[7]} {
		if !w.HasAuditRow("acme", row) {
			t.Errorf("no audit row %q", row)
		}
	}
}

func TestBulk_TheSetOfRunsIsFixedAndCounted(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids, ctx, eng := w.many(6), t.Context(), w.Engineer()
	running := bulk.BulkRuns{Filter: &control.RunFilter{Statuses: []run.Status{run.Running}}}
	controltest.Eventually(t, "the list has them", func() bool {
		return w.previewOf(eng, bulkOf("", 0, running)).Bulk.Count == 6
	})
	_, err := w.SignalRuns(ctx, eng, bulkOf("b1", 5, running))
	if e := controltest.Refusal(t, err, run.CodeBulkMoved); e.Count != 6 {
		t.Errorf("the refusal has the count %d, want the current one", e.Count)
	}
	if !w.HasAuditRow("acme", "dev-engineer SIGNAL_RUNS REJECTED BULK_MOVED") {
		t.Error("no audit row of the refusal")
	}
	made := controltest.Must[bulk.MadeBulk](t)(w.SignalRuns(ctx, eng, bulkOf("b1", 6, running)))
	w.sends()
	b := w.bulkDone(eng, made.Bulk.ID)
	later := w.CreateQueued("later", "a") // created after the bulk
	w.HandOver()
	w.AppendEvents(later, runtest.Start())
	again := controltest.Must[bulk.MadeBulk](t)(w.SignalRuns(ctx, eng, bulkOf("b1", 6, running)))
	if !again.Duplicate || again.Bulk.ID != b.ID || again.Bulk.Total != 6 || made.Duplicate {
		t.Errorf("the repeated request is answered %+v, want a duplicate of the bulk of 6 runs", again)
	}
	for name, in := range map[string]bulk.SignalRuns{"runs": bulkOf("b1", 1, bulk.BulkRuns{IDs: ids[:1]}),
		"reason": func() bulk.SignalRuns {
			in := bulkOf("b1", 6, running)
			in.Reason = "another"
			return in
		}()} {
		if _, err := w.SignalRuns(ctx, eng, in); name != "" {
			controltest.Refusal(t, err, run.CodeRequestConflict)
		}
	}
	for _, bad := range []bulk.SignalRuns{
		bulkOf("b 2", 1, running), bulkOf("b2", 0, running), bulkOf("b2", 1, bulk.BulkRuns{}),
		bulkOf("b2", 1, bulk.BulkRuns{IDs: ids, Filter: running.Filter}),
		{RequestID: "b2", Runs: running, ExpectedCount: 1, Signal: bulkOf("", 0, running).Signal},
		{RequestID: "b2", Runs: running, ExpectedCount: 1, Reason: "r",
			Signal: runs.SignalRun{Signal: run.Signal{Type: run.RetryStep}}},
	} {
		_, err := w.SignalRuns(ctx, eng, bad)
		controltest.Refusal(t, err, run.CodeBadInput)
	}
	large := bulkOf("b2", 1, running)
	large.Signal.Payload = json.RawMessage(`{"reason":"` + strings.Repeat("x", 70_000) + `"}`)
	_, err = w.SignalRuns(ctx, eng, large)
	controltest.Refusal(t, err, run.CodeSignalTooLarge)
	_, err = w.SignalRuns(
		ctx, eng, bulkOf("b2", bulk.MaxBulk+1, bulk.BulkRuns{IDs: make([]string, bulk.MaxBulk+1)}))
	if e := controltest.Refusal(t, err, run.CodeBulkTooLarge); e.Limit != bulk.MaxBulk || !strings.Contains(e.Message,
		"5001") {
		t.Errorf("the refusal is %+v, want one with the limit and the number 5001", e)
	}
}

func TestBulk_OpenBulksAreBounded(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids := w.many(1)
	for i := range 5 {
		w.bulk(w.Engineer(), bulkOf(fmt.Sprint("b", i), 1, bulk.BulkRuns{IDs: ids}))
	}
	_, err := w.SignalRuns(t.Context(), w.Engineer(), bulkOf("b5", 1, bulk.BulkRuns{IDs: ids}))
	if e := controltest.Refusal(t, err, run.CodeTooManyBulks); e.RetryAfter <= 0 {
		t.Errorf("the refusal is %+v, want one with RetryAfter", e)
	}
	w.bulk(w.Principal("dev-operator"), bulkOf("b5", 1, bulk.BulkRuns{IDs: ids}))
}

// A watcher gets the state first, then rows as they or their receipts change. The stream is STALE while the store is
// down, and ends when the rights end.
// contract: T178
func TestWatchBulk_SendsTheStateAndThenChanges(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids, who := w.many(20), w.Engineer()
	in := bulkOf("b1", 20, bulk.BulkRuns{IDs: ids})
	in.Signal = controltest.SignalOf("", "", run.Cancel)
	b := w.bulk(who, in)
	s := controltest.Must[control.Stream[bulk.BulkFrame]](t)(w.WatchBulk(t.Context(), who, b.ID))
	defer s.Close()
	first := controltest.TakeFrame(t, s, "the first frame", func(bulk.BulkFrame) bool { return true })
	if !first.Reset || first.Sync != live.Live || len(first.Rows) != 0 || first.Bulk.Waiting() != 20 ||
		first.Bulk.Progress == nil {
		t.Errorf("the first frame is %+v, want Reset with all counts", first)
	}
	w.sends()
	seen := map[int]bool{}
	controltest.TakeFrame(t, s, "all rows", func(f bulk.BulkFrame) bool {
		if f.Reset {
			t.Error("there is a second frame with Reset")
		}
		for _, r := range f.Rows {
			seen[r.No] = true
		}
		return f.Bulk.State() == "DONE" && len(seen) == 20
	})
	controltest.Must[store.Appended](t)(w.Journal.Append(t.Context(), store.Append{
		RunID: ids[4], Outcomes: []store.SignalOutcome{{SignalID: store.BulkSignalID(b.ID, 5),
			Application: run.SignalNotApply, AppliedBy: -1}},
	}))
	moved := controltest.TakeFrame(t, s, "the receipt that moved", func(f bulk.BulkFrame) bool { return len(f.Rows) > 0 })
	if len(moved.Rows) != 1 || moved.Rows[0].No != 5 || !moved.Rows[0].Failed() ||
		moved.Bulk.Progress.Applications.NotApplied != 1 {
		t.Errorf("the frame is %+v, want the row that moved", moved)
	}
	f.down.Store(true)
	stale := controltest.TakeFrame(t, s, "STALE", func(f bulk.BulkFrame) bool { return f.Sync == live.Stale })
	if stale.Reason != live.StoreDown || stale.Bulk.ID != b.ID || stale.AsOf.After(w.Clock.Now()) {
		t.Errorf("the stale frame is %+v, want STORE_DOWN with the last state", stale)
	}
	f.down.Store(false)
	controltest.TakeFrame(t, s, "LIVE again", func(f bulk.BulkFrame) bool { return f.Sync == live.Live })
	controltest.TakeFrame(t, s, "a quiet frame", func(f bulk.BulkFrame) bool { return len(f.Rows) == 0 })
	w.Directory.SetGrants("acme", who.ID, nil)
	controltest.Must[struct{}](t)(struct{}{}, w.Authz.Swap(authz.DefaultPolicy()))
	for {
		_, err := s.Next(t.Context())
		if err != nil {
			controltest.Refusal(t, err, run.CodeForbidden)
			break
		}
	}
}
