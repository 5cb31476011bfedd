package storetest

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var tailCases = []testCase{
	// contract: T193
	{"TailsBringAKnownStateToTheHead", testTailsBringAKnownStateToTheHead},
	// contract: T189
	{"TailsShowTheMark", testTailsShowTheMark},
	{"TailsAreBounded", testTailsAreBounded},
	// contract: T212
	{"AdvanceEqualsSave", testAdvanceEqualsSave},
	// contract: T212
	{"AdvanceSavesOnlyNewerStates", testAdvanceSavesOnlyNewerStates},
	// contract: T189
	{"AdvanceRecordsPublications", testAdvanceRecordsPublications},
}

func (f *fixture) tails(known ...store.TailRequest) store.Tails {
	f.Helper()
	t, err := f.store.Tails(f.ctx(), known)
	f.ok(err)
	return t
}

func (f *fixture) advance(published []store.PublishedTo, save ...store.CheckpointSave) []bool {
	f.Helper()
	saved, err := f.store.Advance(f.ctx(), published, save)
	f.ok(err)
	return saved
}

func testTailsBringAKnownStateToTheHead(f *fixture) {
	for seed := range uint64(8) {
		var known run.State
		f.randomRun(seed, func(id run.Identity) {
			if known.Seq == 0 {
				known = f.initialState(id)
			}
			all := f.tails(store.TailRequest{RunID: id.RunID, Seq: known.Seq})
			tail, l := all.ByRun[id.RunID], f.load(id)
			f.equal(f.log(id)[known.Seq:], tail.Events, "events")
			known, _, _ = run.Fold(known, tail.Events)
			f.equal(l.State, known, "state")
			f.equal(l.Head, tail.Head, "head")
			f.equal(l.Epoch, all.Epoch, "epoch")
			f.equal([]run.Seq{l.CheckpointAt, l.PublishedSeq}, []run.Seq{tail.CheckpointAt, tail.PublishedSeq},
				"checkpoint and published")
			if d := l.Now.Sub(all.Now); all.Now.IsZero() || d < 0 || d > time.Minute {
				f.Errorf("the clock of the store is %v and later %v, want ascending times", all.Now, l.Now)
			}
			f.equal([]bool{true}, f.advance(nil, store.CheckpointSave{State: known, Replaces: tail.CheckpointAt}), "advanced")
		})
	}
}

func testTailsShowTheMark(f *fixture) {
	id := f.run()
	known := store.TailRequest{RunID: id.RunID, Seq: 2}
	mark := f.tails(known).ByRun[id.RunID].Mark
	f.equal(f.dirtyRuns(0)[0].Since, mark.Since, "since")
	f.equal(store.Refusal{}, mark.Refusal, "refusals")
	f.equal(true, f.tails(known).Now.After(mark.NotBefore), "not held back")
	refusal, err := f.store.RecordRefusal(f.ctx(), id.RunID, 2, "too large", time.Hour)
	f.ok(err)
	f.append(id, stepStarted("s1", 1))
	all := f.tails(known)
	tail := all.ByRun[id.RunID]
	f.equal(refusal, tail.Mark.Refusal, "refused once, up to 2")
	if held := tail.Mark.NotBefore.Sub(all.Now); held < 59*time.Minute || held > time.Hour {
		f.Errorf("the run is held back for %v, want about 1h", held)
	}
	f.equal([]string{"3 StepStarted(s1,1)"}, lines(tail.Events), "events")
	f.markPublished(id, 3, tail.Head.OpsRev)
	f.equal((*store.Mark)(nil), f.tails(known).ByRun[id.RunID].Mark, "no mark")
}

func testTailsAreBounded(f *fixture) {
	a, b := f.run(), f.run()
	f.append(b, stepStarted("s1", 1))
	t := f.tails(store.TailRequest{RunID: b.RunID, Seq: 2}, store.TailRequest{RunID: "nobody"},
		store.TailRequest{RunID: a.RunID, Seq: 9})
	f.equal(2, len(t.ByRun), "runs")
	f.equal([]int{0, 1}, []int{len(t.ByRun[a.RunID].Events), len(t.ByRun[b.RunID].Events)}, "events")
	f.equal(run.Seq(2), t.ByRun[a.RunID].Head.LastSeq, "a head below what was known")
	f.equal(0, len(f.tails().ByRun), "of nothing")
	_, err := f.store.Tails(f.ctx(), make([]store.TailRequest, store.MaxTails+1))
	f.equal(true, err != nil, "too many")

	var drafts []run.Draft
	for i := range store.MaxTail + 20 {
		drafts = append(drafts, runtest.Draft(run.SignalRejected, time.Duration(i).String(), 1))
	}
	f.append(a, drafts...)
	long := f.tails(store.TailRequest{RunID: a.RunID, Seq: 2}).ByRun[a.RunID]
	f.equal(store.MaxTail, len(long.Events), "a bounded tail")
	f.equal(run.Seq(3), long.Events[0].Seq, "from its beginning")
}

// Each call advances several checkpoints; some of them are missing or older. Afterwards every run must load as the fold
// of its log.
func testAdvanceEqualsSave(f *fixture) {
	r := rand.New(rand.NewPCG(5, 5))
	ids := []run.Identity{f.run(), f.run(), f.run()}
	steps := []string{"s1", "s2", "s3"}
	for i := range 12 {
		for _, id := range ids {
			if r.IntN(3) > 0 {
				f.append(id, stepStarted(steps[i%3], 1+i/3), stepCompleted(steps[i%3], 1+i/3))
			}
		}
		if i == 7 { // a missing checkpoint
			f.ok(f.store.DropCheckpoint(f.ctx(), ids[1].RunID))
		}
		var save []store.CheckpointSave
		for _, id := range ids {
			if r.IntN(4) > 0 {
				l := f.load(id)
				save = append(save, store.CheckpointSave{State: l.State, Replaces: l.CheckpointAt})
			}
		}
		f.advance(nil, save...)
		for _, id := range ids {
			f.checkFold(id)
		}
	}
}

func testAdvanceSavesOnlyNewerStates(f *fixture) {
	a, b := f.run(), f.run()
	f.ok(f.store.DropCheckpoint(f.ctx(), a.RunID))
	f.ok(f.store.DropCheckpoint(f.ctx(), b.RunID))
	f.equal([]bool{true}, f.advance(nil, store.CheckpointSave{State: f.load(b).State}), "the first checkpoint")
	f.append(a, stepStarted("s1", 1))
	f.append(b, stepStarted("s1", 1))
	oldA, oldB := f.load(a), f.load(b)
	f.append(a, stepCompleted("s1", 1))
	f.append(b, stepCompleted("s1", 1))
	f.equal([]bool{true, true}, f.advance(nil, store.CheckpointSave{State: f.load(a).State},
		store.CheckpointSave{State: f.load(b).State, Replaces: 2}), "newer")
	f.equal([]bool{false, false}, f.advance(nil, store.CheckpointSave{State: oldA.State},
		store.CheckpointSave{State: oldB.State,
			Replaces: 2}), "older")
	// Over may be older than the stored checkpoint, because another projector may have saved meanwhile. The steps of the
	// call then cover more than necessary.
	f.append(b, stepStarted("s2", 1))
	f.equal([]bool{true}, f.advance(nil, store.CheckpointSave{State: f.load(b).State, Replaces: 2}), "over an old one")
	f.equal(run.Seq(4), f.checkFold(a).CheckpointAt, "checkpoint")
	f.equal(run.Seq(5), f.checkFold(b).CheckpointAt, "checkpoint")
	_, err := f.store.Advance(
		f.ctx(), nil, []store.CheckpointSave{{State: run.State{Header: run.Header{Identity: identity(77), Rev: 1, Seq: 1}}}})
	f.wantError(err, store.ErrNotFound)
	f.equal(0, len(f.advance(nil)), "nothing")
}

func testAdvanceRecordsPublications(f *fixture) {
	a, b, c := f.run(), f.run(), f.run()
	l := f.load(a)
	f.advance([]store.PublishedTo{{RunID: c.RunID, To: 1, OpsRev: l.Head.OpsRev}},
		store.CheckpointSave{State: l.State}, store.CheckpointSave{State: f.load(b).State},
		store.CheckpointSave{State: f.load(c).State})
	f.equal(run.Seq(1), f.load(c).PublishedSeq, "published a part")
	_, err := f.store.RecordRefusal(f.ctx(), b.RunID, 2, "no", time.Hour)
	f.ok(err)
	f.append(b, stepStarted("s1", 1)) // after the state was read
	f.advance([]store.PublishedTo{{RunID: a.RunID, To: 2, OpsRev: l.Head.OpsRev}, {RunID: b.RunID, To: 2,
		OpsRev: l.Head.OpsRev}})
	f.equal([]run.Seq{2, 2, 1}, []run.Seq{f.load(a).PublishedSeq, f.load(b).PublishedSeq, f.load(c).PublishedSeq},
		"published")
	marks := map[string]store.Mark{}
	for runID, t := range f.tails(store.TailRequest{RunID: a.RunID}, store.TailRequest{RunID: b.RunID},
		store.TailRequest{RunID: c.RunID}).ByRun {
		if t.Mark != nil {
			marks[runID] = *t.Mark
		}
	}
	f.equal(2, len(marks), "marks")
	f.equal(store.Refusal{}, marks[b.RunID].Refusal, "refusals after a publication")
	f.equal(f.log(b)[2].PersistedAt, marks[b.RunID].Since, "as old as the first event that was not published")
	f.advance([]store.PublishedTo{{RunID: b.RunID, To: 1, OpsRev: l.Head.OpsRev}})
	f.equal(run.Seq(2), f.load(b).PublishedSeq, "published seq, which never decreases")
}

var cursorCases = []testCase{
	{"CursorKeepsItsPosition", testCursorKeepsItsPosition},
	{"CursorIsLeasedToOneOwner", testCursorIsLeasedToOneOwner},
}

func testCursorKeepsItsPosition(f *fixture) {
	c, err := f.store.LeaseCursor(f.ctx(), "trace", "a", time.Minute)
	f.ok(err)
	f.equal(store.Cursor{Name: "trace", Owner: "a", Generation: 1}, c, "the first lease")
	c.Position = "p1"
	f.ok(f.store.SaveCursor(f.ctx(), c, time.Minute))
	again, err := f.store.LeaseCursor(f.ctx(), "trace", "a", time.Minute)
	f.ok(err)
	f.equal(store.Cursor{Name: "trace", Owner: "a", Generation: 2, Position: "p1"}, again,
		"the lease of a restarted owner")
	other, err := f.store.LeaseCursor(f.ctx(), "webhook", "b", time.Minute)
	f.ok(err)
	f.equal("", other.Position, "the position of another consumer")
}

func testCursorIsLeasedToOneOwner(f *fixture) {
	old, err := f.store.LeaseCursor(f.ctx(), "trace", "a", time.Minute)
	f.ok(err)
	conflict := func(err error, what string) {
		f.Helper()
		f.equal(true, errors.Is(err, store.ErrConflict), what+": ErrConflict")
	}
	_, err = f.store.LeaseCursor(f.ctx(), "trace", "b", time.Minute)
	conflict(err, "a lease while another owner holds it")
	f.ok(f.store.SaveCursor(f.ctx(), old, -time.Minute)) // it expires
	now, err := f.store.LeaseCursor(f.ctx(), "trace", "b", time.Minute)
	f.ok(err)
	conflict(f.store.SaveCursor(f.ctx(), old, time.Minute), "a save by the owner before")
	conflict(f.store.ReleaseCursor(f.ctx(), old), "a release by the owner before")
	f.ok(f.store.ReleaseCursor(f.ctx(), now))
	_, err = f.store.LeaseCursor(f.ctx(), "trace", "a", time.Minute)
	f.ok(err)
}
