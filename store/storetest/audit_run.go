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

// requested makes a run as control does: with its plan and the row of its request. Rows of earlier versions have no
// digest.
func (f *fixture) requested(n int, withDigest bool) run.Identity {
	f.Helper()
	made := newRun(identity(n), runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1"))
	made.Run.PlanRef.SHA256, made.Run.PlanRef.URI = store.PlanSum([]byte(checkedPlan)), store.InlinePlan+"x"
	r := made.Run
	row := auditOf(r.TenantID, 1000+n)
	row.Actor, row.Action, row.RunID, row.SignalID, row.Code = r.TriggeredBy, "START", r.RunID, "", ""
	row.Detail = json.RawMessage(fmt.Sprintf(`{"projectId":%q,"environmentId":%q,"planSha256":%q}`, r.ProjectID,
		r.EnvironmentID, r.PlanRef.SHA256))
	if withDigest {
		row = store.MadeRun(row, r)
	}
	made.Audit = []store.AuditRow{row}
	return f.create(made)
}

// sent accepts or rejects a signal as control does, with its row.
func (f *fixture) sent(id run.Identity, n int, signalID string, rejection run.Code, withDigest bool) {
	f.Helper()
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		r := receipt(signalID, run.Pause)
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
		if withDigest {
			row = store.MadeSignal(row, stored)
		}
		return tx.Audit(f.ctx(), row)
	}))
}

// checked reads the objects of one kind, one page of one at a time, as words: "" when the row agrees.
func (f *fixture) checked(kind store.AuditObjectKind, tenantID string) map[string]string {
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
		case o.Uncovered:
			words = append(words, "uncovered")
		case o.Made == "":
			words = append(words, "no row")
		case o.Made != o.Digest:
			words = append(words, "digest")
		}
		for _, d := range o.Differences {
			words = append(words, fmt.Sprintf("%s %s/%s", d.Fact, d.Stored, d.Recorded))
		}
		out[strings.TrimPrefix(o.Object, string(kind)+"/")] = strings.Join(words, ", ")
	}
}

// bytes is a literal for a column of bytes or JSON.
func (f *fixture) bytes(text string) string {
	if f.db.Exec(f.T, `SELECT decode('00', 'hex')`) == nil { // PostgreSQL
		return "'" + text + "'"
	}
	return "CAST('" + text + "' AS BLOB)"
}

// mayTamper reports whether the suite has the rights of the database's owner. The role of servers has not.
func (f *fixture) mayTamper() bool {
	f.Helper()
	return f.db.Exec(f.T, `UPDATE run SET run_id = run_id`) == nil
}

// past runs statements past the store.
func (f *fixture) past(statements ...string) {
	f.Helper()
	for _, s := range statements {
		f.ok(f.db.Exec(f.T, s))
	}
}

func auditRuns(f *fixture) {
	tenant := identity(1).TenantID
	for n := 1; n <= 7; n++ {
		f.requested(n, n != 2)
	}
	f.link(100)
	want := map[string]string{"run-001": "", "run-002": "uncovered", "run-003": "", "run-004": "", "run-005": "",
		"run-006": "", "run-007": ""}
	f.equal(want, f.checked(store.AuditRun, tenant), "runs as they were requested")
	f.equal(map[string]string{}, f.checked(store.AuditRun, "t-of-others"), "runs of another tenant")

	later := auditOf(tenant, 2000) // a later row excuses no change
	later.Actor, later.Action, later.RunID, later.SignalID = "eve", "START", "run-001", ""
	f.ok(f.store.Audit(f.ctx(), later))
	f.link(100)
	if !f.mayTamper() {
		return
	}
	f.past(`UPDATE run SET triggered_by = 'eve' WHERE run_id IN ('run-001', 'run-002')`,
		`UPDATE run SET project_id = 'mine' WHERE run_id = 'run-003'`,
		`UPDATE run SET params = `+f.bytes(`{"day":"never"}`)+` WHERE run_id = 'run-004'`,
		`UPDATE run SET environment_id = 'mine' WHERE run_id = 'run-005'`,
		`UPDATE run SET plan_ref = '{"uri":"dvt:plan/x","sha256":"ff"}' WHERE run_id = 'run-006'`,
		`INSERT INTO run (run_id, tenant_id, project_id, environment_id, plan_id, plan_version, request_id, plan_ref,
			triggered_by, trigger_source, parent_run_id, params, policy, created_at)
			SELECT 'run-008', tenant_id, project_id, environment_id, plan_id, plan_version, request_id, plan_ref,
			triggered_by, trigger_source, parent_run_id, params, policy, created_at FROM run WHERE run_id = 'run-007'`)
	f.equal(map[string]string{
		"run-001": "digest, requester eve/ola", "run-002": "uncovered, requester eve/ola",
		"run-003": "digest, project mine/p1", "run-004": "digest", "run-005": "digest, environment mine/sandbox",
		"run-006": "digest, digest of the plan ff/" + store.PlanSum([]byte(checkedPlan)) + ", digest of the stored plan /ff",
		"run-007": "", "run-008": "no row",
	}, f.checked(store.AuditRun, tenant), "runs after changes past dvt")
}

// auditPlans shows that a changed plan body is found by its digest.
func auditPlans(f *fixture) {
	id := f.requested(1, true)
	other := newRun(identity(2), runtest.Draft(run.RunApproved, "", 1)) // its plan lies elsewhere and was not fetched yet
	other.Run.PlanRef.URI, other.Plan = "https://plans.example/x", nil
	row := auditOf(id.TenantID, 9)
	row.RunID, row.SignalID = other.Run.RunID, ""
	other.Audit = []store.AuditRow{store.MadeRun(row, other.Run)}
	f.create(other)
	f.equal(map[string]string{id.RunID: "", other.Run.RunID: ""}, f.checked(store.AuditRun, id.TenantID), "runs")
	if !f.mayTamper() {
		return
	}
	changed, sum := `{"plan":2}`, store.PlanSum([]byte(checkedPlan))
	f.past(`UPDATE plan_body SET body = ` + f.bytes(changed))
	f.equal(fmt.Sprintf("digest of the stored plan %s/%s", store.PlanSum([]byte(changed)), sum),
		f.checked(store.AuditRun, id.TenantID)[id.RunID], "run of a changed plan")
	f.past(`DELETE FROM plan_body`)
	f.equal("digest of the stored plan /"+sum, f.checked(store.AuditRun, id.TenantID)[id.RunID], "run of a removed plan")
}

func auditSignals(f *fixture) {
	id := f.requested(1, true)
	f.sent(id, 1, "kept", "", true)
	f.sent(id, 2, "actor", "", true)
	f.sent(id, 3, "type", "", true)
	f.sent(id, 4, "payload", "", true)
	f.sent(id, 5, "reason", "", true)
	f.sent(id, 6, "refused", run.CodeForbidden, true)
	f.sent(id, 7, "old", "", false)
	f.sent(id, 8, "old-refused", run.CodeForbidden, false)
	f.sent(id, 9, "turned", run.CodeForbidden, true)
	moved := auditOf(id.TenantID, 10) // refused by RUN_MOVED, which leaves no receipt, then accepted
	moved.RunID, moved.SignalID, moved.Outcome, moved.Code, moved.Action = id.RunID, "moved", "REJECTED", run.CodeRunMoved,
		string(run.Pause)
	f.ok(f.store.Audit(f.ctx(), moved))
	f.sent(id, 11, "moved", "", true)
	f.link(100)
	name := func(signalID string) string { return id.RunID + "/" + signalID }
	want := map[string]string{}
	for _, s := range []string{"kept", "actor", "type", "payload", "reason", "refused", "turned", "moved"} {
		want[name(s)] = ""
	}
	want[name("old")], want[name("old-refused")] = "uncovered", "uncovered"
	f.equal(want, f.checked(store.AuditSignal, id.TenantID), "signals as they were accepted")
	f.past(`UPDATE signal SET application = 'APPLIED', applied_seq = 7 WHERE signal_id = 'kept'`)
	f.equal(want, f.checked(store.AuditSignal, id.TenantID), "signals of which one was applied")

	f.past(`UPDATE signal SET actor = 'eve' WHERE signal_id IN ('actor', 'old')`,
		`UPDATE signal SET type = 'RESUME' WHERE signal_id = 'type'`,
		`UPDATE signal SET payload = `+f.bytes(`{"pause":{}}`)+` WHERE signal_id = 'payload'`,
		`UPDATE signal SET reason = 'no reason' WHERE signal_id IN ('reason', 'old-refused')`,
		`UPDATE signal SET rejected = (1 = 0), rejection = '' WHERE signal_id = 'turned'`,
		`INSERT INTO signal (run_id, signal_id, no, type, step_id, expected_attempt, force, payload, actor, reason, rejected,
			rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq, received_at)
			SELECT run_id, 'minted', 99, type, step_id, expected_attempt, force, payload, actor, reason, rejected,
			rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq, received_at
			FROM signal WHERE signal_id = 'kept'`)
	for signalID, words := range map[string]string{
		"actor": "digest, actor eve/ola", "old": "uncovered, actor eve/ola", "type": "digest, type RESUME/PAUSE",
		"payload": "digest", "reason": "digest, reason no reason/because",
		"old-refused": "uncovered, reason no reason/because", "turned": "digest", "minted": "no row",
	} {
		want[name(signalID)] = words
	}
	f.equal(want, f.checked(store.AuditSignal, id.TenantID), "signals after changes past dvt")
}

func auditMissingRuns(f *fixture) {
	tenant := identity(1).TenantID
	for n := 1; n <= 3; n++ {
		id := f.requested(n, n != 2)
		f.sent(id, 10*n, "s", "", n != 2)
		f.sent(id, 10*n+1, "refused", run.CodeForbidden, n != 2)
	}
	f.link(100)
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
	f.past(`UPDATE run SET tenant_id = 'other' WHERE run_id = 'run-001'`, `DELETE FROM run WHERE run_id = 'run-002'`,
		`DELETE FROM signal WHERE run_id IN ('run-002', 'run-003')`)
	f.equal([]string{"run/run-001", "run/run-002", "signal/run-002/s", "signal/run-003/refused", "signal/run-003/s"},
		missing(), "missing objects after they were removed or moved")
	f.equal(map[string]string{"run-001": "no row"}, f.checked(store.AuditRun, "other"), "run in another tenant")
}

func auditImports(f *fixture) {
	n := newRun(identity(1))
	rc := receipt("s", run.Pause)
	rc.No, rc.ReceivedAt = 1, runtest.Epoch
	n.Receipts, n.Audit = []run.Receipt{rc}, store.ImportRows(n.Run, []run.Receipt{rc})
	for i := range n.Audit {
		n.Audit[i].ID = auditOf("", i+1).ID
	}
	f.ok(f.store.Import(f.ctx(), n, nil))
	tenant := n.Run.TenantID
	f.equal(map[string]string{"run-001": "digest of the stored plan " + store.PlanSum(n.Plan) + "/" + sha},
		f.checked(store.AuditRun, tenant), "an imported run, whose fixture has another plan than its digest")
	f.equal(map[string]string{"run-001/s": ""}, f.checked(store.AuditSignal, tenant), "an imported receipt")
}
