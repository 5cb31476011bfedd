package control_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// auditCheck joins the results of all pages of CheckAudit.
func (w *world) auditCheck() (out control.AuditCheckPage) {
	w.T.Helper()
	for after := ""; ; {
		page := controltest.Must[control.AuditCheckPage](w.T)(w.CheckAudit(w.T.Context(), w.Principal("dev-admin"), after))
		out.Checked += page.Checked
		out.Problems = append(out.Problems, page.Problems...)
		if after = page.Next; after == "" {
			return out
		}
	}
}

// tamper runs statements on the file of the store.
func (w *world) tamper(statements ...string) {
	w.T.Helper()
	db := controltest.Must[*sql.DB](w.T)(sql.Open("sqlite", "file:"+filepath.Join(w.Dir,
		"dvt.db")+"?_pragma=busy_timeout(5000)"))
	defer db.Close()
	for _, s := range statements {
		controltest.Must[sql.Result](w.T)(db.Exec(s))
	}
}

// Every way of creating a run or a receipt writes a row with its digest.
func TestCheckAudit_RunsAndSignalsHaveTheirRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.ManualKeys(t, "k1:"+controltest.SecretOf("s")))
	failed := w.CreateFailed("r1")
	w.RequestRerun(runs.Rerun{RunID: failed, RequestID: "r2", Failed: true, Reason: "again"})
	open := w.CreateRunning("r3", "a", "b<a")
	w.Send(w.Engineer(), controltest.SignalOf(open, "s-pause", run.Pause))
	w.Send(w.Engineer(), controltest.SignalOf(failed, "s-late", run.Pause)) // rejected: the run has ended
	_, err := w.SignalRun(t.Context(), w.Principal("dev-viewer"), controltest.SignalOf(open, "s-denied", run.Resume))
	controltest.Refusal(t, err, run.CodeForbidden)
	moved := controltest.SignalOf(open, "s-moved", run.Resume)
	seen := run.Seq(1)
	moved.ExpectedRunSeq = &seen
	_, err = w.SignalRun(t.Context(), w.Engineer(), moved)
	controltest.Refusal(t, err, run.CodeRunMoved)
	w.Send(w.Engineer(), controltest.SignalOf(open, "s-moved", run.Resume))
	w.Send(w.Engineer(), controltest.SignalOf(w.CreateQueued("r4", "a"), "s-cancel", run.Cancel)) // applied at once
	manual := w.CreateManual("r5", "m")
	_, err = w.CompleteTask(w.Principal("dev-admin"), w.TaskOf(w.Principal("dev-admin"), manual, "m", 1),
		run.ManualSucceeded)
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
	first, second := w.CreateRunning("r1", "a"), w.CreateRunning("r2", "a", "b<a")
	w.Send(w.Engineer(), controltest.SignalOf(first, "s1", run.Pause))
	w.Send(w.Engineer(), controltest.SignalOf(second, "s2", run.Pause))
	plan := controltest.Must[store.Run](t)(w.Raw.Get(t.Context(), second)).PlanRef.SHA256
	w.CheckAuditChain("acme")
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
	requester := w.Engineer().ID
	for _, want := range []string{
		"run " + first +
			" of tenant acme differs from the row that created it (number 1 of the audit): the requester is \"mallory\", " +
			"recorded as \"" + requester + "\"",
		"signal " + first +
			"/s1 of tenant acme differs from the row that created it (number 3 of the audit): the actor is \"mallory\", " +
			"recorded as \"" + requester + "\"; the type is \"RESUME\", recorded as \"PAUSE\"",
		"signal " + second +
			"/s2 of tenant acme differs from the row that created it (number 4 of the audit): its content has the digest ",
		"run " + second +
			" of tenant acme differs from the row that created it (number 2 of the audit): the digest of the stored plan is \"" +
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
	w := newWithApprovals(t, 2)
	fewer, removed := w.CreateQueued("r1", "s1"), w.CreateQueued("r2", "s1")
	w.CheckAuditChain("acme")
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
