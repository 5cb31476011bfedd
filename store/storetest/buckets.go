package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

var bucketCases = []testCase{
	{"Q01_T207_ABucketIsItsSizeThenItsRate", takeRate},
	{"Q01_BucketsAreByTenantProjectAndAction", takeApart},
	{"T207_AFailedDecisionTakesNothing", takeRolledBack},
	{"T207_SeveralServersShareABucket", takeShared},
	{"T96_RecentSignals", recentSignals},
}

func heavy(project string, perMinute int) store.Bucket {
	return store.Bucket{TenantID: "t1", ProjectID: project, Action: store.BucketHeavy, PerMinute: perMinute}
}

// take takes a token under the lock of a run.
func (f *fixture) take(id run.Identity, b store.Bucket) (wait time.Duration) {
	f.Helper()
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) (err error) {
		wait, err = tx.Take(f.ctx(), b)
		return err
	}))
	return wait
}

func takeRate(f *fixture) {
	id := f.run()
	b := heavy("p1", 300) // one in 200 ms
	began := time.Now()
	for i := range b.PerMinute {
		if wait := f.take(id, b); wait != 0 {
			if time.Since(began) < 10*time.Second { // a slow machine sees new ones
				f.Fatalf("token %d after %v", i+1, wait)
			}
		}
	}
	var waits []time.Duration
	taken := b.PerMinute
	for len(waits) < 3 {
		wait := f.take(id, b)
		if wait == 0 {
			taken++
			continue
		}
		if wait > 200*time.Millisecond || wait < 0 {
			f.Fatalf("told to wait for %v", wait)
		}
		waits = append(waits, wait)
		time.Sleep(wait)
		if again := f.take(id, b); again != 0 {
			f.Fatalf("after the wait that it was told: %v more", again)
		}
		taken++
	}
	if most := b.PerMinute + int(time.Since(began)/(200*time.Millisecond)) + 1; taken > most {
		f.Errorf("%d taken in %v", taken, time.Since(began))
	}
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM bucket`), "rows")
}

func takeApart(f *fixture) {
	id := f.run()
	one := func(b store.Bucket) {
		f.Helper()
		f.equal(time.Duration(0), f.take(id, b), "first token")
		if wait := f.take(id, b); wait <= 0 || wait > time.Minute {
			f.Fatalf("second token of %+v: %v", b, wait)
		}
	}
	one(heavy("", 1))
	one(heavy("p1", 1))
	one(heavy("p2", 1))
	start := heavy("p1", 1)
	start.Action = store.BucketStart
	one(start)
	other := heavy("p1", 1)
	other.TenantID = "t2"
	one(other)
	for range 3 {
		f.equal(time.Duration(0), f.take(id, heavy("p3", -1)), "no bucket")
	}
	if wait := f.take(id, heavy("p3", 0)); wait >= 0 {
		f.Errorf("of none: %v", wait)
	}
	f.equal(0, f.db.Count(f, `SELECT count(*) FROM bucket WHERE project_id = 'p3'`), "rows of what is no bucket")
}

func takeRolledBack(f *fixture) {
	id := f.run()
	refused := errors.New("no")
	f.is(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		for _, want := range []bool{true, true, false} { // of two; a decision sees what it took
			wait, err := tx.Take(f.ctx(), heavy("p1", 2))
			if err != nil {
				return err
			}
			f.equal(want, wait == 0, "taken")
		}
		return refused
	}), refused)
	f.equal([]time.Duration{0, 0}, []time.Duration{f.take(id, heavy("p1", 2)), f.take(id, heavy("p1", 2))}, "afterwards")
}

func takeShared(f *fixture) {
	const servers, each = 4, 10
	var runs []run.Identity
	var stores []store.Store
	for range servers {
		runs, stores = append(runs, f.run()), append(stores, f.db.Open(f))
	}
	var taken atomic.Int64
	f.together(servers, func(i int) error {
		for range each {
			if err := stores[i].InRun(f.ctx(), runs[i].RunID, func(tx store.RunTx) error {
				wait, err := tx.Take(f.ctx(), heavy("p1", 7))
				if err == nil && wait == 0 {
					taken.Add(1)
				}
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if n := taken.Load(); n < 7 || n > 8 { // the eighth comes after more than 8 s
		f.Errorf("%d tokens of 7", n)
	}
}

func recentSignals(f *fixture) {
	id, other := f.run(), f.run()
	recent := func(id run.Identity, most int, span time.Duration) (wait time.Duration) {
		f.Helper()
		f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) (err error) {
			wait, err = tx.RecentSignals(f.ctx(), most, span)
			return err
		}))
		return wait
	}
	f.equal(time.Duration(0), recent(id, 1, time.Hour), "of none")
	for i := range 3 {
		f.accept(id, fmt.Sprintf("sig-%d", i), run.Pause, false)
	}
	f.equal(time.Duration(0), recent(id, 4, time.Hour), "of three, fewer than four")
	second := f.receipt(id, "sig-1")
	before := time.Now()
	wait := recent(id, 2, time.Hour) // until the second is an hour old
	if most, least := time.Hour-before.Sub(second.ReceivedAt), time.Hour-time.Since(second.ReceivedAt); wait > most+time.Second || wait < least-time.Second {
		f.Errorf("fewer than two again after %v, expected %v to %v", wait, least, most)
	}
	if first, third := recent(id, 3, time.Hour), recent(id, 1, time.Hour); first > wait || third < wait {
		f.Errorf("waits %v, %v, %v", first, wait, third)
	}
	f.equal(time.Duration(0), recent(other, 1, time.Hour), "another run")
	time.Sleep(10 * time.Millisecond)
	f.equal(time.Duration(0), recent(id, 1, 5*time.Millisecond), "of those that are past")
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error { // one that is not committed yet counts
		if _, err := tx.PutReceipt(f.ctx(), receipt("sig-9", run.Resume), false); err != nil {
			return err
		}
		wait, err := tx.RecentSignals(f.ctx(), 1, time.Minute)
		f.equal(time.Minute, wait, "of this decision")
		return err
	}))
}
