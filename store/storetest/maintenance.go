package storetest

import (
	"fmt"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

var maintenanceCases = []testCase{
	{"AllRunsComeInPages", testAllRunsComeInPages},
	{"CheckpointReturnsTheStoredState", testCheckpointReturnsTheStoredState},
	// contract: T193
	{"DropCheckpointChangesNoResult", testDropCheckpointChangesNoResult},
	// contract: T30
	{"RepairedPermitsAShorterLog", testRepairedPermitsAShorterLog},
}

func testAllRunsComeInPages(f *fixture) {
	var want []string
	for n := range 5 {
		id := identity(n + 1)
		id.TenantID = fmt.Sprintf("t%d", n%2)
		f.create(newRun(id))
		want = append(want, id.RunID)
	}
	var got []string
	for after := ""; ; {
		page, err := f.store.AllRuns(f.ctx(), after, 2)
		f.ok(err)
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			got = append(got, r.RunID)
			one, err := f.store.Get(f.ctx(), r.RunID)
			f.ok(err)
			f.equal(one, r, "run")
		}
		after = got[len(got)-1]
	}
	f.equal(want, got, "runs of every tenant")
}

func testCheckpointReturnsTheStoredState(f *fixture) {
	id := f.run()
	f.append(id, stepStarted("s1", 1))
	saved := f.load(id)
	f.save(saved)
	f.append(id, stepCompleted("s1", 1))
	got, err := f.store.Checkpoint(f.ctx(), id.RunID)
	f.ok(err)
	f.equal(saved.State, got, "checkpoint, which is not folded with newer events")
	_, err = f.store.Checkpoint(f.ctx(), "nobody")
	f.wantError(err, store.ErrNotFound)
	f.ok(f.store.DropCheckpoint(f.ctx(), id.RunID))
	_, err = f.store.Checkpoint(f.ctx(), id.RunID)
	f.wantError(err, store.ErrNotFound)
}

func testDropCheckpointChangesNoResult(f *fixture) {
	id := f.run()
	f.append(id, stepStarted("s1", 1), stepCompleted("s1", 1), stepStarted("s2", 1))
	f.save(f.load(id))
	f.markPublished(id, 5, f.head(id).OpsRev)
	f.equal(0, len(f.dirtyRuns(0)), "clean")
	before, listed := f.checkFold(id), f.list(store.RunFilter{Limit: 10})
	f.ok(f.store.DropCheckpoint(f.ctx(), id.RunID))
	after := f.checkFold(id)
	f.equal(before.State, after.State, "Load")
	f.equal(before.Head, after.Head, "head")
	f.equal([]run.Seq{0, 5}, []run.Seq{after.CheckpointAt, after.PublishedSeq}, "checkpoint and published")
	f.equal(listed, f.list(store.RunFilter{Limit: 10}), "List")
	d := f.dirtyRuns(0)
	f.equal(1, len(d), "dirty runs: a projector must make a new checkpoint")
	f.equal(run.Seq(5), d[0].HeadSeq, "head of the mark")
	f.equal(true, f.save(f.load(id)), "saved the new checkpoint")
	f.equal(run.Seq(5), f.checkFold(id).CheckpointAt, "checkpoint")
	f.wantError(f.store.DropCheckpoint(f.ctx(), "nobody"), store.ErrNotFound)
}

func testRepairedPermitsAShorterLog(f *fixture) {
	id := f.run()
	short := store.Append{RunID: id.RunID, Events: []run.Draft{stepStarted("s1", 1)}, MinHead: 7}
	_, err := f.store.Append(f.ctx(), short)
	f.wantError(err, store.ErrRegressed)
	f.ok(f.store.MarkRepaired(f.ctx(), id.RunID, 6))
	_, err = f.store.Append(f.ctx(), short)
	f.wantError(err, store.ErrRegressed)
	f.ok(f.store.MarkRepaired(f.ctx(), id.RunID, 7))
	f.ok(f.store.MarkRepaired(f.ctx(), id.RunID, 3)) // it never decreases
	f.equal(run.Seq(3), f.appendAny(short).Head.LastSeq, "appended")
}
