package storetest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/store"
)

var auditCases = []testCase{
	{"T208_AuditInsertOnly", auditInsertOnly},
	{"T208_AuditChain", auditChain},
	{"T208_AuditChainOfManyServers", auditChainOfMany},
	{"Z02_AuditFilter", auditFilter},
}

func auditOf(tenant string, n int) store.AuditRow {
	return store.AuditRow{
		ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), TenantID: tenant, Actor: fmt.Sprintf("p%d", n%3), Action: "PAUSE", RunID: "r1", SignalID: "s1",
		Outcome: "ACCEPTED", Code: "RUN_MOVED", Reason: "because of <this> & „that“", RequestID: "q", Detail: json.RawMessage(`{"a": 1}`),
	}
}

func (f *fixture) links(af store.AuditFilter) []store.AuditLink {
	f.Helper()
	out, err := f.store.AuditLinks(f.ctx(), af)
	f.ok(err)
	return out
}

func (f *fixture) link(limit int) int {
	f.Helper()
	n, err := f.store.LinkAudit(f.ctx(), limit)
	f.ok(err)
	return n
}

// holds checks that links are a chain from the first one on.
func (f *fixture) holds(links []store.AuditLink) {
	f.Helper()
	var before [sha256.Size]byte
	for i, l := range links {
		if l.Row == nil || l.No != int64(i)+1 || l.ID != l.Row.ID || l.Hash != l.Row.Link(before, l.No) {
			f.Fatalf("link %d is not the next of the chain: %+v %+v", i+1, l, l.Row)
		}
		before = l.Hash
	}
}

func auditChain(f *fixture) {
	rows := []store.AuditRow{auditOf("t1", 1), auditOf("t2", 2), auditOf("t1", 3)}
	rows[2].Detail = nil
	f.ok(f.store.Audit(f.ctx(), rows...))
	waiting, stray, err := f.store.AuditLoose(f.ctx(), "t1")
	f.ok(err)
	f.equal([]int64{2, 0}, []int64{waiting, stray}, "waiting and stray")
	f.equal(0, len(f.links(store.AuditFilter{TenantID: "t1"})), "links before the first linking")
	f.equal(2, f.link(2), "a bounded call")
	f.equal(1, f.link(10), "the rest")
	f.equal(0, f.link(10), "nothing waits")
	f.ok(f.store.Audit(f.ctx(), rows[0], auditOf("t1", 4)))
	f.equal(1, f.link(10), "one that is known is not linked again")
	t1 := f.links(store.AuditFilter{TenantID: "t1"})
	f.equal(3, len(t1), "links of t1")
	f.holds(t1)
	f.holds(f.links(store.AuditFilter{TenantID: "t2"}))
	got := *t1[0].Row
	if time.Since(got.At).Abs() > time.Minute {
		f.Errorf("at %v", got.At)
	}
	got.At = time.Time{}
	f.equal(rows[0], got, "row")
	f.equal(0, len(f.links(store.AuditFilter{})), "links of no tenant")
	for _, s := range []string{`DELETE FROM audit_link`, `UPDATE audit_link SET no = no + 1`} {
		if err := f.db.Exec(f.T, s); err == nil {
			f.Errorf("%s was possible", s)
		}
	}
	waiting, stray, err = f.store.AuditLoose(f.ctx(), "t1")
	f.ok(err)
	f.equal([]int64{0, 0}, []int64{waiting, stray}, "waiting and stray in the end")
	f.ok(f.store.Audit(f.ctx(), auditOf("t1", 5)))
	f.ok(f.db.Exec(f.T, `DELETE FROM audit_pending`))
	waiting, stray, err = f.store.AuditLoose(f.ctx(), "t1")
	f.ok(err)
	f.equal([]int64{0, 1}, []int64{waiting, stray}, "a row that nobody will link")
}

func auditChainOfMany(f *fixture) {
	const servers, rows = 4, 200
	stores := make([]store.Store, servers)
	for i := range stores {
		stores[i] = f.db.Open(f.T)
	}
	f.together(2*servers, func(i int) error {
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
	for f.link(1000) > 0 {
		continue
	}
	n := 0
	for _, tenant := range []string{"t0", "t1"} {
		links := f.links(store.AuditFilter{TenantID: tenant})
		f.holds(links)
		n += len(links)
	}
	f.equal(rows, n, "links")
}

func auditFilter(f *fixture) {
	for n := range 9 {
		r := auditOf("t1", n+1)
		r.RunID = fmt.Sprintf("r%d", n%2)
		f.ok(f.store.Audit(f.ctx(), r))
	}
	f.link(100)
	numbers := func(af store.AuditFilter) []int64 {
		af.TenantID = "t1"
		out := []int64{}
		for _, l := range f.links(af) {
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
	at := f.links(store.AuditFilter{TenantID: "t1", After: 3, Limit: 1})[0].Row.At
	f.equal([]int64{4, 5, 6, 7, 8, 9}, numbers(store.AuditFilter{From: at, WithMissingRows: true}), "from a time")
	f.equal([]int64{1, 2, 3}, numbers(store.AuditFilter{To: at}), "to a time")
}
