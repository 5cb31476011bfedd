package control_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// auditCheck joins the results of all pages of CheckAudit.
func (w *world) auditCheck() (out control.AuditCheckPage) {
	w.t.Helper()
	for after := ""; ; {
		page := must[control.AuditCheckPage](w.t)(w.CheckAudit(w.t.Context(), w.who("dev-admin"), after))
		out.Checked += page.Checked
		out.Problems = append(out.Problems, page.Problems...)
		if after = page.Next; after == "" {
			return out
		}
	}
}

// tamper runs statements on the file of the store.
func (w *world) tamper(statements ...string) {
	w.t.Helper()
	db := must[*sql.DB](w.t)(sql.Open("sqlite", "file:"+filepath.Join(w.dir, "dvt.db")+"?_pragma=busy_timeout(5000)"))
	defer db.Close()
	for _, s := range statements {
		must[sql.Result](w.t)(db.Exec(s))
	}
}

// Every way of creating a run or a receipt writes a row with its digest.
func TestCheckAudit_RunsAndSignalsHaveTheirRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, manualKeys(t, "k1:"+secret("s")))
	failed := w.failedRun("r1")
	w.rerun(runs.Rerun{RunID: failed, RequestID: "r2", Failed: true, Reason: "again"})
	open := w.running("r3", "a", "b<a")
	w.send(w.eng(), signal(open, "s-pause", run.Pause))
	w.send(w.eng(), signal(failed, "s-late", run.Pause)) // rejected: the run has ended
	_, err := w.SignalRun(t.Context(), w.who("dev-viewer"), signal(open, "s-denied", run.Resume))
	refusal(t, err, run.CodeForbidden)
	moved := signal(open, "s-moved", run.Resume)
	seen := run.Seq(1)
	moved.ExpectedRunSeq = &seen
	_, err = w.SignalRun(t.Context(), w.eng(), moved)
	refusal(t, err, run.CodeRunMoved)
	w.send(w.eng(), signal(open, "s-moved", run.Resume))
	w.send(w.eng(), signal(w.queued("r4", "a"), "s-cancel", run.Cancel)) // applied at once
	manual := w.manual("r5", "m")
	_, err = w.complete(w.who("dev-admin"), w.task(w.who("dev-admin"), manual, "m", 1), run.ManualSucceeded)
	if err != nil {
		t.Fatal(err)
	}
	check := w.auditCheck()
	for _, problem := range check.Problems {
		t.Error(problem)
	}
	const wantRuns, wantReceipts = 5, 6
	if check.Checked < wantRuns+wantReceipts {
		t.Errorf("%d objects were checked; want %d runs and %d receipts", check.Checked, wantRuns, wantReceipts)
	}
}

// CheckAudit names each change that was made past dvt, with its run or signal and with both values.
func TestCheckAudit_NamesWhatDiffersFromItsRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := w.running("r1", "a"), w.running("r2", "a", "b<a")
	w.send(w.eng(), signal(first, "s1", run.Pause))
	w.send(w.eng(), signal(second, "s2", run.Pause))
	plan := must[store.Run](t)(w.raw.Get(t.Context(), second)).PlanRef.SHA256
	w.auditChainHolds("acme")
	if problems := w.auditCheck().Problems; len(problems) > 0 {
		t.Fatalf("there are problems before the changes: %q", problems)
	}
	w.tamper(
		`UPDATE run SET triggered_by = 'mallory' WHERE run_id = '`+first+`'`,
		`UPDATE signal SET actor = 'mallory', type = 'RESUME' WHERE signal_id = 's1'`,
		`UPDATE signal SET payload = CAST('{"x":1}' AS BLOB) WHERE signal_id = 's2'`,
		`UPDATE plan_body SET body = CAST('{}' AS BLOB) WHERE sha256 = '`+plan+`'`,
		`INSERT INTO run SELECT 'minted', tenant_id, project_id, environment_id, plan_id, plan_version, NULL, request_id,
			plan_ref, triggered_by, trigger_source, parent_run_id, params, policy, created_at FROM run WHERE run_id = '`+first+
			`'`,
	)
	problems := w.auditCheck().Problems
	requester := w.eng().ID
	for _, want := range []string{
		"run " + first + " of tenant acme differs from the row that created it (number 1 of the audit): the requester is \"mallory\", " +
			"recorded as \"" + requester + "\"",
		"signal " + first + "/s1 of tenant acme differs from the row that created it (number 3 of the audit): the actor is \"mallory\", " +
			"recorded as \"" + requester + "\"; the type is \"RESUME\", recorded as \"PAUSE\"",
		"signal " + second + "/s2 of tenant acme differs from the row that created it (number 4 of the audit): its content has the digest ",
		"run " + second + " of tenant acme differs from the row that created it (number 2 of the audit): the digest of the stored plan is \"" +
			store.PlanSum([]byte("{}")) + "\", recorded as \"" + plan + "\"",
		"run minted of tenant acme has no row that created it",
	} {
		if !strings.Contains(strings.Join(problems, "\n"), want) {
			t.Errorf("no problem contains %q", want)
		}
	}
	if len(problems) != 5 {
		t.Errorf("%d problems, want 5: %q", len(problems), problems)
	}
	w.tamper(`DELETE FROM run WHERE run_id = '` + first + `'`)
	all := strings.Join(w.auditCheck().Problems, "\n")
	if !strings.Contains(all, "run/"+first+" was removed: "+requester) {
		t.Errorf("a removed run is not named:\n%s", all)
	}
}

// CheckAudit names a run that now needs fewer or more approvals than its request recorded.
func TestCheckAudit_NamesAChangedNumberOfApprovals(t *testing.T) {
	t.Parallel()
	w := asking(t, 2)
	fewer, removed := w.queued("r1", "s1"), w.queued("r2", "s1")
	w.auditChainHolds("acme")
	if problems := w.auditCheck().Problems; len(problems) > 0 {
		t.Fatalf("problems before the changes: %q", problems)
	}
	w.tamper(`UPDATE approval SET required = 1 WHERE run_id = '`+fewer+`'`,
		`DELETE FROM approval WHERE run_id = '`+removed+`'`)
	all := strings.Join(w.auditCheck().Problems, "\n")
	for _, want := range []string{`the number of approvals is "1", recorded as "2"`,
		`the number of approvals is "0", recorded as "2"`} {
		if !strings.Contains(all, want) {
			t.Errorf("no problem contains %q:\n%s", want, all)
		}
	}
}
