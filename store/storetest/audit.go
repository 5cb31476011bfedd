package storetest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var auditCases = []testCase{
	// contract: T208
	{"AuditIsInsertOnly", testAuditIsInsertOnly},
	// contract: T208
	{"AuditLinksFormAChain", testAuditLinksFormAChain},
	// contract: T208
	{"ManyServersFormOneChain", testManyServersFormOneChain},
	// contract: Z02
	{"AuditLinksAreFiltered", testAuditLinksAreFiltered},
	// contract: T208
	{"AuditTextIsSanitized", testAuditTextIsSanitized},
	{"AuditLink_OnlyTheNextNumberOfARow", testAuditLinkOnlyTheNextNumberOfARow},
	{"AuditBacklog_NamesTheOldestRow", testAuditBacklogNamesTheOldestRow},
	{"AuditObjects_NameTheRowThatMadeThem", testAuditObjectsNameTheRowThatMadeThem},
	{"LogSeals_ChainTheLogOfARun", testLogSealsChainTheLogOfARun},
	{"AuditRuns_NameTheRowOfTheirRequest", testAuditRunsNameTheRowOfTheirRequest},
	{"AuditRuns_DamagedRowsDoNotHideOthers", testAuditRunsDamagedRowsDoNotHideOthers},
	{"AuditRuns_CompareHeadsTimesAndApprovals", testAuditRunsCompareHeadsTimesAndApprovals},
	{"AuditRuns_PlansHaveTheirDigest", testAuditRunsPlansHaveTheirDigest},
	{"AuditSignals_NameTheRowOfTheirReceipt", testAuditSignalsNameTheRowOfTheirReceipt},
	{"AuditMissing_NamesRunsAndSignalsThatAreGone", testAuditMissingNamesRunsAndSignalsThatAreGone},
	{"AuditRuns_ImportsHaveTheirRows", testAuditRunsImportsHaveTheirRows},
	{"AuditObjects_NumbersBelowOneAreRefused", testAuditObjectsNumbersBelowOneAreRefused},
	{"AuditObjects_RowsOfOtherTenantsDoNotVouch", testAuditObjectsRowsOfOtherTenantsDoNotVouch},
	{"AuditObjects_ForgedLinksDoNotCount", testAuditObjectsForgedLinksDoNotCount},
	{"AuditObjects_InvalidCursors", testAuditObjectsInvalidCursors},
	{"AuditSignals_LogInTheFuture", testAuditSignalsLogInTheFuture},
	{"AuditSignals_ASharedPositionHidesNone", testAuditSignalsASharedPositionHidesNone},
}

func auditOf(tenant string, n int) store.AuditRow {
	return store.AuditRow{
		ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), TenantID: tenant, Actor: fmt.Sprintf("p%d", n%3),
		Action: "PAUSE", RunID: "r1", SignalID: "s1",
		Outcome: "ACCEPTED", Code: "RUN_MOVED", Reason: "because of <this> & „that“", RequestID: "q",
		Detail:     json.RawMessage(`{"a": 1}`),
		Credential: "token:t-1", Address: "192.0.2.7", Via: "http",
	}
}

func (f *fixture) auditLinks(af store.AuditFilter) []store.AuditLink {
	f.Helper()
	out, err := f.store.AuditLinks(f.ctx(), af)
	f.ok(err)
	return out
}

func (f *fixture) linkAudit(limit int) int {
	f.Helper()
	n, err := f.store.LinkAudit(f.ctx(), limit)
	f.ok(err)
	return n
}

// checkChain checks that links form a chain from the first link of a tenant.
func (f *fixture) checkChain(links []store.AuditLink) {
	f.Helper()
	var before [sha256.Size]byte
	for i, l := range links {
		if l.Row == nil || l.No != int64(i)+1 || l.ID != l.Row.ID || l.Hash != l.Row.Link(before, l.No) {
			f.Fatalf("link %d does not continue the chain: %+v of row %+v", i+1, l, l.Row)
		}
		before = l.Hash
	}
}

// No text of a caller may keep its row out of the audit or break the chain.
func testAuditTextIsSanitized(f *fixture) {
	reasons := []string{"probe\x00", strings.Repeat("a", 999) + "\xc3", "\x1b]52;c;eA==\x07", "\u009b31m", "ok é"}
	want := []string{"probe\uFFFD", strings.Repeat("a", 999) + "\uFFFD", "\uFFFD]52;c;eA==\uFFFD", "\uFFFD31m", "ok é"}
	for i, reason := range reasons {
		row := auditOf("t1", i+1)
		row.Reason, row.RunID = reason, "r\x00"
		f.ok(f.store.Audit(f.ctx(), row))
	}
	f.equal(len(reasons), f.linkAudit(100), "links")
	links := f.auditLinks(store.AuditFilter{TenantID: "t1", Limit: 100})
	f.checkChain(links)
	for i, l := range links {
		f.equal(want[i], l.Row.Reason, "reason")
		f.equal("r\uFFFD", l.Row.RunID, "runId")
	}
	f.raise(store.Alert{
		ID: "00000000-0000-4000-8000-000000000099", TenantID: "t1", ProjectID: "p1", RunID: "r1", Level: store.AlertLow,
		Note: "note\x00\xff", Actor: "ana",
	})
	alerts := f.alerts(store.AlertFilter{TenantID: "t1", Limit: 10})
	f.equal("note\uFFFD\uFFFD", alerts[0].Note, "note of the alert")
}

func testAuditLinksFormAChain(f *fixture) {
	rows := []store.AuditRow{auditOf("t1", 1), auditOf("t2", 2), auditOf("t1", 3)}
	rows[2].Detail = nil
	f.ok(f.store.Audit(f.ctx(), rows...))
	waiting, stray, err := f.store.CountUnlinked(f.ctx(), "t1")
	f.ok(err)
	f.equal([]int64{2, 0}, []int64{waiting, stray}, "waiting and stray")
	f.equal(0, len(f.auditLinks(store.AuditFilter{TenantID: "t1"})), "links before the first linking")
	f.equal(2, f.linkAudit(2), "a bounded call")
	f.equal(1, f.linkAudit(10), "the rest")
	f.equal(0, f.linkAudit(10), "links when no row waits")
	f.ok(f.store.Audit(f.ctx(), rows[0], auditOf("t1", 4)))
	f.equal(1, f.linkAudit(10), "links: a known row is not linked again")
	t1 := f.auditLinks(store.AuditFilter{TenantID: "t1"})
	f.equal(3, len(t1), "links of t1")
	f.checkChain(t1)
	f.checkChain(f.auditLinks(store.AuditFilter{TenantID: "t2"}))
	got := *t1[0].Row
	if time.Since(got.At).Abs() > time.Minute {
		f.Errorf("the row was written at %v, want about now", got.At)
	}
	f.equal(2, got.Format, "format")
	got.At, got.Format = time.Time{}, 0
	f.equal(rows[0], got, "row")
	f.equal(0, len(f.auditLinks(store.AuditFilter{})), "links of no tenant")
	for _, s := range []string{`DELETE FROM audit_link`, `UPDATE audit_link SET no = no + 1`} {
		if err := f.db.Exec(f.T, s); err == nil {
			f.Errorf("%s succeeded, want an error", s)
		}
	}
	waiting, stray, err = f.store.CountUnlinked(f.ctx(), "t1")
	f.ok(err)
	f.equal([]int64{0, 0}, []int64{waiting, stray}, "waiting and stray in the end")
	f.ok(f.store.Audit(f.ctx(), auditOf("t1", 5)))
	want := []int64{0, 1}
	if f.db.Exec(f.T, `DELETE FROM audit_pending`) != nil {
		want = []int64{1, 0} // the database role of servers has no right to delete the row
	}
	waiting, stray, err = f.store.CountUnlinked(f.ctx(), "t1")
	f.ok(err)
	f.equal(want, []int64{waiting, stray}, "waiting and stray after a row was deleted from the queue")
}

func testManyServersFormOneChain(f *fixture) {
	const servers, rows = 4, 200
	stores := make([]store.Store, servers)
	for i := range stores {
		stores[i] = f.db.Open(f.T)
	}
	f.concurrently(2*servers, func(i int) error {
		s := stores[i%servers]
		for n := range rows / servers {
			if i < servers {
				if err := s.Audit(f.ctx(), auditOf(fmt.Sprintf("t%d", n%2), i*rows+n)); err != nil {
					return err
				}
			} else if _, err := s.LinkAudit(f.ctx(), 7); err != nil {
				return err
			}
		}
		return nil
	})
	for f.linkAudit(1000) > 0 {
		continue
	}
	n := 0
	for _, tenant := range []string{"t0", "t1"} {
		links := f.auditLinks(store.AuditFilter{TenantID: tenant})
		f.checkChain(links)
		n += len(links)
	}
	f.equal(rows, n, "links")
}

func testAuditLinksAreFiltered(f *fixture) {
	for n := range 9 {
		r := auditOf("t1", n+1)
		r.RunID, r.RequestID = fmt.Sprintf("r%d", n%2), fmt.Sprintf("q%d", n)
		f.ok(f.store.Audit(f.ctx(), r))
	}
	f.linkAudit(100)
	numbers := func(af store.AuditFilter) []int64 {
		af.TenantID = "t1"
		out := []int64{}
		for _, l := range f.auditLinks(af) {
			out = append(out, l.No)
		}
		return out
	}
	f.equal([]int64{1, 2, 3}, numbers(store.AuditFilter{Limit: 3}), "a page")
	f.equal([]int64{4, 5}, numbers(store.AuditFilter{After: 3, Before: 6}), "between")
	f.equal([]int64{9, 8}, numbers(store.AuditFilter{Newest: true, Limit: 2}), "the newest")
	f.equal([]int64{1, 3, 5, 7, 9}, numbers(store.AuditFilter{RunID: "r0"}), "of a run")
	f.equal([]int64{3, 6, 9}, numbers(store.AuditFilter{Actor: "p0"}), "of an actor")
	f.equal([]int64{}, numbers(store.AuditFilter{Action: "RESUME"}), "of an action")
	f.equal([]int64{}, numbers(store.AuditFilter{Outcome: "DENIED"}), "of an outcome")
	f.equal([]int64{5}, numbers(store.AuditFilter{RequestID: "q4"}), "of a request")
	f.equal([]int64{}, numbers(store.AuditFilter{RequestID: "q"}), "the beginning of the id of a request")
	f.equal([]int64{1, 3, 5, 7, 9}, numbers(store.AuditFilter{RunPrefix: "r0"}), "of runs by the start of their id")
	f.equal(9, len(numbers(store.AuditFilter{RunPrefix: "r"})), "of all runs by the start of their id")
	f.equal([]int64{}, numbers(store.AuditFilter{RunPrefix: "0"}), "the end of an id is no start")
	f.equal([]int64{3, 6, 9}, numbers(store.AuditFilter{ActorPart: "0"}), "by a part of the actor")
	f.equal([]int64{}, numbers(store.AuditFilter{ActorPart: "%"}), "a part is no pattern")
	f.equal(9, len(numbers(store.AuditFilter{ActionPart: "aus"})), "by a part of the action, which is in upper case")
	at := f.auditLinks(store.AuditFilter{TenantID: "t1", After: 3, Limit: 1})[0].Row.At
	f.equal([]int64{4, 5, 6, 7, 8, 9}, numbers(store.AuditFilter{From: at, WithMissingRows: true}), "from a time")
	f.equal([]int64{1, 2, 3}, numbers(store.AuditFilter{To: at}), "to a time")
}

// The database refuses every INSERT of a link that would break the chain or stop the chain of another tenant.
func testAuditLinkOnlyTheNextNumberOfARow(f *fixture) {
	f.ok(f.store.Audit(f.ctx(), auditOf("t1", 1), auditOf("t2", 2)))
	f.equal(2, f.linkAudit(10), "links")
	const insert = `INSERT INTO audit_link (tenant_id, no, id, hash) VALUES ('t1', %s, '%s', %s)`
	hash := "decode(repeat('00', 32), 'hex')"
	if f.db.Exec(f.T, `SELECT decode('00', 'hex')`) != nil {
		hash = "zeroblob(32)"
	}
	for _, forged := range []struct{ name, no, id string }{
		{"the greatest number", "9223372036854775807", auditOf("t1", 77).ID},
		{"no row", "2", auditOf("t1", 77).ID},
		{"the row of another tenant", "2", auditOf("t2", 2).ID},
		{"a row that has a link", "2", auditOf("t1", 1).ID},
	} {
		if err := f.db.Exec(f.T, fmt.Sprintf(insert, forged.no, forged.id, hash)); err == nil {
			f.Errorf("a link with %s was inserted, want an error", forged.name)
		}
	}
	f.ok(f.store.Audit(f.ctx(), auditOf("t1", 3), auditOf("t2", 4)))
	f.equal(2, f.linkAudit(10), "links after the forgeries")
	for _, tenant := range []string{"t1", "t2"} {
		links := f.auditLinks(store.AuditFilter{TenantID: tenant})
		f.equal(2, len(links), "links of "+tenant)
		f.checkChain(links)
	}
	heads, err := f.store.AuditHeads(f.ctx(), "", 10)
	f.ok(err)
	f.equal([]string{"t1", "t2"}, []string{heads[0].TenantID, heads[1].TenantID}, "tenants of the heads")
	end := f.auditLinks(store.AuditFilter{TenantID: "t1", Newest: true, Limit: 1})[0]
	f.equal(store.AuditHead{TenantID: "t1", No: 2, Hash: fmt.Sprintf("%x", end.Hash)}, heads[0], "head of t1")
	heads, err = f.store.AuditHeads(f.ctx(), "t1", 10)
	f.ok(err)
	f.equal(1, len(heads), "heads after t1")
	ends, err := f.store.AuditEnds(f.ctx(), []string{"t2", "nobody", "t1"})
	f.ok(err)
	f.equal(map[string]int64{"t1": 2, "t2": 2}, ends, "ends of the chains")
}

func testAuditBacklogNamesTheOldestRow(f *fixture) {
	none, err := f.store.AuditBacklog(f.ctx(), 10)
	f.ok(err)
	f.equal(0, len(none), "backlog of an empty store")
	f.ok(f.store.Audit(f.ctx(), auditOf("t2", 1)))
	f.ok(f.store.Audit(f.ctx(), auditOf("t1", 2), auditOf("t2", 3)))
	backlog, err := f.store.AuditBacklog(f.ctx(), 10)
	f.ok(err)
	f.equal(2, len(backlog), "tenants with a backlog")
	f.equal("t2", backlog[0].TenantID, "the tenant with the oldest row")
	if w := backlog[0].Waiting; w < 0 || w > time.Minute || time.Since(backlog[0].Oldest).Abs() > time.Minute {
		f.Errorf("the oldest row has waited %s since %s, want some milliseconds until now", w, backlog[0].Oldest)
	}
	f.linkAudit(10)
	none, err = f.store.AuditBacklog(f.ctx(), 10)
	f.ok(err)
	f.equal(0, len(none), "backlog after the linking")
}

// auditObjects reads the objects of a tenant in pages of one.
func (f *fixture) auditObjects(tenantID string) map[string]store.AuditObject {
	f.Helper()
	out := map[string]store.AuditObject{}
	for _, kind := range store.AuditObjectKinds() {
		for after := ""; ; {
			page, err := f.store.AuditObjects(f.ctx(), store.AuditObjectFilter{Kind: kind, TenantID: tenantID, After: after,
				Limit: 1, OperatorsTenant: "t1"})
			f.ok(err)
			if len(page) == 0 {
				break
			}
			after = page[0].Cursor
			out[page[0].Object] = page[0]
		}
	}
	return out
}

func testAuditObjectsNameTheRowThatMadeThem(f *fixture) {
	row := func(n int) store.AuditRow { return auditOf("t1", n) }
	for i, name := range []string{"first", "second"} {
		_, _, err := f.store.PutToken(f.ctx(), store.StoredToken{
			ID: row(100 + i).ID, TenantID: "t1", Name: name, Principal: "ana", Groups: []string{"b", "a"}, SHA256: name,
			Grants:    json.RawMessage(`[ {"a":1}]`),
			CreatedBy: "ana", ExpiresAt: time.Now().Add(time.Hour),
		}, row(1+i))
		f.ok(err)
	}
	_, _, err := f.store.RevokeToken(f.ctx(), "t1", row(101).ID, "ana", row(3))
	f.ok(err)
	for version := range int64(2) {
		_, err := f.store.PutPolicy(f.ctx(), store.StoredPolicy{
			TenantID: "t1", Version: version + 1, Doc: json.RawMessage(`{ "é": 1}`), Actor: "ana", Reason: "because",
			RequestID: "q",
		}, row(10+int(version)))
		f.ok(err)
		_, err = f.store.PutSetting(f.ctx(), store.StoredSetting{
			Kind: store.SettingQuota, TenantID: "t1", Version: version + 1, Doc: json.RawMessage(`{}`), Actor: "ana",
			Reason: "because", RequestID: "q",
		}, row(20+int(version)))
		f.ok(err)
	}
	_, err = f.store.PutSetting(f.ctx(), store.StoredSetting{Kind: store.SettingMode, Version: 1,
		Doc: json.RawMessage(`{}`), Actor: "ana"}, row(30))
	f.ok(err)
	f.equal(0, len(f.auditObjects("t2")), "objects of another tenant")
	f.equal(1, len(f.auditObjects("")), "objects of the installation")
	missing := func() (objects []string) {
		f.Helper()
		for after := int64(0); ; {
			page, err := f.store.AuditMissing(f.ctx(), "t1", after, 1)
			f.ok(err)
			if len(page) == 0 {
				return objects
			}
			after, objects = page[0].No, append(objects, page[0].Row.Object)
		}
	}
	f.linkAudit(100)
	f.equal([]string(nil), missing(), "missing objects")
	gone := row(60)
	gone.Object, gone.Digest = "policy/9", "x"
	f.ok(f.store.Audit(f.ctx(), gone))
	f.linkAudit(100)
	f.equal([]string{"policy/9"}, missing(), "missing objects after a row without its policy")
	objects := f.auditObjects("t1")
	f.equal(6, len(objects), "objects of t1")
	for name, o := range objects {
		f.equal(o.Digest, o.Made, "digest that the row of "+name+" recorded")
		f.equal(o.Revoked, o.Revocation, "revocation of "+name)
	}
	f.equal(true, objects["token/"+row(101).ID].Revoked, "revoked")
	f.ok(f.db.Exec(f.T, `INSERT INTO policy (tenant_id, version, doc, actor, reason, request_id, at) SELECT tenant_id, 3, doc, actor, reason, request_id, at FROM policy WHERE version = 2`))
	f.equal("", f.auditObjects("t1")["policy/3"].Made, "row of a policy that was not written by dvt")
}

// A seal continues from the seal before it. Only the first row for a seal counts. Filters can exclude seals.
func testLogSealsChainTheLogOfARun(f *fixture) {
	id, other := f.run(), f.run()
	last := func(below run.Seq) store.LogSeal {
		f.Helper()
		seal, err := f.store.LastLogSeal(f.ctx(), id.TenantID, id.RunID, below)
		f.ok(err)
		return seal
	}
	seal := func(to run.Seq) store.AuditRow {
		f.Helper()
		row, err := store.SealLog(f.ctx(), f.store, id, last(to), to)
		f.ok(err)
		row.ID = fmt.Sprintf("00000000-0000-4000-9000-%012d", to)
		f.ok(f.store.Audit(f.ctx(), row))
		return row
	}
	f.equal(store.LogSeal{}, last(1000), "seal of a log that has none")
	head := f.append(id, runtest.Draft(run.StepStartedEvent, "s1", 1)).Head
	first := seal(head.LastSeq)
	f.equal(head.LastSeq, last(head.LastSeq+1).Seq, "event of the first seal")
	f.equal(store.LogSeal{}, last(head.LastSeq), "seal below the first one")

	end := f.append(id, runtest.Draft(run.StepCompletedEvent, "s1", 1), runtest.Draft(run.StepStartedEvent, "s2", 1)).Head
	_, err := store.SealLog(f.ctx(), f.store, id, last(end.LastSeq+1), end.LastSeq+1)
	f.wantError(err, store.ErrLogShort)
	second := seal(end.LastSeq)
	whole, err := store.LogHash(f.ctx(), f.store, id.RunID, store.LogSeal{}, end.LastSeq)
	f.ok(err)
	f.equal(whole, last(end.LastSeq+1), "the second seal against the hash of the whole log")
	if first.Digest == second.Digest {
		f.Errorf("both seals of the log have the digest %s, want different ones", first.Digest)
	}

	forged := second
	forged.ID, forged.Digest = auditOf("t1", 7).ID, first.Digest
	f.ok(f.store.Audit(f.ctx(), forged))
	f.equal(whole, last(end.LastSeq+1), "seal after a later row for the same event")
	for n, object := range []string{"log/" + id.RunID + "/00000000000A", "log/" + id.RunID + "/0000000000009", "log/" +
		id.RunID + "/000000000002"} {
		odd := second
		odd.ID, odd.Object = auditOf("t1", 20+n).ID, object
		if n == 2 {
			odd.Digest = "no hash"
		}
		f.ok(f.store.Audit(f.ctx(), odd))
	}
	f.equal(whole, last(end.LastSeq+10), "seal after rows with an invalid object or digest")
	f.equal(store.LogSeal{}, last(3), "seal at 2, whose digest is invalid")
	denied := second
	denied.ID, denied.Outcome, denied.Object = auditOf("t1", 8).ID, "DENIED", store.LogSealObject(id.RunID, end.LastSeq+1)
	f.ok(f.store.Audit(f.ctx(), denied))
	f.equal(whole, last(end.LastSeq+2), "seal after a row that was denied")
	elsewhere, err := f.store.LastLogSeal(f.ctx(), id.TenantID, other.RunID, 1000)
	f.ok(err)
	f.equal(store.LogSeal{}, elsewhere, "seal of another run")
	elsewhere, err = f.store.LastLogSeal(f.ctx(), "t-of-others", id.RunID, 1000)
	f.ok(err)
	f.equal(store.LogSeal{}, elsewhere, "seal in another tenant")

	row := auditOf(id.TenantID, 9)
	f.ok(f.store.Audit(f.ctx(), row))
	f.equal(8, f.linkAudit(10), "links")
	f.equal(8, len(f.auditLinks(store.AuditFilter{TenantID: id.TenantID, Limit: 10})), "all links")
	without := f.auditLinks(store.AuditFilter{TenantID: id.TenantID, Limit: 10, WithoutSeals: true, WithMissingRows: true})
	f.equal(1, len(without), "links without seals")
	f.equal(row.ID, without[0].ID, "row without seals")
}
