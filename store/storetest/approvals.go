package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var approvalCases = []testCase{
	// contract: W-20
	{"RunThatNeedsApprovalHasNoLog", testRunThatNeedsApprovalHasNoLog},
	// contract: W-20
	{"DecisionsAreKeptInOrder", testDecisionsAreKeptInOrder},
	// contract: T208
	{"DecisionsAreInsertOnly", testDecisionsAreInsertOnly},
	// contract: W-20
	{"ApprovalStartsTheLog", testApprovalStartsTheLog},
	// contract: W-20
	{"TheEndOfARunEndsItsWait", testTheEndOfARunEndsItsWait},
	// contract: W-20
	{"OpenApprovalsByTenantProjectAndPage", testOpenApprovalsByTenantProjectAndPage},
	// contract: W-20
	{"ExpiredApprovalsAreListed", testExpiredApprovalsAreListed},
	{"DecidedApprovalsAreListedByTheirDecider", testDecidedApprovalsAreListedByTheirDecider},
}

// createUnapproved creates the next run, which needs the approval of two people.
func (f *fixture) createUnapproved(ttl time.Duration) run.Identity {
	f.Helper()
	f.runs++
	return f.create(newUnapproved(identity(f.runs), ttl))
}

// rerunOfUnapproved is the Rerun of unapproved runs.
var rerunOfUnapproved = &run.Rerun{RunID: "r-0", From: run.RerunFrom{Failed: true}, Reuse: []string{"s1", "s2"}}

func newUnapproved(id run.Identity, ttl time.Duration) store.NewRun {
	n := newRun(id)
	n.NeedApproval = &store.NeedApproval{Required: 2, TTL: ttl, Priority: 7, Rerun: rerunOfUnapproved}
	return n
}

func (f *fixture) approval(id run.Identity) store.Approval {
	f.Helper()
	a, err := f.store.Approval(f.ctx(), id.RunID)
	f.ok(err)
	return a
}

func (f *fixture) inRun(id run.Identity, decide func(tx store.RunTx) error) error {
	f.Helper()
	return f.store.InRun(f.ctx(), id.RunID, decide)
}

func decisionOf(principal string, approved bool) store.ApprovalDecision {
	return store.ApprovalDecision{Principal: principal, Approved: approved, Reason: "because", RequestID: "r-" + principal}
}

func (f *fixture) decide(id run.Identity, d store.ApprovalDecision) error {
	f.Helper()
	return f.inRun(id, func(tx store.RunTx) error { return tx.Decide(f.ctx(), d) })
}

func testRunThatNeedsApprovalHasNoLog(f *fixture) {
	cursor := f.readChanged(store.RunFilter{TenantID: "t1"}, "", map[string]run.Seq{})
	id := f.createUnapproved(time.Hour)
	facts, err := f.store.Get(f.ctx(), id.RunID)
	f.ok(err)
	want := store.Approval{
		RunID: id.RunID, TenantID: "t1", ProjectID: "p1", EnvironmentID: id.EnvironmentID, PlanID: id.PlanID,
		PlanVersion: id.PlanVersion, TriggeredBy: facts.TriggeredBy, Required: 2, Priority: 7,
		CreatedAt: facts.CreatedAt, ExpiresAt: facts.CreatedAt.Add(time.Hour), Rerun: rerunOfUnapproved, Open: true,
	}
	f.equal(want, f.approval(id), "approval")
	of, err := f.store.ApprovalsOf(f.ctx(), []string{"unknown", id.RunID})
	f.ok(err)
	f.equal([]store.Approval{want}, of, "approvals of runs")
	f.equal(0, len(f.log(id)), "events")
	_, err = f.store.QueueRow(f.ctx(), id.RunID)
	f.wantError(err, store.ErrNotFound)
	f.equal(0, len(f.lease("w1", time.Minute, 10)), "leased")
	head := f.head(id)
	f.equal([]any{run.Seq(0), false, run.Gate(0)}, []any{head.LastSeq, head.Terminal, head.Gate}, "head")
	l := f.checkFold(id)
	f.equal([]any{run.Pending, run.Seq(0), facts.CreatedAt}, []any{l.State.Status, l.State.Seq, l.State.CreatedAt},
		"state")
	rows := f.list(store.RunFilter{Limit: 10, Statuses: []run.Status{run.Pending}, Steps: true})
	f.equal([]string{id.RunID}, runIDs(rows), "listed")
	f.equal([]any{run.Pending, run.Seq(0)}, []any{rows[0].Header.Status, rows[0].Head}, "row")
	seen := map[string]run.Seq{}
	f.readChanged(store.RunFilter{TenantID: "t1"}, cursor, seen)
	if _, told := seen[id.RunID]; !told {
		f.Error("Changed() does not return the run")
	}
	f.equal(0, len(f.quietRuns(0, "", 10)), "quiet runs")

	// It is projected like any other run.
	dirty := f.dirtyRuns(0)
	f.equal([]string{id.RunID}, []string{dirty[0].RunID}, "dirty")
	f.save(l)
	f.markPublished(id, dirty[0].HeadSeq, dirty[0].OpsRev)
	f.equal(0, len(f.dirtyRuns(0)), "dirty after it was published")
	f.checkFold(id)

	// A repeated request creates nothing.
	again, created, err := f.store.CreateRun(f.ctx(), newUnapproved(id, time.Minute))
	f.ok(err)
	f.equal([]any{false, id.RunID}, []any{created, again.RunID}, "the request again")
	f.equal(want, f.approval(id), "approval")

	_, err = f.store.Approval(f.ctx(), f.run().RunID)
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.Approval(f.ctx(), "nobody")
	f.wantError(err, store.ErrNotFound)
}

func testDecisionsAreKeptInOrder(f *fixture) {
	id, other := f.createUnapproved(time.Hour), f.run()
	before := f.head(id)
	f.ok(f.decide(id, decisionOf("zoe", true)))
	if after := f.head(id); after.OpsRev != before.OpsRev+1 || after.LastSeq != 0 {
		f.Errorf("head %+v after %+v, want only OpsRev to increase by 1", after, before)
	}
	f.wantError(f.decide(id, decisionOf("zoe", false)), store.ErrConflict)
	refused := errors.New("no")
	f.wantError(f.inRun(id, func(tx store.RunTx) error {
		f.ok(tx.Decide(f.ctx(), decisionOf("eve", true)))
		return refused
	}), refused)
	f.ok(f.inRun(id, func(tx store.RunTx) error {
		if err := tx.Decide(f.ctx(), decisionOf("ana", false)); err != nil {
			return err
		}
		a, err := tx.Approval(f.ctx())
		f.equal(2, len(a.Decisions), "decisions under the lock")
		return err
	}))
	a := f.approval(id)
	for i, want := range []store.ApprovalDecision{decisionOf("zoe", true), decisionOf("ana", false)} {
		if d := time.Since(a.Decisions[i].At); d < -time.Minute || d > time.Minute {
			f.Errorf("decision %d was made at %v, want about now", i, a.Decisions[i].At)
		}
		want.At = a.Decisions[i].At
		f.equal(want, a.Decisions[i], "decision")
	}
	f.equal([]any{2, true}, []any{len(a.Decisions), a.Open}, "decisions, and open")
	f.wantError(f.decide(other, decisionOf("ana", true)), store.ErrNotFound)

	closing := func(tx store.RunTx) error { return tx.CloseApproval(f.ctx()) }
	f.ok(f.inRun(id, closing))
	f.wantError(f.inRun(id, closing), store.ErrConflict)
	f.wantError(f.inRun(other, closing), store.ErrNotFound)
	f.wantError(f.decide(id, decisionOf("bob", true)), store.ErrConflict)
	closed := a
	closed.Open = false
	f.equal(closed, f.approval(id), "closed")
}

func testDecisionsAreInsertOnly(f *fixture) {
	id := f.createUnapproved(time.Hour)
	f.ok(f.decide(id, decisionOf("ana", true)))
	for _, statement := range []string{
		`UPDATE approval_decision SET approved = false`,
		`UPDATE approval_decision SET principal = 'eve' WHERE principal = 'ana'`, `DELETE FROM approval_decision`,
	} {
		if err := f.db.Exec(f, statement); err == nil {
			f.Errorf("%s succeeded, want an error", statement)
		}
	}
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM approval_decision WHERE principal = 'ana' AND approved`), "rows")
}

// The last decision, the close of the approval and the first events of the log are one transaction.
func testApprovalStartsTheLog(f *fixture) {
	id := f.createUnapproved(time.Hour)
	f.ok(f.inRun(id, func(tx store.RunTx) error {
		for _, d := range []store.ApprovalDecision{decisionOf("ana", true), decisionOf("bob", true)} {
			if err := tx.Decide(f.ctx(), d); err != nil {
				return err
			}
		}
		if err := tx.CloseApproval(f.ctx()); err != nil {
			return err
		}
		_, err := tx.Append(
			f.ctx(), store.Append{Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("s1")}})
		return err
	}))
	f.equal(false, f.approval(id).Open, "open")
	if l := f.checkFold(id); l.State.Status != run.Running || l.State.Seq != 2 {
		f.Errorf("the run is %s at %d, want RUNNING at 2", l.State.Status, l.State.Seq)
	}
	f.save(f.load(id))
	f.checkFold(id)
	f.equal([]string{id.RunID}, quietIDs(f.quietRuns(0, "", 10)), "quiet runs")
}

func testTheEndOfARunEndsItsWait(f *fixture) {
	cancelled := runtest.Draft(run.RunCancelled, "", 1)
	alone, inRun := f.createUnapproved(time.Hour), f.createUnapproved(time.Hour)
	open := f.createUnapproved(time.Hour)
	f.append(alone, cancelled)
	f.wantError(f.inRun(inRun, func(tx store.RunTx) error {
		if _, err := tx.Append(f.ctx(), store.Append{Events: []run.Draft{cancelled}}); err != nil {
			return err
		}
		return errStopped
	}), errStopped)
	f.equal(true, f.approval(inRun).Open, "open after the end was rolled back")
	together := make([]run.Identity, 8)
	for i := range together {
		together[i] = f.createUnapproved(time.Hour)
	}
	f.concurrently(len(together), func(i int) error {
		_, err := f.store.Append(f.ctx(), store.Append{RunID: together[i].RunID, Events: []run.Draft{cancelled}})
		return err
	})
	for _, id := range append(together, alone) {
		f.equal(false, f.approval(id).Open, "open after the end")
		f.wantError(f.decide(id, decisionOf("ana", true)), store.ErrConflict)
	}
	f.equal(true, f.approval(open).Open, "open approval of another run")
	f.equal(2, f.db.Count(f, `SELECT count(*) FROM approval WHERE open`), "open ones")
}

var errStopped = errors.New("stopped")

func testOpenApprovalsByTenantProjectAndPage(f *fixture) {
	var want []string
	for i := range 7 {
		id := f.createUnapproved(time.Hour)
		if i == 3 {
			f.ok(f.decide(id, decisionOf("ana", true)))
			f.ok(f.decide(id, decisionOf("bob", true)))
		}
		want = append(want, id.RunID)
	}
	for n, change := range []func(*run.Identity){func(id *run.Identity) { id.TenantID = "t2" },
		func(id *run.Identity) { id.ProjectID = "p2" }} {
		id := identity(50 + n)
		change(&id)
		f.create(newUnapproved(id, time.Hour))
	}
	closed := f.createUnapproved(time.Hour)
	f.ok(f.inRun(closed, func(tx store.RunTx) error { return tx.CloseApproval(f.ctx()) }))
	page := func(filter store.ApprovalFilter) (ids []string, last *store.RunPos) {
		f.Helper()
		found, err := f.store.OpenApprovals(f.ctx(), filter)
		f.ok(err)
		for _, a := range found {
			one, err := f.store.Approval(f.ctx(), a.RunID)
			f.ok(err)
			f.equal(one, a, "row")
			ids, last = append(ids, a.RunID), &store.RunPos{CreatedAt: a.CreatedAt, RunID: a.RunID}
		}
		return ids, last
	}
	var got []string
	var after *store.RunPos
	for {
		ids, last := page(store.ApprovalFilter{TenantID: "t1", ProjectIDs: []string{"p1", "p9"}, After: after, Limit: 3})
		if len(ids) == 0 {
			break
		}
		got, after = append(got, ids...), last
	}
	f.equal(want, got, "pages")
	for _, c := range []struct {
		filter store.ApprovalFilter
		want   int
	}{
		{store.ApprovalFilter{TenantID: "t1", Limit: 100}, 8},
		{store.ApprovalFilter{TenantID: "t2", Limit: 100}, 1},
		{store.ApprovalFilter{TenantID: "t1", ProjectIDs: []string{"p2"}, Limit: 100}, 1},
		{store.ApprovalFilter{TenantID: "t1", ProjectIDs: []string{}, Limit: 100}, 0},
		{store.ApprovalFilter{Limit: 100}, 0},
	} {
		ids, _ := page(c.filter)
		f.equal(c.want, len(ids), fmt.Sprintf("%+v", c.filter))
	}
}

func testExpiredApprovalsAreListed(f *fixture) {
	late, later := f.createUnapproved(10*time.Millisecond), f.createUnapproved(30*time.Millisecond)
	f.createUnapproved(time.Hour)
	decided := f.createUnapproved(time.Millisecond)
	f.ok(f.inRun(decided, func(tx store.RunTx) error { return tx.CloseApproval(f.ctx()) }))
	expired := func(limit int) (ids []string) {
		f.Helper()
		found, err := f.store.ExpiredApprovals(f.ctx(), limit)
		f.ok(err)
		for _, a := range found {
			ids = append(ids, a.RunID)
		}
		return ids
	}
	f.eventually(5*time.Second, "both approvals expire", func() bool { return len(expired(10)) == 2 })
	f.equal([]string{late.RunID, later.RunID}, expired(10), "expired approvals, the oldest first")
	f.equal([]string{late.RunID}, expired(1), "a page")
	f.append(late, runtest.Draft(run.RunCancelled, "", 1))
	f.equal([]string{later.RunID}, expired(10), "after the end of one")
}

func testDecidedApprovalsAreListedByTheirDecider(f *fixture) {
	var ids []run.Identity
	for range 3 {
		ids = append(ids, f.createUnapproved(time.Hour))
	}
	other := identity(60)
	other.TenantID = "t2"
	f.create(newUnapproved(other, time.Hour))
	f.ok(f.decide(ids[2], decisionOf("ana", true)))
	f.ok(f.decide(ids[2], decisionOf("bob", true)))
	f.ok(f.decide(ids[0], decisionOf("ana", false)))
	f.ok(f.decide(ids[1], decisionOf("bob", true)))
	f.ok(f.decide(other, decisionOf("ana", true)))
	decided := func(tenant, principal string, limit int) (out []string) {
		f.Helper()
		found, err := f.store.DecidedApprovals(f.ctx(), tenant, principal, limit)
		f.ok(err)
		for _, a := range found {
			one, err := f.store.Approval(f.ctx(), a.RunID)
			f.ok(err)
			f.equal(one, a, "row")
			out = append(out, a.RunID)
		}
		return out
	}
	f.equal([]string{ids[0].RunID, ids[2].RunID}, decided("t1", "ana", 10), "ana's, the newest first")
	f.equal([]string{ids[0].RunID}, decided("t1", "ana", 1), "ana's newest")
	f.equal([]string{ids[1].RunID, ids[2].RunID}, decided("t1", "bob", 10), "bob's")
	f.equal([]string{other.RunID}, decided("t2", "ana", 10), "the other tenant's")
	f.equal(0, len(decided("t1", "eve", 10)), "of somebody who has not decided")
	a := f.approval(ids[0])
	r, err := f.store.Get(f.ctx(), a.RunID)
	f.ok(err)
	f.equal([]string{r.PlanID, r.PlanVersion}, []string{a.PlanID, a.PlanVersion}, "plan")
}
