package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var changedCases = []testCase{
	// contract: T186
	{"ChangedFollowsSaves", testChangedFollowsSaves},
	// contract: T186
	{"ChangedComesInPages", testChangedComesInPages},
	// contract: T186
	{"ChangedStartsAgainWithAnInvalidCursor", testChangedStartsAgainWithAnInvalidCursor},
	// contract: T101
	{"ChangedReadsOneTenantUnlessAskedForAll", testChangedReadsOneTenantUnlessAskedForAll},
	// contract: T186
	{"ChangedMissesNoSave", testChangedMissesNoSave},
}

// readChanged reads one page and records in seen the highest seq of each run. It returns the next cursor.
func (f *fixture) readChanged(filter store.RunFilter, cursor string, seen map[string]run.Seq) string {
	rows, next, err := f.store.ListChanged(f.ctx(), filter, cursor)
	if err != nil {
		f.Errorf("Changed() failed: %v", err)
		return cursor
	}
	for _, r := range rows {
		seen[r.Header.RunID] = max(seen[r.Header.RunID], r.Header.Seq)
	}
	return next
}

func testChangedFollowsSaves(f *fixture) {
	p1 := store.RunFilter{TenantID: "t1", ProjectIDs: []string{"p1"}, Statuses: []run.Status{run.Running}}
	old := f.run()
	seen := map[string]run.Seq{}
	cursor := f.readChanged(p1, "", seen)
	f.equal(map[string]run.Seq{}, seen, `"" starts now`)
	made := f.run()
	cursor = f.readChanged(p1, cursor, seen)
	f.equal(run.Seq(2), seen[made.RunID], "a new run")
	f.append(old, runtest.Draft(run.RunCancelled, "", 1))
	f.save(f.load(old))
	cursor = f.readChanged(p1, cursor, seen)
	f.equal(run.Seq(3), seen[old.RunID], "seq of a run that left the filter of statuses")
	other := identity(9)
	other.ProjectID = "p9"
	f.create(newRun(other))
	f.readChanged(p1, cursor, seen)
	if _, found := seen[other.RunID]; found {
		f.Error("Changed() returned a run of another project")
	}
	f.ok(f.store.BumpEpoch(f.ctx()))
	again := map[string]run.Seq{}
	f.readChanged(p1, cursor, again)
	f.equal(map[string]run.Seq{old.RunID: 3, made.RunID: 2}, again, "a cursor of another epoch starts from the beginning")
}

// readPages reads pages until one is not full. It returns the runs of each page and the last cursor.
func (f *fixture) readPages(filter store.RunFilter, cursor string) (pages [][]string, next string) {
	f.Helper()
	for {
		rows, after, err := f.store.ListChanged(f.ctx(), filter, cursor)
		f.ok(err)
		pages, cursor = append(pages, runIDs(rows)), after
		if len(rows) < filter.Limit {
			return pages, cursor
		}
		if len(pages) > 100 {
			f.Fatal("the reader has not caught up after 100 pages")
		}
	}
}

func testChangedComesInPages(f *fixture) {
	for range 7 {
		f.run()
	}
	want := []string{"run-001", "run-002", "run-003", "run-004", "run-005", "run-006", "run-007"}
	for _, limit := range []int{1, 2, 3, 7, 8} {
		filter := store.RunFilter{TenantID: "t1", Limit: limit}
		pages, cursor := f.readPages(filter, store.FeedStart)
		for _, p := range pages[:len(pages)-1] {
			f.equal(limit, len(p), "rows of a page that is not the last")
		}
		seen := slices.Concat(pages...)
		slices.Sort(seen)
		f.equal(want, slices.Compact(seen), fmt.Sprintf("runs seen in pages of %d", limit))
		f.append(identity(4), stepStarted("s1", limit))
		f.save(f.load(identity(4)))
		pages, _ = f.readPages(filter, cursor)
		if seen := slices.Concat(pages...); !slices.Contains(seen, "run-004") {
			f.Fatalf("pages of %d: run-004 changed after the last page, but the next pages have only %v", limit, seen)
		}
	}
}

func testChangedStartsAgainWithAnInvalidCursor(f *fixture) {
	f.run()
	f.run()
	f.run()
	filter := store.RunFilter{TenantID: "t1", Limit: 2}
	all := []string{"run-001", "run-002", "run-003"}
	everything := func(cursor, what string) {
		f.Helper()
		pages, _ := f.readPages(filter, cursor)
		seen := slices.Concat(pages...)
		slices.Sort(seen)
		f.equal(all, slices.Compact(seen), what)
	}
	for _, cursor := range []string{store.FeedStart, "?", "0", "////", "::", "-1", "' OR 1 = 1 --"} {
		everything(cursor, fmt.Sprintf("cursor %q", cursor))
	}
	_, middle, err := f.store.ListChanged(f.ctx(), filter, store.FeedStart)
	f.ok(err)
	_, end := f.readPages(filter, middle)
	f.ok(f.store.BumpEpoch(f.ctx()))
	everything(middle, "a cursor within a page of another epoch")
	everything(end, "a cursor of another epoch")
	_, now, err := f.store.ListChanged(f.ctx(), filter, "")
	f.ok(err)
	if now == end {
		f.Fatal("the cursor of the new epoch equals that of the old one, want the epoch in it")
	}
	f.append(identity(2), runtest.Draft(run.RunCancelled, "", 1))
	f.save(f.load(identity(2)))
	pages, _ := f.readPages(filter, now)
	if !slices.Contains(slices.Concat(pages...), "run-002") {
		f.Fatal("Changed() does not return a change after the first cursor of the new epoch")
	}
}

func testChangedReadsOneTenantUnlessAskedForAll(f *fixture) {
	f.run()
	foreign := identity(9)
	foreign.TenantID = "t2"
	f.create(newRun(foreign, runtest.Draft(run.RunApproved, "", 1)))
	for _, c := range []struct {
		filter store.RunFilter
		want   []string
	}{
		{store.RunFilter{TenantID: "t1"}, []string{"run-001"}},
		{store.RunFilter{TenantID: "t2"}, []string{"run-009"}},
		{store.RunFilter{TenantID: "t2", ProjectIDs: []string{}}, []string{}},
		{store.RunFilter{}, []string{}},
		{store.RunFilter{EveryTenant: true}, []string{"run-001", "run-009"}},
		{store.RunFilter{TenantID: "t1", EveryTenant: true}, []string{"run-001"}},
	} {
		rows, _, err := f.store.ListChanged(f.ctx(), c.filter, store.FeedStart)
		f.ok(err)
		got := runIDs(rows)
		slices.Sort(got)
		f.equal(c.want, got, fmt.Sprintf("%+v", c.filter))
		rows, err = f.store.List(f.ctx(), store.RunFilter{EveryTenant: true, Limit: 10})
		f.ok(err)
		f.equal(0, len(rows), "rows of a list that names no tenant")
	}
}

func testChangedMissesNoSave(f *fixture) {
	filter := store.RunFilter{TenantID: "t1", ProjectIDs: []string{"p1"}, Limit: 5}
	seen := map[string]run.Seq{}
	cursor := f.readChanged(filter, "", seen)
	const writers, runs, events = 4, 3, 5
	others := []store.Store{f.store, f.db.Open(f)}
	var wg sync.WaitGroup
	done := make(chan struct{})
	for w := range writers {
		wg.Go(func() {
			s := others[w%2]
			for n := range runs {
				id := identity(100 + w*10 + n)
				if _, _, err := s.CreateRun(f.ctx(), newRun(id, runtest.Draft(run.RunApproved, "", 1),
					runtest.Start("s1"))); err != nil {
					f.Error(err)
					return
				}
				for attempt := range events {
					_, err := s.Append(f.ctx(), store.Append{RunID: id.RunID, Events: []run.Draft{stepStarted("s1", attempt+1)}})
					if err != nil {
						f.Error(err)
						return
					}
					l, err := s.Load(f.ctx(), id.RunID)
					if err == nil {
						_, err = s.Save(f.ctx(), l.State, l.Changes)
					}
					if err != nil {
						f.Error(err)
						return
					}
				}
			}
		})
	}
	go func() { wg.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(time.Millisecond):
		}
		cursor = f.readChanged(filter, cursor, seen)
	}
	for range writers * runs { // more pages than the runs need
		cursor = f.readChanged(filter, cursor, seen)
	}
	f.equal(writers*runs, len(seen), "runs seen")
	for id, seq := range seen {
		f.equal(run.Seq(2+events), seq, "last seq seen of "+id)
	}
}
