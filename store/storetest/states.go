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
	{"LoadEqualsFold", loadEqualsFold},
	// contract: T193
	{"CheckpointsAreCaches", checkpointsAreCaches},
	// contract: T212
	{"SaveOnlyNewer", saveNewer},
	// contract: T212
	{"SaveAfterAMissedSave", saveAfterMissed},
	// contract: T32
	{"OtherRevisionFoldsAnew", otherRevision},
	// contract: T34
	{"OldestUnprojected", oldestUnprojected},
	{"SaveUnknownRun", saveUnknown},
	// contract: S10, T26, T32
	{"StateAtASeq", stateAt},
}

var dirtyCases = []testCase{
	// contract: T189
	{"DirtyUntilPublished", dirtyUntilPublished},
	// contract: T189
	{"AppendDuringPublish", appendDuringPublish},
	// contract: T204
	{"OpsDuringPublish", opsDuringPublish},
	{"DirtyAgeAndOrder", dirtyOrder},
}

func draftOf(e run.Event) run.Draft {
	return run.Draft{
		Type: e.Type, StepID: e.StepID, SignalID: e.SignalID, LogicalAttempt: e.LogicalAttempt,
		EngineAttempt: e.EngineAttempt,
		EmittedAt:     e.EmittedAt, EmittedBy: e.EmittedBy, Payload: e.Payload,
	}
}

// base is the state of a run before its first event.
func (f *fixture) base(id run.Identity) run.State {
	f.Helper()
	r, err := f.store.Get(f.ctx(), id.RunID)
	f.ok(err)
	return run.State{Header: run.Header{
		Identity: id, Rev: run.ReducerRev, Status: run.Pending, CreatedAt: r.CreatedAt, TriggeredBy: r.TriggeredBy,
	}}
}

// sameAsFold holds Load and Since against a fold of the whole log.
func (f *fixture) sameAsFold(id run.Identity) store.Loaded {
	f.Helper()
	want, _, _ := run.Fold(f.base(id), f.log(id))
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

// randomRun appends a random log in random batches and calls between after each.
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

func loadEqualsFold(f *fixture) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 2))
		f.randomRun(seed, func(id run.Identity) {
			l := f.sameAsFold(id)
			if r.IntN(3) == 0 {
				f.save(l)
				after := f.sameAsFold(id)
				f.equal(l.State.Seq, after.CheckpointAt, "checkpoint")
				f.equal(run.Changes{}, after.Changes, "changes of an empty tail")
			}
		})
	}
}

func checkpointsAreCaches(f *fixture) {
	var id run.Identity
	f.randomRun(3, func(i run.Identity) { id = i; f.save(f.load(i)) })
	before := f.load(id)
	for _, statement := range []string{`DELETE FROM step_state`, `DELETE FROM run_state`} {
		f.ok(f.db.Exec(f, statement))
		after := f.sameAsFold(id)
		f.equal(before.State, after.State, statement)
		f.equal(run.Seq(0), after.CheckpointAt, "checkpoint after "+statement)
	}
	f.equal(true, f.save(f.load(id)), "saved again")
	l := f.sameAsFold(id)
	f.equal(l.State.Seq, l.CheckpointAt, "checkpoint")
	rows, err := f.store.List(f.ctx(), store.RunFilter{TenantID: "t1", Limit: 10})
	f.ok(err)
	f.equal(1, len(rows), "listed again")
}

func saveNewer(f *fixture) {
	id := f.run()
	f.append(id, started("s1", 1))
	old := f.load(id)
	f.append(id, completed("s1", 1))
	newer := f.load(id)
	f.equal(true, f.save(newer), "newer")
	f.equal(false, f.save(newer), "the same again")
	f.equal(false, f.save(old), "older")
	l := f.sameAsFold(id)
	f.equal(run.Seq(4), l.CheckpointAt, "checkpoint")
	f.append(id, started("s2", 1))
	f.equal(run.Changes{Header: true, Steps: []run.Ord{1}}, f.load(id).Changes, "changes of the tail")
}

// A projector loaded at 4, another saved 3 after the checkpoint had been lost:
// what the first one saves must not miss what the second one never saw.
func saveAfterMissed(f *fixture) {
	id := f.run()
	f.append(id, started("s1", 1))
	slow := f.load(id) // 3
	f.append(id, completed("s1", 1))
	f.save(f.load(id)) // 4
	f.append(id, started("s2", 1))
	fast := f.load(id) // 5, with changes over 4
	f.ok(f.db.Exec(f, `DELETE FROM step_state`))
	f.ok(f.db.Exec(f, `DELETE FROM run_state`))
	f.equal(true, f.save(slow), "slow")
	f.equal(true, f.save(fast), "fast")
	f.sameAsFold(id)
}

func otherRevision(f *fixture) {
	id := f.run()
	f.append(id, started("s1", 1))
	f.save(f.load(id))
	old := f.load(id)
	old.State.Rev = run.ReducerRev + 1
	old.State.Seq = 2
	f.equal(true, f.save(old), "another revision replaces")
	l := f.sameAsFold(id)
	f.equal(run.Seq(0), l.CheckpointAt, "checkpoint of another revision")
	f.equal(true, f.save(l), "and back")
	f.equal(run.Seq(3), f.sameAsFold(id).CheckpointAt, "checkpoint")
}

func oldestUnprojected(f *fixture) {
	id := f.run()
	f.save(f.load(id))
	l := f.load(id)
	f.equal(time.Time{}, l.OldestUnprojected, "nothing waits")
	if l.Now.IsZero() || l.Epoch == "" {
		f.Errorf("now %v, epoch %q", l.Now, l.Epoch)
	}
	f.append(id, started("s1", 1))
	f.append(id, completed("s1", 1))
	f.equal(f.log(id)[2].PersistedAt, f.load(id).OldestUnprojected, "first event of the tail")
	f.append(id, started("s1", 1), runtest.Draft(run.RunCancelled, "", 1))
	late := f.append(id, runtest.Draft(run.SignalRejected, "u1", 1))
	f.equal(late.Head.LastSeq, f.load(id).State.Seq, "seq goes on after the end (G19)")
}

func saveUnknown(f *fixture) {
	_, err := f.store.Save(f.ctx(), run.State{Header: run.Header{Identity: identity(77), Rev: 1, Seq: 1}}, run.Changes{})
	f.is(err, store.ErrNotFound)
}

func (f *fixture) dirty(minAge time.Duration) []store.DirtyRun {
	f.Helper()
	d, err := f.store.Dirty(f.ctx(), minAge, 100)
	f.ok(err)
	return d
}

func (f *fixture) published(id run.Identity, to run.Seq, opsRev int64) {
	f.Helper()
	f.ok(f.store.Published(f.ctx(), id.RunID, to, opsRev))
}

func dirtyUntilPublished(f *fixture) {
	id := f.run()
	d := f.dirty(0)
	f.equal(1, len(d), "a new run is dirty")
	f.equal([]any{id.RunID, run.Seq(2)}, []any{d[0].RunID, d[0].HeadSeq}, "mark")
	f.published(id, 2, d[0].OpsRev)
	f.equal(0, len(f.dirty(0)), "clean")
	f.equal(run.Seq(2), f.load(id).PublishedSeq, "published")
	f.published(id, 1, d[0].OpsRev)
	f.equal(run.Seq(2), f.load(id).PublishedSeq, "published never falls")
	f.append(id, started("s1", 1))
	first := f.dirty(0)[0]
	f.append(id, started("s1", 1)) // a duplicate is nothing to publish
	f.equal(first, f.dirty(0)[0], "mark after a duplicate")
	f.append(id, completed("s1", 1))
	second := f.dirty(0)[0]
	f.equal([]any{run.Seq(4), first.Since}, []any{second.HeadSeq, second.Since}, "the mark moves and keeps its age")
}

func appendDuringPublish(f *fixture) {
	id := f.run()
	l := f.load(id)
	f.append(id, started("s1", 1)) // between the read and the clearing of the mark
	f.published(id, l.Head.LastSeq, l.Head.OpsRev)
	d := f.dirty(0)
	f.equal(1, len(d), "still dirty")
	f.equal(run.Seq(3), d[0].HeadSeq, "head")
	f.equal(run.Seq(2), f.load(id).PublishedSeq, "published")
	f.published(id, 3, l.Head.OpsRev)
	f.equal(0, len(f.dirty(0)), "clean")
}

func opsDuringPublish(f *fixture) {
	id := f.run()
	f.accept(id, "u1", run.Pause, true)
	l := f.load(id)
	f.appendAny(store.Append{
		RunID: id.RunID, Outcomes: []store.SignalOutcome{{SignalID: "u1", Application: run.SignalNoop, AppliedBy: -1}}})
	f.published(id, l.Head.LastSeq, l.Head.OpsRev)
	f.equal(1, len(f.dirty(0)), "a receipt moved meanwhile")
	f.published(id, l.Head.LastSeq, f.head(id).OpsRev)
	f.equal(0, len(f.dirty(0)), "clean")
}

func dirtyOrder(f *fixture) {
	a, b := f.run(), f.run()
	f.append(a, started("s1", 1)) // a stays the older mark
	d := f.dirty(0)
	f.equal([]string{a.RunID, b.RunID}, []string{d[0].RunID, d[1].RunID}, "oldest first")
	f.equal(0, len(f.dirty(time.Hour)), "none is an hour old")
	one, err := f.store.Dirty(f.ctx(), 0, 1)
	f.ok(err)
	f.equal(1, len(one), "limit")
}

// stateAt reads every past state of a run, on a checkpoint that is before, at and
// beyond it, and without one: what is folded begins right after what it is folded on.
func stateAt(f *fixture) {
	id := f.run()
	f.append(id, started("s1", 1), completed("s1", 1), started("s2", 1))
	f.append(id, failed("s2", 1), started("s2", 2), completed("s2", 2))
	evs := f.log(id)
	if len(evs) != 8 {
		f.Fatalf("the log has %d events", len(evs))
	}
	l := f.load(id)
	f.save(l)
	f.append(id, started("s3", 1), completed("s3", 1), runtest.Draft(run.SignalAccepted, "u1", 1),
		runtest.Draft(run.RunCompleted, "", 1))
	evs = f.log(id)
	check := func(checkpoint run.Seq) {
		f.Helper()
		for at := run.Seq(0); at <= 13; at++ {
			upto := min(at, 12)
			want, _, _ := run.Fold(f.base(id), evs[:upto])
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
	f.is(err, store.ErrNotFound)
}
