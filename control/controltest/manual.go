package controltest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
)

// SecretOf returns a key of 32 equal letters in base64.
func SecretOf(letter string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32)))
}

// ManualKeys sets the keys of completion tokens.
func ManualKeys(t testing.TB, list ...string) func(*usecases.Config) {
	keys := Must[[]runs.ManualKey](t)(runs.ParseManualKeys(list))
	return func(c *usecases.Config) { c.ManualKeys = keys }
}

// CreateManual makes a run whose steps wait for a person.
func (w *World) CreateManual(requestID string, steps ...string) string {
	w.T.Helper()
	id := Must[runs.StartedRun](w.T)(
		w.StartRun(w.T.Context(), w.Engineer(), StartOf(requestID, ManualPlan(steps...)))).View.Run.RunID
	w.AppendEvents(id, runtest.Start(steps...))
	for _, step := range steps {
		w.WaitForPerson(id, step, 1)
	}
	return id
}

// WaitForPerson writes the events of the interpreter when a MANUAL step starts.
func (w *World) WaitForPerson(runID, stepID string, logicalAttempt int) {
	w.T.Helper()
	w.AppendEvents(runID, runtest.Draft(run.StepStartedEvent, stepID, logicalAttempt), runtest.Draft(
		run.StepAwaitingManualCompletion, stepID, logicalAttempt))
}

// ListTasks returns the open tasks of a run that p sees.
func (w *World) ListTasks(p authz.Principal, runID string) runs.ManualTasksPage {
	w.T.Helper()
	return Must[runs.ManualTasksPage](w.T)(w.ManualTasks(w.T.Context(), p, runs.ManualTasksQuery{RunID: runID}))
}

// TaskOf returns the only task of a step, once the projector has seen it.
func (w *World) TaskOf(p authz.Principal, runID, stepID string, logicalAttempt int) (out runs.ManualTask) {
	w.T.Helper()
	Eventually(w.T, fmt.Sprintf("task of %s/%d", stepID, logicalAttempt), func() bool {
		for _, task := range w.ListTasks(p, runID).Tasks {
			if task.StepID == stepID && task.LogicalAttempt == logicalAttempt {
				out = task
				return true
			}
		}
		return false
	})
	return out
}

// CompleteTask completes a task with its token.
func (w *World) CompleteTask(p authz.Principal, task runs.ManualTask, outcome run.ManualOutcome,
	change ...func(*runs.CompleteManualStep)) (runs.SignalReceipt, error) {
	in := runs.CompleteManualStep{RunID: task.Identity.RunID, StepID: task.StepID, Token: task.Token, Outcome: outcome}
	for _, f := range change {
		f(&in)
	}
	return w.CompleteManualStep(w.T.Context(), p, in)
}

// ApplyCompletion writes the events of the interpreter for an accepted completion.
func (w *World) ApplyCompletion(r runs.SignalReceipt, t run.EventType) {
	w.T.Helper()
	d := runtest.Draft(t, r.Signal.StepID, r.Signal.ExpectedAttempt,
		M{"manual": M{"signalId": r.Signal.ID, "outcome": Outcome(w.T, r)}})
	w.ApplySignal(r.RunID, r.Signal.ID, d)
}

// Outcome returns the outcome in the payload of a completion.
func Outcome(t testing.TB, r runs.SignalReceipt) (out run.ManualOutcome) {
	t.Helper()
	var p struct{ Outcome run.ManualOutcome }
	if err := json.Unmarshal(r.Payload, &p); err != nil {
		t.Fatal(err)
	}
	return p.Outcome
}
