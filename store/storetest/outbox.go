package storetest

import (
	"errors"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

var outboxCases = []testCase{
	// contract: T123
	{"FirstRefusalFixesUpto", testFirstRefusalFixesUpto},
	// contract: T123
	{"RefusedRunsWait", testRefusedRunsWait},
	// contract: T189
	{"PublishedClearsRefusals", testPublishedClearsRefusals},
	// contract: T123
	{"DeadLetterCountsAsPublished", testDeadLetterCountsAsPublished},
	// contract: T189
	{"DeadLetterWithNewerEventsKeepsTheMark", testDeadLetterWithNewerEventsKeepsTheMark},
	// contract: T189
	{"DeadLetterIsAddedOnce", testDeadLetterIsAddedOnce},
	// contract: T189
	{"DeadLetterNeedsItsRefusal", testDeadLetterNeedsItsRefusal},
	{"DeadLettersByTenantAndPage", testDeadLettersByTenantAndPage},
	{"DeadLetterIsRedrivenOnce", testDeadLetterIsRedrivenOnce},
}

func (f *fixture) refusePublish(id run.Identity, to run.Seq, retryIn time.Duration) store.Refusal {
	f.Helper()
	r, err := f.store.RecordRefusal(f.ctx(), id.RunID, to, "refused", retryIn)
	f.ok(err)
	return r
}

func (f *fixture) addDeadLetter(id run.Identity, upto run.Seq) bool {
	f.Helper()
	added, err := f.store.AddDeadLetter(f.ctx(), id.RunID, upto, "refused for good")
	f.ok(err)
	return added
}

func (f *fixture) deadLetters(filter store.DeadLetterFilter) []store.DeadLetter {
	f.Helper()
	if filter.TenantID == "" {
		filter.TenantID = "t1"
	}
	letters, err := f.store.DeadLetters(f.ctx(), filter)
	f.ok(err)
	return letters
}

func testFirstRefusalFixesUpto(f *fixture) {
	id := f.run()
	f.equal(store.Refusal{Attempts: 1, Upto: 2}, f.refusePublish(id, 2, 0), "first")
	f.append(id, stepStarted("s1", 1))
	f.equal(store.Refusal{Attempts: 2, Upto: 2}, f.refusePublish(id, 3, 0), "second, of more")
	f.markPublished(id, 3, f.head(id).OpsRev)
	_, err := f.store.RecordRefusal(f.ctx(), id.RunID, 3, "late", 0)
	f.wantError(err, store.ErrNotFound)
	_, err = f.store.RecordRefusal(f.ctx(), "nobody", 1, "unknown", 0)
	f.wantError(err, store.ErrNotFound)
}

func testRefusedRunsWait(f *fixture) {
	held, soon, free := f.run(), f.run(), f.run()
	f.refusePublish(held, 2, time.Hour)
	f.refusePublish(soon, 2, 100*time.Millisecond)
	f.append(held, stepStarted("s1", 1)) // an append does not end the delay
	ids := func() []string {
		var out []string
		for _, d := range f.dirtyRuns(0) {
			out = append(out, d.RunID)
		}
		return out
	}
	due := ids() // the run with the short delay may be due already
	f.equal(free.RunID, due[len(due)-1], "the run without a refusal")
	f.eventually(5*time.Second, "the run comes back when its time is over", func() bool { return len(ids()) == 2 })
	f.equal([]string{soon.RunID, free.RunID}, ids(), "due runs, oldest first, without the one that is held back")
}

func testPublishedClearsRefusals(f *fixture) {
	id := f.run()
	f.refusePublish(id, 2, time.Hour)
	f.append(id, stepStarted("s1", 1))
	f.markPublished(id, 2, f.head(id).OpsRev)
	d := f.dirtyRuns(0)
	f.equal(1, len(d), "dirty runs after a publication")
	f.equal(f.log(id)[2].PersistedAt, d[0].Since, "as old as the first event that was not published")
	f.equal(store.Refusal{Attempts: 1, Upto: 3}, f.refusePublish(id, 3, 0), "first refusal after a publication")
}

func testDeadLetterCountsAsPublished(f *fixture) {
	id := f.run()
	f.markPublished(id, 1, 0)
	f.refusePublish(id, 2, 0)
	f.refusePublish(id, 2, time.Hour)
	f.equal(true, f.addDeadLetter(id, 2), "added")
	f.equal(run.Seq(2), f.load(id).PublishedSeq, "published")
	f.equal(0, len(f.dirtyRuns(0)), "clean")
	letters := f.deadLetters(store.DeadLetterFilter{})
	f.equal(1, len(letters), "dead letters")
	l := letters[0]
	f.equal(store.DeadLetter{ID: l.ID, TenantID: "t1", ProjectID: id.ProjectID, RunID: id.RunID, From: 1, To: 2,
		Attempts: 2,
		Cause:    "refused for good", CreatedAt: l.CreatedAt}, l, "dead letter")
	if age := f.load(id).Now.Sub(l.CreatedAt); l.CreatedAt.IsZero() || age < 0 || age > time.Minute {
		f.Errorf("the dead letter was created at %v, want about now", l.CreatedAt)
	}
	f.equal([]string{"1 RunApproved", "2 RunStarted"}, lines(f.log(id)), "log, which a dead letter does not change")
}

func testDeadLetterWithNewerEventsKeepsTheMark(f *fixture) {
	id := f.run()
	f.refusePublish(id, 2, time.Hour)
	f.append(id, stepStarted("s1", 1))
	f.equal(true, f.addDeadLetter(id, 2), "added")
	d := f.dirtyRuns(0)
	f.equal(1, len(d), "dirty runs: the later event is due at once")
	f.equal([]run.Seq{3, 2}, []run.Seq{d[0].HeadSeq, f.load(id).PublishedSeq}, "head and published")
	f.equal(store.Refusal{Attempts: 1, Upto: 3}, f.refusePublish(id, 3, 0), "first refusal after the dead letter")
}

func testDeadLetterIsAddedOnce(f *fixture) {
	id := f.run()
	f.refusePublish(id, 2, 0)
	f.append(id, stepStarted("s1", 1)) // so that the mark remains after the dead letter
	processes := []store.Store{f.store, f.db.Open(f)}
	added := make([]bool, 6)
	f.concurrently(len(added), func(i int) (err error) {
		added[i], err = processes[i%2].AddDeadLetter(f.ctx(), id.RunID, 2, "raced")
		return err
	})
	n := 0
	for _, b := range added {
		if b {
			n++
		}
	}
	f.equal([]int{1, 1}, []int{n, len(f.deadLetters(store.DeadLetterFilter{}))},
		"calls that added the dead letter, dead letters")
	f.equal(false, f.addDeadLetter(id, 2), "again")
}

func testDeadLetterNeedsItsRefusal(f *fixture) {
	id := f.run()
	f.equal(false, f.addDeadLetter(id, 2), "without a refusal")
	f.refusePublish(id, 2, 0)
	f.equal(false, f.addDeadLetter(id, 1), "with a refusal up to another seq")
	f.markPublished(id, 2, f.head(id).OpsRev)
	f.equal(false, f.addDeadLetter(id, 2), "published meanwhile")
	f.equal(false, f.addDeadLetter(identity(77), 2), "unknown run")
	f.equal(0, len(f.deadLetters(store.DeadLetterFilter{})), "dead letters")
}

func testDeadLettersByTenantAndPage(f *fixture) {
	var ids []run.Identity
	for range 5 {
		ids = append(ids, f.run())
	}
	foreign := identity(50)
	foreign.TenantID = "t2"
	f.create(newRun(foreign, stepStarted("s1", 1)))
	for _, id := range append(ids, foreign) {
		to := f.head(id).LastSeq
		f.refusePublish(id, to, 0)
		f.equal(true, f.addDeadLetter(id, to), "added")
	}
	runsOf := func(letters []store.DeadLetter) []string {
		var out []string
		for _, l := range letters {
			out = append(out, l.RunID)
		}
		return out
	}
	want := []string{"run-005", "run-004", "run-003", "run-002", "run-001"}
	all := f.deadLetters(store.DeadLetterFilter{Limit: 100})
	f.equal(want, runsOf(all), "newest first, of one tenant")
	page := f.deadLetters(store.DeadLetterFilter{Limit: 2})
	f.equal(want[:2], runsOf(page), "first page")
	page = f.deadLetters(store.DeadLetterFilter{Limit: 2, Before: page[1].ID})
	f.equal(want[2:4], runsOf(page), "second page")
	page = f.deadLetters(store.DeadLetterFilter{Limit: 2, Before: page[1].ID})
	f.equal(want[4:], runsOf(page), "last page")
	f.equal([]string{"run-003"}, runsOf(f.deadLetters(store.DeadLetterFilter{RunID: "run-003"})), "of a run")
	f.equal([]string{"run-002"}, runsOf(f.deadLetters(store.DeadLetterFilter{ID: all[3].ID})), "by id")
	other := f.deadLetters(store.DeadLetterFilter{TenantID: "t2"})
	f.equal([]string{foreign.RunID}, runsOf(other), "of the other tenant")
	f.equal(0, len(f.deadLetters(store.DeadLetterFilter{ID: other[0].ID})), "the dead letter of another tenant")
	f.equal(0, len(f.deadLetters(store.DeadLetterFilter{ID: "nothing"})), "an invalid id")
}

func testDeadLetterIsRedrivenOnce(f *fixture) {
	a, b := f.run(), f.run()
	for _, id := range []run.Identity{a, b} {
		f.refusePublish(id, 2, 0)
		f.addDeadLetter(id, 2)
	}
	letter := f.deadLetters(store.DeadLetterFilter{RunID: a.RunID})[0]
	f.equal((*time.Time)(nil), letter.RedrivenAt, "not yet")
	processes := []store.Store{f.store, f.db.Open(f)}
	first := make([]bool, 4)
	f.concurrently(len(first), func(i int) (err error) {
		first[i], err = processes[i%2].MarkRedriven(f.ctx(), letter.ID)
		return err
	})
	n := 0
	for _, yes := range first {
		if yes {
			n++
		}
	}
	f.equal(1, n, "first")
	if at := f.deadLetters(store.DeadLetterFilter{ID: letter.ID})[0].RedrivenAt; at == nil || at.Before(letter.CreatedAt) {
		f.Errorf("redriven at %v, want a time after its creation", at)
	}
	open := f.deadLetters(store.DeadLetterFilter{Open: true})
	f.equal([]int{1, 2}, []int{len(open), len(f.deadLetters(store.DeadLetterFilter{}))}, "open, all")
	f.equal(b.RunID, open[0].RunID, "open")
	for _, unknown := range []string{"9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", "nothing"} {
		if _, err := f.store.MarkRedriven(f.ctx(), unknown); !errors.Is(err, store.ErrNotFound) {
			f.Errorf("Redriven(%s) = %v, want ErrNotFound", unknown, err)
		}
	}
}
