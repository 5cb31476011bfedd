package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

const (
	forgedTokenID = "00000000-0000-4000-8000-0000000000aa"
	// forgedToken copies a token of tenant t1 under another id. %s are a column and its value, or "".
	forgedToken = `INSERT INTO api_token (%sid, tenant_id, name, principal, sha256, grants, created_by, created_at,
		expires_at) %sSELECT %s'` + forgedTokenID + `', tenant_id, name, principal, 'forged', grants, created_by, created_at,
		expires_at FROM api_token WHERE tenant_id = 't1'`
)

// putAuditedToken stores a token of tenant t1 and its audit row.
func (f *fixture) putAuditedToken(n int) store.StoredToken {
	f.Helper()
	t := store.StoredToken{ID: auditOf("t1", 100+n).ID, TenantID: "t1", Name: "ci", Principal: "ana", SHA256: "hash",
		Grants: json.RawMessage(`[]`), CreatedBy: "ana", ExpiresAt: time.Now().Add(time.Hour)}
	_, _, err := f.store.PutToken(f.ctx(), t, auditOf("t1", n))
	f.ok(err)
	return t
}

// The database refuses an object whose number lies below those that dvt counts from.
func testAuditObjectsNumbersBelowOneAreRefused(f *fixture) {
	id := f.createRequested(1, true)
	f.recordSignal(id, 10, "s", "", true)
	f.putAuditedToken(1)
	overriding := ""
	if f.isPostgres() {
		overriding = "OVERRIDING SYSTEM VALUE "
	}
	signal := `INSERT INTO signal (pos, run_id, signal_id, no, type, step_id, expected_attempt, force, payload, actor, reason,
		rejected, rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq,
		received_at) ` + overriding + `SELECT %d, run_id, 'forged', 99, type, step_id, expected_attempt, force, payload, actor,
		reason, rejected, rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq,
		received_at FROM signal`
	decision := `INSERT INTO approval_decision (pos, run_id, principal, approved, reason, request_id, at) ` + overriding +
		`SELECT %d, run_id, 'eve', (1 = 1), '', '', created_at FROM run`
	policy := `INSERT INTO policy (tenant_id, version, doc, actor, reason, request_id, at)
		SELECT 't1', %d, '{}', 'eve', '', '', created_at FROM run`
	setting := `INSERT INTO setting (kind, tenant_id, version, doc, actor, reason, request_id, at)
		SELECT 'QUOTA', 't1', %d, '{}', 'eve', '', '', created_at FROM run`
	token := strings.Replace(fmt.Sprintf(forgedToken, "pos, ", overriding, "#, "), "#", "%d", 1)
	for _, insert := range []string{signal, decision, policy, setting, token} {
		for _, number := range []int{-1, 0} {
			if err := f.db.Exec(f.T, fmt.Sprintf(insert, number)); err == nil {
				f.Errorf("%s succeeded, want an error", fmt.Sprintf(insert, number))
			}
		}
		f.ok(f.db.Exec(f.T, fmt.Sprintf(insert, 777)))
	}
}

// Only the chain of the object's own tenant accounts for it. For a setting that of the operators counts, too.
func testAuditObjectsRowsOfOtherTenantsDoNotVouch(f *fixture) {
	made := f.putAuditedToken(1)
	vouch := func(tenant string, n int, row store.AuditRow) {
		f.Helper()
		of := auditOf(tenant, n)
		of.Object, of.Digest = row.Object, row.Digest
		f.ok(f.store.Audit(f.ctx(), of))
	}
	f.ok(f.db.Exec(f.T, fmt.Sprintf(forgedToken, "", "", "")))
	forged := made
	forged.ID, forged.SHA256 = forgedTokenID, "forged"
	vouch("t2", 2, store.AuditRowOfToken(store.AuditRow{}, forged))
	vouch("t2", 3, store.AuditRowOfRevocation(store.AuditRow{}, made.ID))
	setting := store.StoredSetting{Kind: store.SettingFreeze, TenantID: "t1", Version: 1, Doc: json.RawMessage(`{}`),
		Actor: "eve"}
	_, err := f.store.PutSetting(f.ctx(), setting, auditOf("t2", 4))
	f.ok(err)
	mode := store.StoredSetting{Kind: store.SettingMode, Version: 1, Doc: json.RawMessage(`{}`), Actor: "eve"}
	_, err = f.store.PutSetting(f.ctx(), mode, auditOf("", 5))
	f.ok(err)
	f.linkAudit(100)
	objects := f.auditObjects("t1")
	f.equal("", objects["token/"+forgedTokenID].Made, "digest that the row of another tenant recorded")
	f.equal(false, objects["token/"+made.ID].Revocation, "revocation by a row of another tenant")
	f.equal("", objects["setting/FREEZE/t1/1"].Made, "digest of a setting that another tenant recorded")
	f.equal("", f.auditObjects("")["setting/MODE//1"].Made, "digest of a mode that a row of no tenant recorded")
	page, err := f.store.AuditObjects(f.ctx(), store.AuditObjectFilter{Kind: store.AuditSetting, TenantID: "t1",
		OperatorsTenant: "t2", Limit: 10})
	f.ok(err)
	f.equal(1, len(page), "settings of t1")
	f.equal(page[0].Digest, page[0].Made, "digest of a setting that the operators' tenant recorded")
}

// The owner of the database cannot put a later row first by a link of another tenant or by a number outside the chain.
func testAuditObjectsForgedLinksDoNotCount(f *fixture) {
	for n := range 10 {
		f.ok(f.store.Audit(f.ctx(), auditOf("t1", 500+n)))
	}
	f.linkAudit(100)
	token := f.putAuditedToken(1)
	id := f.createRequested(1, true)
	f.equal("t1", id.TenantID, "tenant of the run")
	f.recordSignal(id, 20, "s", "", true)
	head := f.append(id, runtest.Draft(run.StepStartedEvent, "s1", 1)).Head
	seal, err := store.SealLog(f.ctx(), f.store, id, store.LogSeal{}, head.LastSeq)
	f.ok(err)
	seal.ID = auditOf("t1", 30).ID
	f.ok(f.store.Audit(f.ctx(), seal))
	f.linkAudit(100)
	if !f.mayTamper() {
		return
	}
	hash := "zeroblob(32)"
	if f.isPostgres() {
		hash = "decode(repeat('00', 32), 'hex')"
		f.execAll(`ALTER TABLE audit_link DISABLE TRIGGER audit_link_next`)
	} else {
		f.execAll(`DROP TRIGGER audit_link_next`)
	}
	forged := 0
	forge := func(row store.AuditRow) {
		f.Helper()
		for _, link := range []struct {
			tenant string
			no     int
		}{{"t9", forged + 1}, {"t1", -forged - 1}} {
			forged++
			row.ID = auditOf("t1", 600+forged).ID
			f.ok(f.store.Audit(f.ctx(), row))
			f.execAll(fmt.Sprintf(`INSERT INTO audit_link (tenant_id, no, id, hash) VALUES ('%s', %d, '%s', %s)`, link.tenant,
				link.no, row.ID, hash))
		}
	}
	other := token
	other.Name = "other"
	forge(store.AuditRowOfToken(auditOf("t1", 0), other))
	start := auditOf("t1", 0)
	start.RunID, start.SignalID, start.Object, start.Digest = id.RunID, "", "run/"+id.RunID, "other"
	forge(start)
	signal := auditOf("t1", 0)
	signal.RunID, signal.SignalID, signal.Object, signal.Digest = id.RunID, "s", "signal/"+id.RunID+"/s", "other"
	forge(signal)
	otherSeal := seal
	otherSeal.Digest = strings.Repeat("0", 64)
	forge(otherSeal)
	gone := auditOf("t1", 0)
	gone.Object = "policy/9"
	forge(gone)

	for _, o := range f.auditObjects("t1") {
		f.equal(o.Digest, o.Made, "digest that the first row of "+o.Object+" recorded")
		if o.MadeNo <= 10 {
			f.Errorf("the row of %s has number %d, want one after 10", o.Object, o.MadeNo)
		}
	}
	last, err := f.store.LastLogSeal(f.ctx(), "t1", id.RunID, 1000)
	f.ok(err)
	f.equal(seal.Digest, fmt.Sprintf("%x", last.Hash), "digest of the last seal")
	missing, err := f.store.AuditMissing(f.ctx(), "t1", 0, 10)
	f.ok(err)
	f.equal(0, len(missing), "missing objects that a number of the chain names")
	waiting, stray, err := f.store.CountUnlinked(f.ctx(), "t1")
	f.ok(err)
	f.equal([]int64{int64(forged), 0}, []int64{waiting, stray}, "rows without a link of their chain")
}

func testAuditObjectsInvalidCursors(f *fixture) {
	f.equal("t1", f.run().TenantID, "tenant of the run")
	for kind, cursors := range map[store.AuditObjectKind][]string{store.AuditToken: {"x"}, store.AuditPolicy: {"1.5"},
		store.AuditSetting: {"QUOTA", "QUOTA/", "QUOTA/x"}, store.AuditDecision: {"99999999999999999999"},
		store.AuditSignal: {"9/short", "-1/r", "r"}} {
		for _, cursor := range cursors {
			_, err := f.store.AuditObjects(f.ctx(), store.AuditObjectFilter{Kind: kind, TenantID: "t1", After: cursor})
			f.wantError(err, store.ErrCursor)
		}
	}
	for _, kind := range []string{"A/B", "B"} { // a forged kind must not make the cursor of its setting invalid
		f.ok(f.db.Exec(f.T, `INSERT INTO setting (kind, tenant_id, version, doc, actor, reason, request_id, at)
			SELECT '`+kind+`', 't1', 1, '{}', 'eve', '', '', created_at FROM run`))
	}
	f.equal(3, len(f.auditObjects("t1")), "a run and two settings with forged kinds")
}

// An imported log may end in the future, and a clock may be set back. Then a receipt has the time of the newest event.
func testAuditSignalsLogInTheFuture(f *fixture) {
	made := newRun(identity(1))
	made.Run.CreatedAt = runtest.Epoch
	events := runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1"))
	for i := range events {
		events[i].RunID, events[i].PersistedAt = made.Run.RunID, time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	}
	f.ok(f.store.Import(f.ctx(), made, events))
	f.recordSignal(made.Run.Identity, 1, "s", "", true)
	f.recordSignal(made.Run.Identity, 2, "later", "", true)
	f.linkAudit(10)
	want := map[string]string{"run-001/s": "", "run-001/later": ""}
	f.equal(want, f.auditDifferences(store.AuditSignal, "t1"), "signals at the time of the newest event")
	if !f.mayTamper() {
		return
	}
	past := `received_at - 7200000000`
	future := `received_at + 7200000000`
	if f.isPostgres() {
		past, future = `received_at - interval '2 hours'`, `received_at + interval '2 hours'`
	}
	f.execAll(`UPDATE signal SET received_at = `+past+` WHERE signal_id = 's'`,
		`UPDATE signal SET received_at = `+future+` WHERE signal_id = 'later'`)
	for name, differences := range f.auditDifferences(store.AuditSignal, "t1") {
		if !strings.HasPrefix(differences, "time of arrival ") {
			f.Errorf("%s has the differences %q, want its time of arrival", name, differences)
		}
	}
}

// A forged signal may have the position of another one, where the database does not make positions unique.
func testAuditSignalsASharedPositionHidesNone(f *fixture) {
	if !f.isPostgres() {
		return
	}
	id := f.createRequested(1, true)
	f.recordSignal(id, 10, "s", "", true)
	f.execAll(`INSERT INTO signal (pos, run_id, signal_id, no, type, step_id, expected_attempt, force, payload, actor, reason,
		rejected, rejection, reject_text, application, application_reason, accepted_seq, applied_seq, quiescent_seq,
		received_at) OVERRIDING SYSTEM VALUE SELECT pos, run_id, 'twin', 99, type, step_id, expected_attempt, force, payload,
		actor, reason, rejected, rejection, reject_text, application, application_reason, accepted_seq, applied_seq,
		quiescent_seq, received_at FROM signal`)
	f.equal(map[string]string{id.RunID + "/s": "", id.RunID + "/twin": "no row"},
		f.auditDifferences(store.AuditSignal, id.TenantID), "signals with one position")
}
