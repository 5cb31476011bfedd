package journal

import (
	"testing"

	"github.com/dvt-engine/dvt/run"
)

// The cached facts of a log are discarded when the log was replaced, but not when answers arrive out of order.
//
// contract: T194
func TestKnownLog_ForgetsAReplacedLog(t *testing.T) {
	t.Parallel()
	known := func() *RunFacts {
		f := &RunFacts{Steps: map[string]int{"s1": 0}, Log: NewKnownLog(1)}
		f.NoteEvents("epoch-1", 0, []run.Event{
			{Type: run.StepStartedEvent, StepID: "s1", LogicalAttempt: 1, Seq: 1},
			{Type: run.StepCompletedEvent, StepID: "s1", LogicalAttempt: 1, Seq: 2},
		})
		return f
	}
	for name, c := range map[string]struct {
		learn      func(*RunFacts)
		remembered bool
	}{
		"the same history":             {func(f *RunFacts) { f.NoteEvents("epoch-1", 2, nil) }, true},
		"another epoch":                {func(f *RunFacts) { f.NoteEvents("epoch-2", 2, nil) }, false},
		"a head below the known one":   {func(f *RunFacts) { f.Log.Observe(f.Log.Highest(), 1) }, false},
		"an older answer that is late": {func(f *RunFacts) { f.Log.Observe(0, 1) }, true},
		"events behind ones not read": {
			func(f *RunFacts) { f.NoteEvents("epoch-1", 7, []run.Event{{Type: run.RunPaused, Seq: 8}}) }, true},
		"the same events another time": {func(f *RunFacts) {
			f.NoteEvents("epoch-1", 0, []run.Event{{Type: run.StepStartedEvent, StepID: "s1", LogicalAttempt: 1, Seq: 1}})
		}, true},
		"an event of an unknown step": {func(f *RunFacts) {
			f.NoteEvents("epoch-1", 2, []run.Event{{Type: run.StepFailedEvent, StepID: "x", Seq: 3}})
		}, true},
		"a state of a longer log": {func(f *RunFacts) { f.NoteState(run.State{Header: run.Header{Seq: 900}}) }, true},
		"a state of a step that failed": {func(f *RunFacts) {
			f.NoteState(run.State{Steps: []*run.Step{{StepOutline: run.StepOutline{StepID: "x"}}}})
		}, true},
	} {
		f := known()
		c.learn(f)
		if kept := f.Log.Step(0).Satisfied(); kept != c.remembered {
			t.Errorf("%s: Satisfied of s1 is %t, want %t", name, kept, c.remembered)
		}
		if !c.remembered && f.Log.Position() != 0 {
			t.Errorf("%s: position is %d, want 0", name, f.Log.Position())
		}
	}
	f := known()
	f.NoteEvents("epoch-1", 7, []run.Event{{Type: run.RunPaused, Seq: 8}})
	if f.Log.Position() != 2 {
		t.Errorf("position is %d, want 2, because events 3 to 7 were not read", f.Log.Position())
	}
}
