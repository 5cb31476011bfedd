package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var sweepCases = []testCase{
	// contract: T99
	{"QuietListsOpenRuns", testQuietListsOpenRuns},
	// contract: T166
	{"QuietListsRunningSteps", testQuietListsRunningSteps},
	{"StuckStartsAreListed", testStuckStartsAreListed},
	// contract: T192
	{"StoppingListsOpenStops", testStoppingListsOpenStops},
	// contract: T82
	{"WaitingListsOpenWaits", testWaitingListsOpenWaits},
}

func (f *fixture) quietRuns(quiet time.Duration, after string, limit int) []store.QuietRun {
	f.Helper()
	out, err := f.store.ListQuietRuns(f.ctx(), quiet, after, limit)
	f.ok(err)
	return out
}

func quietIDs(rows []store.QuietRun) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, r.RunID)
	}
	return out
}

func testQuietListsOpenRuns(f *fixture) {
	a, b, queued := f.run(), f.run(), f.createQueued()
	f.equal([]string{a.RunID, b.RunID, queued.RunID}, quietIDs(f.quietRuns(0, "", 10)), "open runs")
	f.equal([]string{b.RunID}, quietIDs(f.quietRuns(0, a.RunID, 1)), "a page")
	f.equal(0, len(f.quietRuns(time.Hour, "", 10)), "quiet for an hour")
	f.append(a, runtest.Draft(run.RunCompleted, "", 1)) // the checkpoint lags
	f.equal([]string{b.RunID, queued.RunID}, quietIDs(f.quietRuns(0, "", 10)), "without the one that ended")
	rows := f.quietRuns(0, b.RunID, 10)
	f.equal([]any{store.QueuePending, queued, f.head(queued), newRun(queued).Run.PlanRef},
		[]any{rows[0].Queue, rows[0].Identity, rows[0].Head, rows[0].PlanRef}, "row")
	if age := time.Since(rows[0].Now); age > time.Minute || age < -time.Minute {
		f.Errorf("the clock of the store differs by %v, want less than a minute", age)
	}
	f.equal(store.QueueStatus(""), f.quietRuns(0, "", 1)[0].Queue, "without a queue row")
}

func testQuietListsRunningSteps(f *fixture) {
	id := f.run()
	f.append(id, stepStarted("s1", 1), stepStarted("s2", 1), runtest.Draft(run.StepAwaitingManualCompletion, "s2", 1))
	f.save(f.load(id))
	running := f.quietRuns(0, "", 10)[0].Running
	f.equal(1, len(running), "running steps")
	f.equal([]any{"s1", 1, run.StepRunning}, []any{running[0].StepID, running[0].LogicalAttempt, running[0].Status},
		"step")
	f.append(id, stepCompleted("s1", 1))
	f.equal(0, len(f.quietRuns(0, "", 10)[0].Running), "running steps after the last one ended")
}

func testStoppingListsOpenStops(f *fixture) {
	a, b, graceful, applied, ended, paused := f.run(), f.run(), f.run(), f.run(), f.run(), f.run()
	stop := func(id run.Identity, signalID string, t run.SignalType) {
		f.Helper()
		f.acceptSignal(id, signalID, t, true)
		f.appendAny(store.Append{RunID: id.RunID, SetGate: run.GateStopped})
	}
	stopping := func(age time.Duration, after string, limit int) []string {
		f.Helper()
		rows, err := f.store.ListStoppingRuns(f.ctx(), age, after, limit)
		f.ok(err)
		out := []string{}
		for _, r := range rows {
			out = append(out, r.RunID+" "+r.SignalID)
		}
		return out
	}
	f.equal([]string{}, stopping(0, "", 10), "stops without an order")
	f.acceptSignal(paused, "u1", run.Pause, true)
	f.acceptSignal(b, "u0", run.Pause, true)
	for _, id := range []run.Identity{a, b, applied, ended} {
		stop(id, "u1", run.Cancel)
	}
	stop(graceful, "u1", run.EmergencyStop)
	stop(b, "u2", run.EmergencyStop) // the first one counts
	noop := store.SignalOutcome{SignalID: "u1", Application: run.SignalNoop, AppliedBy: -1}
	f.appendAny(store.Append{RunID: applied.RunID, Outcomes: []store.SignalOutcome{noop}})
	f.append(ended, runtest.Draft(run.RunCancelled, "", 1)) // the checkpoint lags
	f.equal([]string{a.RunID + " u1", b.RunID + " u1", graceful.RunID + " u1"}, stopping(0, "", 10), "stops that are open")
	f.equal([]string{b.RunID + " u1"}, stopping(0, a.RunID, 1), "a page")
	f.equal([]string{}, stopping(time.Hour, "", 10), "older than an hour")
	rows, err := f.store.ListStoppingRuns(f.ctx(), 0, "", 1)
	f.ok(err)
	f.equal([]any{a, f.receipt(a, "u1").ReceivedAt}, []any{rows[0].Identity, rows[0].ReceivedAt}, "row")
	leased, err := f.store.LeaseDeliveries(f.ctx(), "w1", time.Minute, 10)
	f.ok(err)
	for _, d := range leased {
		f.ok(f.store.MarkDelivered(f.ctx(), d, 100))
	}
	f.equal(3, len(stopping(0, "", 10)), "stops that were delivered and not applied")
}

func testStuckStartsAreListed(f *fixture) {
	stuck := func(age time.Duration) []string {
		rows, err := f.store.ListStuckStarts(f.ctx(), age, 10)
		f.ok(err)
		out := []string{}
		for _, q := range rows {
			out = append(out, q.RunID)
		}
		return out
	}
	a, b := f.createQueued(), f.createQueued()
	f.equal([]string{a.RunID, b.RunID}, stuck(0), "due")
	f.equal([]string{}, stuck(time.Hour), "due for an hour")
	leased := f.lease("w1", time.Minute, 1)[0]
	f.equal([]string{b.RunID}, stuck(0), "leased")
	f.ok(f.store.Release(f.ctx(), leased.RunID, leased.Generation, time.Minute, "engine unavailable"))
	f.equal([]string{b.RunID}, stuck(0), "without the run that was released for later")
	f.equal(b.RunID, f.lease("w1", 20*time.Millisecond, 1)[0].RunID, "leased")
	f.eventually(5*time.Second, "the lease is over", func() bool { return slices.Contains(stuck(0), b.RunID) })
}

func testWaitingListsOpenWaits(f *fixture) {
	waits := func(w store.WaitFilter) []store.Wait {
		f.Helper()
		if w.TenantID == "" {
			w.TenantID = "t1"
		}
		w.Limit = max(w.Limit, 1)
		out, err := f.store.ListWaits(f.ctx(), w)
		f.ok(err)
		return out
	}
	names := func(list []store.Wait) []string {
		out := []string{}
		for _, w := range list {
			out = append(out, fmt.Sprintf("%s/%s/%d", w.RunID, w.StepID, w.LogicalAttempt))
		}
		return out
	}
	deadline := runtest.Epoch.Add(time.Hour)
	wait := func(id run.Identity, step string, attempt int, more ...runtest.M) run.Seq {
		f.Helper()
		out := f.append(id, stepStarted(step, attempt), runtest.Draft(run.StepAwaitingManualCompletion, step, attempt,
			more...))
		f.save(f.load(id))
		return out.Head.LastSeq
	}
	b, a := f.run(), f.run()
	seq := wait(a, "s1", 1, runtest.M{"sinceIso": runtest.Epoch, "deadline": deadline})
	wait(b, "s2", 1)
	wait(b, "s1", 1)
	all := waits(store.WaitFilter{Limit: 10})
	f.equal([]string{a.RunID + "/s1/1", b.RunID + "/s2/1", b.RunID + "/s1/1"}, names(all), "all waits, the longest first")
	var since time.Time
	for _, e := range f.log(a) {
		if e.Seq == seq {
			since = e.PersistedAt
		}
	}
	f.equal(store.Wait{Identity: a, PlanRef: newRun(a).Run.PlanRef, TriggeredBy: "ola", StepID: "s1", LogicalAttempt: 1,
		Since: since, Deadline: &deadline}, all[0], "wait")
	f.equal(0, len(waits(store.WaitFilter{TenantID: "t2", Limit: 10})), "another tenant")
	f.equal(0, len(waits(store.WaitFilter{ProjectIDs: []string{"other"}, Limit: 10})), "another project")
	f.equal(3, len(waits(store.WaitFilter{ProjectIDs: []string{a.ProjectID}, EnvironmentID: a.EnvironmentID, Limit: 10})),
		"its project")
	f.equal(0, len(waits(store.WaitFilter{EnvironmentID: "other", Limit: 10})), "another environment")
	its := store.Scope{ProjectID: a.ProjectID, EnvironmentID: a.EnvironmentID}
	f.equal(3, len(waits(store.WaitFilter{Scopes: store.Scopes{{EnvironmentID: "other"}, its}, Limit: 10})),
		"its scope among others")
	f.equal(0, len(waits(store.WaitFilter{Scopes: store.Scopes{{ProjectID: a.ProjectID, EnvironmentID: "other"}},
		Limit: 10})), "another scope")
	f.equal([]string{a.RunID + "/s1/1"}, names(waits(store.WaitFilter{RunID: a.RunID, Limit: 10})), "of one run")
	page := waits(store.WaitFilter{Limit: 2})
	f.equal(names(all[:2]), names(page), "first page")
	last := page[1]
	f.equal(names(all[2:]), names(
		waits(store.WaitFilter{Limit: 2, After: &store.WaitPos{Since: last.Since, RunID: last.RunID, StepID: last.StepID}})),
		"second page")

	f.append(b, stepFailed("s2", 1)) // the checkpoint lags
	f.equal([]string{a.RunID + "/s1/1", b.RunID + "/s1/1"}, names(waits(store.WaitFilter{Limit: 10})),
		"waits after one has ended")
	wait(b, "s2", 2)
	f.equal([]string{a.RunID + "/s1/1", b.RunID + "/s1/1", b.RunID + "/s2/2"}, names(waits(store.WaitFilter{Limit: 10})),
		"waits with that of the retry")
	f.append(b, runtest.Draft(run.RunCancelled, "", 1))
	f.equal([]string{a.RunID + "/s1/1"}, names(waits(store.WaitFilter{Limit: 10})), "of open runs")
}
