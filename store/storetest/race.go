package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var raceCases = []testCase{
	// contract: A05
	{"ConcurrentDuplicatesAreInsertedOnce", testConcurrentDuplicatesAreInsertedOnce},
	// contract: A06, T27
	{"ConcurrentAppendsHaveContiguousSeqs", testConcurrentAppendsHaveContiguousSeqs},
	// contract: T227
	{"TwoProcessesAppendToOneRun", testTwoProcessesAppendToOneRun},
	// contract: T185
	{"ConcurrentStartsOfAnAttemptInsertOnce", testConcurrentStartsOfAnAttemptInsertOnce},
	// contract: T93
	{"ConcurrentCreatesMakeOneRun", testConcurrentCreatesMakeOneRun},
	// contract: T128
	{"ConcurrentLeasesTakeEachRowOnce", testConcurrentLeasesTakeEachRowOnce},
}

var opsCases = []testCase{
	// contract: T194
	{"EpochIsSharedAndChanges", testEpochIsSharedAndChanges},
	{"EventsAreInsertOnly", testEventsAreInsertOnly},
	// contract: T187
	{"HeadsReturnsKnownRuns", testHeadsReturnsKnownRuns},
	{"ClosedStoreIsUnavailable", testClosedStoreIsUnavailable},
}

// concurrently runs do in n goroutines that start at the same time, and fails the test if one returns an error.
func (f *fixture) concurrently(n int, do func(i int) error) {
	f.Helper()
	var wg sync.WaitGroup
	gun := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gun
			if err := do(i); err != nil {
				f.Errorf("goroutine %d: %v", i, err)
			}
		})
	}
	close(gun)
	wg.Wait()
	if f.Failed() {
		f.FailNow()
	}
}

func testConcurrentDuplicatesAreInsertedOnce(f *fixture) {
	id := f.run()
	got := make([]store.EventOutcome, 50)
	f.concurrently(len(got), func(i int) error {
		out, err := f.store.Append(f.ctx(), store.Append{RunID: id.RunID, Events: []run.Draft{stepStarted("s1", 1)}})
		if err == nil {
			got[i] = out.Outcomes[0]
		}
		return err
	})
	inserted := 0
	for i := range got {
		if !got[i].Deduplicated {
			inserted++
		}
		got[i].Deduplicated = true
		f.equal(got[0], got[i], "results of concurrent appends")
	}
	f.equal([]int{1, 3}, []int{inserted, len(f.log(id))}, "inserted, events")
}

func testConcurrentAppendsHaveContiguousSeqs(f *fixture) {
	f.runs++
	id := f.create(newRun(identity(f.runs)))
	const writers, each = 50, 20
	done := make(chan struct{})
	var read []run.Event
	var readErr error
	var reader sync.WaitGroup
	reader.Go(func() {
		for last := false; ; {
			var after run.Seq
			if len(read) > 0 {
				after = read[len(read)-1].Seq
			}
			evs, err := f.store.Events(f.ctx(), id.RunID, after, 100)
			if err != nil || (last && len(evs) == 0) {
				readErr = err
				return
			}
			read = append(read, evs...)
			select {
			case <-done:
				last = true
			default:
			}
		}
	})
	f.concurrently(writers, func(w int) error {
		for n := 0; n < each; { // single events and batches of three
			a := store.Append{RunID: id.RunID}
			for range 1 + n%2*2 {
				n++
				a.Events = append(a.Events, stepStarted(fmt.Sprintf("s%d", w), n))
			}
			if _, err := f.store.Append(f.ctx(), a); err != nil {
				return err
			}
		}
		return nil
	})
	close(done)
	reader.Wait()
	f.ok(readErr)
	f.checkContiguous(read, writers*each)
	f.equal(writers*each, f.head(id).Running, "running")
}

// checkContiguous checks that a log has the seqs 1 to n and distinct keys.
func (f *fixture) checkContiguous(evs []run.Event, n int) {
	f.Helper()
	f.equal(n, len(evs), "events")
	keys := map[run.Key]bool{}
	for i, e := range evs {
		if e.Seq != run.Seq(i+1) || keys[e.Key] {
			f.Fatalf("event %d has seq %d and key %s, want seq %d and a new key", i, e.Seq, e.Key, i+1)
		}
		keys[e.Key] = true
	}
}

func testTwoProcessesAppendToOneRun(f *fixture) {
	f.runs++
	id := f.create(newRun(identity(f.runs)))
	processes := []store.Store{f.store, f.db.Open(f)}
	const each = 40
	f.concurrently(6, func(w int) error {
		s := processes[w%2]
		for n := range each {
			// One draft that only this writer sends, and two that every writer sends.
			_, err := s.Append(f.ctx(), store.Append{RunID: id.RunID, Events: []run.Draft{
				stepStarted(fmt.Sprintf("own%d", w), n+1), stepStarted("shared", n+1), stepCompleted("shared", n+1),
			}})
			if err != nil {
				return err
			}
		}
		return nil
	})
	f.checkContiguous(f.log(id), 6*each+2*each)
	f.equal(6*each, f.head(id).Running, "running")
}

func testConcurrentStartsOfAnAttemptInsertOnce(f *fixture) {
	id := f.run()
	processes := []store.Store{f.store, f.db.Open(f)}
	var mu sync.Mutex
	starts := map[run.Seq]int{}
	f.concurrently(20, func(i int) error {
		b, err := processes[i%2].StartAttempt(f.ctx(), store.StartAttempt{RunID: id.RunID, StepID: "s1", LogicalAttempt: 1,
			EngineAttempt: 1 + i, EmittedAt: runtest.Epoch})
		mu.Lock()
		starts[b.StartedSeq]++
		mu.Unlock()
		return err
	})
	f.equal(map[run.Seq]int{3: 20}, starts, "number of results by StartedSeq")
	f.equal([]int{3, 1}, []int{len(f.log(id)), f.head(id).Running}, "events, running")
}

func testConcurrentCreatesMakeOneRun(f *fixture) {
	processes := []store.Store{f.store, f.db.Open(f)}
	got := make([]store.Run, 5)
	made := make([]bool, 5)
	f.concurrently(5, func(i int) (err error) {
		n := newRun(identity(1), runtest.Draft(run.RunApproved, "", 1))
		n.Enqueue = &store.Enqueue{Terms: store.Unlimited()}
		n.Run.RunID = fmt.Sprintf("run-%03d", i)
		got[i], made[i], err = processes[i%2].CreateRun(f.ctx(), n)
		return err
	})
	created := 0
	for i := range got {
		f.equal(got[0], got[i], "run")
		if made[i] {
			created++
		}
	}
	f.equal(1, created, "created")
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM run`), "runs")
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM run_queue`), "queue rows")
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM event`), "events")
}

func testConcurrentLeasesTakeEachRowOnce(f *fixture) {
	for range 10 {
		f.createQueued()
	}
	processes := []store.Store{f.store, f.db.Open(f)}
	var mu sync.Mutex
	leased := map[string]int{}
	f.concurrently(8, func(i int) error {
		for range 4 {
			rows, err := processes[i%2].Lease(f.ctx(), fmt.Sprintf("w%d", i), time.Minute, 2)
			if err != nil {
				return err
			}
			mu.Lock()
			for _, q := range rows {
				leased[q.RunID]++
			}
			mu.Unlock()
		}
		return nil
	})
	f.equal(10, len(leased), "rows leased")
	for id, n := range leased {
		f.equal(1, n, "leases of "+id)
	}
}

func testEpochIsSharedAndChanges(f *fixture) {
	other := f.db.Open(f)
	id := f.run()
	e1, err := f.store.Epoch(f.ctx())
	f.ok(err)
	e2, err := other.Epoch(f.ctx())
	f.ok(err)
	f.equal(e1, e2, "epoch of two processes")
	f.ok(f.store.Ping(f.ctx()))
	f.ok(f.store.CheckWritable(f.ctx()))
	f.ok(f.store.BumpEpoch(f.ctx()))
	h, err := other.Heads(f.ctx(), []string{id.RunID})
	f.ok(err)
	if h.Epoch == e1 || h.Epoch == "" {
		f.Errorf("epoch is %q after BumpEpoch, want another one than %q", h.Epoch, e1)
	}
	f.equal(h.Epoch, f.load(id).Epoch, "epoch of Load")
}

func testAuditIsInsertOnly(f *fixture) {
	row := store.AuditRow{
		ID: "5b6c0c9e-0000-4000-8000-000000000002", TenantID: "t1", Actor: "mal", Action: "PAUSE", RunID: "r", SignalID: "u1",
		Outcome: "DENIED", Code: run.CodeForbidden, Reason: "no", RequestID: "q", Detail: []byte(`{"a":1}`),
	}
	f.ok(f.store.Audit(f.ctx(), row))
	f.ok(f.store.Audit(f.ctx(), row)) // repeated as after a lost response
	count := func() int {
		return f.db.Count(f, `SELECT count(*) FROM audit WHERE actor = 'mal' AND code = 'FORBIDDEN'`)
	}
	f.equal(1, count(), "rows")
	for _, statement := range []string{`UPDATE audit SET actor = 'nobody'`, `DELETE FROM audit`} {
		if err := f.db.Exec(f, statement); err == nil {
			f.Errorf("%s succeeded, want an error", statement)
		}
	}
	f.equal(1, count(), "rows after the statements")
}

func testEventsAreInsertOnly(f *fixture) {
	id := f.run()
	before := f.log(id)
	for _, statement := range []string{`UPDATE event SET type = 'RunCancelled'`, `DELETE FROM event`} {
		if err := f.db.Exec(f, statement); err == nil {
			f.Errorf("%s succeeded, want an error", statement)
		}
	}
	f.equal(before, f.log(id), "log")
}

func testHeadsReturnsKnownRuns(f *fixture) {
	a, b := f.run(), f.run()
	f.append(a, stepStarted("s1", 1))
	f.append(b, runtest.Draft(run.RunCancelled, "", 1))
	got, err := f.store.Heads(f.ctx(), []string{a.RunID, b.RunID, "nobody", a.RunID})
	f.ok(err)
	f.equal(2, len(got.ByRun), "known runs")
	f.equal([]any{run.Seq(3), 1, false}, []any{got.ByRun[a.RunID].LastSeq, got.ByRun[a.RunID].Running,
		got.ByRun[a.RunID].Terminal}, "a")
	f.equal([]any{run.Seq(3), 0, true}, []any{got.ByRun[b.RunID].LastSeq, got.ByRun[b.RunID].Running,
		got.ByRun[b.RunID].Terminal}, "b")
	f.equal(f.log(a)[2].PersistedAt, got.ByRun[a.RunID].LastAt, "lastAt")
	f.equal(got.ByRun[a.RunID], f.load(a).Head, "head of Load")
	if _, err := f.store.Heads(f.ctx(), make([]string, store.MaxHeads+1)); err == nil {
		f.Error("Heads() accepted more than MaxHeads ids, want an error")
	}
	got, err = f.store.Heads(f.ctx(), nil)
	f.ok(err)
	f.equal(0, len(got.ByRun), "heads of no run")
}

func testClosedStoreIsUnavailable(f *fixture) {
	id := f.run()
	s := f.db.Open(f)
	f.ok(s.Close())
	_, err := s.Append(f.ctx(), store.Append{RunID: id.RunID, Events: []run.Draft{stepStarted("s1", 1)}})
	f.wantError(err, store.ErrUnavailable)
	_, err = s.Load(f.ctx(), id.RunID)
	f.wantError(err, store.ErrUnavailable)
	_, err = s.List(f.ctx(), store.RunFilter{TenantID: "t1", Limit: 1})
	f.wantError(err, store.ErrUnavailable)
	f.wantError(s.Ping(f.ctx()), store.ErrUnavailable)
	f.append(id, stepStarted("s1", 1)) // the other process still works
}
