package storetest

import (
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var queueCases = []testCase{
	// contract: T128
	{"LeaseIsFenced", testLeaseIsFenced},
	// contract: T128
	{"ExpiredLeaseIsTaken", testExpiredLeaseIsTaken},
	{"ReleasedRowIsDueLater", testReleasedRowIsDueLater},
	{"LeaseTakesTheOldestFirst", testLeaseTakesTheOldestFirst},
	{"SetQueueIsFenced", testSetQueueIsFenced},
}

func (f *fixture) createQueued() run.Identity {
	f.Helper()
	f.runs++
	n := newRun(identity(f.runs), runtest.Draft(run.RunApproved, "", 1))
	n.Enqueue = &store.Enqueue{Terms: store.Unlimited()}
	return f.create(n)
}

func (f *fixture) lease(owner string, ttl time.Duration, limit int) []store.QueueRow {
	f.Helper()
	rows, err := f.store.Lease(f.ctx(), owner, ttl, limit)
	f.ok(err)
	return rows
}

func (f *fixture) queueRow(id run.Identity) store.QueueRow {
	f.Helper()
	q, err := f.store.QueueRow(f.ctx(), id.RunID)
	f.ok(err)
	return q
}

func testLeaseIsFenced(f *fixture) {
	f.run() // without a queue row
	id := f.createQueued()
	q := f.queueRow(id)
	f.equal([]any{store.QueuePending, int64(0), 0}, []any{q.Status, q.Generation, q.Attempts}, "new row")
	rows := f.lease("w1", time.Minute, 10)
	f.equal(1, len(rows), "leased")
	f.equal(f.queueRow(id), rows[0], "row")
	f.equal([]any{store.QueueLocked, "w1", int64(1), 1, "t1"}, []any{rows[0].Status, rows[0].Owner, rows[0].Generation,
		rows[0].Attempts, rows[0].TenantID}, "leased row")
	f.equal(0, len(f.lease("w2", time.Minute, 10)), "leased twice")
	f.wantError(f.store.MarkStarted(f.ctx(), id.RunID, 7), store.ErrConflict)
	f.ok(f.store.MarkStarted(f.ctx(), id.RunID, 1))
	f.ok(f.store.MarkStarted(f.ctx(), id.RunID, 1)) // repeated as after a lost response
	f.equal(store.QueueStarted, f.queueRow(id).Status, "status")
	f.wantError(f.store.Release(f.ctx(), id.RunID, 1, 0, "late"), store.ErrConflict)
	f.equal(0, len(f.lease("w2", time.Minute, 10)), "a started row")
	f.wantError(f.store.MarkStarted(f.ctx(), "nobody", 1), store.ErrNotFound)
}

func testExpiredLeaseIsTaken(f *fixture) {
	id := f.createQueued()
	old := f.lease("w1", 20*time.Millisecond, 1)[0]
	var taken []store.QueueRow
	f.eventually(5*time.Second, "the lease expires", func() bool {
		taken = f.lease("w2", time.Minute, 1)
		return len(taken) == 1
	})
	f.equal([]any{old.Generation + 1, "w2", 2}, []any{taken[0].Generation, taken[0].Owner, taken[0].Attempts},
		"second lease")
	f.wantError(f.store.MarkStarted(f.ctx(), id.RunID, old.Generation), store.ErrConflict)
	f.wantError(f.store.Release(f.ctx(), id.RunID, old.Generation, 0, "late"), store.ErrConflict)
	f.ok(f.store.MarkStarted(f.ctx(), id.RunID, taken[0].Generation))
}

func testReleasedRowIsDueLater(f *fixture) {
	id := f.createQueued()
	q := f.lease("w1", time.Minute, 1)[0]
	f.ok(f.store.Release(f.ctx(), id.RunID, q.Generation, 60*time.Millisecond, "engine unavailable"))
	back := f.queueRow(id)
	f.equal([]any{store.QueuePending, "", "engine unavailable", 1}, []any{back.Status, back.Owner, back.LastError,
		back.Attempts}, "released")
	f.eventually(5*time.Second, "the row is due", func() bool {
		rows := f.lease("w2", time.Minute, 1)
		if len(rows) == 1 && rows[0].LeaseUntil.Add(-time.Minute).Before(back.NotBefore) {
			f.Errorf("the row was leased before its time %v", back.NotBefore)
		}
		return len(rows) == 1
	})
}

func testLeaseTakesTheOldestFirst(f *fixture) {
	want := []string{f.createQueued().RunID, f.createQueued().RunID, f.createQueued().RunID}
	first := f.lease("w1", time.Minute, 2)
	f.equal(2, len(first), "limit")
	rest := f.lease("w2", time.Minute, 2)
	f.equal(1, len(rest), "the rest")
	f.equal(want, []string{first[0].RunID, first[1].RunID, rest[0].RunID}, "oldest first")
}

func testSetQueueIsFenced(f *fixture) {
	id := f.createQueued()
	set := func(change func(*store.QueueRow)) error {
		return f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
			q, err := tx.Queue(f.ctx())
			if err != nil {
				return err
			}
			change(&q)
			return tx.SetQueue(f.ctx(), q)
		})
	}
	leased := f.lease("w1", time.Minute, 1)[0]
	f.wantError(set(func(q *store.QueueRow) { q.Generation--; q.Status = store.QueueCancelled }), store.ErrConflict)
	f.ok(set(func(q *store.QueueRow) { q.Status, q.LastError = store.QueueCancelled, "cancelled" }))
	q := f.queueRow(id)
	f.equal([]any{store.QueueCancelled, "", "cancelled"}, []any{q.Status, q.Owner, q.LastError}, "row")
	f.equal(0, len(f.lease("w2", time.Minute, 1)), "a cancelled row")
	// the cancellation came first
	f.wantError(f.store.MarkStarted(f.ctx(), id.RunID, leased.Generation), store.ErrConflict)
	unqueued := f.run()
	err := f.store.InRun(f.ctx(), unqueued.RunID, func(tx store.RunTx) error {
		_, err := tx.Queue(f.ctx())
		return err
	})
	f.wantError(err, store.ErrNotFound)
}
