package watch_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// A watched list starts again once when the epoch changes, and is then live again. Its cursor belongs to the former
// history (T186, T194).
// contract: T194
func TestWatchRuns_LiveInTheNextEpoch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.CreateRunning("a", "s1"), w.CreateRunning("b", "s1")
	s := controltest.OpenStream[watch.RunsFrame](t)(w.WatchRuns(t.Context(), w.Principal("dev-viewer"),
		control.RunsQuery{}))
	defer s.Close()
	controltest.TakeFrame(t, s, "the page", func(f watch.RunsFrame) bool { return f.Reset && len(f.Runs) == 2 })
	for _, id := range []string{a, b} {
		if err := w.Raw.BumpEpoch(t.Context()); err != nil {
			t.Fatal(err)
		}
		f := controltest.TakeFrame(t, s, "the page of the next epoch", func(f watch.RunsFrame) bool { return f.Reset })
		epoch := controltest.Must[string](t)(w.Raw.Epoch(t.Context()))
		if diff := cmp.Diff([]string{b, a}, controltest.RunIDs(f)); diff != "" || f.Runs[0].Epoch != epoch {
			t.Errorf("epoch %s, want %s (-want +got):\n%s", f.Runs[0].Epoch, epoch, diff)
		}
		w.AppendEvents(id, runtest.Draft(run.RunCancelled, "", 1))
		controltest.TakeFrame(t, s, "a change in it", func(f watch.RunsFrame) bool {
			if f.Reset {
				t.Error("the list was reset twice")
			}
			return f.Sync == live.Live && slices.ContainsFunc(f.Runs, func(v control.RunView) bool {
				return v.State.RunID == id && v.State.RunStatus() == run.Cancelled && v.Epoch == epoch
			})
		})
	}
}
