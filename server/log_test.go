package server_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// checkLog judges a whole log by itself, and against the stored state: numbers
// without holes, keys that are what they must be, one terminal per attempt and per
// run, nothing begun in a pause, and a state that is the fold of the log.
func checkLog(t *testing.T, s store.Store, runID string) []run.Event {
	t.Helper()
	ctx := context.Background()
	var evs []run.Event
	for {
		page, err := s.Events(ctx, runID, run.Seq(len(evs)), store.MaxPage)
		must(t, err)
		evs = append(evs, page...)
		if len(page) < store.MaxPage {
			break
		}
	}
	keys, ends := map[run.Key]run.Seq{}, map[string]run.Seq{}
	paused, over := false, run.Seq(0)
	for i, e := range evs {
		bad := func(format string, args ...any) {
			t.Errorf("run %s seq %d %s(%s,%d): %s", runID, e.Seq, e.Type, e.StepID, e.LogicalAttempt,
				fmt.Sprintf(format, args...))
		}
		d := run.Draft{Type: e.Type, StepID: e.StepID, SignalID: e.SignalID, LogicalAttempt: e.LogicalAttempt}
		if e.Seq != run.Seq(i+1) {
			bad("a hole: it should be %d", i+1)
		}
		if want := d.Key(e.Identity); e.Key != want || e.EventID != want.EventID() {
			bad("key %s, want %s", e.Key, want)
		}
		if first, dup := keys[e.Key]; dup {
			bad("the same key as seq %d", first)
		}
		keys[e.Key] = e.Seq
		if over > 0 && !e.Type.OfSignal() {
			bad("after the run's end at %d", over)
		}
		switch {
		case e.Type.EndsAttempt():
			at := fmt.Sprintf("%s/%d", e.StepID, e.LogicalAttempt)
			if first, twice := ends[at]; twice {
				bad("the attempt had ended at %d", first)
			}
			ends[at] = e.Seq
		case e.Type.EndsRun():
			over = e.Seq
		case e.Type == run.RunPaused:
			paused = true
		case e.Type == run.RunResumed:
			paused = false
		case e.Type == run.StepStartedEvent && paused:
			bad("begun in a pause")
		}
	}
	if over == 0 {
		t.Errorf("run %s has no end", runID)
	}
	l, err := s.Load(ctx, runID)
	must(t, err)
	if folded := run.Project(l.State.Identity, evs); folded.Status != l.State.Status || folded.Seq != l.State.Seq ||
		folded.Counts != l.State.Counts {
		t.Errorf("run %s: stored %s at %d %+v, folded %s at %d %+v", runID,
			l.State.Status, l.State.Seq, l.State.Counts, folded.Status, folded.Seq, folded.Counts)
	}
	return evs
}
