package storetest

import (
	"strings"
	"time"

	"github.com/dvt-engine/dvt/store"
)

var subjectKeyCases = []testCase{
	// contract: T165, T208
	{"SubjectKeys_ComeWithTheirRows", testSubjectKeysComeWithTheirRows},
}

func subjectKey(digit, tenant string) *store.SubjectKey {
	return &store.SubjectKey{ID: strings.Repeat(digit, 32), TenantID: tenant, Lookup: "lookup" + digit, Name: "name" + digit,
		Wrapped: "wrapped" + digit}
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
