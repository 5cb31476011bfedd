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
	{"ThirdRunOfTwoTokensWaits", testThirdRunOfTwoTokensWaits},
	// contract: Q03, W-8
	{"ExpiredWaitingRunsAreListed", testExpiredWaitingRunsAreListed},
	{"WaitingRunGetsMoreTime", testWaitingRunGetsMoreTime},
	// contract: Q04, T132
	{"FullQueueAndRejectStrategyRefuse", testFullQueueAndRejectStrategyRefuse},
	// contract: Q09, T207
	{"RepeatedRequestTakesNothing", testRepeatedRequestTakesNothing},
	// contract: Q11
	{"DelayBorrowsItsToken", testDelayBorrowsItsToken},
	// contract: Q02, Q08
	{"TokensAccrueWithTime", testTokensAccrueWithTime},
	{"EndOfARunFreesItsSlot", testEndOfARunFreesItsSlot},
	// contract: W-7, T128
	{"AdmittedRowsAreFenced", testAdmittedRowsAreFenced},
	// contract: Q06, Q07
	{"LeaseOfAnAdmittedRowExpires", testLeaseOfAnAdmittedRowExpires},
	// contract: Q12
	{"OneTenantDoesNotWaitBehindAnothersBacklog", testOneTenantDoesNotWaitBehindAnothersBacklog},
	// contract: Q12
	{"WeightsShareAdmissions", testWeightsShareAdmissions},
	{"ProjectsTakeTurns", testProjectsTakeTurns},
	{"PriorityOrdersALane", testPriorityOrdersALane},
	{"BlockedLanesDoNotBlockOthers", testBlockedLanesDoNotBlockOthers},
	{"IdleTenantsGainNoCredit", testIdleTenantsGainNoCredit},
	{"HoldKeepsRunsWaiting", testHoldKeepsRunsWaiting},
	{"InstallationLimitIsSharedInTurn", testInstallationLimitIsSharedInTurn},
	// contract: T36, T131
	{"WaitingRunCanBeCancelled", testWaitingRunCanBeCancelled},
	// contract: T224
	{"ExistingRunCanBeEnqueued", testExistingRunCanBeEnqueued},
	// contract: T137
	{"WaitingRunsAreListedInOrder", testWaitingRunsAreListedInOrder},
	{"UsageCountsTenantAndProjects", testUsageCountsTenantAndProjects},
	{"WrittenEqualsWhatLoadReads", testWrittenEqualsWhatLoadReads},
}

func testThirdRunOfTwoTokensWaits(f *fixture) {
	two := termsWith(func(t *store.Terms) { t.Tenant.PerMinute = 2 })
	for range 2 {
		a := f.mustRequest("t1", "p1", two)
		f.equal([]any{false, store.QueuePending, false}, []any{a.waiting, f.queueRow(a.Identity).Status,
			f.queueRow(a.Identity).Waiting}, "one that is admitted")
		f.equal([]string{"1 RunApproved"}, lines(f.log(a.Identity)), "log")
	}
	third := f.mustRequest("t1", "p1", two)
	f.equal([]any{true, store.WaitQuota, 1}, []any{third.waiting, third.admission.Why, third.admission.Position},
		"the third")
	if e := third.admission.Estimate; e <= 0 || e > 30*time.Second {
		f.Errorf("estimate %v, want one above 0 and at most 30s", e)
	}
	f.equal([]string{"1 RunQueued"}, lines(f.log(third.Identity)), "log")
	q := f.queueRow(third.Identity)
	f.equal([]any{true, store.QueuePending, "p1", 5, third.admission.Estimate.Milliseconds()},
		[]any{q.Waiting, q.Status, q.ProjectID, q.Priority, q.Estimate.Milliseconds()}, "row")
	if ttl := q.ExpiresAt.Sub(q.CreatedAt); ttl != time.Minute || !q.NotBefore.IsZero() {
		f.Errorf("the row expires after %v and is due at %v, want 1m and no time", ttl, q.NotBefore)
	}
	fourth := f.mustRequest("t1", "p1", two)
	f.equal([]any{store.WaitTurn, 2}, []any{fourth.admission.Why, fourth.admission.Position}, "the fourth")
	if d := fourth.admission.Estimate - third.admission.Estimate; d < 25*time.Second || d > 30*time.Second {
		f.Errorf("the fourth run waits %v longer than the third, want 25s to 30s", d)
	}
	other := f.mustRequest("t2", "p1", two)
	f.equal(false, other.waiting, "another tenant")
	due, err := f.store.DueStarts(f.ctx())
	f.ok(err)
	f.equal(int64(3), due, "due starts: waiting runs are not due")
	f.equal(3, len(f.lease("w", time.Minute, 10)), "leased rows: waiting runs are not leased")
	stuck, err := f.store.ListStuckStarts(f.ctx(), 0, 10)
	f.ok(err)
	f.equal(0, len(stuck), "stuck starts: waiting runs are not stuck")
	f.checkLanes()
}

func testExpiredWaitingRunsAreListed(f *fixture) {
	short := termsWith(func(t *store.Terms) { t.Tenant.PerMinute, t.TTL = 0, 30*time.Millisecond })
	f.mustWait(1, "t1", "p1", termsWith(func(t *store.Terms) { t.Tenant.PerMinute = 0 }))
	a := f.mustRequest("t1", "p2", short)
	f.equal([]any{true, time.Duration(0)}, []any{a.waiting, a.admission.Estimate}, "waits without an estimate")
	var rows []store.QueueRow
	f.eventually(5*time.Second, "it expires", func() (found bool) {
		var err error
		rows, err = f.store.ListExpiredWaits(f.ctx(), 10)
		f.ok(err)
		return len(rows) > 0
	})
	f.equal([]string{a.RunID}, rowIDs(rows), "expired")
	f.expireWaiting(a.Identity)
	f.equal([]any{store.QueueFailed, false}, []any{f.queueRow(a.Identity).Status, f.queueRow(a.Identity).Waiting}, "row")
	rows, err := f.store.ListExpiredWaits(f.ctx(), 10)
	f.ok(err)
	f.equal(0, len(rows), "expired twice")
	f.equal([]string{"1 RunQueued", "2 RunFailed"}, lines(f.log(a.Identity)), "log")
	f.checkLanes()
}

func testWaitingRunGetsMoreTime(f *fixture) {
	a := f.mustRequest("t1", "p1", termsWith(func(t *store.Terms) { t.Tenant.PerMinute, t.TTL = 0, 30*time.Millisecond }))
	expired := func() []string {
		rows, err := f.store.ListExpiredWaits(f.ctx(), 10)
		f.ok(err)
		return rowIDs(rows)
	}
	f.eventually(5*time.Second, "it expires", func() bool { return len(expired()) > 0 })
	later := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	f.ok(f.store.InRun(f.ctx(), a.RunID, func(tx store.RunTx) error {
		q, err := tx.Queue(f.ctx())
		if err != nil {
			return err
		}
		q.ExpiresAt = later
		return tx.SetQueue(f.ctx(), q)
	}))
	f.equal(0, len(expired()), "expired runs after it got more time")
	q := f.queueRow(a.Identity)
	f.equal([]any{true, store.QueuePending, true}, []any{q.Waiting, q.Status, q.ExpiresAt.Equal(later)}, "it waits on")
	f.checkLanes()
}

func testFullQueueAndRejectStrategyRefuse(f *fixture) {
	terms := termsWith(func(t *store.Terms) { t.Tenant.PerMinute, t.Tenant.MaxWaiting, t.Project.MaxWaiting = 2, 3, 2 })
	f.mustRequest("t1", "p1", terms)
	f.mustRequest("t1", "p1", terms)
	f.mustWait(2, "t1", "p1", terms)
	_, err := f.request("t1", "p1", terms, 9)
	if again := f.wantRefused(err, run.CodeQueueFull); again <= 0 || again > 30*time.Second {
		f.Errorf("RetryAfter of a full queue is %v, want one above 0 and at most 30s", again)
	}
	f.mustWait(1, "t1", "p2", terms)
	_, err = f.request("t1", "p2", terms, 5)
	f.wantRefused(err, run.CodeQueueFull) // the queue of the tenant
	reject := termsWith(func(t *store.Terms) { t.Tenant.PerMinute, t.Strategy = 2, store.StrategyReject })
	_, err = f.request("t1", "p3", reject, 5)
	if again := f.wantRefused(err, run.CodeQuotaExceeded); again <= 0 || again > 30*time.Second {
		f.Errorf("RetryAfter of an empty bucket is %v, want one above 0 and at most 30s", again)
	}
	full := termsWith(func(t *store.Terms) { t.Project.MaxActive, t.Strategy = 1, store.StrategyReject })
	f.mustRequest("t2", "p1", full)
	_, err = f.request("t2", "p1", full, 5)
	f.equal(time.Duration(0), f.wantRefused(err, run.CodeQuotaExceeded), "RetryAfter without a free slot")
	f.equal(6, f.db.Count(f, `SELECT count(*) FROM run`), "runs: nothing is written for a refused one")
	f.equal(6, f.db.Count(f, `SELECT count(*) FROM run_queue`), "queue rows")
	f.checkLanes()
}

func testRepeatedRequestTakesNothing(f *fixture) {
	one := termsWith(func(t *store.Terms) { t.Tenant.PerMinute, t.Strategy = 1, store.StrategyReject })
	processes := []store.Store{f.store, f.db.Open(f)}
	ids := make([]string, 5)
	f.concurrently(5, func(i int) error {
		n := newRun(identity(1), runtest.Draft(run.RunApproved, "", 1))
		n.Run.RunID = fmt.Sprintf("run-%03d", i)
		n.Enqueue = &store.Enqueue{Terms: one}
		r, _, err := processes[i%2].CreateRun(f.ctx(), n)
		ids[i] = r.RunID
		return err // the first call empties the bucket; the repetitions take no token
	})
	f.equal(1, len(slices.Compact(ids)), "runs")
	u := f.usage("t1")
	f.equal(int64(1), u.Tenant.Active, "slots")
	if left := time.Minute - u.Tenant.Full[store.BucketStart].Sub(u.Now); left > time.Minute || left < 0 {
		f.Errorf("the bucket is full at %v, now is %v, want at most a minute between", u.Tenant.Full[store.BucketStart], u.Now)
	}
	f.checkLanes()
}

func testDelayBorrowsItsToken(f *fixture) {
	const perMinute = 300 // one token per 200 ms
	terms := termsWith(func(t *store.Terms) {
		t.Project.PerMinute, t.Project.MaxWaiting, t.Strategy = perMinute, 2, store.StrategyDelay
	})
	f.drainBucket("t1", "p1", true)
	var delayed []requestedRun
	var err error
	for err == nil {
		var a requestedRun
		if a, err = f.request("t1", "p1", terms, 5); err == nil {
			f.equal(false, a.waiting, "a delayed run waits")
			f.equal([]string{"1 RunApproved"}, lines(f.log(a.Identity)), "log")
			delayed = append(delayed, a)
		}
		if len(delayed) > 200 {
			f.Fatal("more than 200 runs have borrowed a token, want a limit")
		}
	}
	if again := f.wantRefused(err, run.CodeQueueFull); again <= 0 || again > 200*time.Millisecond {
		f.Errorf("RetryAfter is %v, want one above 0 and at most 200ms", again)
	}
	last := delayed[len(delayed)-1]
	due := f.queueRow(last.Identity).NotBefore
	if ahead := due.Sub(f.queueRow(last.Identity).CreatedAt); ahead <= 200*time.Millisecond ||
		ahead > 400*time.Millisecond {
		f.Errorf("the last run is due %v after its request, want 200ms to 400ms", ahead)
	}
	f.eventually(5*time.Second, "it is leased when it is due, and not before", func() bool {
		for _, q := range f.lease("w1", time.Minute, 100) {
			if q.LeaseUntil.Add(-time.Minute).Before(q.NotBefore) {
				f.Errorf("%s was leased before its time %v", q.RunID, q.NotBefore)
			}
			if q.RunID == last.RunID {
				return true
			}
		}
		return false
	})
	_, err = f.request("t1", "p2", termsWith(func(t *store.Terms) {
		t.Project.PerMinute, t.Strategy = 0,
			store.StrategyDelay
	}), 5)
	f.equal(time.Duration(0), f.wantRefused(err, run.CodeQuotaExceeded), "RetryAfter of a bucket that never has a token")
	f.checkLanes()
}

func testTokensAccrueWithTime(f *fixture) {
	terms := termsWith(func(t *store.Terms) { t.Tenant.PerMinute = 60 }) // one per second
	full := f.usage("t1").Now
	f.drainBucket("t1", "p1", false)
	var w []requestedRun
	var admitted []store.QueueRow
	for range 3 {
		a := f.mustRequest("t1", "p1", terms)
		if w = append(w, a); !a.waiting { // on a slow machine a token has accrued meanwhile
			admitted = append(admitted, f.queueRow(a.Identity))
		}
	}
	calls := 0
	f.eventually(10*time.Second, "all are admitted", func() bool {
		got := f.admit(sameTerms(terms), 10)
		calls++
		admitted = append(admitted, got.Rows...)
		if left := len(admitted) < 3; left && got.Next <= 0 || got.Next > time.Second {
			f.Errorf("Next is %v, want one above 0 and at most 1s", got.Next)
		}
		time.Sleep(got.Next)
		return len(admitted) == 3
	})
	f.equal(idsOf(w), rowIDs(admitted), "order")
	for i, q := range admitted {
		f.equal([]any{false, store.QueuePending, 0}, []any{q.Waiting, q.Status, q.Attempts}, "row")
		if after := q.NotBefore.Sub(full); after < time.Duration(i+1)*time.Second-10*time.Millisecond {
			f.Errorf("%s got token %d after %v, want at least %ds", q.RunID, i+1, after, i+1)
		}
		if w[i].waiting {
			f.equal(int64(2), f.head(w[i].Identity).OpsRev, "opsRev after the queue row and its admission")
		}
	}
	if calls > 12 {
		f.Errorf("%d calls that each waited for Next admitted three runs, want at most 12", calls)
	}
	f.equal(store.Admitted{}, f.admit(sameTerms(terms), 10), "when nothing waits")
	f.equal(4, len(f.lease("w", time.Minute, 10)), "leased rows, with the run that emptied the bucket")
	f.checkLanes()
}

func testEndOfARunFreesItsSlot(f *fixture) {
	terms := termsWith(func(t *store.Terms) { t.Tenant.MaxActive, t.Project.MaxActive = 2, 1 })
	first, second := f.mustRequest("t1", "p1", terms), f.mustRequest("t1", "p2", terms)
	w := f.mustWait(2, "t1", "p1", terms)
	f.equal(store.WaitSlot, w[0].admission.Why, "why")
	f.equal(0, len(f.admit(sameTerms(terms), 10).Rows), "admitted without a free slot")
	f.equal(int64(2), f.activeRuns(), "active")
	f.cancelRun(second.Identity) // frees a slot of the tenant, but none of the project
	f.equal(0, len(f.admit(sameTerms(terms), 10).Rows), "admitted after the end of a run of another project")
	f.cancelRun(first.Identity)
	got := f.admit(sameTerms(terms), 10)
	f.equal([]string{w[0].RunID}, rowIDs(got.Rows), "admitted at once when a slot is free")
	f.cancelRun(w[0].Identity)
	f.append(w[0].Identity) // a later append frees nothing
	f.equal([]string{w[1].RunID}, rowIDs(f.admit(sameTerms(terms), 10).Rows), "the next one")
	raised := termsWith(func(t *store.Terms) { t.Project.MaxActive = 2 })
	whole := termsWith(func(t *store.Terms) { t.Tenant.MaxActive = 1 })
	running := f.mustRequest("t2", "p1", whole)
	next := f.mustWait(1, "t2", "p2", whole)[0]
	f.equal([]any{store.WaitSlot, 0}, []any{next.admission.Why, len(f.admit(sameTerms(whole), 10).Rows)},
		"reason and admissions without a free slot of the tenant")
	f.cancelRun(running.Identity)
	f.equal([]string{next.RunID}, rowIDs(f.admit(sameTerms(whole), 10).Rows), "admitted after the end of a run of another project of the tenant")
	more := f.mustWait(1, "t1", "p1", terms)
	f.admit(sameTerms(terms), 10)
	f.eventually(15*time.Second, "a raised limit admits a run although no run ends", func() bool {
		return len(f.admit(sameTerms(raised), 10).Rows) == 1
	})
	f.equal(false, f.queueRow(more[0].Identity).Waiting, "waiting")
	f.checkLanes()
}

func testAdmittedRowsAreFenced(f *fixture) {
	terms := termsWith(func(t *store.Terms) { t.Project.MaxActive = 1 })
	first := f.mustRequest("t1", "p1", terms)
	w := f.mustWait(1, "t1", "p1", terms)[0]
	f.cancelRun(first.Identity)
	f.admit(sameTerms(terms), 1)
	old := f.lease("r1", 20*time.Millisecond, 10)
	var taken []store.QueueRow
	f.eventually(5*time.Second, "the lease expires", func() bool {
		taken = f.lease("r2", time.Minute, 10)
		return len(taken) == len(old)
	})
	i := slices.IndexFunc(taken, func(q store.QueueRow) bool { return q.RunID == w.RunID })
	f.equal(int64(2), taken[i].Generation, "fence")
	f.ok(f.store.MarkStarted(f.ctx(), w.RunID, 2))
	f.wantError(f.store.MarkStarted(f.ctx(), w.RunID, 1), store.ErrConflict)
	f.equal(int64(1), f.activeRuns(), "slots: only that of the running run")
	f.checkLanes()
}

func testLeaseOfAnAdmittedRowExpires(f *fixture) {
	terms := termsWith(func(t *store.Terms) { t.Project.PerMinute = 5 })
	a := f.mustRequest("t1", "p1", terms)
	before := f.usage("t1")
	f.lease("r1", time.Millisecond, 1)
	f.eventually(5*time.Second, "it is leased again", func() bool { return len(f.lease("r2", time.Minute, 1)) == 1 })
	q := f.queueRow(a.Identity)
	f.ok(f.store.Release(f.ctx(), a.RunID, q.Generation, 0, "engine"))
	f.lease("r3", time.Minute, 1)
	after := f.usage("t1")
	f.equal(before.Projects["p1"].Full, after.Projects["p1"].Full, "the bucket: a lease takes no second token")
	f.equal(int64(1), after.Tenant.Active, "slots")
	f.checkLanes()
}

// A store calls NewRun.Written once, with the values that readers find: for a run that is admitted, one that waits,
// and one without a queue row.
func testWrittenEqualsWhatLoadReads(f *fixture) {
	terms := termsWith(func(t *store.Terms) { t.Project.MaxActive = 1 })
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
		f.equal(1, len(written), name+": calls of Written")
		w := written[0]
		read, err := f.store.Load(f.ctx(), r.RunID)
		f.ok(err)
		if w.Loaded.Now.IsZero() || w.Loaded.Now.After(read.Now) {
			f.Errorf("%s: written at %s, read at %s, want ascending times", name, w.Loaded.Now, read.Now)
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
