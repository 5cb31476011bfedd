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
		{name: "M04_ReverseOrderOfCompletion", test: func(w *world) {
			w.steps.Hold("a").Do("final", Try{Fails: "BROKEN"}).
				Do("b:compensate", Try{Fails: "STILL_BROKEN"}, Try{Fails: "STILL_BROKEN"})
			id := w.Start(d4(0, hooks))
			w.waitForStep(id, "b", run.StepSuccess)
			w.steps.Release("a")
			w.waitForStep(id, "final", run.StepFailed)
			w.Pass(1200 * time.Millisecond) // the second attempt of b's hook waits a second (R186)
			st := w.waitForEnd(id)
			got := w.log(id)
			want := "StepFailed(final,1) RunCompensationStarted StepCompensated(a,1) StepCompensationFailed(b,1) " +
				"StepCompensated(init,1) RunFailed"
			if tail := strings.Join(got[len(got)-6:], " "); tail != want {
				w.t.Fatalf("log ends\n%s, want\n%s", tail, want)
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
					w.t.Errorf("key %s", c.IdempotencyKey)
				}
			}
			if !slices.Equal(summary, []string{"a ", "b STILL_BROKEN", "init "}) || st.Failure.RootCause.StepID != "final" {
				w.t.Fatalf("summary %q, %+v", summary, st.Failure)
			}
		}},
		{name: "T91_StoppedWhileCompensating", test: func(w *world) {
			w.steps.Do("final", Try{Fails: "BROKEN"}).Do("b:compensate", Try{Takes: 20 * time.Second}).Do("a:compensate",
				Try{Takes: 20 * time.Second})
			id := w.Start(d4(0, hooks))
			w.until(id, "compensating", func(s run.State) bool { return s.Substatus() == run.Compensating })
			if r := w.Signal(id, run.Signal{Type: run.Cancel}); !r.Rejected || r.Rejection != run.CodeRunFinalizing {
				w.t.Fatalf("cancel %+v", r)
			}
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.EmergencyStop}))
			w.waitForEnd(id)
			got := w.log(id)
			if tail := strings.Join(got[len(got)-3:], " "); !strings.HasPrefix(tail, "SignalAccepted StepCompensationFailed(") ||
				!strings.HasSuffix(tail, " RunCancelled") {
				w.t.Fatalf("log ends %s", tail)
			}
		}},
		{name: "M05_NoneForACancelledRun", test: func(w *world) {
			w.steps.Hold("final")
			id := w.Start(d4(0, hooks))
			w.waitForStep(id, "final", run.StepRunning)
			w.Signal(id, run.Signal{Type: run.Cancel})
			w.waitForEnd(id)
			if got := w.log(id); slices.Contains(got, "RunCompensationStarted") {
				w.t.Fatalf("log:\n%s", strings.Join(got, "\n"))
			}
		}},
	}
}
