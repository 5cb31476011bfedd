package control_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// contract: T178
func TestBulk_RightsThatAreLostInTheMiddle(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids := w.many(64)
	f.inRun = after(20, func() {
		w.directory.SetGrants("acme", "dev-operator", []authz.Grant{{Role: authz.Viewer, ProjectID: "*",
			EnvironmentID: "*"}})
		if err := w.authz.Swap(authz.DefaultPolicy()); err != nil {
			t.Error(err)
		}
	})
	who := w.who("dev-operator")
	b := w.bulk(who, bulkOf("b1", 64, bulk.BulkRuns{IDs: ids}))
	w.sends()
	b = w.bulkDone(who, b.ID)
	if b.Accepted == 0 || b.Refused < 30 || b.Accepted+b.Refused != 64 {
		t.Errorf("counts %v", counts(b))
	}
	for _, r := range w.bulkRows(who, b.ID) {
		if r.Outcome == store.BulkRefused && (r.Code != run.CodeForbidden || r.Message == "" || r.Receipt != nil) {
			t.Errorf("row %+v", r)
		}
		if r.Outcome == store.BulkRefused && w.count(r.RunID, run.SignalRejected) != 0 {
			t.Errorf("a refusal of the bulk is in the log of %s", r.RunID)
		}
	}
	if !w.audited("acme", "dev-operator PAUSE DENIED FORBIDDEN") {
		t.Error("no audit row of the denials")
	}
}

// A token that is revoked, or has expired, sends nothing more; nor does the account of a principal that has gone.
// contract: T178
func TestBulk_TheAskerMustStillBeGood(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, tokenID string){
		"revoked": func(w *world, tokenID string) {
			_, err := w.RevokeToken(w.t.Context(), w.eng(), access.RevokeToken{RequestID: "r1", ID: tokenID, Reason: "lost"})
			must[struct{}](w.t)(struct{}{}, err)
		},
		"expired": func(w *world, _ string) { w.clock.advance(2 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, f := bulkWorld(t)
			must[struct{}](t)(struct{}{}, w.LoadPolicy(t.Context()))
			w.spawn(w.FollowPolicy)
			ids := w.many(48)
			made := must[access.CreatedToken](t)(w.CreateToken(t.Context(), w.eng(), access.CreateToken{
				RequestID: "t1", Name: "ci", Grants: []authz.Grant{{Role: authz.Operator, ProjectID: "*", EnvironmentID: "*"}},
				ExpiresAt: w.clock.now().Add(time.Hour),
			}))
			p := must[authz.Principal](t)(w.authz.Authenticate(made.Secret))
			b := w.bulk(p, bulkOf("b1", 48, bulk.BulkRuns{IDs: ids}))
			f.inRun = after(17, func() { end(w, made.Token.ID) })
			w.sends()
			b = w.bulkDone(w.eng(), b.ID) // the same principal
			if b.Accepted < 16 || b.Refused < 16 || b.Accepted+b.Refused != 48 {
				t.Errorf("counts %v", counts(b))
			}
			if rows := w.bulkRows(w.eng(), b.ID); rows[47].Code != run.CodeForbidden {
				t.Errorf("the last row is %+v", rows[47])
			}
		})
	}
}

// Who came with neither token nor session is good for as long as what they came with said.
// contract: T178
func TestBulk_AnAskerWhoseTimeIsOver(t *testing.T) {
	t.Parallel()
	w, f := bulkWorld(t)
	ids, p := w.many(40), w.who("dev-operator")
	p.ExpiresAt = w.clock.now().Add(time.Hour)
	b := w.bulk(p, bulkOf("b1", 40, bulk.BulkRuns{IDs: ids}))
	f.inRun = after(17, func() { w.clock.advance(2 * time.Hour) })
	w.sends()
	if b = w.bulkDone(p, b.ID); b.Refused < 8 || b.Accepted+b.Refused != 40 {
		t.Errorf("counts %v", counts(b))
	}
}

// What one may not READ is never in one's bulk, and a bulk is its asker's alone.
// contract: T101
func TestBulk_NothingOfOthers(t *testing.T) {
	t.Parallel()
	w, _ := bulkWorld(t)
	ids, ctx := w.many(2), t.Context()
	foreign := must[runs.StartedRun](t)(
		w.StartRun(ctx, w.eng(), startOf("other", document(M{"scope.projectId": "store"}, "a")))).View.Run.RunID
	narrow := w.who("shop-viewer")
	named := bulk.BulkRuns{IDs: []string{ids[0], foreign, "unknown", ids[1], ids[0]}}
	whole := w.previewOf(narrow, bulkOf("", 0, named))
	p := whole.Bulk
	if whole.Outcome != "REFUSED" || whole.Code != run.CodeForbidden || p.Count != 2 || len(p.Excluded) != 1 ||
		p.Excluded[0].Count != 2 || p.Excluded[0].Code != run.CodeNotFound {
		t.Errorf("preview %+v", p)
	}
	if len(p.Refusals) != 1 || p.Refusals[0].Code != run.CodeForbidden || p.Refusals[0].Count != 2 ||
		len(p.Samples) != 2 || p.Samples[0].Preview.Outcome != "REFUSED" {
		t.Errorf("preview %+v", p)
	}
	b := w.bulk(narrow, bulkOf("b1", 2, named))
	for _, r := range w.bulkRows(narrow, b.ID) {
		if r.RunID == foreign {
			t.Error("a run that its asker may not read is in the bulk")
		}
	}
	if a := w.previewOf(w.eng(), bulkOf("", 0, named)); a.Outcome != "APPLY" {
		t.Errorf("preview of one who may %+v", a)
	} else if p := a.Bulk; p.Count != 3 || p.Samples[0].Preview.Outcome != "APPLY" || p.Samples[0].Status != run.Running {
		t.Errorf("preview of one who may %+v", p)
	}
	for _, other := range []authz.Principal{w.eng(), w.who("dev-mallory"), {ID: narrow.ID, TenantID: "globex"}} {
		_, err := w.Bulk(ctx, other, b.ID)
		mine := refusal(t, err, run.CodeNotFound)
		_, err = w.Bulk(ctx, other, "00000000-0000-4000-8000-000000000000")
		if diff := cmp.Diff(mine.Message, refusal(t, err, run.CodeNotFound).Message); diff != "" {
			t.Errorf("another's and none (-want +got):\n%s", diff)
		}
		_, err = w.BulkRows(ctx, other, bulk.BulkRowsQuery{BulkID: b.ID})
		refusal(t, err, run.CodeNotFound)
		_, err = w.BulkApplications(ctx, other, b.ID)
		refusal(t, err, run.CodeNotFound)
		_, err = w.WatchBulk(ctx, other, b.ID)
		refusal(t, err, run.CodeNotFound)
		_, err = w.SignalRuns(ctx, other, bulkOf("b9", 1, bulk.BulkRuns{FailedOf: b.ID}))
		refusal(t, err, run.CodeNotFound)
		if page := must[bulk.BulksPage](t)(w.Bulks(ctx, other, 10, "")); len(page.Bulks) != 0 {
			t.Errorf("%s sees %d bulks", other.ID, len(page.Bulks))
		}
	}
	if page := must[bulk.BulksPage](t)(w.Bulks(ctx, narrow, 10, "")); len(page.Bulks) != 1 ||
		page.Bulks[0].ID != b.ID {
		t.Errorf("the asker sees %+v", page)
	}
	_, err := w.SignalRuns(ctx, w.who("nobody"), bulkOf("b1", 1, bulk.BulkRuns{Filter: &control.RunFilter{}}))
	refusal(t, err, run.CodeForbidden)
	// nobody takes a row's place
	_, err = w.SignalRun(ctx, w.eng(), signal(ids[0], store.BulkSignalID(b.ID, 1), run.Pause))
	refusal(t, err, run.CodeBadInput)
	// A receipt is shown as long as its run may be read.
	seer := w.who("two-viewer")
	own := w.bulk(seer, bulkOf("b1", 2, bulk.BulkRuns{IDs: ids}))
	w.sends()
	w.bulkDone(seer, own.ID)
	if rows := w.bulkRows(seer, own.ID); rows[0].Receipt == nil {
		t.Errorf("row %+v", rows[0])
	}
	w.directory.SetGrants(
		"acme", "two-viewer", []authz.Grant{{Role: authz.Viewer, ProjectID: "store", EnvironmentID: "*"}})
	must[struct{}](t)(struct{}{}, w.authz.Swap(authz.DefaultPolicy()))
	if rows := w.bulkRows(seer, own.ID); rows[0].Receipt != nil {
		t.Errorf("the receipt of a run that may no longer be read: %+v", rows[0])
	}
}
