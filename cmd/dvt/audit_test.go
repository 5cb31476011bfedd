package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// serveAudited serves the API on a new store with the given number of audit rows of acme, all linked. file is the
// database.
func serveAudited(t *testing.T, rows int) (address, file string, s store.Store) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "dvt.db")
	address, r := serveFile(t, file)
	s, ok := r.Outbox.(store.Store)
	if !ok {
		t.Fatal("no store")
	}
	served, err := s.Get(t.Context(), "r1")
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		row := store.AuditRow{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i+1), TenantID: "acme", Actor: "ola", Action: "PAUSE", RunID: "r1",
			Outcome: "ACCEPTED", Reason: "<because>", Detail: []byte(`{"a":1}`),
		}
		if i == 0 { // the row that created the run of the fixture
			row = store.AuditRowOfRun(row, served)
		}
		if err := s.Audit(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.LinkAudit(t.Context(), 1000); err != nil || n != rows {
		t.Fatalf("linked %d of %d: %v", n, rows, err)
	}
	return address, file, s
}

// tamper changes the database as its owner could: it drops the triggers and runs the statements.
func tamper(t *testing.T, file string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, trigger := range []string{"audit_no_update", "audit_no_delete", "audit_link_no_update", "audit_link_no_delete",
		"audit_wait", "audit_link_next"} {
		statements = append([]string{"DROP TRIGGER " + trigger}, statements...)
	}
	for _, q := range statements {
		if _, err := db.ExecContext(t.Context(), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

// contract: T208
func TestAuditVerify_ReportsEachKindOfTampering(t *testing.T) {
	row := func(n int) string { return fmt.Sprintf("'00000000-0000-4000-8000-%012d'", n) }
	for name, c := range map[string]struct {
		do   []string
		says []string
	}{
		"changed": {[]string{"UPDATE audit SET actor = 'eve' WHERE id = " + row(7)}, []string{"number 7 was changed or moved",
			"by eve"}},
		"removed": {[]string{"DELETE FROM audit WHERE id = " + row(5)},
			[]string{"number 5 was removed: row 00000000-0000-4000-8000-000000000005"}},
		"removed with its link": {
			[]string{"DELETE FROM audit WHERE id = " + row(5), "DELETE FROM audit_link WHERE no = 5"},
			[]string{"number 5 was removed with its link"},
		},
		"moved": {
			[]string{"UPDATE audit_link SET id = 'x' WHERE no = 3", "UPDATE audit_link SET id = " + row(3) + " WHERE no = 4",
				"UPDATE audit_link SET id = " + row(4) + " WHERE no = 3"},
			[]string{"number 3 was changed or moved", "number 4 was changed or moved"},
		},
		"added": {
			[]string{"INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, " +
				"request_id, detail) SELECT 'x', at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, " +
				"request_id, detail FROM audit LIMIT 1"},
			[]string{"1 rows were not written by dvt"},
		},
		"a credential of another": {
			[]string{"UPDATE audit SET credential = 'token:gustav' WHERE id = " + row(9)},
			[]string{"number 9 was changed or moved"},
		},
		"back-dated": {
			[]string{"UPDATE audit SET at = at - 600000000 WHERE id = " + row(8)}, []string{"number 8 is dated",
				"before earlier rows", "number 8 was changed"},
		},
		"the greatest number": {
			[]string{"INSERT INTO audit_link (tenant_id, no, id, hash) VALUES ('acme', 9223372036854775807, 'x', zeroblob(32))"},
			[]string{"number 9223372036854775807 is too large for a chain", "\n230 records read."},
		},
		"a number below 1": {
			[]string{
				"INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id) " +
					"SELECT 'x', at, tenant_id, '', '', '', '', '', '', '', '' FROM audit LIMIT 1",
				"INSERT INTO audit_link (tenant_id, no, id, hash) VALUES ('acme', -9223372036854775808, 'x', zeroblob(32))",
			},
			[]string{"1 rows were not written by dvt"},
		},
		"a row that nobody links": {
			[]string{
				"INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id) " +
					"SELECT 'x', at - 60000000, tenant_id, '', '', '', '', '', '', '', '' FROM audit LIMIT 1",
				"INSERT INTO audit_pending (id) VALUES ('x')",
			},
			[]string{"a row has waited for its link for 6", "1 waiting"},
		},
		"a token": {
			[]string{`INSERT INTO api_token (id, tenant_id, name, principal, sha256, grants, created_by, created_at, expires_at)
				VALUES ('t-1', 'acme', 'mine', 'dev-admin', 'x', '[]', 'dev-admin', 0, 0)`},
			[]string{"token t-1 of tenant acme has no row that created it"},
		},
		"a policy": {
			[]string{"INSERT INTO policy (tenant_id, version, doc, actor, reason, request_id, at) VALUES ('acme', 1, '{}', " +
				"'dev-admin', '', '', 0)"},
			[]string{"policy 1 of tenant acme has no row that created it"},
		},
		"a policy is removed": {
			[]string{
				"INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, " +
					"object, digest) VALUES ('y', 0, 'acme', 'dev-admin', 'SET_POLICY', '', '', 'ACCEPTED', '', '', '', " +
					"'policy/7', 'x')",
				"INSERT INTO audit_link (tenant_id, no, id, hash) VALUES ('acme', 231, 'y', zeroblob(32))",
			},
			[]string{"policy/7 was removed: dev-admin created it"},
		},
		"a row that is dated back excuses a policy": {
			[]string{
				"INSERT INTO policy (tenant_id, version, doc, actor, reason, request_id, at) VALUES ('acme', 1, '{}', " +
					"'dev-admin', '', '', 0)",
				"INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, " +
					"object, digest) VALUES ('y', 9, 'acme', 'dev-admin', 'SET_POLICY', '', '', 'ACCEPTED', '', '', '', " +
					"'policy/1', 'x')",
				"INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, " +
					"object, digest) VALUES ('z', 8, 'acme', 'dev-admin', 'SET_POLICY', '', '', 'ACCEPTED', '', '', '', 'policy/1', '" + policyDigest() + "')",
				"INSERT INTO audit_link (tenant_id, no, id, hash) VALUES ('acme', 231, 'y', zeroblob(32))",
				"INSERT INTO audit_link (tenant_id, no, id, hash) VALUES ('acme', 232, 'z', zeroblob(32))",
			},
			[]string{"policy 1 of tenant acme differs from the row that created it"},
		},
		"cut": {[]string{"DELETE FROM audit_link WHERE no > 200", "DELETE FROM audit WHERE id > " + row(200)},
			[]string{"the chain ends at 200; it was known to have 230"}},
	} {
		t.Run(name, func(t *testing.T) {
			address, file, _ := serveAudited(t, 230)
			out, status, err := dvt(t, address, "dev-admin", "audit", "verify")
			if status != 0 || !strings.Contains(out, "OK: 230 records, the chain is intact.\n") {
				t.Fatalf("before tampering: status %d, %v, want 0 and 230 linked rows\n%s", status, err, out)
			}
			head := strings.TrimSpace(out[strings.Index(out, "head ")+len("head "):])
			tamper(t, file, c.do...)
			out, status, err = dvt(t, address, "dev-admin", "audit", "verify", "--head", head)
			if status != 1 {
				t.Errorf("status %d, %v, want 1", status, err)
			}
			for _, s := range c.says {
				if !strings.Contains(out, s) {
					t.Errorf("verify does not report %q:\n%s", s, out)
				}
			}
		})
	}
}

// policyDigest returns the digest of the policy that a case writes.
func policyDigest() string {
	return store.AuditRowOfPolicy(store.AuditRow{}, store.StoredPolicy{TenantID: "acme", Version: 1, Doc: []byte("{}"),
		Actor: "dev-admin"}).Digest
}

// A missing directory of signed heads must not pass for heads that agree.
func TestAuditVerify_WithoutSignedHeadsFails(t *testing.T) {
	address, _, _ := serveAudited(t, 3)
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(t.TempDir(), "heads.pub")
	if err := os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	absent := filepath.Join(t.TempDir(), "absent")
	if _, status, err := dvt(t, address, "dev-admin", "audit", "verify", "--heads", absent, "--heads-key",
		key); status == 0 {
		t.Errorf("a directory that does not exist: status 0, %v, want a failure", err)
	}
	if _, err := os.Stat(absent); err == nil {
		t.Error("verify created the directory that it should only read")
	}
	out, status, err := dvt(t, address, "dev-admin", "audit", "verify", "--heads", t.TempDir(), "--heads-key", key)
	if status != 1 || !strings.Contains(out, "holds no signed head of tenant acme") {
		t.Errorf("an empty directory: status %d, %v, want 1 and a problem\n%s", status, err, out)
	}
}

// A chain that was written as a whole is consistent. Only a head that was kept earlier shows that it is another one.
func TestAuditVerify_KeptHeadDetectsAnotherChain(t *testing.T) {
	address, _, _ := serveAudited(t, 3)
	out, status, _ := dvt(t, address, "dev-admin", "audit", "verify", "--head", "2:"+strings.Repeat("0", 64))
	if status != 1 || !strings.Contains(out, "this is not the chain of --head: number 2") {
		t.Errorf("status %d, want 1 and another chain:\n%s", status, out)
	}
	if _, status, _ = dvt(t, address, "dev-admin", "audit", "verify", "--head", "nonsense"); status != 2 {
		t.Errorf("--head nonsense: status %d, want 2", status)
	}
}

// The command computes the hash by itself, so that a server cannot hide a change. It must agree with the store.
func TestAuditHash_AgreesWithTheStore(t *testing.T) {
	_, _, s := serveAudited(t, 3)
	links, err := s.AuditLinks(t.Context(), store.AuditFilter{TenantID: "acme"})
	if err != nil || len(links) != 3 {
		t.Fatal(links, err)
	}
	previous := ""
	for _, l := range links {
		r := l.Row
		e := auditEntry{No: l.No, Id: l.ID, Row: &client.ReadAuditAuditAuditConnectionEdgesAuditEdgeNodeAuditEntryRowAuditRow{
			At: r.At, TenantId: r.TenantID, Actor: r.Actor, Action: r.Action, RunId: r.RunID, SignalId: r.SignalID,
			Outcome: r.Outcome, Code: string(r.Code),
			Reason: r.Reason, RequestId: r.RequestID, Detail: string(r.Detail), Format: r.Format, Credential: r.Credential,
			Address: r.Address, Via: r.Via,
			Object: r.Object, Digest: r.Digest,
		}}
		if got := auditHash(previous, e); got != hex.EncodeToString(l.Hash[:]) {
			t.Errorf("the hash of number %d is %s, want %x", l.No, got, l.Hash)
		}
		previous = hex.EncodeToString(l.Hash[:])
	}
}

// contract: Z02
func TestAuditExport_PrintsEveryRowOnceAndNoneOfAnotherTenant(t *testing.T) {
	address, _, _ := serveAudited(t, 250)
	out, status, err := dvt(t, address, "dev-admin", "audit", "export")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); status != 0 || len(lines) != 250 ||
		!strings.HasPrefix(lines[0], `{"no":1,`) {
		t.Errorf("status %d, %v, %d lines:\n%.300s", status, err, len(lines), out)
	}
	out, status, err = dvt(t, address, "dev-sre", "audit", "export", "--format", "csv", "--actor", "ola", "--from",
		"2026-01-01T00:00:00Z")
	if lines := strings.Split(strings.TrimSpace(out), "\n"); status != 0 || len(lines) != 251 ||
		!strings.HasPrefix(lines[0], "no,id,at,actor") {
		t.Errorf("status %d, %v, %d lines:\n%.300s", status, err, len(lines), out)
	}
	for args, want := range map[string]int{"--to 2020-01-01T00:00:00Z": 0, "--to yesterday": 2, "--format xml": 2} {
		if out, status, _ := dvt(t, address, "dev-admin", append([]string{"audit", "export"},
			strings.Fields(args)...)...); status != want || want == 0 && out != "" {
			t.Errorf("%s: status %d, want %d:\n%s", args, status, want, out)
		}
	}
	if _, status, err := dvt(t, address, "dev-engineer", "audit", "export"); status != 3 {
		t.Errorf("an engineer: status %d, %v, want 3", status, err)
	}
	if out, status, _ := dvt(t, address, "dev-mallory", "audit", "export"); status != 0 || out != "" {
		t.Errorf("another tenant: status %d, want 0 and no row:\n%s", status, out)
	}
}

// The owner of the database changes the log of a run after it was sealed.
func TestAuditVerify_ReportsALogThatChangedAfterItsSeal(t *testing.T) {
	for name, c := range map[string]struct{ do, says string }{
		"an event was changed": {"UPDATE event SET payload = x'7b7d' WHERE run_seq = 2",
			"an event between 1 and 3 was changed"},
		"an event got another time": {"UPDATE event SET persisted_at = persisted_at + 1000 WHERE run_seq = 3",
			"an event between 1 and 3 was changed"},
		"an event behind the end": {
			"INSERT INTO event (run_id, run_seq, key, event_id, type, step_id, signal_id, logical_attempt, engine_attempt, " +
				"emitted_at, persisted_at, " +
				"emitted_by, payload) " +
				"SELECT run_id, 4, key || 'x', event_id || 'x', 'StepStarted', 'a', '', 2, 1, emitted_at, persisted_at - " +
				"600000000, emitted_by, NULL FROM event WHERE run_seq = 3",
			"has events after its end at 3 that dvt did not seal"},
		"an event was removed":      {"DELETE FROM event WHERE run_seq = 2", "lacks events between 1 and 3"},
		"the end of it was removed": {"DELETE FROM event WHERE run_seq = 3", "lacks events between 1 and 3"},
		"all of it was removed":     {"DELETE FROM event", "lacks events between 1 and 3"},
		"a later row excuses a seal": {
			"INSERT INTO audit (id, at, tenant_id, actor, action, run_id, signal_id, outcome, code, reason, request_id, " +
				"object, digest, format) SELECT 'x', at + 1, tenant_id, actor, action, run_id, signal_id, outcome, code, " +
				"reason, request_id, object, '" + strings.Repeat("0", 64) + "', format FROM audit WHERE action = 'SEAL_LOG'",
			"1 rows were not written by dvt"},
	} {
		t.Run(name, func(t *testing.T) {
			address, file, s := serveAudited(t, 1)
			createSealedRun(t, s, "q")
			out, status, err := dvt(t, address, "dev-admin", "audit", "verify")
			if status != 0 || !strings.Contains(out, "3 objects (tokens,") {
				t.Fatalf("before tampering: status %d, %v, want 0 and 3 objects\n%s", status, err, out)
			}
			tamper(t, file, "DROP TRIGGER event_no_update", "DROP TRIGGER event_no_delete", c.do)
			out, status, err = dvt(t, address, "dev-admin", "audit", "verify")
			if status != 1 || !strings.Contains(out, c.says) {
				t.Errorf("status %d, %v; want 1 and %q:\n%s", status, err, c.says, out)
			}
		})
	}
}

// createSealedRun creates a run as control does, lets it end, and seals its log. All its rows are linked.
func createSealedRun(t *testing.T, s store.Store, request string) (runID string) {
	t.Helper()
	id := runtest.ID
	id.TenantID, id.RunID = "acme", "run-"+request
	fresh := store.NewRun{
		Run: store.Run{
			Identity: id, RequestID: request, TriggeredBy: "ola", TriggerSource: "api", Params: []byte(`{}`),
			RequestKey: run.RequestKey(id.TenantID, id.ProjectID, id.EnvironmentID, id.PlanID, id.PlanVersion, request),
			PlanRef: plan.Ref{SHA256: store.PlanSum([]byte(`{}`)), SchemaVersion: "v1.2", PlanID: id.PlanID,
				PlanVersion: id.PlanVersion},
		},
		Plan: []byte(`{}`), Enqueue: &store.Enqueue{Terms: store.Unlimited()},
		Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("a"),
			runtest.Draft(run.RunCancelled, "", 1)},
	}
	fresh.Audit = []store.AuditRow{store.AuditRowOfRun(store.AuditRow{
		ID: uuid.NewString(), TenantID: id.TenantID, Actor: "ola", Action: "START", RunID: id.RunID, Outcome: "ACCEPTED",
		Detail: fmt.Appendf(nil, `{"projectId":%q,"environmentId":%q,"planId":%q,"planVersion":%q,"planSha256":%q}`,
			id.ProjectID, id.EnvironmentID, id.PlanID, id.PlanVersion, fresh.Run.PlanRef.SHA256),
	}, fresh.Run)}
	if _, _, err := s.CreateRun(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	row, err := store.SealLog(t.Context(), s, id, store.LogSeal{}, 3)
	if err != nil {
		t.Fatal(err)
	}
	row.ID = uuid.NewString()
	if err := s.Audit(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if _, err := s.LinkAudit(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	return id.RunID
}

// serveAgain serves the API on a database as a restarted server does, which remembers no run.
func serveAgain(t *testing.T, file string) (address string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	address, _ = serveStore(t, s)
	return address
}

// A damaged row is a problem of its own. It does not hide the requester that was changed in another run.
func TestAuditVerify_DamageDoesNotHideAForgedRequester(t *testing.T) {
	const forged = `the requester is "mallory", recorded as "ola"`
	for name, c := range map[string]struct {
		do   []string
		says []string
	}{
		"a run was deleted": {[]string{"DELETE FROM run WHERE run_id = 'run-b'"},
			[]string{"run/run-b was removed: ola created it", "the run of the log that was sealed at "}},
		"a plan reference is no JSON": {[]string{"UPDATE run SET plan_ref = '{' WHERE run_id = 'run-b'"},
			[]string{"run run-b of tenant acme differs from the row that created it (number 4 of the audit)",
				"its plan reference cannot be read"}},
		"a policy is no JSON": {[]string{"UPDATE run SET policy = '{' WHERE run_id = 'run-b'"},
			[]string{"its policy cannot be read"}},
		"a row has a time that no clock shows": {
			[]string{"UPDATE audit SET at = -9000000000000000000 WHERE object = 'run/run-b'"},
			[]string{"number 4 was changed or moved"}},
		"a row has a detail that is no JSON": {[]string{"UPDATE audit SET detail = '{' WHERE object = 'run/run-b'"},
			[]string{"number 4 was changed or moved", "the detail of the row cannot be read"}},
		"a table cannot be read": {[]string{"DROP TABLE approval_decision"},
			[]string{"the check of decisions stopped behind its start, because a row cannot be read",
				"the check of removed objects stopped"}},
		"the links cannot be read": {[]string{"ALTER TABLE audit_link RENAME COLUMN hash TO was"},
			[]string{"the check stopped at number 1 of the audit"}},
		"a plan was deleted": {[]string{"DELETE FROM plan_body",
			"UPDATE run SET plan_ref = replace(plan_ref, '\"uri\":\"', " +
				"'\"uri\":\"" + store.InlinePlan + "')"}, []string{"the stored plan was removed"}},
	} {
		t.Run(name, func(t *testing.T) {
			address, file, s := serveAudited(t, 1)
			createSealedRun(t, s, "a")
			createSealedRun(t, s, "b")
			if out, status, err := dvt(t, address, "dev-admin", "audit", "verify"); status != 0 {
				t.Fatalf("before tampering: status %d, %v, want 0\n%s", status, err, out)
			}
			tamper(t, file, append(c.do, "UPDATE run SET triggered_by = 'mallory' WHERE run_id = 'run-a'")...)
			address = serveAgain(t, file)
			out, status, err := dvt(t, address, "dev-admin", "audit", "verify")
			if status != 1 {
				t.Errorf("status %d, %v, want 1", status, err)
			}
			data, _, _ := dvt(t, address, "dev-admin", "audit", "verify", "-o", "json")
			var check auditCheck
			if err := json.NewDecoder(strings.NewReader(data)).Decode(&check); err != nil {
				t.Fatalf("the JSON of verify: %v\n%s", err, data)
			}
			for _, want := range append(c.says, forged) {
				if !strings.Contains(out, want) {
					t.Errorf("verify does not report %q:\n%s", want, out)
				}
				if !strings.Contains(strings.Join(check.Problems, "\n"), want) {
					t.Errorf("the problems of -o json do not contain %q: %q", want, check.Problems)
				}
			}
			if !strings.Contains(out, "docs/operations.md#problems-of-the-audit") {
				t.Errorf("verify does not say what to do next:\n%s", out)
			}
		})
	}
}

// The row that made a run must name the run and every fact of it.
func TestAuditVerify_ReportsARunWhoseRowNamesNothing(t *testing.T) {
	address, file, s := serveAudited(t, 1)
	of := createSealedRun(t, s, "a")
	tamper(t, file,
		`CREATE TRIGGER audit_wait AFTER INSERT ON audit BEGIN INSERT INTO audit_pending (id) VALUES (NEW.id); END`,
		`INSERT INTO run SELECT 'forged', tenant_id, project_id, 'prod', plan_id, plan_version, NULL, request_id, plan_ref,
			'dev-sre', trigger_source, parent_run_id, params, policy, created_at FROM run WHERE run_id = '`+of+`'`,
		`INSERT INTO audit SELECT 'forged', at, tenant_id, 'dev-sre', action, 'forged', '', outcome, code, reason, request_id,
			'{}', format, credential, address, via, '', '' FROM audit WHERE object = 'run/`+of+`'`)
	forged, err := s.Get(t.Context(), "forged")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.LinkAudit(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	out, status, err := dvt(t, address, "dev-admin", "audit", "verify")
	if want := "run forged of tenant acme has no row that created it"; status != 1 || !strings.Contains(out, want) {
		t.Errorf("a row without an object: status %d, %v, want 1 and %q\n%s", status, err, want, out)
	}
	forged.RunID = "forged"
	if err := s.Audit(t.Context(), store.AuditRowOfRun(store.AuditRow{ID: uuid.NewString(), TenantID: "acme",
		Actor:  "dev-sre",
		Action: "START", RunID: "forged", Outcome: "ACCEPTED", Detail: []byte(`{}`)}, forged)); err != nil {
		t.Fatal(err)
	}
	out, status, err = dvt(t, address, "dev-admin", "audit", "verify")
	if want := `the environment is "prod", recorded as ""`; status != 1 || !strings.Contains(out, want) {
		t.Errorf("a row with an empty detail: status %d, %v, want 1 and %q\n%s", status, err, want, out)
	}
}

// The events of a run that was moved to another tenant did not change.
func TestAuditVerify_AMovedRunHasTheSameEvents(t *testing.T) {
	_, file, s := serveAudited(t, 1)
	runID := createSealedRun(t, s, "a")
	tamper(t, file, "UPDATE run SET tenant_id = 'globex' WHERE run_id = '"+runID+"'")
	address := serveAgain(t, file)
	out, status, _ := dvt(t, address, "dev-admin", "audit", "verify")
	if status != 1 || !strings.Contains(out, "run/"+runID+" was removed") || strings.Contains(out, "was changed") {
		t.Errorf("status %d, want 1 and only a removed run:\n%s", status, out)
	}
}
