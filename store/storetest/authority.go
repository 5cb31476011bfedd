package storetest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/store"
)

var authorityCases = []testCase{
	// contract: O3
	{"PolicyIsCompareAndSet", testPolicyIsCompareAndSet},
	// contract: O3
	{"PolicyRacesHaveOneWinner", testPolicyRacesHaveOneWinner},
	// contract: T208
	{"PolicyIsInsertOnly", testPolicyIsInsertOnly},
	// contract: O3
	{"PolicyHistoryByTenantAndPage", testPolicyHistoryByTenantAndPage},
	// contract: T202
	{"AuthorityIsOneSnapshotWithAVersion", testAuthorityIsOneSnapshotWithAVersion},
	// contract: O6
	{"TokensAreMadeOnceAndRevokedOnce", testTokensAreMadeOnceAndRevokedOnce},
	// contract: O6
	{"TokensByTenantPrincipalAndPage", testTokensByTenantPrincipalAndPage},
	// contract: O6
	{"TokenUseDoesNotChangeTheVersion", testTokenUseDoesNotChangeTheVersion},
}

func auditRow(tenantID string) store.AuditRow {
	return store.AuditRow{ID: uuid.NewString(), TenantID: tenantID, Actor: "ana", Action: "SET_POLICY",
		Outcome: "ACCEPTED", Reason: "because", RequestID: "r-1"}
}

func policyOf(tenantID string, version int64) store.StoredPolicy {
	return store.StoredPolicy{
		TenantID: tenantID, Version: version, Doc: json.RawMessage(fmt.Sprintf(`{"grants":[{"principal":"ü","n":%d}]}`,
			version)),
		Actor: "ana", Reason: "because", RequestID: fmt.Sprintf("r-%d", version),
	}
}

func (f *fixture) putPolicy(tenantID string, version int64) store.StoredPolicy {
	f.Helper()
	p, err := f.store.PutPolicy(f.ctx(), policyOf(tenantID, version), auditRow(tenantID))
	f.ok(err)
	return p
}

func (f *fixture) authorityVersion() int64 {
	f.Helper()
	v, err := f.store.AuthorityVersion(f.ctx())
	f.ok(err)
	return v
}

func (f *fixture) auditCount() int {
	f.Helper()
	return f.db.Count(f, `SELECT count(*) FROM audit`)
}

func testPolicyIsCompareAndSet(f *fixture) {
	f.equal(int64(0), f.authorityVersion(), "version of an empty store")
	first := f.putPolicy("t1", 1)
	want := policyOf("t1", 1)
	want.At = first.At
	f.equal(want, first, "written")
	if d := time.Since(first.At); d < -time.Minute || d > time.Minute {
		f.Errorf("the policy was written at %v, want about now", first.At)
	}
	f.equal([]int{1, 1}, []int{int(f.authorityVersion()), f.auditCount()}, "version and audit rows")
	for _, version := range []int64{1, 3, 0, -1} { // taken, with a gap, and invalid
		_, err := f.store.PutPolicy(f.ctx(), policyOf("t1", version), auditRow("t1"))
		f.wantError(err, store.ErrConflict)
	}
	_, err := f.store.PutPolicy(f.ctx(), policyOf("t2", 2), auditRow("t2"))
	f.wantError(err, store.ErrConflict)
	f.equal([]int{1, 1}, []int{int(f.authorityVersion()), f.auditCount()}, "after refusals")
	f.putPolicy("t1", 2)
	f.putPolicy("t2", 1)
	f.equal([]int{3, 3}, []int{int(f.authorityVersion()), f.auditCount()}, "at the end")
}

func testPolicyRacesHaveOneWinner(f *fixture) {
	other := f.db.Open(f)
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := map[int64]int{}
	for i := range 8 {
		s := []store.Store{f.store, other}[i%2]
		wg.Go(func() {
			for version := int64(1); version <= 5; {
				_, err := s.PutPolicy(f.ctx(), policyOf("t1", version), auditRow("t1"))
				if err != nil && !errors.Is(err, store.ErrConflict) {
					f.Errorf("version %d: %v", version, err)
					return
				}
				mu.Lock()
				if err == nil {
					won[version]++
				}
				mu.Unlock()
				version++
			}
		})
	}
	wg.Wait()
	f.equal(map[int64]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 1}, won, "writers that won")
	f.equal([]int{5, 5}, []int{int(f.authorityVersion()), f.auditCount()}, "version and audit rows")
}

func testPolicyIsInsertOnly(f *fixture) {
	f.putPolicy("t1", 1)
	for _, statement := range []string{`UPDATE policy SET actor = 'somebody'`, `DELETE FROM policy`} {
		if err := f.db.Exec(f, statement); err == nil {
			f.Errorf("%s succeeded, want an error", statement)
		}
	}
}

func testPolicyHistoryByTenantAndPage(f *fixture) {
	for v := range int64(5) {
		f.putPolicy("t1", v+1)
	}
	f.putPolicy("t2", 1)
	list := func(tenantID string, before int64, limit int) (out []int64) {
		f.Helper()
		ps, err := f.store.PolicyHistory(f.ctx(), tenantID, before, limit)
		f.ok(err)
		for _, p := range ps {
			want := policyOf(tenantID, p.Version)
			want.At = p.At
			f.equal(want, p, "a version")
			out = append(out, p.Version)
		}
		return out
	}
	f.equal([]int64{5, 4, 3, 2, 1}, list("t1", 0, 10), "all")
	f.equal([]int64{5, 4}, list("t1", 0, 2), "first page")
	f.equal([]int64{3, 2}, list("t1", 4, 2), "second page")
	f.equal([]int64{1}, list("t2", 0, 10), "of another tenant")
	f.equal([]int64(nil), list("t3", 0, 10), "of a tenant without policies")
}

func tokenOf(tenantID, name string) store.StoredToken {
	return store.StoredToken{
		ID: uuid.NewSHA1(uuid.NameSpaceURL, []byte(tenantID+name)).String(), Kind: store.TokenAPI, TenantID: tenantID,
		Name: name, Principal: "ana",
		SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(tenantID+name))),
		Grants: json.RawMessage(`[{"role":"VIEWER"}]`), CreatedBy: "ana",
		ExpiresAt: time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond),
	}
}

func (f *fixture) putToken(t store.StoredToken) store.StoredToken {
	f.Helper()
	out, made, err := f.store.PutToken(f.ctx(), t, auditRow(t.TenantID))
	f.ok(err)
	if !made {
		f.Fatalf("the token %s existed already, want a new one", t.Name)
	}
	return out
}

func testAuthorityIsOneSnapshotWithAVersion(f *fixture) {
	f.putPolicy("t1", 1)
	newest := []store.StoredPolicy{f.putPolicy("t1", 2), f.putPolicy("t2", 1)}
	live := tokenOf("t1", "live")
	live.Kind, live.Provider, live.Groups = store.TokenSession, "corp", []string{"group:ops", "group:ü, \"x\""}
	live = f.putToken(live)
	late := tokenOf("t1", "late")
	late.ExpiresAt = time.Now().Add(-time.Minute).UTC().Truncate(time.Millisecond)
	late = f.putToken(late)
	revoked := f.putToken(tokenOf("t1", "gone"))
	_, _, err := f.store.RevokeToken(f.ctx(), "t1", revoked.ID, "bob", auditRow("t1"))
	f.ok(err)
	got, err := f.db.Open(f).Authority(f.ctx(), time.Now().Add(-time.Hour))
	f.ok(err)
	slices.SortFunc(got.Tokens, func(a, b store.StoredToken) int { return a.CreatedAt.Compare(b.CreatedAt) })
	slices.SortFunc(got.Policies, func(a, b store.StoredPolicy) int { return strings.Compare(a.TenantID, b.TenantID) })
	f.equal(store.StoredAuthority{Version: 7, Policies: newest, Tokens: []store.StoredToken{live, late}}, got,
		"everything")
	got, err = f.store.Authority(f.ctx(), time.Now())
	f.ok(err)
	f.equal([]store.StoredToken{live}, got.Tokens, "live tokens")
}

func testTokensAreMadeOnceAndRevokedOnce(f *fixture) {
	token := tokenOf("t1", "ci")
	made := f.putToken(token)
	token.CreatedAt = made.CreatedAt
	f.equal(token, made, "made")
	again := tokenOf("t1", "another name")
	again.ID = token.ID
	stored, first, err := f.store.PutToken(f.ctx(), again, auditRow("t1"))
	f.ok(err)
	f.equal(token, stored, "stored before")
	if first {
		f.Error("PutToken() with a known id made another token")
	}
	same := tokenOf("t1", "other")
	same.SHA256 = token.SHA256
	_, _, err = f.store.PutToken(f.ctx(), same, auditRow("t1"))
	f.wantError(err, store.ErrConflict)
	f.equal([]int{1, 1}, []int{int(f.authorityVersion()), f.auditCount()}, "version and audit rows")

	_, _, err = f.store.RevokeToken(f.ctx(), "t2", token.ID, "mallory", auditRow("t2"))
	f.wantError(err, store.ErrNotFound)
	_, _, err = f.store.RevokeToken(f.ctx(), "t1", "no uuid", "bob", auditRow("t1"))
	f.wantError(err, store.ErrNotFound)
	gone, first, err := f.store.RevokeToken(f.ctx(), "t1", token.ID, "bob", auditRow("t1"))
	f.ok(err)
	if !first || gone.RevokedAt == nil || gone.RevokedBy != "bob" {
		f.Errorf("RevokeToken() = %+v, %t, want a token that bob revoked, and true", gone, first)
	}
	later, first, err := f.store.RevokeToken(f.ctx(), "t1", token.ID, "eve", auditRow("t1"))
	f.ok(err)
	f.equal(gone, later, "revoked again")
	if first {
		f.Error("a second RevokeToken() reports true, want false")
	}
	f.equal([]int{2, 2}, []int{int(f.authorityVersion()), f.auditCount()}, "version and audit rows")
}

func testTokensByTenantPrincipalAndPage(f *fixture) {
	var all []store.StoredToken
	for i := range 4 {
		t := tokenOf("t1", fmt.Sprintf("n%d", i))
		t.Principal = []string{"ana", "bob"}[i%2]
		if i == 3 {
			t.ExpiresAt = time.Now().Add(-time.Second)
		}
		if i == 2 {
			t.Kind = store.TokenSession
		}
		all = append(all, f.putToken(t))
	}
	f.putToken(tokenOf("t2", "x"))
	_, _, err := f.store.RevokeToken(f.ctx(), "t1", all[0].ID, "bob", auditRow("t1"))
	f.ok(err)
	list := func(tf store.TokenFilter) string {
		f.Helper()
		ts, err := f.store.Tokens(f.ctx(), tf)
		f.ok(err)
		var names []string
		for _, t := range ts {
			names = append(names, t.Name)
		}
		return strings.Join(names, " ")
	}
	f.equal("n3 n2 n1 n0", list(store.TokenFilter{TenantID: "t1"}), "all")
	f.equal("n2 n1", list(store.TokenFilter{TenantID: "t1", Live: true}), "live")
	f.equal("n3 n1", list(store.TokenFilter{TenantID: "t1", Principal: "bob"}), "bob's")
	f.equal("n3 n2", list(store.TokenFilter{TenantID: "t1", Limit: 2}), "a page")
	f.equal("n1 n0", list(store.TokenFilter{TenantID: "t1", Before: all[2].ID}), "the next page")
	f.equal("n1", list(store.TokenFilter{TenantID: "t1", ID: all[1].ID}), "one")
	f.equal("n2", list(store.TokenFilter{TenantID: "t1", Kind: store.TokenSession}), "sessions")
	f.equal("", list(store.TokenFilter{TenantID: "t2", ID: all[1].ID}), "another tenant's")
	f.equal("", list(store.TokenFilter{}), "without a tenant")
}

func testTokenUseDoesNotChangeTheVersion(f *fixture) {
	t := f.putToken(tokenOf("t1", "ci"))
	version := f.authorityVersion()
	at := time.Now().UTC().Truncate(time.Millisecond)
	f.ok(f.store.MarkTokensUsed(f.ctx(), at, t.ID, uuid.NewString()))
	f.ok(f.store.MarkTokensUsed(f.ctx(), at.Add(-time.Hour), t.ID))
	f.ok(f.store.MarkTokensUsed(f.ctx(), at))
	ts, err := f.store.Tokens(f.ctx(), store.TokenFilter{TenantID: "t1"})
	f.ok(err)
	if len(ts) != 1 || ts[0].LastUsedAt == nil || !ts[0].LastUsedAt.Equal(at) {
		f.Errorf("tokens %+v, want one that was last used at %v", ts, at)
	}
	f.equal(version, f.authorityVersion(), "version")
}
