package bulk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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

// rerunOf creates a rerun of a run and returns its id. It ends as last says, or waits to start.
func (w *world) rerunOf(parent, name string, last ...run.EventType) string {
	w.T.Helper()
	id := controltest.Must[runs.StartedRun](w.T)(w.Rerun(w.T.Context(), w.Engineer(),
		runs.Rerun{RunID: parent, RequestID: name, Failed: true})).View.State.RunID
	for _, typ := range last {
		w.AppendEvents(id, runtest.Draft(typ, "", 1))
		ended := map[run.EventType]run.Status{run.RunCompleted: run.Completed, run.RunFailed: run.Failed,
			run.RunCancelled: run.Cancelled}[typ]
		controltest.Eventually(w.T, "the end of "+name+" is listed", func() bool { return w.hasStatus(id, ended) })
	}
	return id
}

// hasStatus reports whether lists show the run with the status.
func (w *world) hasStatus(id string, want run.Status) bool {
	rows := controltest.Must[[]store.RunRow](w.T)(w.Raw.List(w.T.Context(), store.RunFilter{TenantID: "acme", Limit: 200,
		Statuses: []run.Status{want}}))
	return slices.ContainsFunc(rows, func(r store.RunRow) bool { return r.Header.RunID == id })
}

// Ten runs failed at night and some were rerun since. A bulk over all of them runs no load twice.
func TestBulkRerun_LeavesOutRunsThatHaveANewerRerun(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids := w.failedRuns(4)
	for _, id := range ids {
		controltest.Eventually(t, "the end of "+id+" is listed", func() bool { return w.hasStatus(id, run.Failed) })
	}
	fixed := w.rerunOf(ids[1], "fixed", run.RunCompleted)
	again := w.rerunOf(ids[2], "again", run.RunFailed)
	deep := w.rerunOf(again, "deep", run.RunFailed)
	gone := w.rerunOf(ids[3], "gone", run.RunCancelled)
	failed := bulk.BulkRuns{Filter: &control.RunFilter{Statuses: []run.Status{run.Failed}}}
	named := bulk.BulkRuns{IDs: []string{ids[0], ids[1], fixed, ids[2], again, deep, ids[3]}}
	preview := func(of bulk.BulkRuns, all bool) *runs.BulkPreview {
		return controltest.Must[runs.ActionPreview](t)(w.PreviewBulk(t.Context(), w.Engineer(),
			bulk.PreviewBulk{Runs: of, Rerun: &runs.Rerun{Start: true, AlreadyRerun: all}})).Bulk
	}
	for name, c := range map[string]struct {
		of         bulk.BulkRuns
		all        bool
		count, out int
	}{
		"by filter":                              {failed, false, 3, 3},
		"by filter, with those already rerun":    {failed, true, 6, 0},
		"by ids":                                 {named, false, 4, 3},
		"by ids, with those already rerun":       {named, true, 7, 0},
		"one that was rerun":                     {bulk.BulkRuns{IDs: ids[1:2]}, false, 0, 1},
		"one whose rerun was cancelled":          {bulk.BulkRuns{IDs: ids[3:]}, false, 1, 0},
		"one with its rerun that was cancelled":  {bulk.BulkRuns{IDs: []string{ids[3], gone}}, false, 1, 1},
		"the newest of a chain and its ancestor": {bulk.BulkRuns{IDs: []string{ids[2], deep}}, false, 1, 1},
	} {
		p, out := preview(c.of, c.all), 0
		for _, r := range p.Excluded {
			if r.Code == run.CodeAlreadyRerun && r.Reason == runs.AlreadyRerun {
				out += r.Count
			}
		}
		if p.Count != c.count || out != c.out {
			t.Errorf("%s: %d runs and %d left out, want %d and %d", name, p.Count, out, c.count, c.out)
		}
	}
	none := controltest.Must[runs.ActionPreview](t)(w.PreviewBulk(t.Context(), w.Engineer(),
		bulk.PreviewBulk{Runs: bulk.BulkRuns{IDs: ids[1:2]}, Rerun: &runs.Rerun{Start: true}}))
	if none.Outcome != "REFUSED" || none.Code != run.CodeAlreadyRerun {
		t.Errorf("the preview of a run that was rerun is %s %s, want REFUSED ALREADY_RERUN", none.Outcome, none.Code)
	}
	in := bulk.SignalRuns{RequestID: "b1", Runs: failed, ExpectedCount: 3, Reason: "the source is back",
		Rerun: &runs.Rerun{Start: true}}
	b := w.bulk(w.Engineer(), in)
	if b.LeftOut != 3 || b.Total != 3 {
		t.Errorf("the bulk has %d runs and left out %d, want 3 and 3", b.Total, b.LeftOut)
	}
	if again := controltest.Must[bulk.MadeBulk](t)(w.SignalRuns(t.Context(), w.Engineer(), in)); !again.Duplicate {
		t.Error("the repeated request made another bulk")
	}
	w.sends()
	w.bulkDone(w.Engineer(), b.ID)
	got := w.reruns([]string{ids[0], ids[1], ids[2], again, deep, ids[3]})
	if diff := cmp.Diff([]int{1, 1, 1, 1, 1, 2}, got); diff != "" {
		t.Errorf("reruns of each run (-want +got):\n%s", diff)
	}
}

// A run that somebody reruns after the bulk was accepted and before its turn is not rerun a second time.
func TestBulkRerun_RefusesARunThatWasRerunSinceItWasAccepted(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids := w.failedRuns(3)
	b := w.bulk(w.Engineer(), rerunBulkOf("b1", runs.Rerun{Failed: true}, ids...))
	again := w.rerunOf(ids[1], "by-hand")
	w.sends()
	if b = w.bulkDone(w.Engineer(), b.ID); b.Accepted != 2 || b.Refused != 1 {
		t.Errorf("%d accepted and %d refused, want 2 and 1", b.Accepted, b.Refused)
	}
	if diff := cmp.Diff([]int{1, 1, 1}, w.reruns(ids)); diff != "" {
		t.Errorf("reruns of each run (-want +got):\n%s", diff)
	}
	row := w.bulkRows(w.Engineer(), b.ID)[1]
	if row.Code != run.CodeAlreadyRerun || row.Message != "Already rerun as "+again[:8]+"; that run waits to start." {
		t.Errorf("the row is %s: %q, want ALREADY_RERUN with the new run", row.Code, row.Message)
	}
}

// Two bulks over the same runs are sent at the same instant: both have read that nobody reran the runs.
// contract: T128
func TestBulkRerun_TwoBulksAtOnceRerunEachRunOnce(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids := w.failedRuns(12)
	first := w.bulk(w.Engineer(), rerunBulkOf("b1", runs.Rerun{Failed: true}, ids...))
	second := w.bulk(w.Engineer(), rerunBulkOf("b2", runs.Rerun{Start: true}, ids...))
	var readers sync.WaitGroup
	readers.Add(2)
	var reads atomic.Int64
	f.chains = func() {
		if reads.Add(1) <= 2 {
			readers.Done()
			readers.Wait()
		}
	}
	w.sends()
	first, second = w.bulkDone(w.Engineer(), first.ID), w.bulkDone(w.Engineer(), second.ID)
	if diff := cmp.Diff(slices.Repeat([]int{1}, len(ids)), w.reruns(ids)); diff != "" {
		t.Errorf("reruns of each run (-want +got):\n%s", diff)
	}
	if first.Accepted+second.Accepted != 12 || first.Refused+second.Refused != 12 {
		t.Errorf("%d and %d accepted, %d and %d refused, want each run accepted once and refused once", first.Accepted,
			second.Accepted, first.Refused, second.Refused)
	}
	for _, row := range append(w.bulkRows(w.Engineer(), first.ID), w.bulkRows(w.Engineer(), second.ID)...) {
		if row.Outcome == store.BulkRefused && row.Code != run.CodeAlreadyRerun {
			t.Errorf("row %d is refused with %s: %q, want ALREADY_RERUN", row.No, row.Code, row.Message)
		}
	}
}

func TestPreviewRerun_SaysThatARunWasRerun(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	id := w.CreateFailed("f1")
	warnings := func() []string {
		return controltest.Must[runs.ActionPreview](t)(w.PreviewAction(t.Context(), w.Engineer(),
			runs.PreviewAction{Rerun: &runs.Rerun{RunID: id, RequestID: "preview", Start: true}})).Warnings
	}
	if got := warnings(); len(got) != 0 {
		t.Errorf("warnings of a run that was not rerun: %q, want none", got)
	}
	again := w.rerunOf(w.rerunOf(id, "again", run.RunFailed), "deep", run.RunCompleted)
	want := []string{"Already rerun as " + again[:8] + "; that run has completed."}
	if diff := cmp.Diff(want, warnings()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
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

// During a freeze no new run is created, so the preview counts every run as refused.
func TestPreviewBulkRerun_CountsWhatAFreezeRefuses(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids := w.failedRuns(2)
	controltest.Must[admission.ModeChange](t)(w.FreezeTenant(t.Context(), w.Principal("dev-admin"),
		admission.FreezeTenant{RequestID: "f", Frozen: true, Reason: "month end"}))
	in := rerunBulkOf("b1", runs.Rerun{Failed: true}, ids...)
	p := controltest.Must[runs.ActionPreview](t)(w.PreviewBulk(t.Context(), w.Engineer(),
		bulk.PreviewBulk{Runs: in.Runs, Rerun: in.Rerun}))
	if p.Outcome != "REFUSED" || p.Code != run.CodeTenantFrozen || len(p.Bulk.Refusals) != 1 ||
		p.Bulk.Refusals[0].Count != 2 {
		t.Errorf("the preview is %s %s with the refusals %+v, want TENANT_FROZEN for both runs", p.Outcome, p.Code,
			p.Bulk.Refusals)
	}
}
