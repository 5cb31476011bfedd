package storetest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

var stateCases = []testCase{
	// contract: T193
	{"LoadEqualsFold", testLoadEqualsFold},
	// contract: T193
	{"CheckpointsAreCaches", testCheckpointsAreCaches},
	// contract: T212
	{"SaveStoresOnlyNewerStates", testSaveStoresOnlyNewerStates},
	// contract: T212
	{"SaveAfterALostCheckpointIsComplete", testSaveAfterALostCheckpointIsComplete},
	// contract: T32
	{"CheckpointOfAnotherRevisionIsIgnored", testCheckpointOfAnotherRevisionIsIgnored},
	// contract: T34
	{"OldestUnprojectedIsTheFirstEventOfTheTail", testOldestUnprojectedIsTheFirstEventOfTheTail},
	{"SaveOfAnUnknownRunIsNotFound", testSaveOfAnUnknownRunIsNotFound},
	// contract: S10, T26, T32
	{"AtReturnsPastStates", testAtReturnsPastStates},
}

var dirtyCases = []testCase{
	// contract: T189
	{"RunIsDirtyUntilPublished", testRunIsDirtyUntilPublished},
	// contract: T189
	{"AppendDuringPublishKeepsTheMark", testAppendDuringPublishKeepsTheMark},
	// contract: T204
	{"ReceiptDuringPublishKeepsTheMark", testReceiptDuringPublishKeepsTheMark},
	{"DirtyReturnsTheOldestFirst", testDirtyReturnsTheOldestFirst},
}

func draftOf(e run.Event) run.Draft {
	return run.Draft{
		Type: e.Type, StepID: e.StepID, SignalID: e.SignalID, LogicalAttempt: e.LogicalAttempt,
		EngineAttempt: e.EngineAttempt,
		EmittedAt:     e.EmittedAt, EmittedBy: e.EmittedBy, Payload: e.Payload,
	}
}

// initialState returns the state of a run before its first event.
func (f *fixture) initialState(id run.Identity) run.State {
	f.Helper()
	r, err := f.store.Get(f.ctx(), id.RunID)
	f.ok(err)
	return run.State{Header: run.Header{
		Identity: id, Rev: run.ReducerRev, Status: run.Pending, CreatedAt: r.CreatedAt, TriggeredBy: r.TriggeredBy,
	}}
}

// checkFold compares Load and Since with a fold of the complete log.
func (f *fixture) checkFold(id run.Identity) store.Loaded {
	f.Helper()
	want, _, _ := run.Fold(f.initialState(id), f.log(id))
	l := f.load(id)
	f.equal(want, l.State, "Load")
	f.equal(l.Head.LastSeq, l.State.Seq, "state is at the head")
	for _, w := range []run.Seq{0, 1, want.Seq / 2, want.Seq} {
		got, delta, err := f.store.Since(f.ctx(), id.RunID, w)
		f.ok(err)
		f.equal(want.Since(w), delta, "Since")
		f.equal(l.Head, got.Head, "head of Since")
	}
	return l
}

func (f *fixture) save(l store.Loaded) bool {
	f.Helper()
	saved, err := f.store.Save(f.ctx(), l.State, l.Changes)
	f.ok(err)
	return saved
}

// randomRun appends a random log in random batches, and calls between after each batch.
func (f *fixture) randomRun(seed uint64, between func(id run.Identity)) {
	f.Helper()
	id := runtest.ID
	id.RunID = f.Name()[len(f.Name())-8:] + "." + time.Duration(seed).String()
	f.create(newRun(id))
	evs := runtest.RandomLog(seed)
	r := rand.New(rand.NewPCG(seed, 1))
	for len(evs) > 0 {
		n := min(len(evs), 1+r.IntN(9))
		drafts := make([]run.Draft, n)
		for i := range drafts {
			drafts[i] = draftOf(evs[i])
		}
		f.append(id, drafts...)
		between(id)
		evs = evs[n:]
	}
}

func testLoadEqualsFold(f *fixture) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 2))
		f.randomRun(seed, func(id run.Identity) {
			l := f.checkFold(id)
			if r.IntN(3) == 0 {
				f.save(l)
				after := f.checkFold(id)
				f.equal(l.State.Seq, after.CheckpointAt, "checkpoint")
				f.equal(run.Changes{}, after.Changes, "changes of an empty tail")
			}
		})
	}
}

func testCheckpointsAreCaches(f *fixture) {
	var id run.Identity
	f.randomRun(3, func(i run.Identity) { id = i; f.save(f.load(i)) })
	before := f.load(id)
	for _, statement := range []string{`DELETE FROM step_state`, `DELETE FROM run_state`} {
		f.ok(f.db.Exec(f, statement))
		after := f.checkFold(id)
		f.equal(before.State, after.State, statement)
		f.equal(run.Seq(0), after.CheckpointAt, "checkpoint after "+statement)
	}
	f.equal(true, f.save(f.load(id)), "saved again")
	l := f.checkFold(id)
	f.equal(l.State.Seq, l.CheckpointAt, "checkpoint")
	rows, err := f.store.List(f.ctx(), store.RunFilter{TenantID: "t1", Limit: 10})
	f.ok(err)
	f.equal(1, len(rows), "listed again")
}

func testSaveStoresOnlyNewerStates(f *fixture) {
	id := f.run()
	f.append(id, stepStarted("s1", 1))
	old := f.load(id)
	f.append(id, stepCompleted("s1", 1))
	newer := f.load(id)
	f.equal(true, f.save(newer), "newer")
	f.equal(false, f.save(newer), "the same again")
	f.equal(false, f.save(old), "older")
	l := f.checkFold(id)
	f.equal(run.Seq(4), l.CheckpointAt, "checkpoint")
	f.append(id, stepStarted("s2", 1))
	f.equal(run.Changes{Header: true, Steps: []run.Ord{1}}, f.load(id).Changes, "changes of the tail")
}

// The changes of fast start at a checkpoint that is lost and replaced by the older one of slow. Save must not lose the
// steps between the two.
func testSaveAfterALostCheckpointIsComplete(f *fixture) {
	id := f.run()
	f.append(id, stepStarted("s1", 1))
	slow := f.load(id) // 3
	f.append(id, stepCompleted("s1", 1))
	f.save(f.load(id)) // 4
	f.append(id, stepStarted("s2", 1))
	fast := f.load(id) // 5, with changes over 4
	f.ok(f.db.Exec(f, `DELETE FROM step_state`))
	f.ok(f.db.Exec(f, `DELETE FROM run_state`))
	f.equal(true, f.save(slow), "slow")
	f.equal(true, f.save(fast), "fast")
	f.checkFold(id)
}

func testCheckpointOfAnotherRevisionIsIgnored(f *fixture) {
	id := f.run()
	f.append(id, stepStarted("s1", 1))
	f.save(f.load(id))
	old := f.load(id)
	old.State.Rev = run.ReducerRev + 1
	old.State.Seq = 2
	f.equal(true, f.save(old), "another revision replaces")
	l := f.checkFold(id)
	f.equal(run.Seq(0), l.CheckpointAt, "checkpoint of another revision")
	f.equal(true, f.save(l), "and back")
	f.equal(run.Seq(3), f.checkFold(id).CheckpointAt, "checkpoint")
}

func testOldestUnprojectedIsTheFirstEventOfTheTail(f *fixture) {
	id := f.run()
	f.save(f.load(id))
	l := f.load(id)
	f.equal(time.Time{}, l.OldestUnprojected, "nothing waits")
	if l.Now.IsZero() || l.Epoch == "" {
		f.Errorf("now %v, epoch %q, want both set", l.Now, l.Epoch)
	}
	f.append(id, stepStarted("s1", 1))
	f.append(id, stepCompleted("s1", 1))
	f.equal(f.log(id)[2].PersistedAt, f.load(id).OldestUnprojected, "first event of the tail")
	f.append(id, stepStarted("s1", 1), runtest.Draft(run.RunCancelled, "", 1))
	late := f.append(id, runtest.Draft(run.SignalRejected, "u1", 1))
	f.equal(late.Head.LastSeq, f.load(id).State.Seq, "seq of the state after an event behind the end of the run")
}

func testSaveOfAnUnknownRunIsNotFound(f *fixture) {
	_, err := f.store.Save(f.ctx(), run.State{Header: run.Header{Identity: identity(77), Rev: 1, Seq: 1}}, run.Changes{})
	f.wantError(err, store.ErrNotFound)
}

func (f *fixture) dirtyRuns(minAge time.Duration) []store.DirtyRun {
	f.Helper()
	d, err := f.store.Dirty(f.ctx(), minAge, 100)
	f.ok(err)
	return d
}

func (f *fixture) markPublished(id run.Identity, to run.Seq, opsRev int64) {
	f.Helper()
	f.ok(f.store.MarkPublished(f.ctx(), id.RunID, to, opsRev))
}

func testRunIsDirtyUntilPublished(f *fixture) {
	id := f.run()
	d := f.dirtyRuns(0)
	f.equal(1, len(d), "a new run is dirty")
	f.equal([]any{id.RunID, run.Seq(2)}, []any{d[0].RunID, d[0].HeadSeq}, "mark")
	f.markPublished(id, 2, d[0].OpsRev)
	f.equal(0, len(f.dirtyRuns(0)), "clean")
	f.equal(run.Seq(2), f.load(id).PublishedSeq, "published")
	f.markPublished(id, 1, d[0].OpsRev)
	f.equal(run.Seq(2), f.load(id).PublishedSeq, "published seq, which never decreases")
	f.append(id, stepStarted("s1", 1))
	first := f.dirtyRuns(0)[0]
	f.append(id, stepStarted("s1", 1)) // a duplicate needs no publication
	f.equal(first, f.dirtyRuns(0)[0], "mark after a duplicate")
	f.append(id, stepCompleted("s1", 1))
	second := f.dirtyRuns(0)[0]
	f.equal([]any{run.Seq(4), first.Since}, []any{second.HeadSeq, second.Since},
		"head and age of the mark after another event")
}

func testAppendDuringPublishKeepsTheMark(f *fixture) {
	id := f.run()
	l := f.load(id)
	f.append(id, stepStarted("s1", 1)) // between the read and the clearing of the mark
	f.markPublished(id, l.Head.LastSeq, l.Head.OpsRev)
	d := f.dirtyRuns(0)
	f.equal(1, len(d), "still dirty")
	f.equal(run.Seq(3), d[0].HeadSeq, "head")
	f.equal(run.Seq(2), f.load(id).PublishedSeq, "published")
	f.markPublished(id, 3, l.Head.OpsRev)
	f.equal(0, len(f.dirtyRuns(0)), "clean")
}

func testReceiptDuringPublishKeepsTheMark(f *fixture) {
	id := f.run()
	f.acceptSignal(id, "u1", run.Pause, true)
	l := f.load(id)
	f.appendAny(store.Append{
		RunID: id.RunID, Outcomes: []store.SignalOutcome{{SignalID: "u1", Application: run.SignalNoop, AppliedBy: -1}}})
	f.markPublished(id, l.Head.LastSeq, l.Head.OpsRev)
	f.equal(1, len(f.dirtyRuns(0)), "dirty runs: a receipt changed meanwhile")
	f.markPublished(id, l.Head.LastSeq, f.head(id).OpsRev)
	f.equal(0, len(f.dirtyRuns(0)), "clean")
}

func testDirtyReturnsTheOldestFirst(f *fixture) {
	a, b := f.run(), f.run()
	f.append(a, stepStarted("s1", 1)) // the mark of a remains the older one
	d := f.dirtyRuns(0)
	f.equal([]string{a.RunID, b.RunID}, []string{d[0].RunID, d[1].RunID}, "oldest first")
	f.equal(0, len(f.dirtyRuns(time.Hour)), "none is an hour old")
	one, err := f.store.Dirty(f.ctx(), 0, 1)
	f.ok(err)
	f.equal(1, len(one), "limit")
}

// At must return every past state, whether the checkpoint is before it, at it, behind it or missing.
func testAtReturnsPastStates(f *fixture) {
	id := f.run()
	f.append(id, stepStarted("s1", 1), stepCompleted("s1", 1), stepStarted("s2", 1))
	f.append(id, stepFailed("s2", 1), stepStarted("s2", 2), stepCompleted("s2", 2))
	evs := f.log(id)
	if len(evs) != 8 {
		f.Fatalf("the log has %d events, want 8", len(evs))
	}
	l := f.load(id)
	f.save(l)
	f.append(id, stepStarted("s3", 1), stepCompleted("s3", 1), runtest.Draft(run.SignalAccepted, "u1", 1),
		runtest.Draft(run.RunCompleted, "", 1))
	evs = f.log(id)
	check := func(checkpoint run.Seq) {
		f.Helper()
		for at := run.Seq(0); at <= 13; at++ {
			upto := min(at, 12)
			want, _, _ := run.Fold(f.initialState(id), evs[:upto])
			got, err := f.store.At(f.ctx(), id.RunID, at)
			f.ok(err)
			base := run.Seq(0)
			if checkpoint <= at {
				base = checkpoint
			}
			f.equal(want, got.State, fmt.Sprintf("state at %d on a checkpoint at %d", at, checkpoint))
			f.equal([]run.Seq{base, 12}, []run.Seq{got.CheckpointAt, got.Head.LastSeq}, fmt.Sprintf("base and head at %d", at))
		}
	}
	check(8)
	f.ok(f.store.DropCheckpoint(f.ctx(), id.RunID))
	check(0)
	_, err := f.store.At(f.ctx(), "nobody", 1)
	f.wantError(err, store.ErrNotFound)
}
