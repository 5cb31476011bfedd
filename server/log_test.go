package server_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// checkLog checks the whole log of a run that is over and returns it. Sequence numbers have no gaps, keys are derived
// from the events and unique, each attempt and the run end once, no step starts in a pause, and the stored state is the
// projection of the log.
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
		d := run.Draft{Type: e.Type, StepID: e.StepID, SignalID: e.SignalID, LogicalAttempt: e.LogicalAttempt,
			EngineAttempt: e.EngineAttempt, Payload: e.Payload}
		if e.Seq != run.Seq(i+1) {
			bad("a gap in the sequence numbers, want %d", i+1)
		}
		if want := d.Key(e.Identity); e.Key != want || e.EventID != want.EventID() {
			bad("the key is %s, want %s", e.Key, want)
		}
		if first, dup := keys[e.Key]; dup {
			bad("the key is that of seq %d, want another one", first)
		}
		keys[e.Key] = e.Seq
		if over > 0 && !e.Type.OfSignal() {
			bad("the event follows the end of the run at %d", over)
		}
		switch {
		case e.Type.EndsAttempt():
			at := fmt.Sprintf("%s/%d", e.StepID, e.LogicalAttempt)
			if first, twice := ends[at]; twice {
				bad("the attempt has already ended at %d", first)
			}
			ends[at] = e.Seq
		case e.Type.EndsRun():
			over = e.Seq
		case e.Type == run.RunPaused:
			paused = true
		case e.Type == run.RunResumed:
			paused = false
		case e.Type == run.StepStartedEvent && paused:
			bad("the step started in a pause")
		}
	}
	if over == 0 {
		t.Errorf("the log of run %s has no end of the run", runID)
	}
	l, err := s.Load(ctx, runID)
	must(t, err)
	if folded := run.Project(l.State.Identity, evs); folded.Status != l.State.Status || folded.Seq != l.State.Seq ||
		folded.Counts != l.State.Counts {
		t.Errorf("run %s: the stored state is %s at %d %+v, the projection of its log is %s at %d %+v", runID,
			l.State.Status, l.State.Seq, l.State.Counts, folded.Status, folded.Seq, folded.Counts)
	}
	return evs
}
