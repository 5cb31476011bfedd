package enginetest

import (
	"slices"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
)

func compensationCases() []testCase {
	hook := map[string]any{
		"compensation": map[string]any{"operation": "COMMAND", "input": map[string]any{"argv": []string{"undo"}}}}
	hooks := map[string]map[string]any{"init": hook, "a": hook, "b": hook}
	return []testCase{
		// Hooks run in the reverse order of the completions, and the failure of one does not stop the others.
		// contract: M04
		{name: "CompensationRunsInReverseOrderOfCompletion", test: func(w *world) {
			w.steps.Hold("a").Do("final", Try{Fails: "BROKEN"}).
				Do("b:compensate", Try{Fails: "STILL_BROKEN"}, Try{Fails: "STILL_BROKEN"})
			id := w.Start(d4(0, hooks))
			w.waitForStep(id, "b", run.StepSuccess)
			w.steps.Release("a")
			w.waitForStep(id, "final", run.StepFailed)
			w.Pass(1200 * time.Millisecond) // the backoff before the second try of b's hook is one second (contract R186)
			st := w.waitForEnd(id)
			got := w.log(id)
			want := "StepFailed(final,1) RunCompensationStarted StepCompensated(a,1) StepCompensationFailed(b,1) " +
				"StepCompensated(init,1) RunFailed"
			if tail := strings.Join(got[len(got)-6:], " "); tail != want {
				w.t.Fatalf("the log ends\n%s, want\n%s", tail, want)
			}
			events := w.Events(id)
			p, err := run.PayloadOf[run.RunFailedPayload](events[len(events)-1].Payload)
			if err != nil {
				w.t.Fatal(err)
			}
			var summary []string
			for _, c := range p.Compensation {
				summary = append(summary, c.StepID+" "+c.ErrorCode)
				if c.IdempotencyKey != id+":"+c.StepID+":compensate" {
					w.t.Errorf("idempotency key %s, want runId:stepId:compensate", c.IdempotencyKey)
				}
			}
			if !slices.Equal(summary, []string{"a ", "b STILL_BROKEN", "init "}) || st.Failure.RootCause.StepID != "final" {
				w.t.Fatalf("summary %q, failure %+v; want a, b with STILL_BROKEN, init, caused by final", summary, st.Failure)
			}
		}},
		// A compensating run rejects a CANCEL, but an EMERGENCY_STOP ends it.
		// contract: T91
		{name: "EmergencyStopEndsCompensation", test: func(w *world) {
			w.steps.Do("final", Try{Fails: "BROKEN"}).Do("b:compensate", Try{Takes: 20 * time.Second}).Do("a:compensate",
				Try{Takes: 20 * time.Second})
			id := w.Start(d4(0, hooks))
			w.until(id, "compensating", func(s run.State) bool { return s.Substatus() == run.Compensating })
			if r := w.Signal(id, run.Signal{Type: run.Cancel}); !r.Rejected || r.Rejection != run.CodeRunFinalizing {
				w.t.Fatalf("receipt of the cancel %+v, want it rejected with %s", r, run.CodeRunFinalizing)
			}
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.EmergencyStop}))
			w.waitForEnd(id)
			got := w.log(id)
			if tail := strings.Join(got[len(got)-3:], " "); !strings.HasPrefix(tail, "SignalAccepted StepCompensationFailed(") ||
				!strings.HasSuffix(tail, " RunCancelled") {
				w.t.Fatalf("the log ends %s, want the failure of one hook and RunCancelled", tail)
			}
		}},
		// A cancelled run runs no hooks.
		// contract: M05
		{name: "CancelledRunIsNotCompensated", test: func(w *world) {
			w.steps.Hold("final")
			id := w.Start(d4(0, hooks))
			w.waitForStep(id, "final", run.StepRunning)
			w.Signal(id, run.Signal{Type: run.Cancel})
			w.waitForEnd(id)
			if got := w.log(id); slices.Contains(got, "RunCompensationStarted") {
				w.t.Fatalf("a cancelled run was compensated; log:\n%s", strings.Join(got, "\n"))
			}
		}},
	}
}
