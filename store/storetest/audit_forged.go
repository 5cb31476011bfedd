package storetest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
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

// ageAudit makes every row of the audit eight years older. It must come before the rows are linked.
func (f *fixture) ageAudit() {
	f.Helper()
	if owned, ok := f.db.(interface {
		ExecAsOwner(t testing.TB, statement string) error
	}); ok {
		f.ok(owned.ExecAsOwner(f.T, `ALTER TABLE audit DISABLE TRIGGER audit_insert_only`))
		f.ok(owned.ExecAsOwner(f.T, `UPDATE audit SET at = at - interval '8 years'`))
		f.ok(owned.ExecAsOwner(f.T, `ALTER TABLE audit ENABLE TRIGGER audit_insert_only`))
		return
	}
	f.ok(f.db.Exec(f.T, `DROP TRIGGER audit_no_update`))
	f.ok(f.db.Exec(f.T, `UPDATE audit SET at = at - 252460800000000`))
}

// recordCut writes and links the audit row of a cut of tenant t1, and returns its id.
func (f *fixture) recordCut(n int, no int64, digest string) string {
	f.Helper()
	row := store.AuditRow{ID: auditOf("t1", n).ID, TenantID: "t1", Actor: "dvt", Action: store.ActionCutAudit,
		Outcome: "ACCEPTED", Object: store.AuditCutObject(no), Digest: digest}
	f.ok(f.store.Audit(f.ctx(), row))
	f.linkAudit(10)
	return row.ID
}

// oldAudit makes eight old rows of tenant t1: number 3 made a policy, 6 speaks of a run that exists. Number 9 is young.
func (f *fixture) oldAudit() []store.AuditLink {
	f.Helper()
	id := identity(1)
	f.create(newRun(id))
	f.linkAudit(100)
	if n := f.db.Count(f, `SELECT count(*) FROM audit`); n != 0 {
		f.Fatalf("the audit has %d rows before, want none", n)
	}
	row := func(n int, run, object string) store.AuditRow {
		r := auditOf("t1", n)
		r.RunID, r.SignalID, r.Object = run, "", object
		return r
	}
	f.ok(f.store.Audit(f.ctx(), row(1, "", ""), row(2, "gone", "run/gone"), row(3, "", "policy/1"), row(4, "", ""),
		row(5, "", "token/a/b"), row(6, id.RunID, ""), row(7, "", ""), row(8, "", ""), auditOf("t2", 20)))
	f.ageAudit()
	f.linkAudit(100)
	f.ok(f.store.Audit(f.ctx(), row(9, "", "")))
	f.linkAudit(100)
	return f.auditLinks(store.AuditFilter{TenantID: "t1"})
}

func testAuditIsCutAtItsRecord(f *fixture) {
	links := f.oldAudit()
	before := time.Now().AddDate(-7, 0, 0)
	for _, c := range []struct {
		tenant string
		after  int64
		limit  int
		want   int64
	}{{"t1", 0, 100, 5}, {"t1", 0, 2, 2}, {"t1", 5, 100, 5}, {"t1", 6, 100, 8}, {"t2", 0, 100, 1}, {"t3", 0, 100, 0}} {
		p, err := f.store.PlanAuditCut(f.ctx(), c.tenant, c.after, before, c.limit)
		f.ok(err)
		f.equal(c.want, p.End, fmt.Sprintf("the end of a cut of %s after %d", c.tenant, c.after))
	}
	p, err := f.store.PlanAuditCut(f.ctx(), "t1", 0, before, 100)
	f.ok(err)
	f.equal(links[4].Hash, p.Hash, "the hash at the end")
	digest := func(no int64) string { return hex.EncodeToString(links[no-1].Hash[:]) }
	for i, no := range []int64{6, 9, 400} { // speaks of a run, is young, does not exist
		_, err := f.store.CutAudit(f.ctx(), "t1", f.recordCut(30+i, no, digest(min(no, 9))), 0, 100)
		f.wantError(err, store.ErrConflict)
	}
	_, err = f.store.CutAudit(f.ctx(), "t1", f.recordCut(40, 5, digest(4)), 0, 100)
	f.wantError(err, store.ErrConflict)
	_, err = f.store.CutAudit(f.ctx(), "t1", auditOf("t1", 9).ID, 0, 100)
	f.wantError(err, store.ErrConflict)
	f.equal(8+1+4, f.db.Count(f, `SELECT count(*) FROM audit WHERE tenant_id = 't1'`), "rows after refused cuts")
	for _, table := range []string{"audit", "audit_link"} {
		if err := f.db.Exec(f.T, `DELETE FROM `+table+` WHERE tenant_id = 't1'`); err == nil {
			f.Errorf("somebody can delete rows of %s past the store", table)
		}
	}
	id := f.recordCut(50, 5, digest(5))
	_, err = f.store.CutAudit(f.ctx(), "t2", id, 0, 100)
	f.wantError(err, store.ErrConflict)
	at := int64(0)
	for _, want := range []int64{2, 4, 5} {
		at, err = f.store.CutAudit(f.ctx(), "t1", id, at, 2)
		f.ok(err)
		f.equal(want, at, "the last link of a batch")
		state, err := f.store.AuditCut(f.ctx(), "t1")
		f.ok(err)
		f.equal([]any{int64(5), id, want == 5}, []any{state.No, state.RowID, state.EndedAt != nil}, "the state of the cut")
	}
	at, err = f.store.CutAudit(f.ctx(), "t1", id, 0, 100) // a repetition
	f.ok(err)
	f.equal(int64(5), at, "the last link of a repetition")
	left := f.auditLinks(store.AuditFilter{TenantID: "t1", WithMissingRows: true, Limit: 8})
	var numbers []int64
	for i, l := range left {
		numbers = append(numbers, l.No)
		if l.Row != nil && l.Hash != l.Row.Link(left[max(i-1, 0)].Hash, l.No) {
			f.Errorf("the hash of number %d cannot be computed from the link before it", l.No)
		}
	}
	f.equal([]int64{2, 3, 4, 5, 6, 7, 8, 9}, numbers, "the links that stay")
	f.equal([]bool{true, false, true, false, false}, []bool{left[0].Row == nil, left[1].Row == nil, left[2].Row == nil,
		left[3].Row == nil, left[4].Row == nil}, "which rows are gone: all but those that made a policy or a token")
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM audit WHERE tenant_id = 't2'`), "rows of another tenant")
	_, err = f.store.CutAudit(f.ctx(), "t1", f.recordCut(60, 4, digest(4)), 0, 100)
	f.wantError(err, store.ErrConflict) // a cut below the one that is there
	end := f.auditLinks(store.AuditFilter{TenantID: "t1", Newest: true, Limit: 1})
	f.equal(int64(9+4+2), end[0].No, "the chain continues behind the cut")
	if err := f.db.Exec(f.T, `DELETE FROM audit WHERE tenant_id = 't1'`); err == nil {
		f.Error("somebody can delete rows behind the cut past the store")
	}
}

func testAuditIsNotCutDuringAHoldOrAnErasure(f *fixture) {
	links := f.oldAudit()
	id := f.recordCut(50, 5, hex.EncodeToString(links[4].Hash[:]))
	f.hold(store.HoldPlan, "sales") // its runs keep the rows that speak of them
	h := f.hold(store.HoldSubject, "ann")
	refused := func(want store.ArchiveObstacle) {
		f.Helper()
		p, err := f.store.PlanAuditCut(f.ctx(), "t1", 0, time.Now().AddDate(-7, 0, 0), 100)
		f.ok(err)
		f.equal(want, p.Obstacle, "the obstacle of a plan")
		_, err = f.store.CutAudit(f.ctx(), "t1", id, 0, 100)
		f.obstacle(want, err, "the obstacle of a cut")
	}
	refused(store.ObstacleHeld)
	_, _, err := f.store.LiftHold(f.ctx(), "t1", h.ID, "bob", "over", auditRow("t1"))
	f.ok(err)
	e, err := f.store.RequestErasure(f.ctx(), store.Erasure{ID: "e1", Kind: store.EraseSubject, TenantID: "t1",
		Subject: "ann", Reason: "law", RequestedBy: "ola"}, time.Hour, auditRow("t1"))
	f.ok(err)
	refused(store.ObstacleErasure)
	_, err = f.store.DecideErasure(f.ctx(), "t1", e.ID, "bob", false, auditRow("t1"))
	f.ok(err)
	_, err = f.store.CutAudit(f.ctx(), "t1", id, 0, 100)
	f.ok(err)
}
