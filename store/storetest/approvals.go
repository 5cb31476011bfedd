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
	{"ARunThatNeedsApprovalHasNoLog", approvalNoLog},
	// contract: W-20
	{"DecisionsAreKeptInOrder", approvalDecisions},
	// contract: T208
	{"DecisionsAreInsertOnly", approvalInsertOnly},
	// contract: W-20
	{"ApprovalStartsTheLog", approvalStarts},
	// contract: W-20
	{"TheEndOfARunEndsItsWait", approvalEnds},
	// contract: W-20
	{"OpenApprovalsByTenantProjectAndPage", approvalPages},
	// contract: W-20
	{"ExpiredApprovals", approvalExpired},
}

// unapproved makes the next run, which needs the approval of two.
func (f *fixture) unapproved(ttl time.Duration) run.Identity {
	f.Helper()
	f.runs++
	return f.create(unapproved(identity(f.runs), ttl))
}

// takenOver is what unapproved runs take over.
var takenOver = &run.Rerun{RunID: "r-0", From: run.RerunFrom{Failed: true}, Reuse: []string{"s1", "s2"}}

func unapproved(id run.Identity, ttl time.Duration) store.NewRun {
	n := newRun(id)
	n.NeedApproval = &store.NeedApproval{Required: 2, TTL: ttl, Priority: 7, Rerun: takenOver}
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

func approvalNoLog(f *fixture) {
	cursor := f.changed(store.RunFilter{TenantID: "t1"}, "", map[string]run.Seq{})
	id := f.unapproved(time.Hour)
	facts, err := f.store.Get(f.ctx(), id.RunID)
	f.ok(err)
	want := store.Approval{
		RunID: id.RunID, TenantID: "t1", ProjectID: "p1", EnvironmentID: id.EnvironmentID, TriggeredBy: facts.TriggeredBy,
		Required: 2, Priority: 7,
		CreatedAt: facts.CreatedAt, ExpiresAt: facts.CreatedAt.Add(time.Hour), Rerun: takenOver, Open: true,
	}
	f.equal(want, f.approval(id), "approval")
	of, err := f.store.ApprovalsOf(f.ctx(), []string{"unknown", id.RunID})
	f.ok(err)
	f.equal([]store.Approval{want}, of, "approvals of runs")
	f.equal(0, len(f.log(id)), "events")
	_, err = f.store.QueueRow(f.ctx(), id.RunID)
	f.is(err, store.ErrNotFound)
	f.equal(0, len(f.lease("w1", time.Minute, 10)), "leased")
	head := f.head(id)
	f.equal([]any{run.Seq(0), false, run.Gate(0)}, []any{head.LastSeq, head.Terminal, head.Gate}, "head")
	l := f.sameAsFold(id)
	f.equal([]any{run.Pending, run.Seq(0), facts.CreatedAt}, []any{l.State.Status, l.State.Seq, l.State.CreatedAt},
		"state")
	rows := f.list(store.RunFilter{Limit: 10, Statuses: []run.Status{run.Pending}, Steps: true})
	f.equal([]string{id.RunID}, runIDs(rows), "listed")
	f.equal([]any{run.Pending, run.Seq(0)}, []any{rows[0].Header.Status, rows[0].Head}, "row")
	seen := map[string]run.Seq{}
	f.changed(store.RunFilter{TenantID: "t1"}, cursor, seen)
	if _, told := seen[id.RunID]; !told {
		f.Error("the feed does not tell of it")
	}
	f.equal(0, len(f.quiet(0, "", 10)), "quiet runs")

	// It is projected as any other.
	dirty := f.dirty(0)
	f.equal([]string{id.RunID}, []string{dirty[0].RunID}, "dirty")
	f.save(l)
	f.published(id, dirty[0].HeadSeq, dirty[0].OpsRev)
	f.equal(0, len(f.dirty(0)), "dirty after it was published")
	f.sameAsFold(id)

	// Asking again makes nothing.
	again, created, err := f.store.CreateRun(f.ctx(), unapproved(id, time.Minute))
	f.ok(err)
	f.equal([]any{false, id.RunID}, []any{created, again.RunID}, "the request again")
	f.equal(want, f.approval(id), "approval")

	_, err = f.store.Approval(f.ctx(), f.run().RunID)
	f.is(err, store.ErrNotFound)
	_, err = f.store.Approval(f.ctx(), "nobody")
	f.is(err, store.ErrNotFound)
}

func approvalDecisions(f *fixture) {
	id, other := f.unapproved(time.Hour), f.run()
	before := f.head(id)
	f.ok(f.decide(id, decisionOf("zoe", true)))
	if after := f.head(id); after.OpsRev != before.OpsRev+1 || after.LastSeq != 0 {
		f.Errorf("head %+v after %+v", after, before)
	}
	f.is(f.decide(id, decisionOf("zoe", false)), store.ErrConflict)
	refused := errors.New("no")
	f.is(f.inRun(id, func(tx store.RunTx) error {
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
			f.Errorf("at %v", a.Decisions[i].At)
		}
		want.At = a.Decisions[i].At
		f.equal(want, a.Decisions[i], "decision")
	}
	f.equal([]any{2, true}, []any{len(a.Decisions), a.Open}, "decisions, and open")
	f.is(f.decide(other, decisionOf("ana", true)), store.ErrNotFound)

	closing := func(tx store.RunTx) error { return tx.CloseApproval(f.ctx()) }
	f.ok(f.inRun(id, closing))
	f.is(f.inRun(id, closing), store.ErrConflict)
	f.is(f.inRun(other, closing), store.ErrNotFound)
	f.is(f.decide(id, decisionOf("bob", true)), store.ErrConflict)
	closed := a
	closed.Open = false
	f.equal(closed, f.approval(id), "closed")
}

func approvalInsertOnly(f *fixture) {
	id := f.unapproved(time.Hour)
	f.ok(f.decide(id, decisionOf("ana", true)))
	for _, statement := range []string{
		`UPDATE approval_decision SET approved = false`,
		`UPDATE approval_decision SET principal = 'eve' WHERE principal = 'ana'`, `DELETE FROM approval_decision`,
	} {
		if err := f.db.Exec(f, statement); err == nil {
			f.Errorf("%s was allowed", statement)
		}
	}
	f.equal(1, f.db.Count(f, `SELECT count(*) FROM approval_decision WHERE principal = 'ana' AND approved`), "rows")
}

// What approves puts the first event of the log, in one transaction.
func approvalStarts(f *fixture) {
	id := f.unapproved(time.Hour)
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
	if l := f.sameAsFold(id); l.State.Status != run.Running || l.State.Seq != 2 {
		f.Errorf("%s at %d", l.State.Status, l.State.Seq)
	}
	f.save(f.load(id))
	f.sameAsFold(id)
	f.equal([]string{id.RunID}, quietIDs(f.quiet(0, "", 10)), "quiet runs")
}

func approvalEnds(f *fixture) {
	cancelled := runtest.Draft(run.RunCancelled, "", 1)
	alone, inRun := f.unapproved(time.Hour), f.unapproved(time.Hour)
	open := f.unapproved(time.Hour)
	f.append(alone, cancelled)
	f.is(f.inRun(inRun, func(tx store.RunTx) error {
		if _, err := tx.Append(f.ctx(), store.Append{Events: []run.Draft{cancelled}}); err != nil {
			return err
		}
		return errStopped
	}), errStopped)
	f.equal(true, f.approval(inRun).Open, "when the end is taken back")
	together := make([]run.Identity, 8)
	for i := range together {
		together[i] = f.unapproved(time.Hour)
	}
	f.together(len(together), func(i int) error {
		_, err := f.store.Append(f.ctx(), store.Append{RunID: together[i].RunID, Events: []run.Draft{cancelled}})
		return err
	})
	for _, id := range append(together, alone) {
		f.equal(false, f.approval(id).Open, "open after the end")
		f.is(f.decide(id, decisionOf("ana", true)), store.ErrConflict)
	}
	f.equal(true, f.approval(open).Open, "another's")
	f.equal(2, f.db.Count(f, `SELECT count(*) FROM approval WHERE open`), "open ones")
}

var errStopped = errors.New("stopped")

func approvalPages(f *fixture) {
	var want []string
	for i := range 7 {
		id := f.unapproved(time.Hour)
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
		f.create(unapproved(id, time.Hour))
	}
	closed := f.unapproved(time.Hour)
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

func approvalExpired(f *fixture) {
	late, later := f.unapproved(10*time.Millisecond), f.unapproved(30*time.Millisecond)
	f.unapproved(time.Hour)
	decided := f.unapproved(time.Millisecond)
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
	f.within(5*time.Second, "both are late", func() bool { return len(expired(10)) == 2 })
	f.equal([]string{late.RunID, later.RunID}, expired(10), "the longest first")
	f.equal([]string{late.RunID}, expired(1), "a page")
	f.append(late, runtest.Draft(run.RunCancelled, "", 1))
	f.equal([]string{later.RunID}, expired(10), "after the end of one")
}
