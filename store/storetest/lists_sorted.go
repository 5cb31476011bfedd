package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// Each order lists only the runs that have its key. Pages continue after the row before, also between equal keys.
func testListSorts(f *fixture) {
	end := func(of run.EventType, after time.Duration) string {
		id := f.run()
		d := runtest.Draft(of, "", 1)
		d.EmittedAt = runtest.Epoch.Add(after)
		f.append(id, d)
		f.save(f.load(id))
		return id.RunID
	}
	waiting := func(left time.Duration) string { return f.awaitingRun(runtest.Epoch.Add(left)).RunID }
	slow, quick := end(run.RunCompleted, 3*time.Minute), end(run.RunCancelled, time.Minute)
	failed, tied := end(run.RunFailed, 2*time.Minute+time.Microsecond), end(run.RunFailed, 2*time.Minute)
	tied2 := end(run.RunCompleted, 2*time.Minute)
	late, soon, soon2 := waiting(3*time.Hour), waiting(time.Hour), waiting(time.Hour)
	f.run() // runs
	never := f.create(newRun(identity(90), runtest.Draft(run.RunApproved, "", 1)))
	d := runtest.Draft(run.RunCancelled, "", 1)
	d.EmittedAt = runtest.Epoch.Add(time.Hour)
	f.append(never, d) // ended, but never started
	f.save(f.load(never))

	for _, c := range []struct {
		filter store.RunFilter
		want   []string // the greatest first
	}{
		{store.RunFilter{Sort: store.SortEnded}, []string{never.RunID, slow, failed, tied2, tied, quick}},
		{store.RunFilter{Sort: store.SortEnded, Statuses: []run.Status{run.Failed, run.Running}}, []string{failed, tied}},
		{store.RunFilter{Sort: store.SortEnded, Statuses: []run.Status{run.Running}}, nil},
		{store.RunFilter{Sort: store.SortEnded, AwaitingOperator: true}, nil},
		{store.RunFilter{Sort: store.SortEnded, AwaitingOperator: true, Statuses: []run.Status{run.Cancelled}},
			[]string{never.RunID, quick}},
		{store.RunFilter{Sort: store.SortEnded, ProjectIDs: []string{"nothing"}}, nil},
		{store.RunFilter{Sort: store.SortEnded, TenantID: "t2"}, nil},
		{store.RunFilter{Sort: store.SortDuration, PlanID: f.load(never).State.PlanID},
			[]string{slow, failed, tied2, tied, quick}},
		{store.RunFilter{Sort: store.SortDuration, PlanID: "nothing"}, nil},
		{store.RunFilter{Sort: store.SortTimeLeft}, []string{late, soon2, soon}},
		{store.RunFilter{Sort: store.SortTimeLeft, Statuses: []run.Status{run.Failed}}, nil},
		{store.RunFilter{Sort: store.SortTimeLeft, Statuses: []run.Status{run.Failed}, AwaitingOperator: true},
			[]string{late, soon2, soon}},
	} {
		for _, ascending := range []bool{false, true} {
			filter, want := c.filter, slices.Clone(c.want)
			filter.Ascending = ascending
			if ascending {
				slices.Reverse(want)
			}
			f.equal(want, f.walk(filter, 2, false), fmt.Sprintf("forward: %+v", filter))
			f.equal(want, f.walk(filter, 2, true), fmt.Sprintf("backward: %+v", filter))
		}
	}
}

// walk reads a list by pages to its end, or from its end to its beginning, and returns the ids in display order.
func (f *fixture) walk(filter store.RunFilter, size int, backward bool) (ids []string) {
	f.Helper()
	filter.Limit = size
	if backward {
		filter.Before = &store.RunPos{}
		if filter.Ascending {
			filter.Before = &store.RunPos{CreatedAt: runtest.Epoch.AddDate(100, 0, 0), Took: 1000 * time.Hour}
		}
	}
	for range 20 {
		rows := f.list(filter)
		if len(rows) == 0 {
			return ids
		}
		if backward {
			ids, filter.Before = append(runIDs(rows), ids...), &rows[0].Pos
		} else {
			ids, filter.After = append(ids, runIDs(rows)...), &rows[len(rows)-1].Pos
		}
	}
	f.Fatalf("the pages of %+v do not end: %v", filter, ids)
	return nil
}

// An order that an index cannot serve for a filter would read all runs.
func testListRefusesAnOrderWithoutAnIndex(f *fixture) {
	f.run()
	for _, filter := range []store.RunFilter{
		{Sort: store.SortDuration},
		{Sort: store.SortEnded, Text: "x"}, {Sort: store.SortEnded, Tag: "x"}, {Sort: store.SortEnded, TriggeredBy: "ana"},
		{Sort: store.SortEnded, CreatedFrom: runtest.Epoch}, {Sort: store.SortEnded, CreatedTo: runtest.Epoch},
		{Sort: store.SortTimeLeft, Tag: "x"},
	} {
		filter.TenantID, filter.Limit = "t1", 10
		_, err := f.store.List(f.ctx(), filter)
		f.wantError(err, store.ErrSort)
	}
	f.equal([]string{}, runIDs(f.list(store.RunFilter{Sort: store.SortTimeLeft, TriggeredBy: "ana",
		CreatedFrom: runtest.Epoch, Limit: 10})), "runs that wait may be restricted by more, because they are few")
}
