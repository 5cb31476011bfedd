package enginetest

import (
	"time"

	"github.com/dvt-engine/dvt/run"
)

// manualStep returns the fields of a step that waits for a person, without separation of duties.
func manualStep(more map[string]any) map[string]any {
	manual := map[string]any{"sod": false}
	for k, v := range more {
		manual[k] = v
	}
	return map[string]any{"type": "MANUAL", "inputs": map[string]any{"instructions": "look at it"}, "manual": manual}
}

func (w *world) waitForManual(runID string) run.State {
	w.t.Helper()
	return w.until(runID, "waiting for a person", func(s run.State) bool { return s.Substatus() == run.WaitingManual })
}

func manualCases() []testCase {
	plan := func(window int, more map[string]any) []byte {
		return Document(window, map[string]map[string]any{"ok": manualStep(more)}, "s1", "ok<s1", "s2<ok")
	}
	return []testCase{
		// A manual step ends with the outcome that a person gives.
		// contract: M01
		{name: "PersonCompletesAManualStep", test: func(w *world) {
			id := w.Start(plan(0, nil))
			w.waitForManual(id)
			w.Pass(100 * time.Millisecond)
			r := w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.CompleteManual, StepID: "ok",
				Outcome: run.ManualSucceeded}))
			w.waitForEnd(id)
			w.expect(id,
				`StepStarted(s1,1) StepCompleted(s1,1) StepStarted(ok,1) StepAwaitingManualCompletion(ok,1) SignalAccepted StepCompleted(ok,1)
				StepStarted(s2,1) StepCompleted(s2,1) RunCompleted`)
			if r.Application != run.SignalApplied || r.AppliedSeq != 8 {
				w.t.Fatalf("receipt %+v, want it applied by event 8, StepCompleted(ok,1)", r)
			}
		}},
		// A retry of a manual step opens a new task for a person.
		// contract: M03
		{name: "FailedManualStepIsRetried", policy: run.Policy{RetryWindowMS: 60_000}, test: func(w *world) {
			id := w.Start(plan(60, nil))
			w.waitForManual(id)
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.CompleteManual, StepID: "ok", Outcome: run.ManualFailed}))
			w.waitForStep(id, "ok", run.StepFailed)
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.RetryStep, StepID: "ok", Force: true}))
			w.waitForManual(id)
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.CompleteManual, StepID: "ok",
				Outcome: run.ManualSucceeded}))
			w.waitForEnd(id)
			w.expect(id,
				`StepStarted(s1,1) StepCompleted(s1,1) StepStarted(ok,1) StepAwaitingManualCompletion(ok,1) SignalAccepted StepFailed(ok,1)
				SignalAccepted StepStarted(ok,2) StepAwaitingManualCompletion(ok,2) SignalAccepted StepCompleted(ok,2)
				StepStarted(s2,1) StepCompleted(s2,1) RunCompleted`)
		}},
		// A waiting manual step does not count as running, so a paused run drains around it.
		// contract: T47
		{name: "PersonCompletesAManualStepWhilePaused", test: func(w *world) {
			id := w.Start(plan(0, nil))
			w.waitForManual(id)
			p := w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Pause}))
			if st := w.State(id); st.Substatus() != "" || p.QuiescentSeq == 0 {
				w.t.Fatalf("substatus %q, receipt %+v; want a paused run that does not drain", st.Substatus(), p)
			}
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.CompleteManual, StepID: "ok",
				Outcome: run.ManualSucceeded}))
			w.waitForStep(id, "ok", run.StepSuccess)
			w.Signal(id, run.Signal{Type: run.Resume})
			w.waitForEnd(id)
			w.expect(id,
				`StepStarted(s1,1) StepCompleted(s1,1) StepStarted(ok,1) StepAwaitingManualCompletion(ok,1) SignalAccepted RunPaused(1)
				SignalAccepted StepCompleted(ok,1) SignalAccepted RunResumed(1) StepStarted(s2,1) StepCompleted(s2,1) RunCompleted`)
		}},
		// The timeout of a manual step is that of its wait.
		// contract: T83
		{name: "ManualStepTimesOut", test: func(w *world) {
			id := w.Start(plan(0, map[string]any{"timeout": "1s"}))
			w.waitForManual(id)
			w.Pass(1100 * time.Millisecond)
			st := w.waitForEnd(id)
			w.expect(id,
				`StepStarted(s1,1) StepCompleted(s1,1) StepStarted(ok,1) StepAwaitingManualCompletion(ok,1) StepFailed(ok,1)
				StepSkipped(s2,1) RunFailed`)
			if st.Failure.Code != string(run.CodeTimeout) {
				w.t.Fatalf("failure %+v, want code %s", st.Failure, run.CodeTimeout)
			}
		}},
	}
}
