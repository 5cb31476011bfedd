package storetest

import (
	"fmt"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/store"
)

var viewCases = []testCase{
	{"ViewsAreOnesOwnAndShared", testViewsAreOnesOwnAndShared},
	{"ViewsAreBounded", testViewsAreBounded},
}

func testViewsAreOnesOwnAndShared(f *fixture) {
	put := func(tenant, owner, id, project, name string) store.SavedView {
		f.Helper()
		v, err := f.store.PutView(f.ctx(), store.SavedView{TenantID: tenant, Owner: owner, ID: id, ProjectID: project,
			Name: name, Query: "status=FAILED"}, store.AuditRow{ID: uuid.NewString(), TenantID: tenant, Actor: owner,
			Action: "SAVE_VIEW"})
		f.ok(err)
		if v.At.IsZero() {
			f.Errorf("view %s has no time", name)
		}
		return v
	}
	get := func(owner string, projects []string) (names []string) {
		f.Helper()
		views, err := f.store.ListViews(f.ctx(), store.ViewFilter{TenantID: "t1", Owner: owner, ProjectIDs: projects})
		f.ok(err)
		for _, v := range views {
			names = append(names, v.Name)
		}
		return names
	}
	put("t1", "ana", "1", "", "b private")
	put("t1", "ana", "2", "p1", "a shared")
	put("t1", "ben", "1", "p2", "c shared")
	put("t2", "ana", "1", "p1", "foreign")
	f.equal([]string{"a shared", "b private", "c shared"}, get("ana", nil), "of ana")
	f.equal([]string{"a shared", "b private"}, get("ana", []string{"p1"}), "of ana, who reads p1")
	f.equal([]string{"a shared"}, get("eve", []string{"p1"}), "of eve")
	f.equal([]string(nil), get("eve", []string{}), "of eve, who reads nothing")
	put("t1", "ana", "2", "", "now private")
	f.equal([]string(nil), get("eve", []string{"p1"}), "of eve after the change")
	f.wantError(f.store.DeleteView(f.ctx(), "t1", "ben", "2"), store.ErrNotFound)
	f.ok(f.store.DeleteView(f.ctx(), "t1", "ana", "2", store.AuditRow{ID: uuid.NewString(), TenantID: "t1",
		Actor: "ana", Action: "DELETE_VIEW"}))
	f.equal([]string{"b private"}, get("ana", []string{}), "after the removal")
	f.equal(5, f.db.Count(f.T, `SELECT count(*) FROM audit WHERE tenant_id = 't1'`), "audit rows")
}

func testViewsAreBounded(f *fixture) {
	put := func(n int) error {
		_, err := f.store.PutView(f.ctx(), store.SavedView{TenantID: "t1", Owner: "ana", ID: fmt.Sprint(n), Name: "v"})
		return err
	}
	for n := range store.MaxViews {
		f.ok(put(n))
	}
	f.ok(put(0))
	f.wantError(put(store.MaxViews), store.ErrTooMany)
}
