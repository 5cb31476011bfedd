package retention_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// asked is a store, an archive and a bucket that count what a pass asks about runs.
type asked struct {
	store.Store
	artifact.Remover
	archive.Archive
	rows, runs, clocks atomic.Int64
}

func (a *asked) EndedRuns(ctx context.Context, f store.EndedFilter) ([]store.EndedRun, error) {
	list, err := a.Store.EndedRuns(ctx, f)
	a.rows.Add(int64(len(list)))
	return list, err
}

func (a *asked) ListArchived(ctx context.Context, f store.ArchivedFilter) ([]store.ArchivedRun, error) {
	list, err := a.Store.ListArchived(ctx, f)
	a.rows.Add(int64(len(list)))
	return list, err
}

func (a *asked) ArchiveObstacle(ctx context.Context, runID string) (store.ArchiveObstacle, error) {
	a.runs.Add(1)
	return a.Store.ArchiveObstacle(ctx, runID)
}

func (a *asked) CheckRun(ctx context.Context, r store.ArchivedRun) error {
	a.runs.Add(1)
	return a.Archive.CheckRun(ctx, r)
}

func (a *asked) Heads(ctx context.Context, runIDs []string) (store.Heads, error) {
	a.clocks.Add(1)
	return a.Store.Heads(ctx, runIDs)
}

// A pass reads no run again that it is done with: not those that a hold keeps, and not those that it archived.
func TestPass_ReadsHeldRunsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, admin := t.Context(), w.Principal("dev-admin")
	holds := map[string]string{}
	const runs, held = 8, 5
	for n := range runs {
		id := fmt.Sprint("old-", n)
		oldRun(t, w, id)
		if n < held {
			holds[id] = controltest.Must[store.Hold](t)(w.PlaceHold(ctx, admin, retention.PlaceHold{RequestID: id,
				Kind: store.HoldRun, Subject: id, Reason: "a case"})).ID
		}
	}
	s := &asked{Store: w.Raw, Remover: w.Artifacts, Archive: archive.Archive{Store: w.Raw, Objects: w.Artifacts}}
	doc := retention.DefaultDocument()
	pass := func() retention.Pass {
		t.Helper()
		s.rows.Store(0)
		s.runs.Store(0)
		s.clocks.Store(0)
		return passOf(t, w, retention.WorkerConfig{Store: s, Archive: s, Bucket: s}, doc)
	}
	first := pass()
	if first.Archived != runs-held || first.Held != held {
		t.Errorf("the first pass archived %d runs and holds kept %d, want %d and %d", first.Archived, first.Held,
			runs-held, held)
	}
	for range 2 {
		again := pass()
		if again.Held != held || again.Archived != 0 || again.Failed != 0 {
			t.Errorf("a later pass says %d held, %d archived and %d failed, want %d, 0 and 0", again.Held, again.Archived,
				again.Failed, held)
		}
		if rows, asked := s.rows.Load(), s.runs.Load(); rows != 0 || asked != 0 {
			t.Errorf("a later pass read %d rows of runs and asked about %d, want none", rows, asked)
		}
	}
	if n := s.clocks.Load(); n != 1 {
		t.Errorf("a pass asked for the store's clock %d times, want once", n)
	}
	lift := retention.LiftHold{RequestID: "l", ID: holds["old-0"], Reason: "over"}
	if _, err := w.LiftHold(ctx, admin, lift); err != nil {
		t.Fatal(err)
	}
	if last := pass(); last.Archived != 1 || last.Held != held-1 {
		t.Errorf("after a hold was lifted a pass archived %d runs and holds kept %d, want 1 and %d", last.Archived,
			last.Held, held-1)
	}
	if state := controltest.Must[[]store.ArchivedRun](t)(w.Raw.FindArchived(ctx, "old-0")); len(state) != 1 ||
		state[0].EmptiedAt == nil {
		t.Errorf("the run whose hold was lifted is %+v, want it archived and emptied", state)
	}
}

// A run that an import adds behind the position of the passes is found within a week.
func TestPass_FindsRunsThatAnImportAdds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Clock.Hold()
	cfg := retention.WorkerConfig{Store: w.Raw, Archive: archive.Archive{Store: w.Raw, Objects: w.Artifacts},
		Bucket: w.Artifacts}
	oldRun(t, w, "old-2")
	passOf(t, w, cfg, retention.DefaultDocument())
	oldRun(t, w, "old-1")
	if out := passOf(t, w, cfg, retention.DefaultDocument()); out.Archived != 0 {
		t.Errorf("the pass after the import archived %d runs, want none yet", out.Archived)
	}
	w.Clock.Advance(7 * day)
	if out := passOf(t, w, cfg, retention.DefaultDocument()); out.Archived != 1 || out.Events != 5 {
		t.Errorf("a pass a week later archived %d runs and deleted %d events, want 1 and 5", out.Archived, out.Events)
	}
}
