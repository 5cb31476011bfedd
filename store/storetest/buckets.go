package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var bucketCases = []testCase{
	// contract: Q01, T207
	{"BucketAllowsItsSizeThenItsRate", testBucketAllowsItsSizeThenItsRate},
	// contract: Q01
	{"BucketsAreByTenantProjectAndAction", testBucketsAreByTenantProjectAndAction},
	// contract: T207
	{"RolledBackDecisionTakesNoToken", testRolledBackDecisionTakesNoToken},
	// contract: T207
	{"SeveralServersShareABucket", testSeveralServersShareABucket},
	// contract: T96
	{"RecentSignalsLimitsARun", testRecentSignalsLimitsARun},
	// contract: Q10, T113
	{"StartWithoutATokenIsThrottled", testStartWithoutATokenIsThrottled},
	// contract: T113
	{"OnlyAnInsertedStartTakesAToken", testOnlyAnInsertedStartTakesAToken},
	// contract: T113
	{"HeavyStartsInABatchAndUnderTheLock", testHeavyStartsInABatchAndUnderTheLock},
	// contract: T113
	{"ConcurrentHeavyStartsShareTokens", testConcurrentHeavyStartsShareTokens},
}

func heavyBucket(project string, perMinute int) store.Bucket {
	return store.Bucket{TenantID: "t1", ProjectID: project, Action: store.BucketHeavy, PerMinute: perMinute}
}

// takeToken takes a token under the lock of a run.
func (f *fixture) takeToken(id run.Identity, b store.Bucket) (wait time.Duration) {
	f.Helper()
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) (err error) {
		wait, err = tx.Take(f.ctx(), b)
		return err
	}))
	return wait
}

func testBucketAllowsItsSizeThenItsRate(f *fixture) {
	id := f.run()
	b := heavyBucket("p1", 300) // one token per 200 ms
	began := time.Now()
	for i := range b.PerMinute {
		if wait := f.takeToken(id, b); wait != 0 {
			if time.Since(began) < 10*time.Second { // a slow machine may take longer than the bucket allows for
				f.Fatalf("token %d has a wait of %v, want none up to the size of the bucket", i+1, wait)
			}
		}
	}
	var waits []time.Duration
	taken := b.PerMinute
	for len(waits) < 3 {
		wait := f.takeToken(id, b)
		if wait == 0 {
			taken++
			continue
		}
		if wait > 200*time.Millisecond || wait < 0 {
			f.Fatalf("the wait for a token is %v, want at most 200ms", wait)
		}
		waits = append(waits, wait)
		time.Sleep(wait)
		if again := f.takeToken(id, b); again != 0 {
			f.Fatalf("after the wait for a token there is another wait of %v, want none", again)
		}
		taken++
	}
	if most := b.PerMinute + int(time.Since(began)/(200*time.Millisecond)) + 1; taken > most {
		f.Errorf("%d tokens were taken in %v, want at most %d", taken, time.Since(began), most)
	}
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM bucket`), "rows")
}

func testBucketsAreByTenantProjectAndAction(f *fixture) {
	id := f.run()
	one := func(b store.Bucket) {
		f.Helper()
		f.equal(time.Duration(0), f.takeToken(id, b), "first token")
		if wait := f.takeToken(id, b); wait <= 0 || wait > time.Minute {
			f.Fatalf("second token of %+v: wait of %v, want one above 0 and at most 1m", b, wait)
		}
	}
	one(heavyBucket("", 1))
	one(heavyBucket("p1", 1))
	one(heavyBucket("p2", 1))
	start := heavyBucket("p1", 1)
	start.Action = store.BucketStart
	one(start)
	other := heavyBucket("p1", 1)
	other.TenantID = "t2"
	one(other)
	for range 3 {
		f.equal(time.Duration(0), f.takeToken(id, heavyBucket("p3", -1)), "wait without a limit")
	}
	if wait := f.takeToken(id, heavyBucket("p3", 0)); wait >= 0 {
		f.Errorf("wait for a bucket without tokens is %v, want a negative one", wait)
	}
	f.equal(0, f.db.Count(f, `SELECT count(*) FROM bucket WHERE project_id = 'p3'`),
		"rows of buckets that are unlimited or empty")
}

func testRolledBackDecisionTakesNoToken(f *fixture) {
	id := f.run()
	refused := errors.New("no")
	f.wantError(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		for _, want := range []bool{true, true, false} { // the bucket has two; the transaction sees the tokens that it took
			wait, err := tx.Take(f.ctx(), heavyBucket("p1", 2))
			if err != nil {
				return err
			}
			f.equal(want, wait == 0, "taken")
		}
		return refused
	}), refused)
	f.equal([]time.Duration{0, 0}, []time.Duration{f.takeToken(id, heavyBucket("p1", 2)), f.takeToken(id, heavyBucket("p1",
		2))}, "afterwards")
}

func testSeveralServersShareABucket(f *fixture) {
	const servers, each = 4, 10
	var runs []run.Identity
	var stores []store.Store
	for range servers {
		runs, stores = append(runs, f.run()), append(stores, f.db.Open(f))
	}
	var taken atomic.Int64
	f.concurrently(servers, func(i int) error {
		for range each {
			if err := stores[i].InRun(f.ctx(), runs[i].RunID, func(tx store.RunTx) error {
				wait, err := tx.Take(f.ctx(), heavyBucket("p1", 7))
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
	if n := taken.Load(); n < 7 || n > 8 { // the eighth accrues after more than 8 s
		f.Errorf("%d tokens were taken from a bucket of 7", n)
	}
}

func testRecentSignalsLimitsARun(f *fixture) {
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
		f.acceptSignal(id, fmt.Sprintf("sig-%d", i), run.Pause, false)
	}
	f.equal(time.Duration(0), recent(id, 4, time.Hour), "of three, fewer than four")
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		refused := newReceipt("sig-stranger", run.Pause)
		refused.Rejected, refused.Rejection, refused.Application = true, run.CodeForbidden, ""
		_, err := tx.PutReceipt(f.ctx(), refused, false)
		return err
	}))
	f.equal(time.Duration(0), recent(id, 4, time.Hour), "wait after a rejected signal, which does not count")
	second := f.receipt(id, "sig-1")
	before := time.Now()
	wait := recent(id, 2, time.Hour) // until the second is an hour old
	if most, least := time.Hour-before.Sub(second.ReceivedAt), time.Hour-time.Since(second.ReceivedAt); wait > most+
		time.Second || wait < least-time.Second {
		f.Errorf("wait until fewer than two signals are recent is %v, want %v to %v", wait, least, most)
	}
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		var waits [4]time.Duration
		for most := 1; most < len(waits); most++ {
			var err error
			if waits[most], err = tx.RecentSignals(f.ctx(), most, time.Hour); err != nil {
				return err
			}
		}
		if waits[3] > waits[2] || waits[2] > waits[1] || waits[3] <= 0 {
			f.Errorf("waits by limit are %v, want descending ones above 0", waits)
		}
		return nil
	}))
	f.equal(time.Duration(0), recent(other, 1, time.Hour), "another run")
	time.Sleep(10 * time.Millisecond)
	f.equal(time.Duration(0), recent(id, 1, 5*time.Millisecond), "of those that are past")
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error { // a signal of the same transaction counts
		if _, err := tx.PutReceipt(f.ctx(), newReceipt("sig-9", run.Resume), false); err != nil {
			return err
		}
		wait, err := tx.RecentSignals(f.ctx(), 1, time.Minute)
		f.equal(time.Minute, wait, "of this decision")
		return err
	}))
}

func (f *fixture) startHeavy(id run.Identity, step string, attempt, perMinute int) store.AttemptStarted {
	f.Helper()
	b := heavyBucket("p1", perMinute)
	return f.startAny(store.StartAttempt{RunID: id.RunID, StepID: step, LogicalAttempt: attempt, Heavy: &b})
}

func (f *fixture) wantThrottled(b store.AttemptStarted, least, most time.Duration) {
	f.Helper()
	if b.Verdict != store.StartThrottled || b.RetryAfter < least || b.RetryAfter > most || b.StartedSeq != 0 ||
		b.Terminal != nil {
		f.Fatalf("%+v, want THROTTLED for %v to %v", b, least, most)
	}
}

func testStartWithoutATokenIsThrottled(f *fixture) {
	id, other := f.run(), f.run()
	first := f.startHeavy(id, "s1", 1, 600) // one per 100 ms after the first 600
	f.equal([]any{store.StartGranted, run.Seq(3)}, []any{first.Verdict, first.StartedSeq}, "with a token")
	for range 600 {
		f.takeToken(other, heavyBucket("p1", 600))
	}
	before := f.head(id)
	events := len(f.log(id))
	f.wantThrottled(f.startHeavy(id, "s2", 1, 1), 100*time.Millisecond, time.Minute)
	refused := f.startHeavy(id, "s2", 1, 0)
	f.wantThrottled(refused, time.Minute, time.Minute)
	f.equal(before, refused.Head, "head in the result")
	f.equal(before, f.head(id), "head")
	f.equal(events, len(f.log(id)), "events")
	f.eventually(time.Minute, "the attempt starts when a token accrues", func() bool {
		b := f.startHeavy(id, "s2", 1, 600)
		if b.Verdict == store.StartThrottled {
			time.Sleep(b.RetryAfter)
		}
		return b.Verdict == store.StartGranted
	})
	f.checkFold(id)
}

// A call that inserts no StepStarted takes no token: the attempt has started or ended before, or it is parked.
func testOnlyAnInsertedStartTakesAToken(f *fixture) {
	id := f.run()
	f.equal(store.StartGranted, f.startHeavy(id, "s1", 1, 1).Verdict, "the only token")
	f.equal(store.StartGranted, f.startHeavy(id, "s1", 1, 1).Verdict, "the same attempt again")
	f.wantThrottled(f.startHeavy(id, "s2", 1, 1), 100*time.Millisecond, time.Minute)
	f.append(id, runtest.Draft(run.StepCompletedEvent, "s1", 1))
	f.equal(store.StartDone, f.startHeavy(id, "s1", 1, 1).Verdict, "after its end")
	shut, over := f.run(), f.run()
	f.setGate(shut, run.GatePaused, 0)
	f.append(over, runtest.Draft(run.RunCancelled, "", 1))
	fresh := func(id run.Identity) store.StartVerdict { // with an unused bucket
		b := heavyBucket("p7", 1)
		return f.startAny(store.StartAttempt{RunID: id.RunID, StepID: "s1", LogicalAttempt: 1, Heavy: &b}).Verdict
	}
	f.equal([]store.StartVerdict{store.StartParked, store.StartRunTerminal}, []store.StartVerdict{fresh(shut),
		fresh(over)}, "verdicts")
	f.equal(time.Duration(0), f.takeToken(id, heavyBucket("p7", 1)), "wait for the token, which the calls did not take")
	unlimited := f.run()
	for _, step := range []string{"s1", "s2", "s3"} {
		f.equal(store.StartGranted, f.startHeavy(unlimited, step, 1, -1).Verdict, "no bucket")
	}
}

func testHeavyStartsInABatchAndUnderTheLock(f *fixture) {
	id := f.run()
	b := heavyBucket("p1", 1)
	begin := func(step string) *store.StartAttempt {
		return &store.StartAttempt{RunID: id.RunID, StepID: step, LogicalAttempt: 1, EngineAttempt: 1,
			EmittedAt: runtest.Epoch,
			Heavy:     &b}
	}
	if s, batches := f.store.(store.Batcher); batches {
		light := begin("s3")
		light.Heavy = nil
		out, err := s.Batch(f.ctx(), id.RunID, []store.Entry{
			{Start: begin("s1")}, {Start: begin("s2")}, {Start: light},
			{Append: &store.Append{RunID: id.RunID, MinHead: 99}},
			{Append: &store.Append{RunID: id.RunID, Events: []run.Draft{runtest.Draft(run.StepCompletedEvent, "s1", 1)}}},
		})
		f.ok(err)
		f.equal([]store.StartVerdict{store.StartGranted, store.StartThrottled, store.StartGranted},
			[]store.StartVerdict{out[0].Started.Verdict, out[1].Started.Verdict, out[2].Started.Verdict}, "verdicts")
		f.wantError(out[3].Err, store.ErrRegressed)
		f.equal([]run.Seq{3, 3, 4, 5}, []run.Seq{out[0].Started.StartedSeq, out[1].Started.Head.LastSeq,
			out[2].Started.StartedSeq,
			out[4].Appended.Outcomes[0].Seq}, "seqs")
		f.checkFold(id)
		id = f.run()
		b.ProjectID = "p2"
	}
	f.ok(f.inRun(id, func(tx store.RunTx) error {
		for _, want := range []struct {
			step    string
			verdict store.StartVerdict
		}{{"s1", store.StartGranted}, {"s2", store.StartThrottled}, {"s1", store.StartGranted}} {
			got, err := tx.StartAttempt(f.ctx(), *begin(want.step))
			if err != nil {
				return err
			}
			f.equal(want.verdict, got.Verdict, want.step)
			f.equal(run.Seq(3), tx.Head().LastSeq, "head")
		}
		_, err := tx.Append(f.ctx(), store.Append{Events: []run.Draft{runtest.Draft(run.StepCompletedEvent, "s1", 1)}})
		return err
	}))
	f.equal([]any{run.Seq(4), 0}, []any{f.head(id).LastSeq, f.head(id).Running}, "head")
	f.checkFold(id)
}

func testConcurrentHeavyStartsShareTokens(f *fixture) {
	const runs, tokens = 8, 5
	ids := make([]run.Identity, runs)
	for i := range ids {
		ids[i] = f.run()
	}
	var began atomic.Int64
	f.concurrently(runs, func(i int) error {
		for _, step := range []string{"s1", "s2", "s3"} {
			b := heavyBucket("p1", tokens)
			out, err := f.store.StartAttempt(f.ctx(), store.StartAttempt{
				RunID: ids[i].RunID, StepID: step, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: runtest.Epoch, Heavy: &b,
			})
			if err != nil {
				return err
			}
			if out.Verdict == store.StartGranted {
				began.Add(1)
			}
		}
		return nil
	})
	if n := began.Load(); n < tokens || n > tokens+1 { // one more accrues after 12 s
		f.Errorf("%d attempts started with %d tokens", n, tokens)
	}
	started := f.db.Count(f, `SELECT count(*) FROM event WHERE type = 'StepStarted'`)
	f.equal(int(began.Load()), started, "events")
	for _, id := range ids {
		f.checkFold(id)
	}
}
