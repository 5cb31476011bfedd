package control

import (
	"testing"

	"github.com/dvt-engine/dvt/run"
)

// The cached facts of a log are discarded when the log was replaced, but not when answers arrive out of order.
//
// contract: T194
func TestKnownLog_ForgetsAReplacedLog(t *testing.T) {
	t.Parallel()
	known := func() *runFacts {
		f := &runFacts{steps: map[string]int{"s1": 0}, log: newKnownLog(1)}
		f.noteEvents("epoch-1", 0, []run.Event{
			{Type: run.StepStartedEvent, StepID: "s1", LogicalAttempt: 1, Seq: 1}, {Type: run.StepCompletedEvent,
				StepID:         "s1",
				LogicalAttempt: 1, Seq: 2},
		})
		return f
	}
	for name, c := range map[string]struct {
		learn  func(*runFacts)
		newLRU bool
	}{
		"the same history":             {func(f *runFacts) { f.noteEvents("epoch-1", 2, nil) }, true},
		"another epoch":                {func(f *runFacts) { f.noteEvents("epoch-2", 2, nil) }, false},
		"a head below what was known":  {func(f *runFacts) { f.log.observe(f.log.highest(), 1) }, false},
		"an older answer that is late": {func(f *runFacts) { f.log.observe(0, 1) }, true},
		"events behind ones not read": {
			func(f *runFacts) { f.noteEvents("epoch-1", 7, []run.Event{{Type: run.RunPaused, Seq: 8}}) }, true},
		"the same events another time": {func(f *runFacts) {
			f.noteEvents("epoch-1", 0, []run.Event{{Type: run.StepStartedEvent, StepID: "s1", LogicalAttempt: 1, Seq: 1}})
		}, true},
		"an event of an unknown step": {func(f *runFacts) {
			f.noteEvents("epoch-1", 2, []run.Event{{Type: run.StepFailedEvent, StepID: "x", Seq: 3}})
		}, true},
		"a state of a longer log": {func(f *runFacts) { f.noteState(run.State{Header: run.Header{Seq: 900}}) }, true},
		"a state of a step that failed": {func(f *runFacts) {
			f.noteState(run.State{Steps: []*run.Step{{StepOutline: run.StepOutline{StepID: "x"}}}})
		}, true},
	} {
		f := known()
		c.learn(f)
		if kept := f.log.step(0).satisfied(); kept != c.newLRU {
			t.Errorf("%s: satisfied() of s1 is %t, want %t", name, kept, c.newLRU)
		}
		if !c.newLRU && f.log.position() != 0 {
			t.Errorf("%s: position is %d, want 0", name, f.log.position())
		}
	}
	f := known()
	f.noteEvents("epoch-1", 7, []run.Event{{Type: run.RunPaused, Seq: 8}})
	if f.log.position() != 2 {
		t.Errorf("position is %d, want 2, because events 3 to 7 were not read", f.log.position())
	}
}
