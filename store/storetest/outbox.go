package storetest

import (
	"errors"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

var outboxCases = []testCase{
	// contract: T123
	{"FirstRefusalFixesUpto", firstRefusal},
	// contract: T123
	{"RefusedRunsWait", refusedWait},
	// contract: T189
	{"PublishedForgetsRefusals", publishedForgets},
	// contract: T123
	{"BuryMovesOn", buryMovesOn},
	// contract: T189
	{"BuryWithNewerEventsKeepsTheMark", buryKeepsMark},
	// contract: T189
	{"BuryIsOnce", buryOnce},
	// contract: T189
	{"BuryNeedsItsRefusal", buryNeedsRefusal},
	{"DeadLettersByTenantAndPage", deadLetters},
	{"RedrivenOnce", redrivenOnce},
}

func (f *fixture) refuse(id run.Identity, to run.Seq, retryIn time.Duration) store.Refusal {
	f.Helper()
	r, err := f.store.PublishFailed(f.ctx(), id.RunID, to, "refused", retryIn)
	f.ok(err)
	return r
}

func (f *fixture) bury(id run.Identity, upto run.Seq) bool {
	f.Helper()
	buried, err := f.store.AddDeadLetter(f.ctx(), id.RunID, upto, "refused for good")
	f.ok(err)
	return buried
}

func (f *fixture) letters(filter store.DeadLetterFilter) []store.DeadLetter {
	f.Helper()
	if filter.TenantID == "" {
		filter.TenantID = "t1"
	}
	letters, err := f.store.DeadLetters(f.ctx(), filter)
	f.ok(err)
	return letters
}

func firstRefusal(f *fixture) {
	id := f.run()
	f.equal(store.Refusal{Attempts: 1, Upto: 2}, f.refuse(id, 2, 0), "first")
	f.append(id, started("s1", 1))
	f.equal(store.Refusal{Attempts: 2, Upto: 2}, f.refuse(id, 3, 0), "second, of more")
	f.published(id, 3, f.head(id).OpsRev)
	_, err := f.store.PublishFailed(f.ctx(), id.RunID, 3, "late", 0)
	f.is(err, store.ErrNotFound)
	_, err = f.store.PublishFailed(f.ctx(), "nobody", 1, "unknown", 0)
	f.is(err, store.ErrNotFound)
}

func refusedWait(f *fixture) {
	held, soon, free := f.run(), f.run(), f.run()
	f.refuse(held, 2, time.Hour)
	f.refuse(soon, 2, 100*time.Millisecond)
	f.append(held, started("s1", 1)) // an append does not set it free
	ids := func() []string {
		var out []string
		for _, d := range f.dirty(0) {
			out = append(out, d.RunID)
		}
		return out
	}
	due := ids() // the other may come back at any time
	f.equal(free.RunID, due[len(due)-1], "the run that nobody refused")
	f.within(5*time.Second, "the run comes back when its time is over", func() bool { return len(ids()) == 2 })
	f.equal([]string{soon.RunID, free.RunID}, ids(), "oldest first, and not the one that is held back")
}

func publishedForgets(f *fixture) {
	id := f.run()
	f.refuse(id, 2, time.Hour)
	f.append(id, started("s1", 1))
	f.published(id, 2, f.head(id).OpsRev)
	d := f.dirty(0)
	f.equal(1, len(d), "no longer held back")
	f.equal(f.log(id)[2].PersistedAt, d[0].Since, "as old as the first event that was not published")
	f.equal(store.Refusal{Attempts: 1, Upto: 3}, f.refuse(id, 3, 0), "counted anew")
}

func buryMovesOn(f *fixture) {
	id := f.run()
	f.published(id, 1, 0)
	f.refuse(id, 2, 0)
	f.refuse(id, 2, time.Hour)
	f.equal(true, f.bury(id, 2), "buried")
	f.equal(run.Seq(2), f.load(id).PublishedSeq, "published")
	f.equal(0, len(f.dirty(0)), "clean")
	letters := f.letters(store.DeadLetterFilter{})
	f.equal(1, len(letters), "letters")
	l := letters[0]
	f.equal(store.DeadLetter{ID: l.ID, TenantID: "t1", ProjectID: id.ProjectID, RunID: id.RunID, From: 1, To: 2,
		Attempts: 2,
		Cause:    "refused for good", CreatedAt: l.CreatedAt}, l, "letter")
	if age := f.load(id).Now.Sub(l.CreatedAt); l.CreatedAt.IsZero() || age < 0 || age > time.Minute {
		f.Errorf("buried at %v", l.CreatedAt)
	}
	f.equal([]string{"1 RunApproved", "2 RunStarted"}, lines(f.log(id)), "the log has it all")
}

func buryKeepsMark(f *fixture) {
	id := f.run()
	f.refuse(id, 2, time.Hour)
	f.append(id, started("s1", 1))
	f.equal(true, f.bury(id, 2), "buried")
	d := f.dirty(0)
	f.equal(1, len(d), "the later event is due at once")
	f.equal([]run.Seq{3, 2}, []run.Seq{d[0].HeadSeq, f.load(id).PublishedSeq}, "head and published")
	f.equal(store.Refusal{Attempts: 1, Upto: 3}, f.refuse(id, 3, 0), "refusals are forgotten")
}

func buryOnce(f *fixture) {
	id := f.run()
	f.refuse(id, 2, 0)
	f.append(id, started("s1", 1)) // so that the mark outlives the burial
	processes := []store.Store{f.store, f.db.Open(f)}
	buried := make([]bool, 6)
	f.together(len(buried), func(i int) (err error) {
		buried[i], err = processes[i%2].AddDeadLetter(f.ctx(), id.RunID, 2, "raced")
		return err
	})
	n := 0
	for _, b := range buried {
		if b {
			n++
		}
	}
	f.equal([]int{1, 1}, []int{n, len(f.letters(store.DeadLetterFilter{}))}, "burials, letters")
	f.equal(false, f.bury(id, 2), "again")
}

func buryNeedsRefusal(f *fixture) {
	id := f.run()
	f.equal(false, f.bury(id, 2), "nobody refused it")
	f.refuse(id, 2, 0)
	f.equal(false, f.bury(id, 1), "another one was refused")
	f.published(id, 2, f.head(id).OpsRev)
	f.equal(false, f.bury(id, 2), "published meanwhile")
	f.equal(false, f.bury(identity(77), 2), "unknown run")
	f.equal(0, len(f.letters(store.DeadLetterFilter{})), "letters")
}

func deadLetters(f *fixture) {
	var ids []run.Identity
	for range 5 {
		ids = append(ids, f.run())
	}
	foreign := identity(50)
	foreign.TenantID = "t2"
	f.create(newRun(foreign, started("s1", 1)))
	for _, id := range append(ids, foreign) {
		to := f.head(id).LastSeq
		f.refuse(id, to, 0)
		f.equal(true, f.bury(id, to), "buried")
	}
	runsOf := func(letters []store.DeadLetter) []string {
		var out []string
		for _, l := range letters {
			out = append(out, l.RunID)
		}
		return out
	}
	want := []string{"run-005", "run-004", "run-003", "run-002", "run-001"}
	all := f.letters(store.DeadLetterFilter{Limit: 100})
	f.equal(want, runsOf(all), "newest first, of one tenant")
	page := f.letters(store.DeadLetterFilter{Limit: 2})
	f.equal(want[:2], runsOf(page), "first page")
	page = f.letters(store.DeadLetterFilter{Limit: 2, Before: page[1].ID})
	f.equal(want[2:4], runsOf(page), "second page")
	page = f.letters(store.DeadLetterFilter{Limit: 2, Before: page[1].ID})
	f.equal(want[4:], runsOf(page), "last page")
	f.equal([]string{"run-003"}, runsOf(f.letters(store.DeadLetterFilter{RunID: "run-003"})), "of a run")
	f.equal([]string{"run-002"}, runsOf(f.letters(store.DeadLetterFilter{ID: all[3].ID})), "by id")
	other := f.letters(store.DeadLetterFilter{TenantID: "t2"})
	f.equal([]string{foreign.RunID}, runsOf(other), "of the other tenant")
	f.equal(0, len(f.letters(store.DeadLetterFilter{ID: other[0].ID})), "the letter of another tenant")
	f.equal(0, len(f.letters(store.DeadLetterFilter{ID: "nothing"})), "an id that is none")
}

func redrivenOnce(f *fixture) {
	a, b := f.run(), f.run()
	for _, id := range []run.Identity{a, b} {
		f.refuse(id, 2, 0)
		f.bury(id, 2)
	}
	letter := f.letters(store.DeadLetterFilter{RunID: a.RunID})[0]
	f.equal((*time.Time)(nil), letter.RedrivenAt, "not yet")
	processes := []store.Store{f.store, f.db.Open(f)}
	first := make([]bool, 4)
	f.together(len(first), func(i int) (err error) {
		first[i], err = processes[i%2].Redriven(f.ctx(), letter.ID)
		return err
	})
	n := 0
	for _, yes := range first {
		if yes {
			n++
		}
	}
	f.equal(1, n, "first")
	if at := f.letters(store.DeadLetterFilter{ID: letter.ID})[0].RedrivenAt; at == nil || at.Before(letter.CreatedAt) {
		f.Errorf("redriven at %v", at)
	}
	open := f.letters(store.DeadLetterFilter{Open: true})
	f.equal([]int{1, 2}, []int{len(open), len(f.letters(store.DeadLetterFilter{}))}, "open, all")
	f.equal(b.RunID, open[0].RunID, "open")
	for _, unknown := range []string{"9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d", "nothing"} {
		if _, err := f.store.Redriven(f.ctx(), unknown); !errors.Is(err, store.ErrNotFound) {
			f.Errorf("%s: error %v", unknown, err)
		}
	}
}
