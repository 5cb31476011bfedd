package storetest

import (
	"fmt"
	"slices"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var listCases = []testCase{
	{"ListPagesBothWays", testListPagesBothWays},
	{"ListAppliesFilters", testListAppliesFilters},
	{"ListSortsByTheEndTheDurationAndTheTimeLeft", testListSorts},
	{"ListRefusesAnOrderWithoutAnIndex", testListRefusesAnOrderWithoutAnIndex},
	// contract: T101
	{"ListReadsOneTenant", testListReadsOneTenant},
	{"ListShowsCheckpointAndHead", testListShowsCheckpointAndHead},
	{"ListNamesTheRunThatARunReruns", testListNamesTheRunThatARunReruns},
	{"ListEqualsAFilterInGo", testListEqualsAFilterInGo},
	{"CountEqualsACountInGo", testCountEqualsACountInGo},
	{"ListReturnsTheStepsOfTheCheckpoint", testListReturnsTheStepsOfTheCheckpoint},
	// contract: T101
	{"RunScopesAreThoseOfTheTenantsRuns", testRunScopesAreThoseOfTheTenantsRuns},
	{"ListStepsAreBounded", testListStepsAreBounded},
}

func (f *fixture) list(filter store.RunFilter) []store.RunRow {
	f.Helper()
	if filter.TenantID == "" {
		filter.TenantID = "t1"
	}
	rows, err := f.store.List(f.ctx(), filter)
	f.ok(err)
	return rows
}

func runIDs(rows []store.RunRow) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, r.Header.RunID)
	}
	return out
}

func pos(r store.RunRow) *store.RunPos {
	return &store.RunPos{CreatedAt: r.Header.CreatedAt, RunID: r.Header.RunID}
}

func testListPagesBothWays(f *fixture) {
	for range 7 {
		f.run()
	}
	// Runs with the same creation time are ordered by id.
	for _, n := range []int{53, 51, 52} {
		r := newRun(identity(n))
		r.Run.CreatedAt = runtest.Epoch
		f.ok(f.store.Import(f.ctx(), r, nil))
	}
	all := f.list(store.RunFilter{Limit: 100})
	want := []string{"run-007", "run-006", "run-005", "run-004", "run-003", "run-002", "run-001", "run-053", "run-052",
		"run-051"}
	f.equal(want, runIDs(all), "newest first")
	ascending := slices.Clone(want)
	slices.Reverse(ascending)
	f.equal(ascending, runIDs(f.list(store.RunFilter{Limit: 100, Ascending: true})), "ascending")
	for _, asc := range []bool{false, true} {
		order := want
		if asc {
			order = ascending
		}
		var forward []string
		var after *store.RunPos
		for {
			page := f.list(store.RunFilter{Limit: 3, After: after, Ascending: asc})
			if len(page) == 0 {
				break
			}
			forward = append(forward, runIDs(page)...)
			after = pos(page[len(page)-1])
		}
		f.equal(order, forward, fmt.Sprintf("forward, ascending %v", asc))
		backward := []string{}
		rows := f.list(store.RunFilter{Limit: 100, Ascending: asc})
		before := pos(rows[len(rows)-1])
		backward = append(backward, order[len(order)-1])
		for {
			page := f.list(store.RunFilter{Limit: 4, Before: before, Ascending: asc})
			if len(page) == 0 {
				break
			}
			backward = append(runIDs(page), backward...)
			before = pos(page[0])
		}
		f.equal(order, backward, fmt.Sprintf("backward, ascending %v", asc))
		both := f.list(store.RunFilter{Limit: 100, After: pos(rows[1]), Before: pos(rows[4]), Ascending: asc})
		f.equal(order[2:4], runIDs(both), "between")
	}
}

func testListAppliesFilters(f *fixture) {
	for i, c := range []struct{ project, env, plan string }{
		{"p1", "sandbox", "plan-3"}, {"p2", "sandbox", "plan-3"}, {"p2", "prod", "shop_nightly"}, {"p3", "prod", "a_b"},
	} {
		id := identity(i + 1)
		id.ProjectID, id.EnvironmentID, id.PlanID = c.project, c.env, c.plan
		made := newRun(id, runtest.Draft(run.RunApproved, "", 1))
		made.Run.TriggeredBy = []string{"ana", "ben"}[i/3]
		f.create(made)
	}
	done := identity(1)
	f.append(done, runtest.Draft(run.RunCancelled, "", 1))
	f.save(f.load(done))
	third, err := f.store.Get(f.ctx(), "run-003")
	f.ok(err)
	for _, c := range []struct {
		filter store.RunFilter
		want   []string
	}{
		{store.RunFilter{}, []string{"run-004", "run-003", "run-002", "run-001"}},
		{store.RunFilter{ProjectIDs: []string{"p2"}}, []string{"run-003", "run-002"}},
		{store.RunFilter{ProjectIDs: []string{"p1", "p3"}}, []string{"run-004", "run-001"}},
		{store.RunFilter{ProjectIDs: []string{}}, []string{}},
		{store.RunFilter{EnvironmentID: "prod"}, []string{"run-004", "run-003"}},
		{store.RunFilter{Scopes: store.Scopes{{ProjectID: "p2", EnvironmentID: "sandbox"},
			{ProjectID: "p3", EnvironmentID: "prod"}}}, []string{"run-004", "run-002"}},
		{store.RunFilter{Scopes: store.Scopes{{EnvironmentID: "prod"}, {ProjectID: "p2", EnvironmentID: "sandbox"}}},
			[]string{"run-004", "run-003", "run-002"}},
		{store.RunFilter{Scopes: store.Scopes{{ProjectID: "p2"}}, EnvironmentID: "prod"}, []string{"run-003"}},
		{store.RunFilter{Scopes: store.Scopes{{}}, ProjectIDs: []string{"p2"}}, []string{"run-003", "run-002"}},
		{store.RunFilter{Scopes: store.Scopes{}}, []string{}},
		{store.RunFilter{Scopes: store.Scopes{{ProjectID: "p2", EnvironmentID: "prod"}}, Text: "plan-"}, []string{}},
		{store.RunFilter{Statuses: []run.Status{run.Cancelled}}, []string{"run-001"}},
		{store.RunFilter{Statuses: []run.Status{run.Approved, run.Cancelled}, PlanID: "plan-3"},
			[]string{"run-002", "run-001"}},
		{store.RunFilter{TriggeredBy: "ana"}, []string{"run-003", "run-002", "run-001"}},
		{store.RunFilter{TriggeredBy: "ana", Statuses: []run.Status{run.Approved}, EnvironmentID: "sandbox"},
			[]string{"run-002"}},
		{store.RunFilter{TriggeredBy: "an"}, []string{}},
		{store.RunFilter{Text: "run-00"}, []string{"run-004", "run-003", "run-002", "run-001"}},
		{store.RunFilter{Text: "un-001"}, []string{}},
		{store.RunFilter{Text: "nightly"}, []string{"run-003"}},
		{store.RunFilter{Text: "%"}, []string{}},
		{store.RunFilter{Text: "_"}, []string{"run-004", "run-003"}},
		{store.RunFilter{CreatedFrom: third.CreatedAt}, []string{"run-004", "run-003"}},
		{store.RunFilter{CreatedTo: third.CreatedAt}, []string{"run-002", "run-001"}},
	} {
		c.filter.Limit = 10
		f.equal(c.want, runIDs(f.list(c.filter)), fmt.Sprintf("%+v", c.filter))
	}
}

func testRunScopesAreThoseOfTheTenantsRuns(f *fixture) {
	n := 0
	in := func(tenant, project, environment string) {
		n++
		id := identity(n)
		id.TenantID, id.ProjectID, id.EnvironmentID = tenant, project, environment
		f.create(newRun(id, runtest.Draft(run.RunApproved, "", 1)))
		f.save(f.load(id))
	}
	f.equal(0, len(f.runScopes("t1", nil, 9)), "scopes of a tenant without runs")
	for range 2 {
		in("t1", "shop", "prod")
		in("t1", "shop", "dev")
		in("t1", "bank", "prod")
		in("t1", "Shop", "prod")
		in("t2", "bank", "dev")
	}
	f.equal([]string{"Shop/prod", "bank/prod", "shop/dev", "shop/prod"}, f.runScopes("t1", nil, 9), "of all projects")
	f.equal([]string{"Shop/prod", "bank/prod"}, f.runScopes("t1", nil, 2), "the first ones")
	f.equal([]string{"bank/prod", "shop/dev", "shop/prod"}, f.runScopes("t1", []string{"shop", "sho", "bank"}, 9),
		"of some projects")
	f.equal(0, len(f.runScopes("t1", []string{}, 9)), "of no project")
	f.equal(0, len(f.runScopes("t3", nil, 9)), "of another tenant")
}

// runScopes reads the scopes that have runs of a tenant, sorted by name.
func (f *fixture) runScopes(tenant string, projects []string, limit int) (names []string) {
	f.Helper()
	out, err := f.store.RunScopes(f.ctx(), tenant, projects, limit)
	f.ok(err)
	for _, p := range out {
		names = append(names, p.ProjectID+"/"+p.EnvironmentID)
	}
	slices.Sort(names)
	return names
}

func testListReadsOneTenant(f *fixture) {
	f.run()
	foreign := identity(9)
	foreign.TenantID = "t2"
	f.create(newRun(foreign, runtest.Draft(run.RunApproved, "", 1)))
	f.equal([]string{"run-001"}, runIDs(f.list(store.RunFilter{Limit: 10})), "t1")
	f.equal([]string{"run-009"}, runIDs(f.list(store.RunFilter{TenantID: "t2", Limit: 10})), "t2")
	f.equal([]string{}, runIDs(f.list(store.RunFilter{TenantID: "T1", Limit: 10})), "T1")
	_, cursor, err := f.store.ListChanged(f.ctx(), store.RunFilter{TenantID: "t1"}, "")
	f.ok(err)
	f.append(foreign, runtest.Draft(run.RunCancelled, "", 1))
	f.save(f.load(foreign))
	rows, _, err := f.store.ListChanged(f.ctx(), store.RunFilter{TenantID: "t1"}, cursor)
	f.ok(err)
	for _, r := range rows {
		if r.Header.TenantID != "t1" {
			f.Errorf("Changed() of t1 returned %s of tenant %s", r.Header.RunID, r.Header.TenantID)
		}
	}
}

func testListShowsCheckpointAndHead(f *fixture) {
	id := f.run()
	row := f.list(store.RunFilter{Limit: 1})[0]
	f.equal(f.load(id).State.Header, row.Header, "header before any projector saw the run")
	f.append(id, stepStarted("s1", 1))
	row = f.list(store.RunFilter{Limit: 1})[0]
	f.equal([]run.Seq{2, 3}, []run.Seq{row.Header.Seq, row.Head}, "checkpoint lags")
	f.acceptSignal(id, "u1", run.Pause, true)
	f.save(f.load(id))
	row = f.list(store.RunFilter{Limit: 1})[0]
	f.equal([]any{run.Seq(4), run.Seq(4), f.head(id).OpsRev}, []any{row.Header.Seq, row.Head, row.OpsRev}, "row")
}

func testListNamesTheRunThatARunReruns(f *fixture) {
	first := f.run()
	again := newRun(identity(2), runtest.Draft(run.RunApproved, "", 1))
	again.Run.ParentRunID = first.RunID
	f.create(again)
	rows := f.list(store.RunFilter{Limit: 10})
	f.equal([]string{first.RunID, ""}, []string{rows[0].ParentRunID, rows[1].ParentRunID}, "parents of the runs")
}

// List returns the steps of the same checkpoint as the header, in the order of the plan.
func testListReturnsTheStepsOfTheCheckpoint(f *fixture) {
	first, second := f.run(), f.run()
	f.create(newRun(identity(3), runtest.Draft(run.RunApproved, "", 1)))
	want := f.load(second).State
	f.append(second, stepStarted("s1", 1)) // not saved
	f.append(first, stepStarted("s1", 1), stepCompleted("s1", 1))
	f.save(f.load(first))
	rows := f.list(store.RunFilter{Limit: 10, Steps: true})
	f.equal([]string{"run-003", "run-002", "run-001"}, runIDs(rows), "runs")
	f.equal(want, run.State{Header: rows[1].Header, Steps: rows[1].Steps}, "a run whose checkpoint lags")
	f.equal(f.load(first).State, run.State{Header: rows[2].Header, Steps: rows[2].Steps},
		"a run whose checkpoint is at the head")
	f.equal(0, len(rows[0].Steps), "steps of a run that has none yet")
	for _, row := range f.list(store.RunFilter{Limit: 10}) {
		f.equal(0, len(row.Steps), "steps without RunFilter.Steps")
	}
}

func testListStepsAreBounded(f *fixture) {
	const each, fit = 2000, store.MaxListSteps / 2000
	names := make([]string, each)
	for i := range names {
		names[i] = fmt.Sprintf("s%04d", i)
	}
	for n := range fit + 1 {
		f.create(newRun(identity(n), runtest.Start(names...)))
	}
	steps := 0
	for _, row := range f.list(store.RunFilter{Limit: fit, Steps: true}) {
		steps += len(row.Steps)
	}
	f.equal(store.MaxListSteps, steps, "steps at the limit")
	_, err := f.store.List(f.ctx(), store.RunFilter{TenantID: "t1", Limit: fit + 1, Steps: true})
	f.wantError(err, store.ErrTooMany)
}
