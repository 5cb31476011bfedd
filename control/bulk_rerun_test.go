package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/bulk"
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
	w.t.Helper()
	for i := range n {
		ids = append(ids, w.failedRun(fmt.Sprint("f", i)))
	}
	return ids
}

// reruns returns how many runs have each of the runs as their parent.
func (w *world) reruns(parents []string) (out []int) {
	w.t.Helper()
	n := map[string]int{}
	rows := must[[]store.RunRow](w.t)(w.raw.List(w.t.Context(), store.RunFilter{TenantID: "acme", Limit: 200}))
	for _, r := range rows {
		n[must[store.Run](w.t)(w.raw.Get(w.t.Context(), r.Header.RunID)).ParentRunID]++
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
	active := w.running("active", "a")
	in := rerunBulkOf("b1", runs.Rerun{Failed: true, Params: json.RawMessage(`{"day":"2026-02-17"}`)},
		ids[0], active, ids[1], ids[2])
	p := must[runs.ActionPreview](t)(w.PreviewBulk(t.Context(), w.eng(), bulk.PreviewBulk{Runs: in.Runs, Rerun: in.Rerun}))
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
	b := w.bulk(w.eng(), in)
	if again := must[bulk.MadeBulk](t)(w.SignalRuns(t.Context(), w.eng(), in)); !again.Duplicate {
		t.Error("the repeated request made another bulk")
	}
	w.sends()
	b = w.bulkDone(w.eng(), b.ID)
	if diff := cmp.Diff([]int{4, 0, 3, 0, 1}, counts(b)); diff != "" || b.Action != authz.Rerun {
		t.Errorf("%s: counts (-want +got):\n%s", b.Action, diff)
	}
	for i, r := range w.bulkRows(w.eng(), b.ID) {
		if r.RunID == active {
			if r.Outcome != store.BulkRefused || r.Code != run.CodeInvalidRunState || r.NewRunID != "" || !r.Failed() {
				t.Errorf("the row of the active run is %+v, want INVALID_RUN_STATE", r)
			}
			continue
		}
		made := must[store.Run](t)(w.raw.Get(t.Context(), r.NewRunID))
		if made.ParentRunID != r.RunID || string(made.Params) != `{"day":"2026-02-17"}` || r.RunStatus != run.Approved {
			t.Errorf("row %d: the new run is %+v and %s, want one of its run with the new params", i, made, r.RunStatus)
		}
		if got := w.reused(r.NewRunID); got != "a d" {
			t.Errorf("row %d keeps %q, want a d", i, got)
		}
	}
	if diff := cmp.Diff([]int{1, 1, 1}, w.reruns(ids)); diff != "" {
		t.Errorf("new runs (-want +got):\n%s", diff)
	}
	progress := must[bulk.BulkProgress](t)(w.BulkProgress(t.Context(), w.eng(), b.ID))
	if diff := cmp.Diff(bulk.BulkProgress{Applications: bulk.BulkApplications{Applied: 3},
		Runs: bulk.BulkRunCounts{Waiting: 3}}, progress); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	for _, row := range []string{"dev-engineer SIGNAL_RUNS ACCEPTED", "dev-engineer RERUN ACCEPTED"} {
		if !w.audited("acme", row) {
			t.Errorf("no audit row %q", row)
		}
	}
	again := w.bulk(w.eng(), func() bulk.SignalRuns {
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
	b := w.bulk(w.eng(), rerunBulkOf("b1", runs.Rerun{Failed: true}, ids...))
	must[struct{}](t)(struct{}{}, w.SendBulks(ctx, "first"))
	w.directory.SetGrants("acme", "dev-engineer", nil)
	must[struct{}](t)(struct{}{}, w.authz.Swap(authz.DefaultPolicy()))
	f.settle = nil
	f.dead.Store(false)
	second := usecases.New(w.config)
	w.spawn(func(ctx context.Context) error { return second.SendBulks(ctx, "second") })
	b = w.bulkDone(w.eng(), b.ID)
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
	f.settle = after(2, func() { must[bulk.Bulk](t)(w.CancelBulk(t.Context(), w.eng(), stopBulk(w.onlyBulk()))) })
	b := w.bulk(w.eng(), rerunBulkOf("b1", runs.Rerun{Failed: true}, ids...))
	w.sends()
	b = w.bulkStopped(w.eng(), b.ID)
	if b.Accepted == 0 || b.NotSent == 0 || b.Accepted+b.NotSent != 40 {
		t.Errorf("%d accepted and %d not sent, want some of each", b.Accepted, b.NotSent)
	}
	for i, n := range w.reruns(ids) {
		if made := w.bulkRows(w.eng(), b.ID)[i]; (made.Outcome == store.BulkAccepted) != (n == 1) || n > 1 {
			t.Errorf("row %d is %s and has %d new runs, want both to agree", i, made.Outcome, n)
		}
	}
}

// A quota that refuses a new run makes the row wait; it is created when the quota has room again.
func TestBulkRerun_AQuotaMakesRowsWait(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t, withQuotas(hobby(func(q *admission.Quotas) {
		q.Strategy, q.Tenants = store.StrategyReject, nil
		q.Tiers[admission.DefaultTier] = admission.Tier{StartRunPerMinute: 100, HeavyStepsPerMinute: 5,
			SignalOpsPerMinute: 100, MaxActive: 1, MaxQueueDepth: 100, Weight: 1}
	})))
	failed := w.failedRun("f1")
	active := w.running("active", "a")
	b := w.bulk(w.eng(), rerunBulkOf("b1", runs.Rerun{Start: true}, failed))
	w.sends()
	eventually(t, "the bulk is paced", func() bool {
		b = must[bulk.Bulk](t)(w.Bulk(t.Context(), w.eng(), b.ID))
		return b.State() == "PACED"
	})
	if b.Paced != run.CodeQuotaExceeded || b.Accepted != 0 {
		t.Errorf("the bulk waits for %s with %d accepted, want QUOTA_EXCEEDED and none", b.Paced, b.Accepted)
	}
	w.append(active, runtest.Draft(run.RunCancelled, "", 1))
	if b = w.bulkDone(w.eng(), b.ID); b.Accepted != 1 {
		t.Errorf("%d are accepted, want 1", b.Accepted)
	}
}

// A page of the bulk sees what becomes of the runs after the signal.
func TestWatchBulk_SendsRowsWhoseRunsMoveOn(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids, who := w.many(2), w.eng()
	b := w.bulk(who, bulkOf("b1", 2, bulk.BulkRuns{IDs: ids}))
	w.sends()
	w.bulkDone(who, b.ID)
	for _, id := range ids {
		w.applied(id, store.BulkSignalID(b.ID, 1), runtest.Draft(run.RunPaused, "", 1, M{"pausedEpoch": 1}))
		break
	}
	s := must[control.Stream[bulk.BulkFrame]](t)(w.WatchBulk(t.Context(), who, b.ID))
	defer s.Close()
	take(t, s, "the first frame", func(f bulk.BulkFrame) bool { return f.Reset && f.Sync == live.Live })
	w.append(ids[1], runtest.Draft(run.RunCancelled, "", 1))
	moved := take(t, s, "the run that ended", func(f bulk.BulkFrame) bool {
		return len(f.Rows) > 0 && f.Rows[len(f.Rows)-1].RunStatus == run.Cancelled
	})
	if moved.Rows[len(moved.Rows)-1].RunID != ids[1] || moved.Bulk.Progress.Runs.Cancelled != 1 {
		t.Errorf("the frame is %+v, want the row of the run that was cancelled", moved)
	}
}

func TestRerun_WithOtherParams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.failedRun("r1")
	in := runs.Rerun{RunID: id, RequestID: "again", Failed: true, Params: json.RawMessage(`{"day":"2026-02-17","x":1}`)}
	made := w.rerun(in).View.Run
	if string(made.Params) != string(in.Params) {
		t.Errorf("the new run has the params %s, want %s", made.Params, in.Params)
	}
	if !w.audited("acme", "dev-engineer RERUN ACCEPTED  "+made.RunID+" {") ||
		!strings.Contains(strings.Join(w.audit("acme"), "\n"), `"changedParams":["day","x"]`) {
		t.Errorf("the audit does not name the params that changed: %v", w.audit("acme"))
	}
	if again := w.rerun(in); !again.Deduplicated || again.View.Run.RunID != made.RunID {
		t.Errorf("the repeated rerun gives %s, want %s", again.View.Run.RunID, made.RunID)
	}
	other := in
	other.Params = nil
	_, err := w.Rerun(t.Context(), w.eng(), other)
	refusal(t, err, run.CodeRequestConflict)
	in.RequestID, in.Params = "large", json.RawMessage(`"`+string(make([]byte, 70_000))+`"`)
	_, err = w.Rerun(t.Context(), w.eng(), in)
	if e := refusal(t, err, run.CodeBadInput); e.Violations[0].Path != "params" {
		t.Errorf("the violations are %+v, want one of params", e.Violations)
	}
	in.RequestID, in.Params = store.BulkSignalID("x", 1), nil
	_, err = w.Rerun(t.Context(), w.eng(), in)
	refusal(t, err, run.CodeBadInput)
	p := must[runs.ActionPreview](t)(w.PreviewAction(t.Context(), w.eng(), runs.PreviewAction{Rerun: &runs.Rerun{
		RunID: id, RequestID: "p", Failed: true, Params: json.RawMessage(`{"day":"2026-02-18"}`)}}))
	if diff := cmp.Diff([]string{"The kept results were computed with the earlier parameters."}, p.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// A preview of a run that waits for approval does not say that steps start.
func TestPreview_OfARunThatWaitsForApprovalStartsNoStep(t *testing.T) {
	t.Parallel()
	w := asking(t, 2)
	p := must[runs.ActionPreview](t)(w.PreviewAction(t.Context(), w.eng(), runs.PreviewAction{
		Start: new(startOf("s1", document(nil, "a", "b<a")))}))
	if diff := cmp.Diff([]runs.StepChange{{StepID: "a", Kind: "SCHEDULE", From: run.StepPending, To: run.StepPending,
		Why: "Starts when the run is approved."}}, p.Changes); diff != "" || p.Status != run.Pending {
		t.Errorf("%s: changes (-want +got):\n%s", p.Status, diff)
	}
	if diff := cmp.Diff([]string{"The run waits for 2 approvals. Nothing starts before."}, p.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}
