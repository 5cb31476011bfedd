package run_test

import (
	"testing"

	"github.com/dvt-engine/dvt/run"
)

func TestEvent_WordIsTheNotationOfLogs(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]run.Event{
		"RunStarted":          {Type: run.RunStarted, LogicalAttempt: 1},
		"StepStarted(load,2)": {Type: run.StepStartedEvent, StepID: "load", LogicalAttempt: 2},
		"RunPaused(2)":        {Type: run.RunPaused, LogicalAttempt: 2},
		"RunResumed(1)":       {Type: run.RunResumed, LogicalAttempt: 1},
		"SignalAccepted":      {Type: run.SignalAccepted, SignalID: "u1", LogicalAttempt: 1},
	} {
		if got := e.Notation(); got != want {
			t.Errorf("Word() = %s, want %s", got, want)
		}
	}
}
