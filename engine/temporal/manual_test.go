package temporal_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
)

// another returns a person other than the one who starts runs.
func (h *harness) another() authz.Principal {
	h.t.Helper()
	directory, err := authz.NewDirectory(authz.DevAccounts(func(name string) string { return name }), time.Now)
	must(h.t, err)
	p, err := directory.Authenticate("dev-admin")
	must(h.t, err)
	return p
}

// task waits until an attempt waits for a person, and returns its task as p sees it.
func (h *harness) task(p authz.Principal, runID, stepID string, logicalAttempt int) runs.ManualTask {
	h.t.Helper()
	h.waitFor(runID, "waiting for a person", func(s run.State) bool {
		step, ok := s.Step(stepID)
		return ok && step.Substatus == run.WaitingManual && step.LogicalAttempt == logicalAttempt
	})
	l, err := h.store.Load(h.t.Context(), runID)
	must(h.t, err)
	// ManualTasks reads the projection, and a harness has no projector.
	_, err = h.store.Save(h.t.Context(), l.State, l.Changes)
	must(h.t, err)
	page, err := h.control.ManualTasks(h.t.Context(), p, runs.ManualTasksQuery{RunID: runID})
	must(h.t, err)
	for _, task := range page.Tasks {
		if task.StepID == stepID && task.LogicalAttempt == logicalAttempt {
			return task
		}
	}
	h.t.Fatalf("the tasks %+v lack %s/%d", page.Tasks, stepID, logicalAttempt)
	return runs.ManualTask{}
}

func (h *harness) completeAs(p authz.Principal, task runs.ManualTask, outcome run.ManualOutcome,
	change func(*runs.CompleteManualStep)) (runs.SignalReceipt, error) {
	in := runs.CompleteManualStep{RunID: task.Identity.RunID, StepID: task.StepID, Token: task.Token, Outcome: outcome}
	if change != nil {
		change(&in)
	}
	return h.control.CompleteManualStep(h.t.Context(), p, in)
}

func (h *harness) wantRefusal(code run.Code, err error) {
	h.t.Helper()
	var e *control.Error
	if !errors.As(err, &e) || e.Code != code {
		h.t.Fatalf("error %v, want %s", err, code)
	}
}

// approval returns a MANUAL step whose timeout is much shorter than the time that a person takes.
func approval(id, deps string) step {
	return step{id: id, deps: deps, extra: map[string]any{"type": "MANUAL", "inputs": map[string]any{}, "timeout": "1s"}}
}

// contract: M01, M03
func TestManual_WaitsThroughTimeoutRestartAndPause(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: -1, rotateAfter: 1}) // the wait also survives rotations
	stop := h.worker(0)
	id := h.start(document(60, step{id: "a"}, approval("check", "a"), step{id: "b", deps: "check"}))
	task := h.task(h.another(), id, "check", 1)
	time.Sleep(3 * time.Second) // longer than the step's timeout, which does not apply to the wait (contract T83)
	stop()                      // the only worker stops, and another one starts
	h.worker(0)
	h.pause(id)
	h.waitFor(id, "PAUSED", func(s run.State) bool { return s.Status == run.Paused })
	at := time.Now().Add(-time.Minute).UTC().Truncate(time.Second)
	r, err := h.completeAs(h.another(), task, run.ManualSucceeded, func(c *runs.CompleteManualStep) {
		c.CompletedAt,
			c.Notes = at, "fine"
	})
	must(t, err)
	h.waitUntilApplied(id, r.Signal.ID)
	st := h.waitFor(id, "completed by hand while PAUSED", func(s run.State) bool {
		step,
			_ := s.Step("check")
		return step.Status == run.StepSuccess
	})
	if step, _ := st.Step("check"); st.Status != run.Paused || !step.Attempts[0].CompletedAt.Equal(at) ||
		step.Attempts[0].Manual.Actor != "dev-admin" {
		t.Errorf("the run is %s, the attempt %+v; want PAUSED, completed at %s by dev-admin", st.Status, step.Attempts[0], at)
	}
	h.resume(id)
	if st := h.waitForEnd(id); st.Status != run.Completed {
		t.Errorf("the run ended %s, want COMPLETED; log %v", st.Status, h.log(id))
	}
	for _, e := range h.events(id) {
		if e.Type != run.StepCompletedEvent || e.StepID != "check" {
			continue
		}
		var p struct {
			Manual           run.ManualEnd `json:"manual"`
			SourceOccurredAt time.Time     `json:"sourceOccurredAt"`
		}
		must(t, json.Unmarshal(e.Payload, &p))
		if p.Manual.Actor != "dev-admin" || p.Manual.Notes != "fine" || !p.SourceOccurredAt.Equal(at) {
			t.Errorf("payload %s, want the person, the notes and the time", e.Payload)
		}
	}
}

// contract: M02, M03
func TestManual_RefusesWrongPeopleAndTokens(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	id := h.start(document(60, approval("check", "")))
	first := h.task(h.another(), id, "check", 1)
	if mine := h.task(h.who, id, "check", 1); mine.Token != "" || mine.Action.Code != run.CodeSOD {
		t.Errorf("the requester of the run has the action %+v, want none because of %s", mine.Action, run.CodeSOD)
	}
	_, err := h.completeAs(h.who, first, run.ManualSucceeded, nil)
	h.wantRefusal(run.CodeSOD, err)
	_, err = h.completeAs(h.another(), first, run.ManualSucceeded, func(c *runs.CompleteManualStep) { c.Token += "x" })
	h.wantRefusal(run.CodeManualToken, err)
	_, err = h.completeAs(h.another(), first, run.ManualSucceeded,
		func(c *runs.CompleteManualStep) { c.Actor = h.who.ID })
	h.wantRefusal(run.CodeForbidden, err)
	failed, err := h.completeAs(h.another(), first, run.ManualFailed, nil)
	must(t, err)
	h.waitUntilApplied(id, failed.Signal.ID)
	again, err := h.completeAs(h.another(), first, run.ManualSucceeded, nil)
	must(t, err)
	if !again.Duplicate || again.Signal.ID != failed.Signal.ID {
		t.Errorf("receipt of the repeated completion %+v, want the first one as a duplicate", again)
	}
	h.signal(id, run.Signal{Type: run.RetryStep, StepID: "check"})
	second := h.task(h.another(), id, "check", 2)
	_, err = h.completeAs(h.another(), first, run.ManualSucceeded, nil)
	h.wantRefusal(run.CodeManualToken, err)
	_, err = h.completeAs(h.another(), second, run.ManualSucceeded, nil)
	must(t, err)
	if st := h.waitForEnd(id); st.Status != run.Completed {
		t.Errorf("the run ended %s, want COMPLETED; log %v", st.Status, h.log(id))
	}
}
