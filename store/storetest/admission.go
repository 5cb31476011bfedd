package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var admissionCases = []testCase{
	// contract: Q01, T207
	{"TheThirdOfTwoWaits", admitThird},
	// contract: Q03, W-8
	{"ExpiredWaiting", admitExpired},
	// contract: Q04, T132
	{"QueueFullAndReject", admitRefusals},
	// contract: Q09, T207
	{"ARepeatedRequestTakesNothing", admitRepeated},
	// contract: Q11
	{"DelayBorrowsItsToken", admitDelayed},
	// contract: Q02, Q08
	{"TokensComeWithTime", admitByTokens},
	{"PlaceIsFreedByTheEnd", admitFreed},
	// contract: W-7, T128
	{"AdmittedRowsAreFenced", admitFenced},
	// contract: Q06, Q07
	{"LeaseOfAnAdmittedRowExpires", admitLeaseExpires},
	// contract: Q12
	{"OneIsNotBehindTwoHundred", admitFair},
	// contract: Q12
	{"Weights", admitWeights},
	{"ProjectsTakeTurns", admitProjects},
	{"PriorityWithinALane", admitPriority},
	{"BlockedLanesHoldNobodyUp", admitBlocked},
	{"NobodySavesUpTurns", admitNoSavings},
	{"HoldKeepsWaiting", admitHold},
	{"InstallationIsSharedInTurn", admitInstallation},
	// contract: T36, T131
	{"CancelledWhileItWaits", admitCancelled},
	// contract: T224
	{"EnqueueLater", admitLater},
	// contract: T137
	{"WaitingRuns", admitWaitingRuns},
	{"UsageOfTenantAndProjects", admitUsage},
	{"WhatCreateRunSaysItWroteIsWhatIsRead", writtenIsRead},
}

func admitThird(f *fixture) {
	two := quota(func(t *store.Terms) { t.Tenant.PerMinute = 2 })
	for range 2 {
		a := f.mustAsk("t1", "p1", two)
		f.equal([]any{false, store.QueuePending, false}, []any{a.waiting, f.queueRow(a.Identity).Status,
			f.queueRow(a.Identity).Waiting}, "one that is admitted")
		f.equal([]string{"1 RunApproved"}, lines(f.log(a.Identity)), "log")
	}
	third := f.mustAsk("t1", "p1", two)
	f.equal([]any{true, store.WaitQuota, 1}, []any{third.waiting, third.told.Why, third.told.Position}, "the third")
	if e := third.told.Estimate; e <= 0 || e > 30*time.Second {
		f.Errorf("estimate %v", e)
	}
	f.equal([]string{"1 RunQueued"}, lines(f.log(third.Identity)), "log")
	q := f.queueRow(third.Identity)
	f.equal([]any{true, store.QueuePending, "p1", 5, third.told.Estimate.Milliseconds()},
		[]any{q.Waiting, q.Status, q.ProjectID, q.Priority, q.Estimate.Milliseconds()}, "row")
	if ttl := q.ExpiresAt.Sub(q.CreatedAt); ttl != time.Minute || !q.NotBefore.IsZero() {
		f.Errorf("expires after %v, due %v", ttl, q.NotBefore)
	}
	fourth := f.mustAsk("t1", "p1", two)
	f.equal([]any{store.WaitTurn, 2}, []any{fourth.told.Why, fourth.told.Position}, "the fourth")
	if d := fourth.told.Estimate - third.told.Estimate; d < 25*time.Second || d > 30*time.Second {
		f.Errorf("the fourth waits %v longer", d)
	}
	other := f.mustAsk("t2", "p1", two)
	f.equal(false, other.waiting, "another tenant")
	f.equal(3, len(f.lease("w", time.Minute, 10)), "leased: nobody who waits")
	stuck, err := f.store.StuckStarts(f.ctx(), 0, 10)
	f.ok(err)
	f.equal(0, len(stuck), "stuck starts (T166)")
	f.lanesHold()
}

func admitExpired(f *fixture) {
	short := quota(func(t *store.Terms) { t.Tenant.PerMinute, t.TTL = 0, 30*time.Millisecond })
	f.mustWait(1, "t1", "p1", quota(func(t *store.Terms) { t.Tenant.PerMinute = 0 }))
	a := f.mustAsk("t1", "p2", short)
	f.equal([]any{true, time.Duration(0)}, []any{a.waiting, a.told.Estimate}, "waits, and nobody knows how long")
	var rows []store.QueueRow
	f.within(5*time.Second, "it expires", func() (found bool) {
		var err error
		rows, err = f.store.ExpiredWaiting(f.ctx(), 10)
		f.ok(err)
		return len(rows) > 0
	})
	f.equal([]string{a.RunID}, rowIDs(rows), "expired")
	f.failWaiting(a.Identity)
	f.equal([]any{store.QueueFailed, false}, []any{f.queueRow(a.Identity).Status, f.queueRow(a.Identity).Waiting}, "row")
	rows, err := f.store.ExpiredWaiting(f.ctx(), 10)
	f.ok(err)
	f.equal(0, len(rows), "expired twice")
	f.equal([]string{"1 RunQueued", "2 RunFailed"}, lines(f.log(a.Identity)), "log")
	f.lanesHold()
}

func admitRefusals(f *fixture) {
	terms := quota(func(t *store.Terms) { t.Tenant.PerMinute, t.Tenant.MaxWaiting, t.Project.MaxWaiting = 2, 3, 2 })
	f.mustAsk("t1", "p1", terms)
	f.mustAsk("t1", "p1", terms)
	f.mustWait(2, "t1", "p1", terms)
	_, err := f.ask("t1", "p1", terms, 9)
	if again := f.refused(err, run.CodeQueueFull); again <= 0 || again > 30*time.Second {
		f.Errorf("again after %v", again)
	}
	f.mustWait(1, "t1", "p2", terms)
	_, err = f.ask("t1", "p2", terms, 5)
	f.refused(err, run.CodeQueueFull) // of the tenant
	reject := quota(func(t *store.Terms) { t.Tenant.PerMinute, t.Strategy = 2, store.StrategyReject })
	_, err = f.ask("t1", "p3", reject, 5)
	if again := f.refused(err, run.CodeQuotaExceeded); again <= 0 || again > 30*time.Second {
		f.Errorf("again after %v", again)
	}
	full := quota(func(t *store.Terms) { t.Project.MaxActive, t.Strategy = 1, store.StrategyReject })
	f.mustAsk("t2", "p1", full)
	_, err = f.ask("t2", "p1", full, 5)
	f.equal(time.Duration(0), f.refused(err, run.CodeQuotaExceeded), "no time brings a place")
	f.equal(6, f.db.Count(f, `SELECT count(*) FROM run`), "runs: nothing was written for a refused one")
	f.equal(6, f.db.Count(f, `SELECT count(*) FROM run_queue`), "queue rows")
	f.lanesHold()
}

func admitRepeated(f *fixture) {
	one := quota(func(t *store.Terms) { t.Tenant.PerMinute, t.Strategy = 1, store.StrategyReject })
	processes := []store.Store{f.store, f.db.Open(f)}
	ids := make([]string, 5)
	f.together(5, func(i int) error {
		n := newRun(identity(1), runtest.Draft(run.RunApproved, "", 1))
		n.Run.RunID = fmt.Sprintf("run-%03d", i)
		n.Enqueue = &store.Enqueue{Terms: one}
		r, _, err := processes[i%2].CreateRun(f.ctx(), n)
		ids[i] = r.RunID
		return err // the bucket is empty after the first: none of the others asks it
	})
	f.equal(1, len(slices.Compact(ids)), "runs")
	u := f.usage("t1")
	f.equal(int64(1), u.Tenant.Active, "places")
	if left := time.Minute - u.Tenant.Full[store.BucketStart].Sub(u.Now); left > time.Minute || left < 0 {
		f.Errorf("full at %v, now %v", u.Tenant.Full[store.BucketStart], u.Now)
	}
	f.lanesHold()
}

func admitDelayed(f *fixture) {
	const perMinute = 300 // one each 200 ms
	terms := quota(func(t *store.Terms) {
		t.Project.PerMinute, t.Project.MaxWaiting, t.Strategy = perMinute, 2, store.StrategyDelay
	})
	f.drained("t1", "p1", true)
	var delayed []asked
	var err error
	for err == nil {
		var a asked
		if a, err = f.ask("t1", "p1", terms, 5); err == nil {
			f.equal(false, a.waiting, "a delayed run waits")
			f.equal([]string{"1 RunApproved"}, lines(f.log(a.Identity)), "log")
			delayed = append(delayed, a)
		}
		if len(delayed) > 200 {
			f.Fatal("tokens are borrowed without end")
		}
	}
	if again := f.refused(err, run.CodeQueueFull); again <= 0 || again > 200*time.Millisecond {
		f.Errorf("again after %v", again)
	}
	last := delayed[len(delayed)-1]
	due := f.queueRow(last.Identity).NotBefore
	if ahead := due.Sub(f.queueRow(last.Identity).CreatedAt); ahead <= 200*time.Millisecond ||
		ahead > 400*time.Millisecond {
		f.Errorf("the last is due %v after it was asked for", ahead)
	}
	f.within(5*time.Second, "it is leased when it is due, and not before", func() bool {
		for _, q := range f.lease("w1", time.Minute, 100) {
			if q.LeaseUntil.Add(-time.Minute).Before(q.NotBefore) {
				f.Errorf("%s leased before %v", q.RunID, q.NotBefore)
			}
			if q.RunID == last.RunID {
				return true
			}
		}
		return false
	})
	_, err = f.ask("t1", "p2", quota(func(t *store.Terms) { t.Project.PerMinute, t.Strategy = 0, store.StrategyDelay }), 5)
	f.equal(time.Duration(0), f.refused(err, run.CodeQuotaExceeded), "of a bucket that never has a token")
	f.lanesHold()
}

func admitByTokens(f *fixture) {
	terms := quota(func(t *store.Terms) { t.Tenant.PerMinute = 60 }) // one a second
	full := f.usage("t1").Now
	f.drained("t1", "p1", false)
	var w []asked
	var admitted []store.QueueRow
	for range 3 {
		a := f.mustAsk("t1", "p1", terms)
		if w = append(w, a); !a.waiting { // a slow machine had a token by then
			admitted = append(admitted, f.queueRow(a.Identity))
		}
	}
	calls := 0
	f.within(10*time.Second, "all are admitted", func() bool {
		got := f.admit(always(terms), 10)
		calls++
		admitted = append(admitted, got.Rows...)
		if left := len(admitted) < 3; left && got.Next <= 0 || got.Next > time.Second {
			f.Errorf("next after %v", got.Next)
		}
		time.Sleep(got.Next)
		return len(admitted) == 3
	})
	f.equal(idsOf(w), rowIDs(admitted), "order")
	for i, q := range admitted {
		f.equal([]any{false, store.QueuePending, 0}, []any{q.Waiting, q.Status, q.Attempts}, "row")
		if after := q.NotBefore.Sub(full); after < time.Duration(i+1)*time.Second-10*time.Millisecond {
			f.Errorf("%s has token %d after %v", q.RunID, i+1, after)
		}
		if w[i].waiting {
			f.equal(int64(2), f.head(w[i].Identity).OpsRev, "opsRev (T204)")
		}
	}
	if calls > 12 {
		f.Errorf("%d calls that waited as they were told", calls)
	}
	f.equal(store.Admitted{}, f.admit(always(terms), 10), "when nothing waits")
	f.equal(4, len(f.lease("w", time.Minute, 10)), "leased, with that which took the token before")
	f.lanesHold()
}

func admitFreed(f *fixture) {
	terms := quota(func(t *store.Terms) { t.Tenant.MaxActive, t.Project.MaxActive = 2, 1 })
	first, second := f.mustAsk("t1", "p1", terms), f.mustAsk("t1", "p2", terms)
	w := f.mustWait(2, "t1", "p1", terms)
	f.equal(store.WaitSlot, w[0].told.Why, "why")
	f.equal(0, len(f.admit(always(terms), 10).Rows), "without a place")
	f.equal(int64(2), f.active(), "active")
	f.end(second.Identity) // the tenant has a place, the project has none
	f.equal(0, len(f.admit(always(terms), 10).Rows), "with a place of another project")
	f.end(first.Identity)
	got := f.admit(always(terms), 10)
	f.equal([]string{w[0].RunID}, rowIDs(got.Rows), "at once when a place is free")
	f.end(w[0].Identity)
	f.append(w[0].Identity) // nothing more is freed by what comes later
	f.equal([]string{w[1].RunID}, rowIDs(f.admit(always(terms), 10).Rows), "the next one")
	raised := quota(func(t *store.Terms) { t.Project.MaxActive = 2 })
	whole := quota(func(t *store.Terms) { t.Tenant.MaxActive = 1 })
	running := f.mustAsk("t2", "p1", whole)
	next := f.mustWait(1, "t2", "p2", whole)[0]
	f.equal([]any{store.WaitSlot, 0}, []any{next.told.Why, len(f.admit(always(whole), 10).Rows)},
		"without a place of the tenant")
	f.end(running.Identity)
	f.equal([]string{next.RunID}, rowIDs(f.admit(always(whole), 10).Rows), "with one of another project")
	more := f.mustWait(1, "t1", "p1", terms)
	f.admit(always(terms), 10)
	f.within(15*time.Second, "a raised limit is seen without anybody ending", func() bool {
		return len(f.admit(always(raised), 10).Rows) == 1
	})
	f.equal(false, f.queueRow(more[0].Identity).Waiting, "waiting")
	f.lanesHold()
}

func admitFenced(f *fixture) {
	terms := quota(func(t *store.Terms) { t.Project.MaxActive = 1 })
	first := f.mustAsk("t1", "p1", terms)
	w := f.mustWait(1, "t1", "p1", terms)[0]
	f.end(first.Identity)
	f.admit(always(terms), 1)
	old := f.lease("r1", 20*time.Millisecond, 10)
	var taken []store.QueueRow
	f.within(5*time.Second, "the lease expires", func() bool {
		taken = f.lease("r2", time.Minute, 10)
		return len(taken) == len(old)
	})
	i := slices.IndexFunc(taken, func(q store.QueueRow) bool { return q.RunID == w.RunID })
	f.equal(int64(2), taken[i].Generation, "fence")
	f.ok(f.store.Started(f.ctx(), w.RunID, 2))
	f.is(f.store.Started(f.ctx(), w.RunID, 1), store.ErrConflict)
	f.equal(int64(1), f.active(), "places: of the one that runs")
	f.lanesHold()
}

func admitLeaseExpires(f *fixture) {
	terms := quota(func(t *store.Terms) { t.Project.PerMinute = 5 })
	a := f.mustAsk("t1", "p1", terms)
	before := f.usage("t1")
	f.lease("r1", time.Millisecond, 1)
	f.within(5*time.Second, "it is leased again", func() bool { return len(f.lease("r2", time.Minute, 1)) == 1 })
	q := f.queueRow(a.Identity)
	f.ok(f.store.Release(f.ctx(), a.RunID, q.Generation, 0, "engine"))
	f.lease("r3", time.Minute, 1)
	after := f.usage("t1")
	f.equal(before.Projects["p1"].Full, after.Projects["p1"].Full, "the bucket: a token is taken once (T207)")
	f.equal(int64(1), after.Tenant.Active, "places")
	f.lanesHold()
}

// A store that says what it wrote says what its readers find: of a run that is admitted, one that waits, and one that
// is in no queue.
func writtenIsRead(f *fixture) {
	terms := quota(func(t *store.Terms) { t.Project.MaxActive = 1 })
	for name, enqueue := range map[string]*store.Enqueue{"admitted": {Terms: terms, Priority: 3},
		"waits": {Terms: terms, Priority: 4}, "no queue row": nil} {
		f.runs++
		n := newRun(identity(f.runs), runtest.Draft(run.RunApproved, "", 1))
		n.Enqueue = enqueue
		n.Wait = func(store.Admission) ([]run.Draft, error) {
			return []run.Draft{runtest.Draft(run.RunQueued, "", 1)}, nil
		}
		var written []store.Written
		n.Written = func(w store.Written) { written = append(written, w) }
		r, _, err := f.store.CreateRun(f.ctx(), n)
		f.ok(err)
		if len(written) == 0 {
			continue // it does not say
		}
		f.equal(1, len(written), name+": calls of Written")
		w := written[0]
		read, err := f.store.Load(f.ctx(), r.RunID)
		f.ok(err)
		if w.Loaded.Now.IsZero() || w.Loaded.Now.After(read.Now) {
			f.Errorf("%s: written at %s, read at %s", name, w.Loaded.Now, read.Now)
		}
		read.Now = w.Loaded.Now
		f.equal(read, w.Loaded, name+": the state")
		if enqueue == nil {
			f.equal(true, w.Queue == nil, name+": no queue row")
			continue
		}
		f.equal(f.queueRow(r.Identity), *w.Queue, name+": the queue row")
	}
}
