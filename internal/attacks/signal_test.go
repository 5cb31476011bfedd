package attacks_test

import (
	"testing"
	"time"
)

// contract: T196
func TestStranger_CannotSignalARun(t *testing.T) {
	t.Parallel()
	w := installation(t)
	for what, forged := range map[string]any{
		"a cancel": map[string]any{"no": 1, "id": "forged", "type": "CANCEL"},
		"a pause":  map[string]any{"no": 1, "id": "forged", "type": "PAUSE", "applied": true},
		"a retry": map[string]any{"no": 1, "id": "forged", "type": "RETRY_STEP", "stepId": "s", "logicalAttempt": 1,
			"force": true},
		"a number that is ahead": map[string]any{"no": 7},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s, release, mark := waitingStep(t, "s", queueData)
			runID := w.startRun(t, operator, "shop", s, noop("after", "s"))
			w.waitForStart(t, operator, runID, "s")
			must(t, w.stranger.client.SignalWorkflow(t.Context(), workflowID("acme", runID), "", "dvt.signal", forged))
			w.expectNoEnd(t, operator, runID, "s", mark)
			if r, err := w.readRun(t.Context(), operator, runID); err != nil || r.StatusRaw != "RUNNING" {
				t.Fatalf("after the forged signal the run is %s (%v)", r, err)
			}
			release()
			last := w.expectEnd(t, operator, runID, "COMPLETED", 30*time.Second)
			if last.countEvents("StepCompleted", "after") != 1 {
				t.Errorf("the run did not execute its last step: %s", last)
			}
			w.expectAudit(t, admin, runID, "signal")
		})
	}
}

// A forged number must not hide the signal that people send afterwards.
//
// contract: T196, T200
func TestStranger_CannotHideACancelBehindAForgedSignal(t *testing.T) {
	t.Parallel()
	w := installation(t)
	s, release, _ := waitingStep(t, "s", queueData)
	defer release()
	runID := w.startRun(t, operator, "shop", s)
	w.waitForStart(t, operator, runID, "s")
	for _, no := range []int{1, 2, 1 << 40} {
		must(t, w.stranger.client.SignalWorkflow(t.Context(), workflowID("acme", runID), "", "dvt.signal",
			map[string]any{"no": no, "id": "nothing", "type": "RESUME"}))
	}
	time.Sleep(time.Second)
	w.cancel(t, admin, runID)
	w.expectEnd(t, operator, runID, "CANCELLED", 30*time.Second)
	if r := w.receiptOf(t, operator, runID); r.ApplicationReason != "" {
		t.Errorf("the workflow did not carry out the cancel: %+v", r)
	}
}
