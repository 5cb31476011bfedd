package control_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// found returns the actions of the audit rows that a query finds, page by page.
func (w *world) found(q control.AuditQuery) (out []string) {
	w.T.Helper()
	for range 20 {
		page := controltest.Must[control.AuditPage](w.T)(w.Audit(w.T.Context(), w.Principal("dev-admin"), q))
		for _, l := range page.Links {
			out = append(out, l.Row.Action)
		}
		if !page.HasNext {
			return out
		}
		q.After = page.Next
	}
	w.T.Fatal("the audit has more than 20 pages")
	return nil
}

func TestAudit_FindsWhatPeopleType(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateFailed("r1")
	w.Send(w.Engineer(), controltest.SignalOf(id, "sig-1", run.RetryStep))
	w.CheckAuditChain("acme")
	for name, q := range map[string]control.AuditQuery{
		"the short id":             {Run: id[:8], Action: "RETRY_STEP"},
		"the short id as capitals": {Run: strings.ToUpper(id[:8]), Action: "RETRY_STEP"},
		"the whole id":             {Run: id, Action: "RETRY_STEP"},
		"a part of the action":     {Action: "retry"},
		"the action in words":      {Action: "Retry step"},
		"a part of the actor":      {Actor: "Engineer", Action: "RETRY"},
	} {
		if diff := cmp.Diff([]string{"RETRY_STEP"}, w.found(q)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for name, q := range map[string]control.AuditQuery{
		"the end of the id": {Run: id[8:]}, "another actor": {Actor: "zoe"}, "a pattern": {Action: "%"},
	} {
		if got := w.found(q); len(got) > 0 {
			t.Errorf("%s finds %v, want nothing", name, got)
		}
	}
	long := control.AuditQuery{Actor: strings.Repeat("a", control.MaxAuditText+1)}
	_, err := w.Audit(t.Context(), w.Principal("dev-admin"), long)
	controltest.Refusal(t, err, run.CodeBadInput)
}

func TestAudit_RowsOfSignalsNameTheStepAndTheNotes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("s")))
	w.Send(w.Engineer(), controltest.SignalOf(w.CreateFailed("r1"), "sig-1", run.RetryStep))
	manual := w.CreateManual("r2", "m")
	admin := w.Principal("dev-admin")
	controltest.Must[runs.SignalReceipt](t)(w.CompleteTask(admin, w.TaskOf(admin, manual, "m", 1), run.ManualSucceeded,
		func(c *runs.CompleteManualStep) { c.Notes = "checked by hand" }))
	details := map[string]string{}
	for _, l := range w.CheckAuditChain("acme") {
		details[l.Row.Action] = string(l.Row.Detail)
	}
	for action, want := range map[string]string{
		"RETRY_STEP":           `{"stepId":"s1"}`,
		"COMPLETE_MANUAL_STEP": `{"stepId":"m","outcome":"SUCCEEDED","notes":"checked by hand"}`,
	} {
		if details[action] != want {
			t.Errorf("the row of %s has the detail %s, want %s", action, details[action], want)
		}
	}
}

// A filter that finds little must not read the whole audit in one request, and must not hide that there is more.
func TestAudit_APageSearchesABoundedNumberOfRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tamper(`INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50010)
		SELECT printf('row-%06d', i), i, 'acme', CASE i WHEN 3 THEN 'ana' ELSE 'ben' END, 'PAUSE', '', '', 'ACCEPTED', '', '', ''
		FROM n`,
		`INSERT INTO audit_link (tenant_id, no, id, hash) SELECT tenant_id, at, id, zeroblob(32) FROM audit
			WHERE tenant_id = 'acme' AND id LIKE 'row-%' ORDER BY at`,
		`DELETE FROM audit_pending`)
	page := func(q control.AuditQuery) control.AuditPage {
		t.Helper()
		return controltest.Must[control.AuditPage](t)(w.Audit(t.Context(), w.Principal("dev-admin"), q))
	}
	newest := store.AuditFilter{Newest: true}
	first := page(control.AuditQuery{Actor: "ana", Filter: newest})
	if len(first.Links) != 0 || !first.HasNext || first.SearchedFrom != 11 || first.SearchedTo != 50_010 {
		t.Fatalf("the first page: %d links, next %t, searched %d to %d; want none, more, 11 to 50010", len(first.Links),
			first.HasNext, first.SearchedFrom, first.SearchedTo)
	}
	second := page(control.AuditQuery{Actor: "ana", Filter: newest, After: first.Next})
	if len(second.Links) != 1 || second.Links[0].No != 3 || second.HasNext || second.SearchedFrom != 1 ||
		second.SearchedTo != 10 {
		t.Errorf("the second page: %+v; want row 3, no more, searched 1 to 10", second)
	}
	oldest := page(control.AuditQuery{Actor: "ana"})
	if len(oldest.Links) != 1 || !oldest.HasNext || oldest.SearchedTo != 50_000 {
		t.Errorf("oldest first: %d links, next %t, searched to %d; want one, more, 50000", len(oldest.Links), oldest.HasNext,
			oldest.SearchedTo)
	}
	rest := page(control.AuditQuery{Actor: "ana", After: oldest.Next})
	if len(rest.Links) != 0 || rest.HasNext {
		t.Errorf("the rest: %d links, next %t; want none", len(rest.Links), rest.HasNext)
	}
	isNo := func(l store.AuditLink, no int64) bool { return l.No == no }
	full := page(control.AuditQuery{Actor: "ben", First: 2, Filter: newest})
	if full.SearchedFrom != 50_009 || full.Next != "50009" ||
		!slices.EqualFunc(full.Links, []int64{50_010, 50_009}, isNo) {
		t.Errorf("a page that is full ends at its last row; got %+v", full)
	}
}
