package storetest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

var maintenanceCases = []testCase{
	{"AllRunsComeInPages", testAllRunsComeInPages},
	{"CheckpointReturnsTheStoredState", testCheckpointReturnsTheStoredState},
	// contract: T193
	{"DropCheckpointChangesNoResult", testDropCheckpointChangesNoResult},
	// contract: T30
	{"RepairedPermitsAShorterLog", testRepairedPermitsAShorterLog},
}

func testAllRunsComeInPages(f *fixture) {
	var want []string
	for n := range 5 {
		id := identity(n + 1)
		id.TenantID = fmt.Sprintf("t%d", n%2)
		f.create(newRun(id))
		want = append(want, id.RunID)
	}
	var got []string
	for after := ""; ; {
		page, err := f.store.AllRuns(f.ctx(), after, 2)
		f.ok(err)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			got = append(got, r.RunID)
			one, err := f.store.Get(f.ctx(), r.RunID)
			f.ok(err)
			f.equal(one, r, "run")
		}
		after = got[len(got)-1]
	}
	f.equal(want, got, "runs of every tenant")
}

func testCheckpointReturnsTheStoredState(f *fixture) {
	id := f.run()
	f.append(id, stepStarted("s1", 1))
	saved := f.load(id)
	f.save(saved)
	f.append(id, stepCompleted("s1", 1))
	got, err := f.store.Checkpoint(f.ctx(), id.RunID)
	f.ok(err)
	f.equal(saved.State, got, "checkpoint, which is not folded with newer events")
	_, err = f.store.Checkpoint(f.ctx(), "nobody")
	f.wantError(err, store.ErrNotFound)
	f.ok(f.store.DropCheckpoint(f.ctx(), id.RunID))
	_, err = f.store.Checkpoint(f.ctx(), id.RunID)
	f.wantError(err, store.ErrNotFound)
}

func testDropCheckpointChangesNoResult(f *fixture) {
	id := f.run()
	f.append(id, stepStarted("s1", 1), stepCompleted("s1", 1), stepStarted("s2", 1))
	f.save(f.load(id))
	f.markPublished(id, 5, f.head(id).OpsRev)
	f.equal(0, len(f.dirtyRuns(0)), "clean")
	before, listed := f.checkFold(id), f.list(store.RunFilter{Limit: 10})
	f.ok(f.store.DropCheckpoint(f.ctx(), id.RunID))
	after := f.checkFold(id)
	f.equal(before.State, after.State, "Load")
	f.equal(before.Head, after.Head, "head")
	f.equal([]run.Seq{0, 5}, []run.Seq{after.CheckpointAt, after.PublishedSeq}, "checkpoint and published")
	f.equal(listed, f.list(store.RunFilter{Limit: 10}), "List")
	d := f.dirtyRuns(0)
	f.equal(1, len(d), "dirty runs: a projector must make a new checkpoint")
	f.equal(run.Seq(5), d[0].HeadSeq, "head of the mark")
	f.equal(true, f.save(f.load(id)), "saved the new checkpoint")
	f.equal(run.Seq(5), f.checkFold(id).CheckpointAt, "checkpoint")
	f.wantError(f.store.DropCheckpoint(f.ctx(), "nobody"), store.ErrNotFound)
}

func testRepairedPermitsAShorterLog(f *fixture) {
	id := f.run()
	short := store.Append{RunID: id.RunID, Events: []run.Draft{stepStarted("s1", 1)}, MinHead: 7}
	_, err := f.store.Append(f.ctx(), short)
	f.wantError(err, store.ErrRegressed)
	f.ok(f.store.MarkRepaired(f.ctx(), id.RunID, 6))
	_, err = f.store.Append(f.ctx(), short)
	f.wantError(err, store.ErrRegressed)
	f.ok(f.store.MarkRepaired(f.ctx(), id.RunID, 7))
	f.ok(f.store.MarkRepaired(f.ctx(), id.RunID, 3)) // it never decreases
	f.equal(run.Seq(3), f.appendAny(short).Head.LastSeq, "appended")
}

var subjectKeyCases = []testCase{
	// contract: T165, T208
	{"SubjectKeys_ComeWithTheirRows", testSubjectKeysComeWithTheirRows},
	// contract: T165, T208
	{"Erasures_AreDecidedOnceByAnother", testErasuresAreDecidedOnceByAnother},
}

func subjectKey(digit, tenant string) *store.SubjectKey {
	return &store.SubjectKey{ID: strings.Repeat(digit, 32), TenantID: tenant, Lookup: "lookup" + digit,
		Name: "name" + digit, Wrapped: "wrapped" + digit}
}

func testSubjectKeysComeWithTheirRows(f *fixture) {
	sealed := func(n int, key *store.SubjectKey) store.AuditRow {
		r := auditOf(key.TenantID, n)
		r.Actor, r.Key = store.SealedActor+key.ID, key
		return r
	}
	f.ok(f.store.Audit(f.ctx(), sealed(1, subjectKey("a", "t1")), sealed(2, subjectKey("b", "t1")), auditOf("t1", 3)))
	f.ok(f.store.Audit(f.ctx(), sealed(4, subjectKey("a", "t1")), sealed(5, subjectKey("c", "t2"))))
	keys := func(kf store.SubjectKeyFilter) (ids string) {
		if kf.Limit == 0 {
			kf.Limit = 10
		}
		out, err := f.store.SubjectKeys(f.ctx(), kf)
		f.ok(err)
		for _, k := range out {
			if k.MadeAt.IsZero() || k.ErasedAt != nil {
				f.Errorf("key %s was made at %v and erased at %v", k.ID, k.MadeAt, k.ErasedAt)
			}
			k.MadeAt = time.Time{}
			f.equal(*subjectKey(k.ID[:1], k.TenantID), k, "key")
			ids += k.ID[:1]
		}
		return ids
	}
	f.equal("abc", keys(store.SubjectKeyFilter{}), "all keys")
	f.equal("ab", keys(store.SubjectKeyFilter{TenantID: "t1", Live: true}), "live keys of t1")
	f.equal("a", keys(store.SubjectKeyFilter{TenantID: "t1", IDs: []string{strings.Repeat("a", 32),
		strings.Repeat("c", 32)}}), "keys by id: that of another tenant is absent")
	f.equal("", keys(store.SubjectKeyFilter{IDs: []string{}}), "no ids")
	f.equal("b", keys(store.SubjectKeyFilter{After: strings.Repeat("a", 32), Limit: 1}), "page")
	f.equal("", keys(store.SubjectKeyFilter{ErasedAfter: time.Unix(0, 0)}), "destroyed keys")

	f.linkAudit(10)
	links := f.auditLinks(store.AuditFilter{TenantID: "t1", ActorPart: "p0",
		StoredActors: []string{store.SealedActor + strings.Repeat("a", 32)}, Limit: 10})
	var nos []int64
	for _, l := range links {
		nos = append(nos, l.No)
	}
	f.equal([]int64{1, 3, 4}, nos, "rows of a plain name and of a sealed one")
	f.checkChain(f.auditLinks(store.AuditFilter{TenantID: "t1"}))
	if err := f.db.Exec(f.T, `UPDATE subject_key SET wrapped = ''`); err == nil &&
		f.db.Exec(f.T, `DELETE FROM feed_cursor`) != nil {
		f.Error("the role of servers can destroy a key")
	}
}

func testErasuresAreDecidedOnceByAnother(f *fixture) {
	ask := func(id, tenant string) store.Erasure {
		e, err := f.store.RequestErasure(f.ctx(), store.Erasure{ID: id, Kind: store.EraseSubject, TenantID: tenant,
			Subject: "bo", Reason: "by letter", RequestedBy: "ana"}, time.Hour, auditOf(tenant, len(id)))
		f.ok(err)
		return e
	}
	decide := func(tenant, id, by string, confirm bool) (store.Erasure, error) {
		return f.store.DecideErasure(f.ctx(), tenant, id, by, confirm)
	}
	first := ask("e", "t1")
	f.equal(time.Hour, first.ExpiresAt.Sub(first.RequestedAt).Round(time.Second), "life of a request")
	f.equal(first, ask("e", "t1"), "a repeated request")
	f.equal(1, f.db.Count(f.T, `SELECT count(*) FROM audit`), "audit rows of a repeated request")
	ask("ee", "t2")
	_, err := decide("t1", "e", "ana", true)
	f.wantError(err, store.ErrConflict)
	_, err = decide("t2", "e", "cy", true)
	f.wantError(err, store.ErrNotFound)
	confirmed, err := decide("t1", "e", "cy", true)
	f.ok(err)
	f.equal([]string{"cy", ""}, []string{confirmed.ConfirmedBy, confirmed.CancelledBy}, "who confirmed and cancelled")
	_, err = decide("t1", "e", "dan", true)
	f.wantError(err, store.ErrConflict)
	cancelled, err := decide("t1", "e", "dan", false)
	f.ok(err)
	f.equal("dan", cancelled.CancelledBy, "who cancelled")
	open, err := f.store.Erasures(f.ctx(), store.ErasureFilter{Open: true, Limit: 10})
	f.ok(err)
	f.equal([]string{"ee", "1"}, []string{open[0].ID, strconv.Itoa(len(open))}, "open erasures")
	counts, err := f.store.CountErasure(f.ctx(), "t1", "")
	f.ok(err)
	f.equal(map[string]int64{"audit": 1, "audit_pending": 1, "erasure": 1}, counts.Deleted, "rows of the tenant")
	counts, err = f.store.CountErasure(f.ctx(), "t1", "nobody")
	f.ok(err)
	f.equal(0, len(counts.Deleted)+len(counts.Remaining), "rows of a person who did nothing")
	holds, err := f.store.ErasureHolds(f.ctx(), "t1", "bo")
	f.ok(err)
	f.equal(int64(0), holds, "holds")
	for _, statement := range []string{`UPDATE erasure SET deleting = true`,
		`UPDATE erasure SET started_at = confirmed_at`, `DELETE FROM erasure`} {
		if f.db.Exec(f.T, statement) == nil && f.db.Exec(f.T, `DELETE FROM feed_cursor`) != nil {
			f.Errorf("the role of servers can carry out an erasure: %s", statement)
		}
	}
}
