package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var bulkCases = []testCase{
	{"BulkIsOncePerRequest", testBulkIsOncePerRequest},
	{"BulkKeepsItsRunsInOrder", testBulkKeepsItsRunsInOrder},
	{"OpenBulksAreBounded", testOpenBulksAreBounded},
	{"OpenBulksAreBoundedInARace", testOpenBulksAreBoundedInARace},
	{"OldFinishedBulksAreDeleted", testOldFinishedBulksAreDeleted},
	{"BulksByActorAndPage", testBulksByActorAndPage},
	// contract: T128
	{"BulkLeaseIsFenced", testBulkLeaseIsFenced},
	{"BulkLeaseIsOneAtATime", testBulkLeaseIsOneAtATime},
	{"BulkRowsEndOnce", testBulkRowsEndOnce},
	{"DelayedBulkRowsBecomeDue", testDelayedBulkRowsBecomeDue},
	{"BulkRowsHaveTheirReceipts", testBulkRowsHaveTheirReceipts},
	{"StoppedBulkIsDueWithAllItsRows", testStoppedBulkIsDueWithAllItsRows},
	// contract: T128
	{"HoldBulkIsFenced", testHoldBulkIsFenced},
	// contract: T128
	{"HeldBulkIsNotStoppedOrLeased", testHeldBulkIsNotStoppedOrLeased},
	{"BulkRowsHaveTheirNewRuns", testBulkRowsHaveTheirNewRuns},
	{"BulkRowsHaveTheirPlanAndCause", testBulkRowsHaveTheirPlanAndCause},
	// contract: T128
	{"CreateRunOfBulkIsFenced", testCreateRunOfBulkIsFenced},
	{"SingleReceiptsLeaveOutBulks", testSingleReceiptsLeaveOutBulks},
	// contract: T101
	{"IdentitiesAreOfOneTenant", testIdentitiesAreOfOneTenant},
	// contract: T101
	{"RerunChainsAreWhole", testRerunChainsAreWhole},
	// contract: T128
	{"OneOfConcurrentRerunsIsCreated", testOneOfConcurrentRerunsIsCreated},
	// contract: T128
	{"UnlessRerunIgnoresCancelledReruns", testUnlessRerunIgnoresCancelledReruns},
}

func bulkID(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

func newBulk(n int, actor string, runs ...run.Identity) store.NewBulk {
	return store.NewBulk{
		Bulk: store.Bulk{
			ID: bulkID(n), TenantID: "t1", Actor: actor, RequestID: fmt.Sprintf("r-%d", n), Fingerprint: "f", Reason: "because",
			Principal: json.RawMessage(`{"id":"ü"}`), Action: json.RawMessage(`{"signal": {"type":"PAUSE"}}`),
		},
		Runs: runs, MostOpen: 5, Keep: 3, Audit: auditRow("t1"),
	}
}

func (f *fixture) putBulk(n int, actor string, runs ...run.Identity) store.Bulk {
	f.Helper()
	if len(runs) == 0 {
		runs = []run.Identity{identity(1)}
	}
	b, made, err := f.store.PutBulk(f.ctx(), newBulk(n, actor, runs...))
	f.ok(err)
	f.equal(true, made, "made")
	return b
}

func (f *fixture) leaseBulk(ttl time.Duration) store.Bulk {
	f.Helper()
	leased, err := f.store.LeaseBulks(f.ctx(), "me", ttl, 1)
	f.ok(err)
	if len(leased) != 1 {
		f.Fatalf("%d bulks were leased, want 1", len(leased))
	}
	return leased[0]
}

func (f *fixture) settleBulk(b store.Bulk, ends ...store.BulkEnd) store.Bulk {
	f.Helper()
	out, err := f.store.SettleBulkRows(f.ctx(), b, store.BulkSettlement{Ends: ends}, time.Minute)
	f.ok(err)
	return out
}

func (f *fixture) bulkRows(filter store.BulkRowFilter) []store.BulkRow {
	f.Helper()
	rows, err := f.store.BulkRows(f.ctx(), filter)
	f.ok(err)
	return rows
}

func acceptedEnd(no int) store.BulkEnd { return store.BulkEnd{No: no, Outcome: store.BulkAccepted} }

func rowNumbers(rows []store.BulkRow) []int {
	var out []int
	for _, r := range rows {
		out = append(out, r.No)
	}
	return out
}

func testBulkIsOncePerRequest(f *fixture) {
	first := f.putBulk(1, "ana", identity(1), identity(2))
	want := newBulk(1, "ana").Bulk
	want.Total, want.Rev, want.CreatedAt = 2, 1, first.CreatedAt
	f.equal(want, first, "made")
	if d := time.Since(first.CreatedAt); d < -time.Minute || d > time.Minute {
		f.Errorf("the bulk was created at %v, want about now", first.CreatedAt)
	}
	again := newBulk(1, "ana", identity(3))
	again.ID, again.Fingerprint = bulkID(9), "other"
	got, made, err := f.store.PutBulk(f.ctx(), again)
	f.ok(err)
	f.equal(false, made, "made again")
	f.equal(first, got, "the stored one")
	f.equal([]int{1, 2}, rowNumbers(f.bulkRows(store.BulkRowFilter{BulkID: first.ID})), "rows")
	f.equal(1, f.auditCount(), "audit rows")
	read, err := f.store.Bulk(f.ctx(), first.ID)
	f.ok(err)
	f.equal(first, read, "read")
	_, err = f.store.Bulk(f.ctx(), bulkID(9))
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.Bulk(f.ctx(), "no uuid")
	f.wantError(err, store.ErrNotFound)
	f.putBulk(2, "ana")
	f.putBulk(3, "ben")
	f.equal(3, f.auditCount(), "audit rows of others")
}

func testBulkKeepsItsRunsInOrder(f *fixture) {
	runs := make([]run.Identity, 300)
	for i := range runs {
		runs[i] = identity(i)
	}
	slices.Reverse(runs)
	b := f.putBulk(1, "ana", runs...)
	rows := f.bulkRows(store.BulkRowFilter{BulkID: b.ID, After: 100, Limit: 150})
	f.equal(150, len(rows), "a page")
	for i, r := range rows {
		id := runs[100+i]
		f.equal(store.BulkRow{
			No: 101 + i, RunID: id.RunID, ProjectID: id.ProjectID, EnvironmentID: id.EnvironmentID,
			SignalID: fmt.Sprintf("bulk.%s.%d", b.ID, 101+i), Outcome: store.BulkWaiting,
		}, r, "row")
	}
	f.equal(300, len(f.bulkRows(store.BulkRowFilter{BulkID: b.ID})), "all")
	f.equal([]int{2, 300}, rowNumbers(f.bulkRows(store.BulkRowFilter{BulkID: b.ID, Nos: []int{300, 2, 301}})), "by number")
	marks, err := f.store.BulkMarks(f.ctx(), b.ID)
	f.ok(err)
	f.equal(300, len(marks), "marks")
	f.equal(store.BulkMark{No: 300, Outcome: store.BulkWaiting}, marks[299], "the last mark")
}

func testOpenBulksAreBounded(f *fixture) {
	for n := range 5 {
		f.putBulk(n, "ana")
	}
	_, _, err := f.store.PutBulk(f.ctx(), newBulk(5, "ana", identity(1)))
	f.wantError(err, store.ErrTooMany)
	f.equal(5, f.auditCount(), "audit rows")
	f.putBulk(6, "ben")
	b := f.leaseBulk(time.Minute)
	f.settleBulk(b, acceptedEnd(1))
	f.putBulk(5, "ana")
}

func testOpenBulksAreBoundedInARace(f *fixture) {
	const racers = 4
	made := make([]int, racers)
	errs := make([]error, racers)
	var wg sync.WaitGroup
	for i := range racers {
		s := f.db.Open(f)
		wg.Go(func() {
			for n := range 3 {
				switch _, _, err := s.PutBulk(f.ctx(), newBulk(10*i+n, "ana", identity(1))); {
				case err == nil:
					made[i]++
				case !errors.Is(err, store.ErrTooMany):
					errs[i] = err
				}
			}
		})
	}
	wg.Wait()
	f.ok(errors.Join(errs...))
	f.equal(5, made[0]+made[1]+made[2]+made[3], "made")
	f.equal(5, f.db.Count(f, `SELECT count(*) FROM bulk`), "kept")
}

func testOldFinishedBulksAreDeleted(f *fixture) {
	f.putBulk(0, "ana") // never finished
	f.putBulk(100, "ben")
	open := []string{bulkID(0)}
	for n := 1; n <= 5; n++ {
		b := f.putBulk(n, "ana")
		leased, err := f.store.LeaseBulks(f.ctx(), "me", time.Minute, 9)
		f.ok(err)
		for _, l := range leased {
			if l.ID == b.ID {
				f.settleBulk(l, acceptedEnd(1))
			}
		}
	}
	f.putBulk(6, "ana")
	list, err := f.store.Bulks(f.ctx(), store.BulkFilter{TenantID: "t1", Actor: "ana"})
	f.ok(err)
	var ids []string
	for _, b := range list {
		ids = append(ids, b.ID)
	}
	f.equal(append([]string{bulkID(6), bulkID(5), bulkID(4)}, open...), ids, "the newest three bulks and the open one")
	f.equal(5, f.db.Count(f, `SELECT count(*) FROM bulk_row`), "rows")
}

func testBulksByActorAndPage(f *fixture) {
	for n := range 4 {
		f.putBulk(n, "ana")
	}
	f.putBulk(8, "ben")
	other := newBulk(9, "ana", identity(1))
	other.TenantID = "t2"
	_, _, err := f.store.PutBulk(f.ctx(), other)
	f.ok(err)
	page := func(before string, limit int) (ids []string) {
		list, err := f.store.Bulks(f.ctx(), store.BulkFilter{TenantID: "t1", Actor: "ana", Before: before, Limit: limit})
		f.ok(err)
		for _, b := range list {
			ids = append(ids, b.ID)
		}
		return ids
	}
	f.equal([]string{bulkID(3), bulkID(2)}, page("", 2), "first page")
	f.equal([]string{bulkID(1), bulkID(0)}, page(bulkID(2), 9), "second page")
}

func testBulkLeaseIsFenced(f *fixture) {
	f.putBulk(1, "ana", identity(1), identity(2))
	old := f.leaseBulk(30 * time.Millisecond)
	f.equal("", string(old.Paced), "paced")
	var taken store.Bulk
	f.eventually(5*time.Second, "the lease ends", func() bool {
		leased, err := f.store.LeaseBulks(f.ctx(), "another", time.Minute, 1)
		f.ok(err)
		if len(leased) == 1 {
			taken = leased[0]
		}
		return len(leased) == 1
	})
	_, err := f.store.SettleBulkRows(f.ctx(), old, store.BulkSettlement{Ends: []store.BulkEnd{acceptedEnd(1)}},
		time.Minute)
	f.wantError(err, store.ErrConflict)
	f.wantError(f.store.ReleaseBulk(f.ctx(), old, 0), store.ErrConflict)
	f.equal(0, f.db.Count(f, `SELECT count(*) FROM bulk_row WHERE outcome <> 'WAITING'`), "rows that the old lease ended")
	f.settleBulk(taken, acceptedEnd(1))
	f.ok(f.store.ReleaseBulk(f.ctx(), taken, time.Hour))
	_, err = f.store.SettleBulkRows(f.ctx(), taken, store.BulkSettlement{Ends: []store.BulkEnd{acceptedEnd(2)}},
		time.Minute)
	f.wantError(err, store.ErrConflict) // the lease was released
	leased, err := f.store.LeaseBulks(f.ctx(), "me", time.Minute, 1)
	f.ok(err)
	f.equal(0, len(leased), "bulks due before the hour is over")
	_, err = f.store.SettleBulkRows(f.ctx(), store.Bulk{ID: bulkID(7)}, store.BulkSettlement{}, time.Minute)
	f.wantError(err, store.ErrNotFound)
}

func testBulkLeaseIsOneAtATime(f *fixture) {
	for n := range 5 {
		f.putBulk(n, fmt.Sprint("ana", n))
	}
	const racers = 4
	got := make([][]store.Bulk, racers)
	errs := make([]error, racers)
	var wg sync.WaitGroup
	for i := range racers {
		s := f.db.Open(f)
		wg.Go(func() {
			for range 5 {
				leased, err := s.LeaseBulks(f.ctx(), fmt.Sprint("server", i), time.Minute, 2)
				if err != nil {
					errs[i] = err
				}
				got[i] = append(got[i], leased...)
			}
		})
	}
	wg.Wait()
	f.ok(errors.Join(errs...))
	seen := map[string]int{}
	for _, list := range got {
		for _, b := range list {
			seen[b.ID]++
		}
	}
	f.equal(map[string]int{bulkID(0): 1, bulkID(1): 1, bulkID(2): 1, bulkID(3): 1, bulkID(4): 1}, seen, "leases")
}

func testBulkRowsEndOnce(f *fixture) {
	f.putBulk(1, "ana", identity(1), identity(2), identity(3))
	b := f.leaseBulk(time.Minute)
	after := f.settleBulk(b, acceptedEnd(1), store.BulkEnd{No: 2, Outcome: store.BulkRefused, Code: run.CodeForbidden,
		Message: "no"})
	f.equal([]int{1, 0, 1, 1}, []int{after.Accepted, after.Rejected, after.Refused, after.Waiting()}, "counts")
	f.equal(true, after.FinishedAt == nil && after.Rev > b.Rev, "open, with a higher Rev")
	again := f.settleBulk(b, store.BulkEnd{No: 1, Outcome: store.BulkRejected}, acceptedEnd(2)) // a row keeps its outcome
	f.equal([]int{1, 0, 1, 1}, []int{again.Accepted, again.Rejected, again.Refused, again.Waiting()},
		"counts after a repetition")
	rows := f.bulkRows(store.BulkRowFilter{BulkID: b.ID})
	f.equal([]store.BulkOutcome{store.BulkAccepted, store.BulkRefused, store.BulkWaiting},
		[]store.BulkOutcome{rows[0].Outcome, rows[1].Outcome, rows[2].Outcome}, "outcomes")
	f.equal(true, rows[0].At != nil && rows[1].At != nil && rows[2].At == nil, "times")
	f.equal([]string{"FORBIDDEN", "no"}, []string{string(rows[1].Code), rows[1].Message}, "why")
	f.equal([]int{2}, rowNumbers(f.bulkRows(store.BulkRowFilter{BulkID: b.ID, Failed: true})), "failed")
	f.equal([]int{3}, rowNumbers(f.bulkRows(store.BulkRowFilter{BulkID: b.ID, Outcome: store.BulkWaiting})), "waiting")
	last := f.settleBulk(b, store.BulkEnd{No: 3, Outcome: store.BulkRejected})
	f.equal(true, last.FinishedAt != nil && last.Waiting() == 0, "finished")
	_, err := f.store.SettleBulkRows(f.ctx(), b, store.BulkSettlement{}, time.Minute)
	f.wantError(err, store.ErrConflict) // the lease has ended with the last row
	leased, err := f.store.LeaseBulks(f.ctx(), "me", time.Minute, 1)
	f.ok(err)
	f.equal(0, len(leased), "bulks left")
}

func testDelayedBulkRowsBecomeDue(f *fixture) {
	f.putBulk(1, "ana", identity(1), identity(2), identity(3))
	b := f.leaseBulk(time.Minute)
	due := func(limit int) ([]int, store.BulkPause) {
		rows, next, err := f.store.WaitingBulkRows(f.ctx(), b.ID, limit)
		f.ok(err)
		return rowNumbers(rows), next
	}
	rows, next := due(2)
	f.equal([]int{1, 2}, rows, "the first ones")
	f.equal(store.BulkPause{}, next, "pause when no row is delayed")
	after, err := f.store.SettleBulkRows(f.ctx(), b, store.BulkSettlement{
		Ends: []store.BulkEnd{
			{No: 1, Outcome: store.BulkWaiting, Code: run.CodeSignalRate, Delay: time.Hour},
			{No: 2, Outcome: store.BulkWaiting, Delay: 50 * time.Millisecond},
		}, Pause: store.BulkPause{Code: run.CodeSignalRate, For: time.Minute},
	}, time.Minute)
	f.ok(err)
	f.equal(run.CodeSignalRate, after.Paced, "reason of the pause")
	if after.PacedUntil == nil || time.Until(*after.PacedUntil) < 30*time.Second ||
		time.Until(*after.PacedUntil) > 90*time.Second {
		f.Errorf("the bulk is paced until %v, want about a minute from now", after.PacedUntil)
	}
	f.eventually(5*time.Second, "the second row is due again", func() bool {
		rows, next = due(9)
		return slices.Equal(rows, []int{2, 3})
	})
	if next.Code != run.CodeSignalRate || next.For < 30*time.Minute || next.For > time.Hour {
		f.Errorf("the next row waits for %v, want SIGNAL_RATE_LIMITED for about an hour", next)
	}
	after = f.settleBulk(b, acceptedEnd(2))
	f.equal(true, after.Paced == "" && after.PacedUntil == nil, "no longer paced")
}

func testStoppedBulkIsDueWithAllItsRows(f *fixture) {
	f.putBulk(1, "ana", identity(1), identity(2), identity(3))
	b := f.leaseBulk(time.Minute)
	_, err := f.store.SettleBulkRows(f.ctx(), b, store.BulkSettlement{
		Ends: []store.BulkEnd{acceptedEnd(1), {No: 2, Outcome: store.BulkWaiting, Code: run.CodeSignalRate,
			Delay: time.Hour}},
	}, time.Minute)
	f.ok(err)
	stopped, fresh, err := f.store.StopBulk(f.ctx(), b.ID, auditRow("t1"))
	f.ok(err)
	f.equal(true, fresh && stopped.StoppedAt != nil && stopped.FinishedAt == nil && stopped.Rev > b.Rev, "stopped")
	f.equal(2, f.auditCount(), "audit rows")
	again, fresh, err := f.store.StopBulk(f.ctx(), b.ID, auditRow("t1"))
	f.ok(err)
	f.equal(false, fresh, "stopped again")
	f.equal(stopped, again, "bulk of the repeated stop")
	f.equal(2, f.auditCount(), "audit rows after a repetition")
	rows, _, err := f.store.WaitingBulkRows(f.ctx(), b.ID, 9)
	f.ok(err)
	f.equal([]int{2, 3}, rowNumbers(rows), "due rows of a stopped bulk: all that wait")
	f.ok(f.store.ReleaseBulk(f.ctx(), b, time.Hour)) // a stopped bulk is due at once
	b = f.leaseBulk(time.Minute)
	f.equal(true, b.StoppedAt != nil, "stopped for the next holder of the lease")
	last := f.settleBulk(b, store.BulkEnd{No: 2, Outcome: store.BulkNotSent}, store.BulkEnd{No: 3,
		Outcome: store.BulkNotSent})
	f.equal([]int{1, 0, 0, 2, 0}, []int{last.Accepted, last.Rejected, last.Refused, last.NotSent, last.Waiting()},
		"counts")
	f.equal(true, last.FinishedAt != nil, "finished")
	f.equal([]int{2, 3}, rowNumbers(f.bulkRows(store.BulkRowFilter{BulkID: b.ID, Outcome: store.BulkNotSent})), "not sent")
	f.equal(0, len(f.bulkRows(store.BulkRowFilter{BulkID: b.ID, Failed: true})), "failed")
	_, fresh, err = f.store.StopBulk(f.ctx(), b.ID, auditRow("t1"))
	f.ok(err)
	f.equal(false, fresh, "stopped although it is finished")
	_, _, err = f.store.StopBulk(f.ctx(), bulkID(9), auditRow("t1"))
	f.wantError(err, store.ErrNotFound)
}

func testBulkRowsHaveTheirReceipts(f *fixture) {
	one, two, three := f.run(), f.run(), f.run()
	b := f.putBulk(1, "ana", one, two, three)
	for i, id := range []run.Identity{one, two} {
		f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
			_, err := tx.PutReceipt(f.ctx(), run.SignalReceipt{
				Signal: run.Signal{ID: store.BulkSignalID(b.ID, i+1), Type: run.Pause}, Actor: "ana",
				Payload: json.RawMessage(`{}`), Application: run.SignalPending,
			}, false)
			return err
		}))
	}
	leased := f.leaseBulk(time.Minute)
	f.settleBulk(leased, acceptedEnd(1), acceptedEnd(2))
	outcome := func(id run.Identity, no int, to run.Application) {
		_, err := f.store.Append(
			f.ctx(), store.Append{
				RunID: id.RunID, Outcomes: []store.SignalOutcome{{SignalID: store.BulkSignalID(b.ID, no), Application: to,
					AppliedBy: -1}}})
		f.ok(err)
	}
	outcome(one, 1, run.SignalApplied)
	outcome(two, 2, run.SignalNotApply)
	rows := f.bulkRows(store.BulkRowFilter{BulkID: b.ID})
	f.equal([]run.Application{run.SignalApplied, run.SignalNotApply}, []run.Application{rows[0].Receipt.Application,
		rows[1].Receipt.Application}, "receipts")
	f.equal("ana "+one.RunID, rows[0].Receipt.Actor+" "+rows[0].Receipt.RunID, "actor and run of the receipt")
	f.equal(true, rows[2].Receipt == nil, "row without a receipt before its signal is sent")
	failed := f.bulkRows(store.BulkRowFilter{BulkID: b.ID, Failed: true})
	f.equal([]int{2}, rowNumbers(failed), "failed")
	f.equal(true, failed[0].Failed() && !rows[0].Failed() && !rows[2].Failed(), "Failed() of the rows")
	marks, err := f.store.BulkMarks(f.ctx(), b.ID)
	f.ok(err)
	f.equal([]store.BulkMark{
		{No: 1, Outcome: store.BulkAccepted, Application: run.SignalApplied, Moving: true, RunStatus: run.Running},
		{No: 2, Outcome: store.BulkAccepted, Application: run.SignalNotApply, RunStatus: run.Running},
		{No: 3, Outcome: store.BulkWaiting, RunStatus: run.Running},
	}, marks, "marks")
}

func testIdentitiesAreOfOneTenant(f *fixture) {
	one, two := f.run(), f.run()
	other := identity(9)
	other.TenantID = "t2"
	f.create(newRun(other))
	got, err := f.store.Identities(f.ctx(), "t1", []string{two.RunID, "unknown", other.RunID, one.RunID, two.RunID})
	f.ok(err)
	slices.SortFunc(got, func(a, b run.Identity) int { return strings.Compare(a.RunID, b.RunID) })
	f.equal([]run.Identity{one, two}, got, "identities")
	none, err := f.store.Identities(f.ctx(), "t1", nil)
	f.ok(err)
	f.equal(0, len(none), "of none")
}

// A chain has two reruns of its first run, and a rerun of one of them. The first run of another chain is not in the
// store.
func testRerunChainsAreWhole(f *fixture) {
	rerun := func(n int, parent, tenant string) string {
		id := identity(n)
		id.TenantID = tenant
		again := newRun(id, runtest.Draft(run.RunApproved, "", 1))
		again.Run.ParentRunID = parent
		return f.create(again).RunID
	}
	first := rerun(1, "", "t1")
	again, newest := rerun(2, first, "t1"), rerun(3, first, "t1")
	deep := rerun(4, again, "t1")
	rerun(5, "", "t1")
	orphans := []string{rerun(6, "deleted", "t1"), rerun(7, "deleted", "t1")}
	rerun(8, "", "t2")
	read := func(limit int, ids ...string) (out []string) {
		chains, err := f.store.RerunChains(f.ctx(), "t1", ids, limit)
		f.ok(err)
		for _, c := range chains {
			out = append(out, fmt.Sprint(c.RunID, " of ", c.ParentRunID, " ", c.Status, " ", c.CreatedAt.IsZero()))
		}
		slices.Sort(out)
		return out
	}
	whole := []string{first + " of  APPROVED false", again + " of " + first + " APPROVED false",
		newest + " of " + first + " APPROVED false", deep + " of " + again + " APPROVED false"}
	for _, id := range []string{first, again, newest, deep} {
		f.equal(whole, read(10, id, "unknown"), "chain of "+id)
	}
	f.equal([]string{orphans[0] + " of deleted APPROVED false", orphans[1] + " of deleted APPROVED false"},
		read(10, orphans[0]), "chain whose first run is not stored")
	f.equal(2, len(read(2, first)), "runs within the limit")
	f.equal([]string(nil), read(10, identity(8).RunID), "chain of another tenant's run")
}

// rerunUnless returns a rerun of parent that is created only if the chain has no newer run.
func rerunUnless(n int, parent string) store.NewRun {
	again := newRun(identity(n), runtest.Draft(run.RunApproved, "", 1))
	again.Run.ParentRunID, again.Run.RequestKey, again.UnlessRerun = parent, run.Key(fmt.Sprint("rerun-", n)), true
	return again
}

// Bulks whose rows are sent at the same instant ask for a rerun of one run, in one transaction and in several. One run
// is created. Repeating the request that won returns its run. The window between the check and the commit is short, so
// this test proves the check; it seldom fails without the lock of the chain.
func testOneOfConcurrentRerunsIsCreated(f *fixture) {
	const callers = 6
	processes := []store.Store{f.store, f.db.Open(f)}
	for round := range 5 {
		parent := f.run().RunID
		first := 100 + round*callers
		made, refused := make([]bool, callers), make([]bool, callers)
		f.concurrently(callers, func(i int) error {
			_, created, err := processes[i%2].CreateRun(f.ctx(), rerunUnless(first+i, parent))
			if made[i], refused[i] = created, errors.Is(err, store.ErrAlreadyRerun); refused[i] {
				return nil
			}
			return err
		})
		created := 0
		for i := range made {
			if made[i] {
				created++
				r, again, err := f.store.CreateRun(f.ctx(), rerunUnless(first+i, parent))
				f.ok(err)
				f.equal([]any{identity(first + i).RunID, false}, []any{r.RunID, again}, "the repeated request")
			} else {
				f.equal(true, refused[i], "refused")
			}
		}
		f.equal(1, created, "created reruns of one run")
	}
	creator, ok := f.store.(store.Creator)
	if !ok {
		return
	}
	parent, other := f.run().RunID, f.run().RunID
	out, err := creator.CreateRuns(f.ctx(), []store.NewRun{rerunUnless(201, parent), rerunUnless(202, parent),
		rerunUnless(203, other)})
	f.ok(err)
	f.equal([]bool{true, false, true}, []bool{out[0].Created, out[1].Created, out[2].Created}, "created in one call")
	f.wantError(out[1].Err, store.ErrAlreadyRerun)
}

func testUnlessRerunIgnoresCancelledReruns(f *fixture) {
	parent := f.run().RunID
	f.create(rerunUnless(301, parent))
	gone := identity(301)
	f.append(gone, runtest.Draft(run.RunCancelled, "", 1))
	l, err := f.store.Load(f.ctx(), gone.RunID)
	f.ok(err)
	_, err = f.store.Save(f.ctx(), l.State, l.Changes)
	f.ok(err)
	f.create(rerunUnless(302, parent))
	_, _, err = f.store.CreateRun(f.ctx(), rerunUnless(303, parent))
	f.wantError(err, store.ErrAlreadyRerun)
	deep := rerunUnless(304, identity(302).RunID)
	f.create(deep)
	_, _, err = f.store.CreateRun(f.ctx(), rerunUnless(305, parent)) // the rerun of the rerun is of the same chain
	f.wantError(err, store.ErrAlreadyRerun)
	always := rerunUnless(306, parent)
	always.UnlessRerun = false
	f.create(always)
}

func (f *fixture) holdBulk(id run.Identity, b store.Bulk) error {
	f.Helper()
	return f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error { return tx.HoldBulk(f.ctx(), b) })
}

func testHoldBulkIsFenced(f *fixture) {
	id := f.run()
	b := f.putBulk(1, "ana", id)
	f.wantError(f.holdBulk(id, b), store.ErrConflict) // it is not leased
	first := f.leaseBulk(time.Millisecond)
	f.ok(f.holdBulk(id, first)) // the lease may have expired, but nobody has taken it
	f.eventually(5*time.Second, "the lease ends", func() bool {
		leased, err := f.store.LeaseBulks(f.ctx(), "another", time.Minute, 1)
		f.ok(err)
		if len(leased) == 1 {
			b = leased[0]
		}
		return len(leased) == 1
	})
	f.wantError(f.holdBulk(id, first), store.ErrConflict)
	f.ok(f.holdBulk(id, b))
	f.ok(f.store.ReleaseBulk(f.ctx(), b, 0))
	f.wantError(f.holdBulk(id, b), store.ErrConflict)
	b = f.leaseBulk(time.Minute)
	_, _, err := f.store.StopBulk(f.ctx(), b.ID, auditRow("t1"))
	f.ok(err)
	f.wantError(f.holdBulk(id, b), store.ErrConflict)
	f.wantError(f.holdBulk(id, store.Bulk{ID: bulkID(9), Generation: 1}), store.ErrConflict)
}

func testHeldBulkIsNotStoppedOrLeased(f *fixture) {
	id := f.run()
	f.putBulk(1, "ana", id)
	b := f.leaseBulk(time.Millisecond)
	other := f.db.Open(f)
	var others sync.WaitGroup
	var over atomic.Bool
	var early [2]bool
	errs := make([]error, 2)
	f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
		if err := tx.HoldBulk(f.ctx(), b); err != nil {
			return err
		}
		others.Go(func() {
			_, _, errs[0] = other.StopBulk(f.ctx(), b.ID, auditRow("t1"))
			early[0] = !over.Load()
		})
		others.Go(func() {
			for leased := 0; leased == 0 && errs[1] == nil && f.ctx().Err() == nil; {
				var taken []store.Bulk
				taken, errs[1] = other.LeaseBulks(f.ctx(), "another", time.Minute, 1)
				leased = len(taken)
			}
			early[1] = !over.Load()
		})
		time.Sleep(200 * time.Millisecond)
		over.Store(true)
		return nil
	}))
	others.Wait()
	f.ok(errors.Join(errs...))
	f.equal([2]bool{}, early, "stopped and leased while it was held")
}

// rerunBulk creates a bulk that reruns the runs, with the request keys of the new runs, and leases it.
func (f *fixture) rerunBulk(runs ...run.Identity) (store.Bulk, []run.Key) {
	f.Helper()
	b := newBulk(1, "ana", runs...)
	keys := make([]run.Key, len(runs))
	for i := range runs {
		keys[i] = run.Key(fmt.Sprint("key-", i))
		b.Keys = append(b.Keys, string(keys[i]))
	}
	_, _, err := f.store.PutBulk(f.ctx(), b)
	f.ok(err)
	return f.leaseBulk(time.Minute), keys
}

func testBulkRowsHaveTheirNewRuns(f *fixture) {
	one, two := f.run(), f.run()
	b, keys := f.rerunBulk(one, two)
	again := newRun(identity(77))
	again.Run.RequestKey, again.Bulk = keys[0], &b
	_, created, err := f.store.CreateRun(f.ctx(), again)
	f.ok(err)
	f.equal(true, created, "created")
	waiting, _, err := f.store.WaitingBulkRows(f.ctx(), b.ID, 9)
	f.ok(err)
	f.equal([]string{again.Run.RunID, ""}, []string{waiting[0].NewRunID, waiting[1].NewRunID}, "new runs of waiting rows")
	f.settleBulk(b, acceptedEnd(1))
	rows := f.bulkRows(store.BulkRowFilter{BulkID: b.ID})
	f.equal([]string{again.Run.RunID, ""}, []string{rows[0].NewRunID, rows[1].NewRunID}, "new runs")
	f.equal([]run.Status{run.Pending, run.Running}, []run.Status{rows[0].RunStatus, rows[1].RunStatus}, "statuses")
	marks, err := f.store.BulkMarks(f.ctx(), b.ID)
	f.ok(err)
	f.equal([]store.BulkMark{{No: 1, Outcome: store.BulkAccepted, RunStatus: run.Pending},
		{No: 2, Outcome: store.BulkWaiting, RunStatus: run.Running}}, marks, "marks")
	f.equal(0, len(f.bulkRows(store.BulkRowFilter{BulkID: b.ID, Failed: true})), "failed")
	statuses := func(actor string) []store.BulkStatusCount {
		out, err := f.store.BulkStatuses(f.ctx(), b.TenantID, actor, []string{b.ID, "unknown"})
		f.ok(err)
		return out
	}
	f.equal([]store.BulkStatusCount{{BulkID: b.ID, Status: run.Pending, Count: 1}}, statuses(b.Actor),
		"statuses of the new runs")
	f.equal(0, len(statuses("another")), "statuses of another actor's bulk")
}

func testBulkRowsHaveTheirPlanAndCause(f *fixture) {
	red, green := f.run(), f.run()
	f.append(red, stepStarted("s1", 1), stepFailed("s1", 1))
	l, err := f.store.Load(f.ctx(), red.RunID)
	f.ok(err)
	_, err = f.store.Save(f.ctx(), l.State, l.Changes)
	f.ok(err)
	f.putBulk(1, "ana", red, green)
	rows := f.bulkRows(store.BulkRowFilter{BulkID: bulkID(1)})
	f.equal([]string{red.PlanID, green.PlanID}, []string{rows[0].PlanID, rows[1].PlanID}, "plans")
	f.equal(l.State.RootCause, rows[0].Cause, "cause")
	f.equal(true, rows[0].Cause != nil && rows[1].Cause == nil, "causes of a failed and of a green run")
}

func testCreateRunOfBulkIsFenced(f *fixture) {
	id := f.run()
	b, keys := f.rerunBulk(id)
	create := func(of store.Bulk) error {
		n := newRun(identity(77))
		n.Run.RequestKey, n.Bulk = keys[0], &of
		_, _, err := f.store.CreateRun(f.ctx(), n)
		return err
	}
	late := b
	late.Generation--
	f.wantError(create(late), store.ErrConflict)
	_, _, err := f.store.StopBulk(f.ctx(), b.ID, auditRow("t1"))
	f.ok(err)
	f.wantError(create(b), store.ErrConflict)
	_, err = f.store.ByRequest(f.ctx(), keys[0])
	f.wantError(err, store.ErrNotFound) // nothing was written
}

func testSingleReceiptsLeaveOutBulks(f *fixture) {
	id := f.run()
	put := func(signalID, actor string) {
		f.ok(f.store.InRun(f.ctx(), id.RunID, func(tx store.RunTx) error {
			_, err := tx.PutReceipt(f.ctx(), run.SignalReceipt{Signal: run.Signal{ID: signalID, Type: run.Pause},
				Actor: actor, Payload: json.RawMessage(`{}`), Application: run.SignalPending}, false)
			return err
		}))
	}
	put("first", "ana")
	put(store.BulkSignalID(bulkID(1), 1), "ana")
	put("bulky", "ana")
	put("other", "ben")
	list := func(single bool, limit int) (out []string) {
		rs, err := f.store.ReceiptsOf(f.ctx(), store.SenderFilter{TenantID: id.TenantID, Actor: "ana", Single: single,
			Limit: limit})
		f.ok(err)
		for _, r := range rs {
			out = append(out, r.Signal.ID)
		}
		return out
	}
	f.equal([]string{"bulky", "first"}, list(true, 9), "single receipts")
	f.equal([]string{"bulky"}, list(true, 1), "the newest single receipt")
	f.equal([]string{"bulky", store.BulkSignalID(bulkID(1), 1), "first"}, list(false, 9), "all receipts")
	none, err := f.store.ReceiptsOf(f.ctx(), store.SenderFilter{TenantID: "t2", Actor: "ana", Single: true, Limit: 9})
	f.ok(err)
	f.equal(0, len(none), "receipts of another tenant")
}
