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
	{"ConcurrentDuplicates", concurrentDuplicates},
	// contract: A06, T27
	{"ConcurrentDistinct", concurrentDistinct},
	// contract: T227
	{"TwoProcessesOneRun", twoProcesses},
	// contract: T185
	{"ConcurrentBegins", concurrentBegins},
	// contract: T93
	{"ConcurrentCreateRun", concurrentCreate},
	// contract: T128
	{"ConcurrentLeases", concurrentLeases},
}

var opsCases = []testCase{
	// contract: T194
	{"Epoch", epoch},
	{"EventsInsertOnly", eventsInsertOnly},
	// contract: T187
	{"Heads", heads},
	{"ClosedIsUnavailable", closedUnavailable},
}

// together runs n goroutines that start at once.
func (f *fixture) together(n int, do func(i int) error) {
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

func concurrentDuplicates(f *fixture) {
	id := f.run()
	got := make([]store.EventOutcome, 50)
	f.together(len(got), func(i int) error {
		out, err := f.store.Append(f.ctx(), store.Append{RunID: id.RunID, Events: []run.Draft{started("s1", 1)}})
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
		f.equal(got[0], got[i], "answers")
	}
	f.equal([]int{1, 3}, []int{inserted, len(f.log(id))}, "inserted, events")
}

func concurrentDistinct(f *fixture) {
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
	f.together(writers, func(w int) error {
		for n := 0; n < each; { // one by one and by threes
			a := store.Append{RunID: id.RunID}
			for range 1 + n%2*2 {
				n++
				a.Events = append(a.Events, started(fmt.Sprintf("s%d", w), n))
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
	f.contiguous(read, writers*each)
	f.equal(writers*each, f.head(id).Running, "running")
}

// contiguous holds a log against 1..n with distinct keys.
func (f *fixture) contiguous(evs []run.Event, n int) {
	f.Helper()
	f.equal(n, len(evs), "events")
	keys := map[run.Key]bool{}
	for i, e := range evs {
		if e.Seq != run.Seq(i+1) || keys[e.Key] {
			f.Fatalf("event %d has seq %d, key %s", i, e.Seq, e.Key)
		}
		keys[e.Key] = true
	}
}

func twoProcesses(f *fixture) {
	f.runs++
	id := f.create(newRun(identity(f.runs)))
	processes := []store.Store{f.store, f.db.Open(f)}
	const each = 40
	f.together(6, func(w int) error {
		s := processes[w%2]
		for n := range each {
			// One draft of its own and one that every writer sends.
			_, err := s.Append(f.ctx(), store.Append{RunID: id.RunID, Events: []run.Draft{
				started(fmt.Sprintf("own%d", w), n+1), started("shared", n+1), completed("shared", n+1),
			}})
			if err != nil {
				return err
			}
		}
		return nil
	})
	f.contiguous(f.log(id), 6*each+2*each)
	f.equal(6*each, f.head(id).Running, "running")
}

func concurrentBegins(f *fixture) {
	id := f.run()
	processes := []store.Store{f.store, f.db.Open(f)}
	var mu sync.Mutex
	begun := map[run.Seq]int{}
	f.together(20, func(i int) error {
		b, err := processes[i%2].StartAttempt(f.ctx(), store.StartAttempt{RunID: id.RunID, StepID: "s1", LogicalAttempt: 1,
			EngineAttempt: 1 + i, EmittedAt: runtest.Epoch})
		mu.Lock()
		begun[b.StartedSeq]++
		mu.Unlock()
		return err
	})
	f.equal(map[run.Seq]int{3: 20}, begun, "answers")
	f.equal([]int{3, 1}, []int{len(f.log(id)), f.head(id).Running}, "events, running")
}

func concurrentCreate(f *fixture) {
	processes := []store.Store{f.store, f.db.Open(f)}
	got := make([]store.Run, 5)
	made := make([]bool, 5)
	f.together(5, func(i int) (err error) {
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

func concurrentLeases(f *fixture) {
	for range 10 {
		f.queued()
	}
	processes := []store.Store{f.store, f.db.Open(f)}
	var mu sync.Mutex
	leased := map[string]int{}
	f.together(8, func(i int) error {
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

func epoch(f *fixture) {
	other := f.db.Open(f)
	id := f.run()
	e1, err := f.store.Epoch(f.ctx())
	f.ok(err)
	e2, err := other.Epoch(f.ctx())
	f.ok(err)
	f.equal(e1, e2, "epoch of two processes")
	f.ok(f.store.Ping(f.ctx()))
	f.ok(f.store.Writable(f.ctx()))
	f.ok(f.store.BumpEpoch(f.ctx()))
	h, err := other.Heads(f.ctx(), []string{id.RunID})
	f.ok(err)
	if h.Epoch == e1 || h.Epoch == "" {
		f.Errorf("epoch %q after a bump of %q", h.Epoch, e1)
	}
	f.equal(h.Epoch, f.load(id).Epoch, "epoch of Load")
}

func auditInsertOnly(f *fixture) {
	row := store.AuditRow{
		ID: "5b6c0c9e-0000-4000-8000-000000000002", TenantID: "t1", Actor: "mal", Action: "PAUSE", RunID: "r", SignalID: "u1",
		Outcome: "DENIED", Code: run.CodeForbidden, Reason: "no", RequestID: "q", Detail: []byte(`{"a":1}`),
	}
	f.ok(f.store.Audit(f.ctx(), row))
	f.ok(f.store.Audit(f.ctx(), row)) // repeated after a lost answer
	count := func() int {
		return f.db.Count(f, `SELECT count(*) FROM audit WHERE actor = 'mal' AND code = 'FORBIDDEN'`)
	}
	f.equal(1, count(), "rows")
	for _, statement := range []string{`UPDATE audit SET actor = 'nobody'`, `DELETE FROM audit`} {
		if err := f.db.Exec(f, statement); err == nil {
			f.Errorf("%s was allowed", statement)
		}
	}
	f.equal(1, count(), "rows after")
}

func eventsInsertOnly(f *fixture) {
	id := f.run()
	before := f.log(id)
	for _, statement := range []string{`UPDATE event SET type = 'RunCancelled'`, `DELETE FROM event`} {
		if err := f.db.Exec(f, statement); err == nil {
			f.Errorf("%s was allowed", statement)
		}
	}
	f.equal(before, f.log(id), "log")
}

func heads(f *fixture) {
	a, b := f.run(), f.run()
	f.append(a, started("s1", 1))
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
		f.Error("more than MaxHeads")
	}
	got, err = f.store.Heads(f.ctx(), nil)
	f.ok(err)
	f.equal(0, len(got.ByRun), "no run asked for")
}

func closedUnavailable(f *fixture) {
	id := f.run()
	s := f.db.Open(f)
	f.ok(s.Close())
	_, err := s.Append(f.ctx(), store.Append{RunID: id.RunID, Events: []run.Draft{started("s1", 1)}})
	f.is(err, store.ErrUnavailable)
	_, err = s.Load(f.ctx(), id.RunID)
	f.is(err, store.ErrUnavailable)
	_, err = s.List(f.ctx(), store.RunFilter{TenantID: "t1", Limit: 1})
	f.is(err, store.ErrUnavailable)
	f.is(s.Ping(f.ctx()), store.ErrUnavailable)
	f.append(id, started("s1", 1)) // the other process goes on
}
