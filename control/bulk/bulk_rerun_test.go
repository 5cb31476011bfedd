package bulk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

func rerunBulkOf(requestID string, again runs.Rerun, ids ...string) bulk.SignalRuns {
	return bulk.SignalRuns{RequestID: requestID, Runs: bulk.BulkRuns{IDs: ids}, ExpectedCount: len(ids),
		Reason: "the source is back", Rerun: &again}
}

// failedRuns makes n runs that FAILED.
func (w *world) failedRuns(n int) (ids []string) {
	w.T.Helper()
	for i := range n {
		ids = append(ids, w.CreateFailed(fmt.Sprint("f", i)))
	}
	return ids
}

// reruns returns how many runs have each of the runs as their parent.
func (w *world) reruns(parents []string) (out []int) {
	w.T.Helper()
	n := map[string]int{}
	rows := controltest.Must[[]store.RunRow](w.T)(w.Raw.List(w.T.Context(), store.RunFilter{TenantID: "acme", Limit: 200}))
	for _, r := range rows {
		n[controltest.Must[store.Run](w.T)(w.Raw.Get(w.T.Context(), r.Header.RunID)).ParentRunID]++
	}
	for _, id := range parents {
		out = append(out, n[id])
	}
	return out
}

func TestBulkRerun_EachRunGetsANewRunThatTheRowNames(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids := w.failedRuns(3)
	active := w.CreateRunning("active", "a")
	in := rerunBulkOf("b1", runs.Rerun{Failed: true, Params: json.RawMessage(`{"day":"2026-02-17"}`)},
		ids[0], active, ids[1], ids[2])
	p := controltest.Must[runs.ActionPreview](t)(w.PreviewBulk(t.Context(), w.Engineer(),
		bulk.PreviewBulk{Runs: in.Runs, Rerun: in.Rerun}))
	if diff := cmp.Diff([]runs.BulkReason{{Code: run.CodeInvalidRunState, Reason: runs.StillActive, Count: 1}},
		p.Bulk.Refusals); diff != "" || p.Outcome != "APPLY" {
		t.Errorf("%s: refusals of the preview (-want +got):\n%s", p.Outcome, diff)
	}
	kept := 0
	for _, c := range p.Bulk.Samples[0].Preview.Changes {
		if c.Kind == "REUSE" {
			kept++
		}
	}
	if kept != 2 {
		t.Errorf("the sample keeps %d results, want 2: %+v", kept, p.Bulk.Samples[0])
	}
	b := w.bulk(w.Engineer(), in)
	if again := controltest.Must[bulk.MadeBulk](t)(w.SignalRuns(t.Context(), w.Engineer(), in)); !again.Duplicate {
		t.Error("the repeated request made another bulk")
	}
	w.sends()
	b = w.bulkDone(w.Engineer(), b.ID)
	if diff := cmp.Diff([]int{4, 0, 3, 0, 1}, counts(b)); diff != "" || b.Action != authz.Rerun {
		t.Errorf("%s: counts (-want +got):\n%s", b.Action, diff)
	}
	for i, r := range w.bulkRows(w.Engineer(), b.ID) {
		if r.RunID == active {
			if r.Outcome != store.BulkRefused || r.Code != run.CodeInvalidRunState || r.NewRunID != "" || !r.Failed() {
				t.Errorf("the row of the active run is %+v, want INVALID_RUN_STATE", r)
			}
			continue
		}
		made := controltest.Must[store.Run](t)(w.Raw.Get(t.Context(), r.NewRunID))
		if made.ParentRunID != r.RunID || string(made.Params) != `{"day":"2026-02-17"}` || r.RunStatus != run.Approved {
			t.Errorf("row %d: the new run is %+v and %s, want one of its run with the new params", i, made, r.RunStatus)
		}
		if got := w.ReusedSteps(r.NewRunID); got != "a d" {
			t.Errorf("row %d keeps %q, want a d", i, got)
		}
	}
	if diff := cmp.Diff([]int{1, 1, 1}, w.reruns(ids)); diff != "" {
		t.Errorf("new runs (-want +got):\n%s", diff)
	}
	progress := controltest.Must[bulk.BulkProgress](t)(w.BulkProgress(t.Context(), w.Engineer(), b.ID))
	if diff := cmp.Diff(bulk.BulkProgress{Applications: bulk.BulkApplications{Applied: 3},
		Runs: bulk.BulkRunCounts{Waiting: 3}}, progress); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	now := controltest.Must[map[string]bulk.BulkRunCounts](t)(w.BulkRunCounts(t.Context(), w.Engineer(),
		[]string{b.ID, "unknown"}))
	if diff := cmp.Diff(map[string]bulk.BulkRunCounts{b.ID: {Waiting: 3}}, now); diff != "" {
		t.Errorf("runs of the bulk in a list (-want +got):\n%s", diff)
	}
	if others := controltest.Must[map[string]bulk.BulkRunCounts](t)(w.BulkRunCounts(t.Context(),
		w.Principal("dev-admin"), []string{b.ID})); len(others) != 0 {
		t.Errorf("runs of another's bulk: %v, want none", others)
	}
	_, err := w.BulkRunCounts(t.Context(), w.Engineer(), make([]string, bulk.MostBulkCounts+1))
	controltest.Refusal(t, err, run.CodeBadInput)
	for _, row := range []string{"dev-engineer SIGNAL_RUNS ACCEPTED", "dev-engineer RERUN ACCEPTED"} {
		if !w.HasAuditRow("acme", row) {
			t.Errorf("no audit row %q", row)
		}
	}
	again := w.bulk(w.Engineer(), func() bulk.SignalRuns {
		in := rerunBulkOf("b2", runs.Rerun{Start: true}, active)
		in.Runs = bulk.BulkRuns{FailedOf: b.ID}
		return in
	}())
	if again.Total != 1 {
		t.Errorf("the bulk of what failed has %d runs, want 1", again.Total)
	}
}

// The server dies after new runs were created and before their outcomes are stored. Another server continues: each run
// has one new run, also when the requester has lost the right since.
// contract: T128
func TestBulkRerun_CrashInTheMiddleCreatesOneRunEach(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids := w.failedRuns(40)
	ctx := f.dieInTheSecondRound(t)
	b := w.bulk(w.Engineer(), rerunBulkOf("b1", runs.Rerun{Failed: true}, ids...))
	controltest.Must[struct{}](t)(struct{}{}, w.SendBulks(ctx, "first"))
	w.Directory.SetGrants("acme", "dev-engineer", nil)
	controltest.Must[struct{}](t)(struct{}{}, w.Authz.Swap(authz.DefaultPolicy()))
	f.settle = nil
	f.dead.Store(false)
	second := usecases.New(w.Config)
	w.Spawn(func(ctx context.Context) error { return second.SendBulks(ctx, "second") })
	b = w.bulkDone(w.Engineer(), b.ID)
	if diff := cmp.Diff([]int{40, 0, 32, 0, 8}, counts(b)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	for i, n := range w.reruns(ids) {
		if want := 1; i < 32 && n != want || i >= 32 && n != 0 {
			t.Errorf("run %d has %d new runs, want one for each of the first 32", i, n)
		}
	}
}

// contract: T128
func TestBulkRerun_AfterAStopNothingIsCreated(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids := w.failedRuns(40)
	f.settle = after(2, func() {
		controltest.Must[bulk.Bulk](t)(w.CancelBulk(t.Context(), w.Engineer(), stopBulk(w.onlyBulk())))
	})
	b := w.bulk(w.Engineer(), rerunBulkOf("b1", runs.Rerun{Failed: true}, ids...))
	w.sends()
	b = w.bulkStopped(w.Engineer(), b.ID)
	if b.Accepted == 0 || b.NotSent == 0 || b.Accepted+b.NotSent != 40 {
		t.Errorf("%d accepted and %d not sent, want some of each", b.Accepted, b.NotSent)
	}
	for i, n := range w.reruns(ids) {
		if made := w.bulkRows(w.Engineer(), b.ID)[i]; (made.Outcome == store.BulkAccepted) != (n == 1) || n > 1 {
			t.Errorf("row %d is %s and has %d new runs, want both to agree", i, made.Outcome, n)
		}
	}
}

// A quota that refuses a new run makes the row wait; it is created when the quota has room again.
func TestBulkRerun_AQuotaMakesRowsWait(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t, controltest.WithQuotas(controltest.HobbyQuotas(func(q *admission.Quotas) {
		q.Strategy, q.Tenants = store.StrategyReject, nil
		q.Tiers[admission.DefaultTier] = admission.Tier{StartRunPerMinute: 100, HeavyStepsPerMinute: 5,
			SignalOpsPerMinute: 100, MaxActive: 1, MaxQueueDepth: 100, Weight: 1}
	})))
	failed := w.CreateFailed("f1")
	active := w.CreateRunning("active", "a")
	b := w.bulk(w.Engineer(), rerunBulkOf("b1", runs.Rerun{Start: true}, failed))
	w.sends()
	controltest.Eventually(t, "the bulk is paced", func() bool {
		b = controltest.Must[bulk.Bulk](t)(w.Bulk(t.Context(), w.Engineer(), b.ID))
		return b.State() == "PACED"
	})
	if b.Paced != run.CodeQuotaExceeded || b.Accepted != 0 {
		t.Errorf("the bulk waits for %s with %d accepted, want QUOTA_EXCEEDED and none", b.Paced, b.Accepted)
	}
	w.AppendEvents(active, runtest.Draft(run.RunCancelled, "", 1))
	if b = w.bulkDone(w.Engineer(), b.ID); b.Accepted != 1 {
		t.Errorf("%d are accepted, want 1", b.Accepted)
	}
}

// A page of the bulk sees what becomes of the runs after the signal.
func TestWatchBulk_SendsRowsWhoseRunsMoveOn(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids, who := w.many(2), w.Engineer()
	b := w.bulk(who, bulkOf("b1", 2, bulk.BulkRuns{IDs: ids}))
	w.sends()
	w.bulkDone(who, b.ID)
	for _, id := range ids {
		w.ApplySignal(id, store.BulkSignalID(b.ID, 1), runtest.Draft(run.RunPaused, "", 1, controltest.M{"pausedEpoch": 1}))
		break
	}
	s := controltest.Must[control.Stream[bulk.BulkFrame]](t)(w.WatchBulk(t.Context(), who, b.ID))
	defer s.Close()
	controltest.TakeFrame(t, s, "the first frame", func(f bulk.BulkFrame) bool { return f.Reset && f.Sync == live.Live })
	w.AppendEvents(ids[1], runtest.Draft(run.RunCancelled, "", 1))
	moved := controltest.TakeFrame(t, s, "the run that ended", func(f bulk.BulkFrame) bool {
		return len(f.Rows) > 0 && f.Rows[len(f.Rows)-1].RunStatus == run.Cancelled
	})
	if moved.Rows[len(moved.Rows)-1].RunID != ids[1] || moved.Bulk.Progress.Runs.Cancelled != 1 {
		t.Errorf("the frame is %+v, want the row of the run that was cancelled", moved)
	}
}
