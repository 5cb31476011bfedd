package reads_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// tellTries returns the outcomes of tries, with what their workers reported.
func tellTries(tries []reads.StepTry) (out []string) {
	for _, t := range tries {
		out = append(out, strings.Join([]string{string(t.Outcome), t.Worker, t.Account, t.ErrorCode, t.Signal, t.Stack}, "/"))
	}
	return out
}

// try starts an engine attempt of s1. With a record it also sends the record to the Journal.
func (w *world) try(runID string, engineAttempt int, rec *engine.TryRecord) {
	w.T.Helper()
	begun := w.BeginAttempt(runID, "s1", 1, engineAttempt)
	if rec == nil {
		return
	}
	err := w.Journal.Evidence(w.T.Context(), engine.Evidence{RunID: runID, StepID: "s1", LogicalAttempt: 1, N: 1,
		EngineAttempt: engineAttempt, StartedSeq: begun.StartedSeq, Key: begun.Key, Try: rec})
	if err != nil {
		w.T.Fatal(err)
	}
}

// contract: R191
func TestStepEvidence_TellsEachTryOfThePlatform(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("tries", "s1", "s2")
	sre, viewer := w.Principal("dev-sre"), w.Principal("dev-viewer")
	read := func() reads.StepEvidence {
		t.Helper()
		return controltest.Must[reads.StepEvidence](t)(w.StepEvidence(t.Context(), sre, id, "s1", 0))
	}
	if e := read(); e.Attempt != 0 || len(e.Tries) != 0 || e.Compensation != nil {
		t.Errorf("before the first attempt the evidence is %+v, want none", e)
	}
	at := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	w.try(id, 1, &engine.TryRecord{Worker: strings.Repeat("w", 300), Outcome: engine.TryFailed,
		ErrorCode: "EXECUTOR_PANIC", StartedAt: at, EndedAt: at.Add(time.Second), Stack: "goroutine 7"})
	w.try(id, 2, nil)
	long := strings.Repeat("w", 200)
	want := []string{"FAILED/" + long + "/engine/EXECUTOR_PANIC//goroutine 7", "RUNNING/////"}
	if d := cmp.Diff(want, tellTries(read().Tries)); d != "" {
		t.Errorf("tries while the second one runs (-want +got):\n%s", d)
	}
	w.try(id, 3, &engine.TryRecord{Worker: "host/9", Outcome: engine.TryFailed, Signal: "SIGKILL", LogBytes: 12})
	end := runtest.Draft(run.StepCompletedEvent, "s1", 1)
	end.EngineAttempt = 3
	w.AppendEvents(id, end)
	// The third record lies: the log decides about the last try.
	want = []string{want[0], "LOST/////", "SUCCEEDED/host/9/engine//SIGKILL/"}
	e := read()
	if d := cmp.Diff(want, tellTries(e.Tries)); d != "" {
		t.Errorf("tries after the end (-want +got):\n%s", d)
	}
	if e.Attempt != 1 || !e.Tries[0].EndedAt.Equal(at.Add(time.Second)) || e.Tries[2].LogBytes != 12 ||
		e.Tries[1].Recorded {
		t.Errorf("the evidence is %+v, want attempt 1 with what the workers reported", e)
	}
	seen := controltest.Must[reads.StepEvidence](t)(w.StepEvidence(t.Context(), viewer, id, "s1", 1))
	want = []string{"FAILED///EXECUTOR_PANIC//", "LOST/////", "SUCCEEDED////SIGKILL/"}
	if d := cmp.Diff(want, tellTries(seen.Tries)); d != "" {
		t.Errorf("tries for a viewer, who may not DEBUG (-want +got):\n%s", d)
	}
	for name, c := range map[string]struct {
		step    string
		attempt int
	}{"another step": {"zz", 0}, "another attempt": {"s1", 2}} {
		if _, err := w.StepEvidence(t.Context(), sre, id, c.step, c.attempt); controltest.CodeOf(err) != run.CodeNotFound {
			t.Errorf("the evidence of %s: %v, want NOT_FOUND", name, err)
		}
	}
	if _, err := w.StepEvidence(t.Context(), sre, id, "s1", -1); controltest.CodeOf(err) != run.CodeBadInput {
		t.Errorf("the evidence of attempt -1: %v, want BAD_USER_INPUT", err)
	}
	_, err := w.StepEvidence(t.Context(), w.ForeignPrincipal(), id, "s1", 0)
	if controltest.CodeOf(err) != run.CodeNotFound {
		t.Errorf("another tenant's evidence: %v, want NOT_FOUND", err)
	}
}

// contract: R188
func TestStepEvidence_TellsWhatBecameOfTheCompensation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("hooks", "s1", "s2")
	w.FinishStep(id, "s1", 1, run.StepCompletedEvent)
	w.FinishStep(id, "s2", 1, run.StepFailedEvent)
	read := func(step string) *reads.StepCompensation {
		t.Helper()
		return controltest.Must[reads.StepEvidence](t)(w.StepEvidence(t.Context(), w.Engineer(), id, step, 0)).Compensation
	}
	w.AppendEvents(id, runtest.Draft(run.RunCompensationStarted, "", 1))
	if c := read("s1"); c != nil {
		t.Errorf("while the hook runs the compensation is %+v, want none", c)
	}
	w.AppendEvents(id, runtest.Draft(run.StepCompensationFailed, "s1", 1, controltest.M{"stepId": "s1", "attempts": 3,
		"idempotencyKey": id + ":s1:compensate", "compensated": false, "errorCode": "HTTP_STATUS", "errorMessage": "503"}))
	check := func(when string) {
		t.Helper()
		c := read("s1")
		if c == nil || c.Compensated || c.Attempts != 3 || c.ErrorCode != "HTTP_STATUS" || c.At.IsZero() {
			t.Errorf("%s the compensation of s1 is %+v, want one that failed with HTTP_STATUS after 3 tries", when, c)
		}
		if c := read("s2"); c != nil {
			t.Errorf("%s the compensation of s2, which has no hook, is %+v", when, c)
		}
	}
	check("before the end of the run")
	w.AppendEvents(id, runtest.Draft(run.RunFailed, "", 1, controltest.M{"compensation": []controltest.M{{"stepId": "s1",
		"idempotencyKey": "k", "attempts": 3, "compensated": false}}}))
	check("after the end of the run")
}
