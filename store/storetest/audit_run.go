package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

const checkedPlan = `{"plan":1}`

// createRequested creates a run as control does: with its plan and the audit row of its request. A forged row names no
// object.
func (f *fixture) createRequested(n int, named bool) run.Identity {
	f.Helper()
	made := newRun(identity(n), runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1"))
	made.Run.PlanRef.SHA256, made.Run.PlanRef.URI = store.PlanSum([]byte(checkedPlan)), store.InlinePlan+"x"
	r := made.Run
	row := auditOf(r.TenantID, 1000+n)
	row.Actor, row.Action, row.RunID, row.SignalID, row.Code = r.TriggeredBy, "START", r.RunID, "", ""
	row.Detail = json.RawMessage(fmt.Sprintf(`{"projectId":%q,"environmentId":%q,"planId":%q,"planVersion":%q,"planSha256":%q}`,
		r.ProjectID, r.EnvironmentID, r.PlanID, r.PlanVersion, r.PlanRef.SHA256))
	if named {
		row = store.AuditRowOfRun(row, r)
	}
	made.Audit = []store.AuditRow{row}
	return f.create(made)
}

// recordSignal stores the receipt of an accepted or rejected signal and its audit row, as control does.
func (f *fixture) recordSignal(id run.Identity, n int, signalID string, rejection run.Code, named bool) {
	f.Helper()
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		r := newReceipt(signalID, run.Pause)
		r.Rejected, r.Rejection = rejection != "", rejection
		stored, err := tx.PutReceipt(f.ctx(), r, false)
		if err != nil {
			return err
		}
		row := auditOf(id.TenantID, n)
		row.Actor, row.Action, row.RunID, row.SignalID, row.Reason, row.Code = r.Actor, string(run.Pause), id.RunID, signalID,
			r.Reason, rejection
		if r.Rejected {
			row.Outcome = "REJECTED"
		}
		if named {
			row = store.AuditRowOfSignal(row, stored)
		}
		return tx.Audit(f.ctx(), row)
	}))
}

// auditDifferences reads the objects of one kind in pages of one. It returns for each object the differences from its
// audit row, or "".
func (f *fixture) auditDifferences(kind store.AuditObjectKind, tenantID string) map[string]string {
	f.Helper()
	out := map[string]string{}
	for after := ""; ; {
		page, err := f.store.AuditObjects(f.ctx(), store.AuditObjectFilter{Kind: kind, TenantID: tenantID, After: after,
			Limit: 1})
		f.ok(err)
		if len(page) == 0 {
			return out
		}
		o := page[0]
		after = o.Cursor
		var words []string
		switch {
		case o.Made == "":
			words = append(words, "no row")
		case o.Made != o.Digest:
			words = append(words, "digest")
		}
		if o.Made != "" {
			for _, d := range o.Differences {
				if d.Note == "" {
					d.Note = fmt.Sprintf("%s %s/%s", d.Fact, d.Stored, d.Recorded)
				}
				words = append(words, d.Note)
			}
		}
		out[strings.TrimPrefix(o.Object, string(kind)+"/")] = strings.Join(words, ", ")
	}
}

// isPostgres reports whether the database is PostgreSQL. The other one is SQLite.
func (f *fixture) isPostgres() bool {
	f.Helper()
	return f.db.Exec(f.T, `SELECT decode('00', 'hex')`) == nil
}

// bytesLiteral returns an SQL literal for a column of bytes or JSON.
func (f *fixture) bytesLiteral(text string) string {
	if f.isPostgres() {
		return "'" + text + "'"
	}
	return "CAST('" + text + "' AS BLOB)"
}

// longAgo returns an SQL literal for a time column, one second after the epoch.
func (f *fixture) longAgo() string {
	if f.isPostgres() {
		return "'1970-01-01T00:00:01Z'"
	}
	return "1000000"
}

// mayTamper reports whether the suite has the rights of the owner of the database. The role of servers does not.
func (f *fixture) mayTamper() bool {
	f.Helper()
	return f.db.Exec(f.T, `UPDATE run SET run_id = run_id`) == nil
}

// execAll executes SQL statements without the store.
func (f *fixture) execAll(statements ...string) {
	f.Helper()
	for _, s := range statements {
		f.ok(f.db.Exec(f.T, s))
	}
}

func testAuditRunsNameTheRowOfTheirRequest(f *fixture) {
	tenant := identity(1).TenantID
	for n := 1; n <= 7; n++ {
		f.createRequested(n, n != 2)
	}
	f.linkAudit(100)
	want := map[string]string{"run-001": "", "run-002": "no row", "run-003": "", "run-004": "", "run-005": "",
		"run-006": "", "run-007": ""}
	f.equal(want, f.auditDifferences(store.AuditRun, tenant), "runs as they were requested")
	f.equal(map[string]string{}, f.auditDifferences(store.AuditRun, "t-of-others"), "runs of another tenant")

	later := auditOf(tenant, 2000) // a later row does not justify a change
	later.Actor, later.Action, later.RunID, later.SignalID = "eve", "START", "run-001", ""
	f.ok(f.store.Audit(f.ctx(), later))
	f.linkAudit(100)
	if !f.mayTamper() {
		return
	}
	f.execAll(`UPDATE run SET triggered_by = 'eve' WHERE run_id IN ('run-001', 'run-002')`,
		`UPDATE run SET project_id = 'mine' WHERE run_id = 'run-003'`,
		`UPDATE run SET params = `+f.bytesLiteral(`{"day":"never"}`)+` WHERE run_id = 'run-004'`,
		`UPDATE run SET environment_id = 'mine' WHERE run_id = 'run-005'`,
		`UPDATE run SET plan_ref = '{"uri":"dvt:plan/x","sha256":"ff"}' WHERE run_id = 'run-006'`,
		`INSERT INTO run (run_id, tenant_id, project_id, environment_id, plan_id, plan_version, request_id, plan_ref,
			triggered_by, trigger_source, parent_run_id, params, policy, created_at)
			SELECT 'run-008', tenant_id, project_id, environment_id, plan_id, plan_version, request_id, plan_ref,
			triggered_by, trigger_source, parent_run_id, params, policy, created_at FROM run WHERE run_id = 'run-007'`)
	f.equal(map[string]string{
		"run-001": "digest, requester eve/ola", "run-002": "no row",
		"run-003": "digest, project mine/p1", "run-004": "digest", "run-005": "digest, environment mine/sandbox",
		"run-006": "digest, digest of the plan ff/" + store.PlanSum([]byte(checkedPlan)) + ", the stored plan was removed",
		"run-007": "", "run-008": "no row",
	}, f.auditDifferences(store.AuditRun, tenant), "runs after changes that dvt did not make")
}

// AuditObjects reports a row that it cannot read and goes on with the others.
func testAuditRunsDamagedRowsDoNotHideOthers(f *fixture) {
	tenant := identity(1).TenantID
	for n := 1; n <= 4; n++ {
		f.createRequested(n, true)
	}
	f.linkAudit(100)
	if !f.mayTamper() {
		return
	}
	f.execAll(`UPDATE run SET plan_ref = '"{"' WHERE run_id = 'run-001'`,
		`UPDATE run SET policy = '7' WHERE run_id = 'run-002'`,
		`UPDATE run SET plan_ref = '{"sha256":"\u0000"}' WHERE run_id = 'run-003'`,
		`UPDATE run SET triggered_by = 'eve'`)
	got := f.auditDifferences(store.AuditRun, tenant)
	for runID, want := range map[string]string{"run-001": "its plan reference cannot be read",
		"run-002": "its policy cannot be read",
		"run-003": "digest of the plan", "run-004": "digest"} {
		if !strings.Contains(got[runID], want) || !strings.Contains(got[runID], "requester eve/ola") {
			f.Errorf("%s has the differences %q, want %q and the requester", runID, got[runID], want)
		}
	}
}

// AuditObjects compares the times of a run, its request key, its reference, its approvals and its head.
func testAuditRunsCompareHeadsTimesAndApprovals(f *fixture) {
	tenant := identity(1).TenantID
	for n := 1; n <= 9; n++ {
		f.createRequested(n, true)
	}
	f.append(identity(9), runtest.Draft(run.RunCancelled, "", 1))
	f.linkAudit(100)
	want := map[string]string{}
	for n := 1; n <= 9; n++ {
		want[identity(n).RunID] = ""
	}
	f.equal(want, f.auditDifferences(store.AuditRun, tenant), "runs as they were requested")
	if !f.mayTamper() {
		return
	}
	second, err := f.store.Get(f.ctx(), "run-002")
	f.ok(err)
	second.PlanRef.SchemaVersion = "v9"
	ref, err := json.Marshal(second.PlanRef)
	f.ok(err)
	f.execAll(`UPDATE run SET request_key = 'x' WHERE run_id = 'run-001'`,
		`UPDATE run SET plan_ref = '`+string(ref)+`' WHERE run_id = 'run-002'`,
		`DELETE FROM run_head WHERE run_id = 'run-003'`,
		`UPDATE run_head SET terminal = (1 = 1) WHERE run_id = 'run-004'`,
		`UPDATE run_head SET last_seq = 7 WHERE run_id = 'run-005'`,
		`INSERT INTO approval (run_id, tenant_id, project_id, environment_id, required, priority, created_at, expires_at)
			SELECT run_id, tenant_id, project_id, environment_id, 2, 5, created_at,
				created_at FROM run WHERE run_id = 'run-006'`,
		`UPDATE run SET created_at = `+f.longAgo()+` WHERE run_id = 'run-007'`,
		`UPDATE run_head SET terminal = (1 = 0) WHERE run_id = 'run-009'`)
	got := f.auditDifferences(store.AuditRun, tenant)
	for runID, words := range map[string]string{
		"run-001": "digest", "run-002": "digest", "run-003": "its head was removed",
		"run-004": "its head says that it has ended, and its log has no end",
		"run-005": "its head names 7 as the last event, and its log ends at 2", "run-006": "number of approvals 2/0",
		"run-007": "time of creation 1970-01-01T00:00:01Z/", "run-008": "",
		"run-009": "its head says that it is open, and its log has an end",
	} {
		if !strings.HasPrefix(got[runID], words) || words == "" && got[runID] != "" {
			f.Errorf("%s has the differences %q, want %q", runID, got[runID], words)
		}
	}
}

// AuditObjects finds a changed plan document by its digest.
func testAuditRunsPlansHaveTheirDigest(f *fixture) {
	id := f.createRequested(1, true)
	other := newRun(identity(2), runtest.Draft(run.RunApproved, "", 1)) // its plan is stored elsewhere and not fetched yet
	other.Run.PlanRef.URI, other.Plan = "https://plans.example/x", nil
	row := auditOf(id.TenantID, 9)
	row.RunID, row.SignalID = other.Run.RunID, ""
	other.Audit = []store.AuditRow{store.AuditRowOfRun(row, other.Run)}
	f.create(other)
	f.equal(map[string]string{id.RunID: "", other.Run.RunID: ""}, f.auditDifferences(store.AuditRun, id.TenantID), "runs")
	if !f.mayTamper() {
		return
	}
	changed, sum := `{"plan":2}`, store.PlanSum([]byte(checkedPlan))
	f.execAll(`UPDATE plan_body SET body = ` + f.bytesLiteral(changed))
	f.equal(fmt.Sprintf("digest of the stored plan %s/%s", store.PlanSum([]byte(changed)), sum),
		f.auditDifferences(store.AuditRun, id.TenantID)[id.RunID], "run of a changed plan")
	f.execAll(`DELETE FROM plan_body`)
	f.equal("the stored plan was removed", f.auditDifferences(store.AuditRun, id.TenantID)[id.RunID],
		"run of a removed plan")
}

func testAuditSignalsNameTheRowOfTheirReceipt(f *fixture) {
	id := f.createRequested(1, true)
	f.recordSignal(id, 1, "kept", "", true)
	f.recordSignal(id, 2, "actor", "", true)
	f.recordSignal(id, 3, "type", "", true)
	f.recordSignal(id, 4, "payload", "", true)
	f.recordSignal(id, 5, "reason", "", true)
	f.recordSignal(id, 6, "refused", run.CodeForbidden, true)
	f.recordSignal(id, 7, "old", "", false)
	f.recordSignal(id, 8, "old-refused", run.CodeForbidden, false)
	f.recordSignal(id, 9, "turned", run.CodeForbidden, true)
	f.recordSignal(id, 12, "dated", "", true)
	moved := auditOf(id.TenantID, 10) // rejected with RUN_MOVED, which stores no receipt, then accepted
	moved.RunID, moved.SignalID, moved.Outcome, moved.Code, moved.Action = id.RunID, "moved", "REJECTED", run.CodeRunMoved,
		string(run.Pause)
	f.ok(f.store.Audit(f.ctx(), moved))
	f.recordSignal(id, 11, "moved", "", true)
	f.linkAudit(100)
	name := func(signalID string) string { return id.RunID + "/" + signalID }
	want := map[string]string{}
	for _, s := range []string{"kept", "actor", "type", "payload", "reason", "refused", "turned", "moved", "dated"} {
		want[name(s)] = ""
	}
	want[name("old")], want[name("old-refused")] = "no row", "no row"
	f.equal(want, f.auditDifferences(store.AuditSignal, id.TenantID), "signals as they were accepted")
	f.execAll(`UPDATE signal SET application = 'APPLIED', applied_seq = 7 WHERE signal_id = 'kept'`)
	f.equal(want, f.auditDifferences(store.AuditSignal, id.TenantID), "signals after one was applied")
	if !f.mayTamper() {
		return
	}

	f.execAll(`UPDATE signal SET actor = 'eve' WHERE signal_id IN ('actor', 'old')`,
		`UPDATE signal SET received_at = `+f.longAgo()+` WHERE signal_id = 'dated'`,
		`UPDATE signal SET type = 'RESUME' WHERE signal_id = 'type'`,
		`UPDATE signal SET payload = `+f.bytesLiteral(`{"pause":{}}`)+` WHERE signal_id = 'payload'`,
		`UPDATE signal SET reason = 'no reason' WHERE signal_id IN ('reason', 'old-refused')`,
		`UPDATE signal SET rejected = (1 = 0), rejection = '' WHERE signal_id = 'turned'`,
		`INSERT INTO signal (run_id, signal_id, no, type, step_id, expected_attempt, force, payload, actor, reason, rejected,
			rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq, received_at)
			SELECT run_id, 'minted', 99, type, step_id, expected_attempt, force, payload, actor, reason, rejected,
			rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq, received_at
			FROM signal WHERE signal_id = 'kept'`)
	for signalID, words := range map[string]string{
		"actor": "digest, actor eve/ola", "old": "no row", "type": "digest, type RESUME/PAUSE",
		"payload": "digest", "reason": "digest, reason no reason/because",
		"old-refused": "no row", "turned": "digest", "minted": "no row",
	} {
		want[name(signalID)] = words
	}
	got := f.auditDifferences(store.AuditSignal, id.TenantID)
	if dated := got[name("dated")]; !strings.HasPrefix(dated, "time of arrival 1970-01-01T00:00:01Z/") {
		f.Errorf("a signal with another time has the differences %q, want its time of arrival", dated)
	}
	delete(got, name("dated"))
	delete(want, name("dated"))
	f.equal(want, got, "signals after changes that dvt did not make")
}

func testAuditMissingNamesRunsAndSignalsThatAreGone(f *fixture) {
	tenant := identity(1).TenantID
	for n := 1; n <= 3; n++ {
		id := f.createRequested(n, true)
		f.recordSignal(id, 10*n, "s", "", true)
		f.recordSignal(id, 10*n+1, "refused", run.CodeForbidden, true)
	}
	f.linkAudit(100)
	missing := func() (objects []string) {
		f.Helper()
		links, err := f.store.AuditMissing(f.ctx(), tenant, 0, 100)
		f.ok(err)
		for _, l := range links {
			objects = append(objects, l.Row.Object)
		}
		slices.Sort(objects)
		return objects
	}
	f.equal([]string(nil), missing(), "missing objects")
	if !f.mayTamper() {
		return
	}
	f.execAll(`UPDATE run SET tenant_id = 'other' WHERE run_id = 'run-001'`, `DELETE FROM run WHERE run_id = 'run-002'`,
		`DELETE FROM signal WHERE run_id IN ('run-002', 'run-003')`)
	f.equal([]string{"run/run-001", "run/run-002", "signal/run-002/refused", "signal/run-002/s",
		"signal/run-003/refused", "signal/run-003/s"}, missing(), "missing objects after they were removed or moved")
	f.equal(map[string]string{"run-001": "no row"}, f.auditDifferences(store.AuditRun, "other"), "run in another tenant")
}

func testAuditRunsImportsHaveTheirRows(f *fixture) {
	n := newRun(identity(1))
	rc := newReceipt("s", run.Pause)
	rc.No, rc.ReceivedAt = 1, runtest.Epoch
	n.Receipts, n.Audit = []run.SignalReceipt{rc}, store.ImportRows(n.Run, []run.SignalReceipt{rc})
	for i := range n.Audit {
		n.Audit[i].ID = auditOf("", i+1).ID
	}
	f.ok(f.store.Import(f.ctx(), n, nil))
	tenant := n.Run.TenantID
	f.equal(map[string]string{"run-001": "digest of the stored plan " + store.PlanSum(n.Plan) + "/" + sha},
		f.auditDifferences(store.AuditRun, tenant), "an imported run, whose fixture has another plan than its digest")
	f.equal(map[string]string{"run-001/s": ""}, f.auditDifferences(store.AuditSignal, tenant), "an imported receipt")
}
