package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/store"
)

var settingCases = []testCase{
	// contract: O3
	{"SettingIsCompareAndSet", testSettingIsCompareAndSet},
	// contract: O3
	{"SettingRacesHaveOneWinner", testSettingRacesHaveOneWinner},
	// contract: T208
	{"SettingIsInsertOnly", testSettingIsInsertOnly},
	{"SettingHistoryByKindTenantAndPage", testSettingHistoryByKindTenantAndPage},
	// contract: T202
	{"AuthorityHasTheNewestOfEachSetting", testAuthorityHasTheNewestOfEachSetting},
}

func settingOf(kind store.SettingKind, tenantID string, version int64) store.StoredSetting {
	return store.StoredSetting{
		Kind: kind, TenantID: tenantID, Version: version, Doc: json.RawMessage(fmt.Sprintf(`{"until":"ü","n":%d}`, version)),
		Actor: "ana", Reason: "because", RequestID: fmt.Sprintf("r-%d", version),
	}
}

func (f *fixture) putSetting(kind store.SettingKind, tenantID string, version int64) store.StoredSetting {
	f.Helper()
	v, err := f.store.PutSetting(f.ctx(), settingOf(kind, tenantID, version), auditRow(tenantID))
	f.ok(err)
	return v
}

func testSettingIsCompareAndSet(f *fixture) {
	first := f.putSetting(store.SettingQuota, "t1", 1)
	want := settingOf(store.SettingQuota, "t1", 1)
	want.At = first.At
	f.equal(want, first, "written")
	if d := time.Since(first.At); d < -time.Minute || d > time.Minute {
		f.Errorf("the setting was written at %v, want about now", first.At)
	}
	f.equal([]int{1, 1}, []int{int(f.authorityVersion()), f.auditCount()}, "version and audit rows")
	for _, s := range []store.StoredSetting{ // taken, with a gap, invalid, and for other tenants or kinds
		settingOf(store.SettingQuota, "t1", 1), settingOf(store.SettingQuota, "t1", 3),
		settingOf(store.SettingQuota, "t1", 0), settingOf(store.SettingQuota, "t1", -1),
		settingOf(store.SettingQuota, "t2", 2), settingOf(store.SettingFreeze, "t1", 2),
	} {
		_, err := f.store.PutSetting(f.ctx(), s, auditRow(s.TenantID))
		f.wantError(err, store.ErrConflict)
	}
	f.equal([]int{1, 1}, []int{int(f.authorityVersion()), f.auditCount()}, "after refusals")
	f.putSetting(store.SettingQuota, "t1", 2)
	f.putSetting(store.SettingMode, "", 1)
	f.putPolicy("t1", 1)
	f.equal([]int{4, 4}, []int{int(f.authorityVersion()), f.auditCount()}, "at the end")
}

// Several processes write the same versions at once. Each version is written once.
func testSettingRacesHaveOneWinner(f *fixture) {
	const racers, versions = 3, 5
	errs := make([]error, racers)
	won := make([]int, racers)
	var wg sync.WaitGroup
	for i := range racers {
		s := f.db.Open(f)
		wg.Go(func() {
			for version := int64(1); version <= versions && errs[i] == nil; version++ {
				switch _, err := s.PutSetting(f.ctx(), settingOf(store.SettingMode, "", version), auditRow("")); {
				case err == nil:
					won[i]++
				case !errors.Is(err, store.ErrConflict):
					errs[i] = err
				}
			}
		})
	}
	wg.Wait()
	f.ok(errors.Join(errs...))
	newest, err := f.store.SettingHistory(f.ctx(), store.SettingMode, "", 0, 1)
	f.ok(err)
	n := won[0] + won[1] + won[2]
	if len(newest) != 1 || int64(n) != newest[0].Version || f.auditCount() != n || f.authorityVersion() != int64(n) {
		f.Fatalf("writes by process %v, newest setting %v, %d audit rows, authority version %d, want all to agree", won, newest,
			f.auditCount(), f.authorityVersion())
	}
}

func testSettingIsInsertOnly(f *fixture) {
	f.putSetting(store.SettingQuota, "t1", 1)
	for _, statement := range []string{
		`UPDATE setting SET actor = 'eve'`, `DELETE FROM setting`, `UPDATE setting SET version = 7 WHERE tenant_id = 't1'`,
	} {
		if err := f.db.Exec(f, statement); err == nil {
			f.Errorf("%s succeeded, want an error", statement)
		}
	}
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM setting WHERE actor = 'ana' AND version = 1`), "rows")
}

func testSettingHistoryByKindTenantAndPage(f *fixture) {
	for version := int64(1); version <= 5; version++ {
		f.putSetting(store.SettingQuota, "t1", version)
		f.putSetting(store.SettingFreeze, "t1", version)
	}
	f.putSetting(store.SettingQuota, "t2", 1)
	for _, c := range []struct {
		kind   store.SettingKind
		tenant string
		before int64
		limit  int
		want   []int64
	}{
		{store.SettingQuota, "t1", 0, 2, []int64{5, 4}},
		{store.SettingQuota, "t1", 4, 10, []int64{3, 2, 1}},
		{store.SettingFreeze, "t1", 2, 10, []int64{1}},
		{store.SettingQuota, "t2", 0, 10, []int64{1}},
		{store.SettingMode, "", 0, 10, nil},
	} {
		page, err := f.store.SettingHistory(f.ctx(), c.kind, c.tenant, c.before, c.limit)
		f.ok(err)
		var got []int64
		for _, s := range page {
			want := settingOf(c.kind, c.tenant, s.Version)
			want.At = s.At
			f.equal(want, s, "row")
			got = append(got, s.Version)
		}
		f.equal(c.want, got, fmt.Sprintf("%s of %s before %d", c.kind, c.tenant, c.before))
	}
}

func testAuthorityHasTheNewestOfEachSetting(f *fixture) {
	none, err := f.store.Authority(f.ctx(), time.Now())
	f.ok(err)
	f.equal(0, len(none.Settings), "settings of a new store")
	var want []store.StoredSetting
	put := func(kind store.SettingKind, tenantID string, versions int64) {
		var newest store.StoredSetting
		for version := int64(1); version <= versions; version++ {
			newest = f.putSetting(kind, tenantID, version)
		}
		want = append(want, newest)
	}
	put(store.SettingFreeze, "t1", 3)
	put(store.SettingFreeze, "t3", 1)
	put(store.SettingMode, "", 4)
	put(store.SettingQuota, "t1", 1)
	put(store.SettingQuota, "t2", 2)
	put(store.SettingQuota, "t3", 3)
	f.putPolicy("t1", 1)
	got, err := f.store.Authority(f.ctx(), time.Now())
	f.ok(err)
	slices.SortFunc(got.Settings, func(a, b store.StoredSetting) int {
		return strings.Compare(string(a.Kind)+" "+a.TenantID, string(b.Kind)+" "+b.TenantID)
	})
	f.equal(want, got.Settings, "newest settings")
	f.equal([]int{15, 1}, []int{int(got.Version), len(got.Policies)}, "version and policies")
}
