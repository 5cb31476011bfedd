package storetest

import (
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var attentionCases = []testCase{
	{"ListFindsRunsThatAwaitAnOperator", testListFindsRunsThatAwaitAnOperator},
	{"AwaitingRunsComeByDeadline", testAwaitingRunsComeByDeadline},
	{"CountUpToIsBounded", testCountUpToIsBounded},
}

// failedAwaiting fails the step s1 of a run whose other steps do not run, which opens the retry window.
func failedAwaiting(id run.Identity, deadline time.Time) store.Append {
	return store.Append{RunID: id.RunID, Events: []run.Draft{stepFailed("s1", 1)}, SetGate: run.GateFailing,
		RetryDeadline: deadline}
}

// awaitingRun creates a run that awaits an operator and has a checkpoint.
func (f *fixture) awaitingRun(deadline time.Time) run.Identity {
	f.Helper()
	id := f.run()
	f.append(id, stepStarted("s1", 1))
	f.appendAny(failedAwaiting(id, deadline))
	f.save(f.load(id))
	return id
}

func testListFindsRunsThatAwaitAnOperator(f *fixture) {
	waits := f.awaitingRun(runtest.Epoch.Add(time.Hour))
	running := f.run()
	failed := f.run()
	f.append(failed, stepStarted("s1", 1), stepFailed("s1", 1), runtest.Draft(run.RunFailed, "", 1))
	f.save(f.load(running))
	f.save(f.load(failed))
	for _, c := range []struct {
		filter store.RunFilter
		want   []string
	}{
		{store.RunFilter{AwaitingOperator: true}, []string{waits.RunID}},
		{store.RunFilter{AwaitingOperator: true, Statuses: []run.Status{run.Failed}}, []string{failed.RunID, waits.RunID}},
		{store.RunFilter{AwaitingOperator: true, Statuses: []run.Status{run.Running}}, []string{running.RunID, waits.RunID}},
		{store.RunFilter{Statuses: []run.Status{run.Failed}}, []string{failed.RunID}},
		{store.RunFilter{AwaitingOperator: true, EnvironmentID: "nowhere"}, []string{}},
		{store.RunFilter{AwaitingOperator: true, TenantID: "t2"}, []string{}},
	} {
		c.filter.Limit = 10
		f.equal(c.want, runIDs(f.list(c.filter)), fmt.Sprintf("%+v", c.filter))
	}
	// The window closes when somebody retries the step, and the run leaves the list.
	f.appendAny(store.Append{RunID: waits.RunID, ClearGate: run.GateFailing,
		Events: []run.Draft{runtest.Draft(run.StepStartedEvent, "s1", 2)}})
	f.save(f.load(waits))
	f.equal([]string{}, runIDs(f.list(store.RunFilter{AwaitingOperator: true, Limit: 10})), "after the retry")
	// A checkpoint that is dropped and saved again lists the run as before.
	again := f.awaitingRun(runtest.Epoch.Add(time.Hour))
	f.ok(f.store.DropCheckpoint(f.ctx(), again.RunID))
	f.save(f.load(again))
	f.equal([]string{again.RunID}, runIDs(f.list(store.RunFilter{AwaitingOperator: true, Limit: 10})), "saved again")
}

func testAwaitingRunsComeByDeadline(f *fixture) {
	late := f.awaitingRun(runtest.Epoch.Add(3 * time.Hour))
	soon := f.awaitingRun(runtest.Epoch.Add(time.Hour))
	f.run()
	get := func(filter store.WaitFilter) []string {
		f.Helper()
		rows, err := f.store.ListAwaitingRuns(f.ctx(), filter)
		f.ok(err)
		return runIDs(rows)
	}
	f.equal([]string{soon.RunID, late.RunID}, get(store.WaitFilter{TenantID: "t1", Limit: 10}), "by the end of the window")
	f.equal([]string{soon.RunID}, get(store.WaitFilter{TenantID: "t1", Limit: 1}), "the first one")
	f.equal([]string{}, get(store.WaitFilter{TenantID: "t1", ProjectIDs: []string{}, Limit: 10}), "of no project")
	f.equal([]string{}, get(store.WaitFilter{TenantID: "t1", EnvironmentID: "nowhere", Limit: 10}),
		"of another environment")
	f.equal([]string{}, get(store.WaitFilter{TenantID: "t1", Scopes: store.Scopes{}, Limit: 10}), "of no scope")
	f.equal([]string{}, get(store.WaitFilter{TenantID: "t2", Limit: 10}), "of another tenant")
	rows, err := f.store.ListAwaitingRuns(f.ctx(), store.WaitFilter{TenantID: "t1", Limit: 1})
	f.ok(err)
	f.equal(f.load(soon).State.Header, rows[0].Header, "header")
	f.append(soon, runtest.Draft(run.RunFailed, "", 1))
	f.save(f.load(soon))
	f.equal([]string{late.RunID}, get(store.WaitFilter{TenantID: "t1", Limit: 10}), "after the end of a run")
}

func testCountUpToIsBounded(f *fixture) {
	for range 5 {
		f.run()
	}
	waits := f.awaitingRun(runtest.Epoch.Add(time.Hour))
	count := func(filter store.RunFilter, limit int) int {
		f.Helper()
		filter.TenantID = "t1"
		n, err := f.store.CountUpTo(f.ctx(), filter, limit)
		f.ok(err)
		return n
	}
	f.equal(6, count(store.RunFilter{}, 10), "all")
	f.equal(3, count(store.RunFilter{}, 3), "up to 3")
	f.equal(1, count(store.RunFilter{AwaitingOperator: true, Statuses: []run.Status{run.Failed}}, 10), "awaiting")
	f.equal(0, count(store.RunFilter{ProjectIDs: []string{}}, 10), "of no project")
	f.equal(1, count(store.RunFilter{Text: waits.RunID}, 10), "by text")
}
