package bulk_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// contract: T178
func TestBulk_RefusesRunsWhoseRightsWereLostInTheMiddle(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids := w.many(64)
	f.inRun = after(20, func() {
		w.Directory.SetGrants("acme", "dev-operator", []authz.Grant{{Role: authz.Viewer, ProjectID: "*",
			EnvironmentID: "*"}})
		if err := w.Authz.Swap(authz.DefaultPolicy()); err != nil {
			t.Error(err)
		}
	})
	who := w.Principal("dev-operator")
	b := w.bulk(who, bulkOf("b1", 64, bulk.BulkRuns{IDs: ids}))
	w.sends()
	b = w.bulkDone(who, b.ID)
	if b.Accepted == 0 || b.Refused < 30 || b.Accepted+b.Refused != 64 {
		t.Errorf("the counts are %v, want accepted and FORBIDDEN rows", counts(b))
	}
	for _, r := range w.bulkRows(who, b.ID) {
		if r.Outcome == store.BulkRefused && (r.Code != run.CodeForbidden || r.Message == "" || r.Receipt != nil) {
			t.Errorf("the refused row is %+v, want FORBIDDEN with a message and no receipt", r)
		}
		if r.Outcome == store.BulkRefused && w.CountEvents(r.RunID, run.SignalRejected) != 0 {
			t.Errorf("a refusal of the bulk is in the log of %s", r.RunID)
		}
	}
	if !w.HasAuditRow("acme", "dev-operator PAUSE DENIED FORBIDDEN") {
		t.Error("no audit row of the denials")
	}
}

// A revoked or expired token sends nothing more, nor does an account that was removed.
// contract: T178
func TestBulk_EndsWithTheTokenOrAccountOfItsRequester(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, tokenID string){
		"revoked": func(w *world, tokenID string) {
			_, err := w.RevokeToken(w.T.Context(), w.Engineer(), access.RevokeToken{RequestID: "r1", ID: tokenID,
				Reason: "lost"})
			controltest.Must[struct{}](w.T)(struct{}{}, err)
		},
		"expired": func(w *world, _ string) { w.Clock.Advance(2 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, f := bulkWorld(t)
			controltest.Must[struct{}](t)(struct{}{}, w.LoadPolicy(t.Context()))
			w.Spawn(w.FollowPolicy)
			ids := w.many(48)
			made := controltest.Must[access.CreatedToken](t)(w.CreateToken(t.Context(), w.Engineer(), access.CreateToken{
				RequestID: "t1", Name: "ci", Grants: []authz.Grant{{Role: authz.Operator, ProjectID: "*", EnvironmentID: "*"}},
				ExpiresAt: w.Clock.Now().Add(time.Hour),
			}))
			p := controltest.Must[authz.Principal](t)(w.Authz.Authenticate(made.Secret))
			b := w.bulk(p, bulkOf("b1", 48, bulk.BulkRuns{IDs: ids}))
			f.inRun = after(17, func() { end(w, made.Token.ID) })
			w.sends()
			b = w.bulkDone(w.Engineer(), b.ID) // the same principal
			if b.Accepted < 16 || b.Refused < 16 || b.Accepted+b.Refused != 48 {
				t.Errorf("the counts are %v, want accepted and refused rows", counts(b))
			}
			if rows := w.bulkRows(w.Engineer(), b.ID); rows[47].Code != run.CodeForbidden {
				t.Errorf("the last row is %+v, want FORBIDDEN", rows[47])
			}
		})
	}
}

// A principal without a token or session, such as a verified JWT, may send until it expires.
// contract: T178
func TestBulk_EndsWhenItsRequesterExpires(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids, p := w.many(40), w.Principal("dev-operator")
	p.ExpiresAt = w.Clock.Now().Add(time.Hour)
	b := w.bulk(p, bulkOf("b1", 40, bulk.BulkRuns{IDs: ids}))
	f.inRun = after(17, func() { w.Clock.Advance(2 * time.Hour) })
	w.sends()
	if b = w.bulkDone(p, b.ID); b.Refused < 8 || b.Accepted+b.Refused != 40 {
		t.Errorf("the counts are %v, want accepted and refused rows", counts(b))
	}
}

// A bulk never contains runs that its requester may not READ, and only its requester sees it.
func TestBulk_HasOnlyReadableRunsAndIsItsRequestersAlone(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids, ctx := w.many(2), t.Context()
	foreign := controltest.Must[runs.StartedRun](t)(
		w.StartRun(ctx, w.Engineer(), controltest.StartOf("other",
			controltest.Document(controltest.M{"scope.projectId": "store"}, "a")))).View.Run.RunID
	narrow := w.Principal("shop-viewer")
	named := bulk.BulkRuns{IDs: []string{ids[0], foreign, "unknown", ids[1], ids[0]}}
	whole := w.previewOf(narrow, bulkOf("", 0, named))
	p := whole.Bulk
	if whole.Outcome != "REFUSED" || whole.Code != run.CodeForbidden || p.Count != 2 || len(p.Excluded) != 1 ||
		p.Excluded[0].Count != 2 || p.Excluded[0].Code != run.CodeNotFound {
		t.Errorf("the preview is %+v, want REFUSED with 2 runs and 2 excluded as NOT_FOUND", p)
	}
	if len(p.Refusals) != 1 || p.Refusals[0].Code != run.CodeForbidden || p.Refusals[0].Count != 2 ||
		len(p.Samples) != 2 || p.Samples[0].Preview.Outcome != "REFUSED" {
		t.Errorf("the preview is %+v, want 2 runs and their samples REFUSED", p)
	}
	b := w.bulk(narrow, bulkOf("b1", 2, named))
	for _, r := range w.bulkRows(narrow, b.ID) {
		if r.RunID == foreign {
			t.Error("a run that its asker may not read is in the bulk")
		}
	}
	if a := w.previewOf(w.Engineer(), bulkOf("", 0, named)); a.Outcome != "APPLY" {
		t.Errorf("the preview of an engineer is %+v, want APPLY", a)
	} else if p := a.Bulk; p.Count != 3 || p.Samples[0].Preview.Outcome != "APPLY" || p.Samples[0].Status != run.Running {
		t.Errorf("the preview of an engineer is %+v, want 3 runs whose samples APPLY", p)
	}
	for _, other := range []authz.Principal{w.Engineer(), w.Principal("dev-mallory"), {ID: narrow.ID,
		TenantID: "globex"}} {
		_, err := w.Bulk(ctx, other, b.ID)
		mine := controltest.Refusal(t, err, run.CodeNotFound)
		_, err = w.Bulk(ctx, other, "00000000-0000-4000-8000-000000000000")
		if diff := cmp.Diff(mine.Message, controltest.Refusal(t, err, run.CodeNotFound).Message); diff != "" {
			t.Errorf("another's and none (-want +got):\n%s", diff)
		}
		_, err = w.BulkRows(ctx, other, bulk.BulkRowsQuery{BulkID: b.ID})
		controltest.Refusal(t, err, run.CodeNotFound)
		_, err = w.BulkProgress(ctx, other, b.ID)
		controltest.Refusal(t, err, run.CodeNotFound)
		_, err = w.WatchBulk(ctx, other, b.ID)
		controltest.Refusal(t, err, run.CodeNotFound)
		_, err = w.SignalRuns(ctx, other, bulkOf("b9", 1, bulk.BulkRuns{FailedOf: b.ID}))
		controltest.Refusal(t, err, run.CodeNotFound)
		if page := controltest.Must[bulk.BulksPage](t)(w.Bulks(ctx, other, 10, "")); len(page.Bulks) != 0 {
			t.Errorf("%s sees %d bulks of another principal, want none", other.ID, len(page.Bulks))
		}
	}
	if page := controltest.Must[bulk.BulksPage](t)(w.Bulks(ctx, narrow, 10, "")); len(page.Bulks) != 1 ||
		page.Bulks[0].ID != b.ID {
		t.Errorf("the requester sees %+v, want its own bulk", page)
	}
	_, err := w.SignalRuns(ctx, w.Principal("nobody"), bulkOf("b1", 1, bulk.BulkRuns{Filter: &control.RunFilter{}}))
	controltest.Refusal(t, err, run.CodeForbidden)
	// The excluded run leaves no gap in the numbers of the rows.
	_, err = w.SignalRun(ctx, w.Engineer(), controltest.SignalOf(ids[0], store.BulkSignalID(b.ID, 1), run.Pause))
	controltest.Refusal(t, err, run.CodeBadInput)
	// A row shows its receipt only while the viewer may READ the run.
	seer := w.Principal("two-viewer")
	own := w.bulk(seer, bulkOf("b1", 2, bulk.BulkRuns{IDs: ids}))
	w.sends()
	w.bulkDone(seer, own.ID)
	if rows := w.bulkRows(seer, own.ID); rows[0].Receipt == nil {
		t.Errorf("the row is %+v, want one with its receipt", rows[0])
	}
	w.Directory.SetGrants(
		"acme", "two-viewer", []authz.Grant{{Role: authz.Viewer, ProjectID: "store", EnvironmentID: "*"}})
	controltest.Must[struct{}](t)(struct{}{}, w.Authz.Swap(authz.DefaultPolicy()))
	if rows := w.bulkRows(seer, own.ID); rows[0].Receipt != nil {
		t.Errorf("the row of a run that may no longer be read is %+v, want no receipt", rows[0])
	}
}
