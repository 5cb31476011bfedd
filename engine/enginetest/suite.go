package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Run tests an engine. open makes a new Fixture for each test; tests run in parallel.
func Run(t *testing.T, open func(t *testing.T, o Options) Fixture) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			steps := &Steps{tries: map[string][]Try{}, held: map[string]bool{}}
			if c.policy.MaxParallelSteps == 0 {
				c.policy.MaxParallelSteps = 100
			}
			w := &world{t: t, steps: steps, Fixture: open(t, Options{Policy: c.policy, Steps: steps, RotateAfter: c.rotate})}
			c.test(w)
		})
	}
}

type testCase struct {
	name   string
	policy run.Policy
	rotate int
	test   func(*world)
}

const (
	l3Steps = "s1 s2<s1 s3<s2"
	d4Steps = "init a<init b<init final<a,b"
)

func l3(window int, more map[string]map[string]any) []byte {
	return Document(window, more, strings.Fields(l3Steps)...)
}

func d4(window int, more map[string]map[string]any) []byte {
	return Document(window, more, strings.Fields(d4Steps)...)
}

func cases() []testCase {
	return slices.Concat(happyCases(), signalCases(), failureCases(), stopCases(), manualCases(), compensationCases(),
		rotationCases())
}

func happyCases() []testCase {
	return []testCase{
		{name: "HappyLinear", test: func(w *world) {
			id := w.Start(l3(0, nil))
			st := w.waitForEnd(id)
			w.expect(id, "StepStarted(s1,1) StepCompleted(s1,1) StepStarted(s2,1) StepCompleted(s2,1) StepStarted(s3,1) "+
				"StepCompleted(s3,1) RunCompleted")
			if st.Status != run.Completed || st.Counts.Success != 3 || st.Engine == nil || st.Engine.WorkflowID == "" {
				w.t.Fatalf("%+v", st.Header)
			}
		}},
		{name: "C03_D4", test: func(w *world) {
			w.steps.Hold("a")
			w.steps.Hold("b")
			id := w.Start(d4(0, nil))
			w.waitForStep(id, "a", run.StepRunning)
			w.steps.Release("b")
			w.waitForStep(id, "b", run.StepSuccess)
			w.steps.Release("a")
			w.waitForEnd(id)
			got := w.log(id)
			begin := slices.Clone(got[4:6])
			slices.Sort(begin) // the order of starts on different workers is not defined (contract T214)
			if fmt.Sprint(begin) != "[StepStarted(a,1) StepStarted(b,1)]" {
				w.t.Fatalf("after init:\n%s", strings.Join(got, "\n"))
			}
			rest := "StepCompleted(b,1) StepCompleted(a,1) StepStarted(final,1) StepCompleted(final,1) RunCompleted"
			if strings.Join(got[6:], " ") != rest {
				w.t.Fatalf("got\n%s\nwant\n%s", strings.Join(got[6:], " "), rest)
			}
		}},
		{name: "E15_ParallelStepsOverlap", test: func(w *world) {
			var ids []string
			for i := range 10 {
				ids = append(ids, fmt.Sprintf("p%d", i))
			}
			w.steps.Hold(ids...)
			id := w.Start(Document(0, nil, ids...))
			w.until(id, "at ten steps running", func(s run.State) bool { return s.Counts.Running == 10 })
			for _, step := range ids {
				w.steps.Release(step)
			}
			w.waitForEnd(id)
		}},
		{name: "E10_PlatformRetries", test: func(w *world) {
			w.steps.Do("s1", Try{Fails: "FLAKY"}, Try{Fails: "FLAKY"})
			retry := map[string]map[string]any{"s1": {"retry": map[string]any{"maxAttempts": 3, "initialBackoffMs": 100}}}
			id := w.Start(Document(0, retry, "s1"))
			w.waitForStep(id, "s1", run.StepRunning)
			w.Pass(500 * time.Millisecond)
			st := w.waitForEnd(id)
			w.expect(id, "StepStarted(s1,1) StepCompleted(s1,1) RunCompleted")
			if a := st.Steps[0].Attempts[0]; a.EngineAttempt != 3 || fmt.Sprint(w.steps.Calls()) != "[s1/1.1 s1/1.2 s1/1.3]" {
				w.t.Fatalf("attempt %+v, executions %v", a, w.steps.Calls())
			}
		}},
	}
}

func signalCases() []testCase {
	return []testCase{
		{name: "W5_TwoPauses", test: func(w *world) {
			w.steps.Hold("s1", "s2", "s3")
			id := w.Start(l3(0, nil))
			for i, step := range []string{"s1", "s2"} {
				w.waitForStep(id, step, run.StepRunning)
				p := w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Pause}))
				w.steps.Release(step)
				w.waitForStep(id, step, run.StepSuccess)
				r := w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Resume}))
				if p.Application != run.SignalApplied || r.Application != run.SignalApplied || p.AppliedSeq == 0 ||
					r.AppliedSeq <= p.AppliedSeq {
					w.t.Fatalf("pause %d: %+v %+v", i+1, p, r)
				}
			}
			w.waitForStep(id, "s3", run.StepRunning)
			w.steps.Release("s3")
			w.waitForEnd(id)
			w.expect(id, `StepStarted(s1,1) SignalAccepted RunPaused(1) StepCompleted(s1,1) SignalAccepted RunResumed(1)
				StepStarted(s2,1) SignalAccepted RunPaused(2) StepCompleted(s2,1) SignalAccepted RunResumed(2)
				StepStarted(s3,1) StepCompleted(s3,1) RunCompleted`)
		}},
		{name: "G04_G07_SameSignalTwice", test: func(w *world) {
			w.steps.Hold("s1")
			id := w.Start(l3(0, nil))
			w.waitForStep(id, "s1", run.StepRunning)
			sig := run.Signal{ID: "u1", Type: run.Pause}
			w.waitUntilApplied(id, w.Signal(id, sig))
			w.Signal(id, sig)
			second := w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Pause}))
			if second.Application != run.SignalNoop || second.ApplicationReason != string(run.CodeAlreadyInState) {
				w.t.Fatalf("second pause %+v", second)
			}
			w.steps.Release("s1")
			w.waitForStep(id, "s1", run.StepSuccess)
			w.expect(id, "StepStarted(s1,1) SignalAccepted RunPaused(1) SignalAccepted StepCompleted(s1,1)")
		}},
		{name: "G13_LastStepEndsWhilePaused", test: func(w *world) {
			w.steps.Hold("s1")
			id := w.Start(Document(0, nil, "s1"))
			w.waitForStep(id, "s1", run.StepRunning)
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Pause}))
			w.steps.Release("s1")
			w.waitForStep(id, "s1", run.StepSuccess)
			if st := w.State(id); st.Status != run.Paused {
				w.t.Fatalf("status %s", st.Status)
			}
			w.Signal(id, run.Signal{Type: run.Resume})
			w.waitForEnd(id)
			w.expect(id, "StepStarted(s1,1) SignalAccepted RunPaused(1) StepCompleted(s1,1) SignalAccepted RunResumed(1) "+
				"RunCompleted")
		}},
		{name: "G12_ResumeWhileDraining", policy: run.Policy{DrainTimeoutMS: 1000}, test: func(w *world) {
			w.steps.Hold("a")
			w.steps.Hold("b")
			id := w.Start(d4(0, nil))
			w.waitForStep(id, "a", run.StepRunning)
			w.steps.Release("b")
			w.waitForStep(id, "b", run.StepSuccess)
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Pause}))
			resume := w.waitUntilDelivered(id, w.Signal(id, run.Signal{Type: run.Resume}))
			w.Pass(500 * time.Millisecond)
			if st := w.State(id); st.Status != run.Paused {
				w.t.Fatalf("resumed before it drained: %s", strings.Join(w.log(id), " "))
			}
			w.Pass(600 * time.Millisecond)
			if r := w.waitUntilApplied(id, resume); r.Application != run.SignalApplied {
				w.t.Fatalf("%+v", r)
			}
			w.steps.Release("a") // a late completion still counts
			if st := w.waitForEnd(id); st.Status != run.Completed {
				w.t.Fatalf("%s", st.Status)
			}
		}},
		{name: "G15_CancelOnPause", test: func(w *world) {
			w.steps.Hold("s2")
			heavy := map[string]map[string]any{
				"s2": {"dispatch": map[string]any{"resourceClass": "heavy", "cancellable": true, "allowCancelOnPause": true}}}
			id := w.Start(l3(0, heavy))
			w.waitForStep(id, "s2", run.StepRunning)
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Pause}))
			w.waitForStep(id, "s2", run.StepFailed)
			w.steps.Release("s2")
			w.Signal(id, run.Signal{Type: run.Resume})
			w.waitForEnd(id)
			w.expect(id,
				`StepStarted(s1,1) StepCompleted(s1,1) StepStarted(s2,1) SignalAccepted RunPaused(1) StepFailed(s2,1) SignalAccepted
				RunResumed(1) StepStarted(s2,2) StepCompleted(s2,2) StepStarted(s3,1) StepCompleted(s3,1) RunCompleted`)
		}},
		{name: "W6_RetryInAPausedRun", policy: run.Policy{RetryWindowMS: 60_000}, test: func(w *world) {
			w.steps.Hold("s2").Do("s2", Try{Fails: "DB_CONNECTION_FAILED", NotRetryable: true})
			id := w.Start(l3(60, nil))
			w.waitForStep(id, "s2", run.StepRunning)
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Pause}))
			w.steps.Release("s2")
			w.waitForStep(id, "s2", run.StepFailed)
			retry := w.Signal(id, run.Signal{Type: run.RetryStep, StepID: "s2", Force: true})
			w.Signal(id, run.Signal{Type: run.Resume})
			w.waitForEnd(id)
			w.expect(id,
				`StepStarted(s1,1) StepCompleted(s1,1) StepStarted(s2,1) SignalAccepted RunPaused(1) StepFailed(s2,1) SignalAccepted
				SignalAccepted RunResumed(1) StepStarted(s2,2) StepCompleted(s2,2) StepStarted(s3,1) StepCompleted(s3,1) RunCompleted`)
			if r := w.waitUntilApplied(id, retry); r.AppliedSeq != 12 {
				w.t.Fatalf("%+v", r)
			}
		}},
		{name: "G22_SkipStep", test: func(w *world) {
			w.steps.Hold("s1")
			id := w.Start(l3(0, nil))
			w.waitForStep(id, "s1", run.StepRunning)
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.SkipStep, StepID: "s2"}))
			w.waitForStep(id, "s3", run.StepSuccess) // it depends only on the skipped step (contract T76)
			w.steps.Release("s1")
			w.waitForEnd(id)
			w.expect(id, "StepStarted(s1,1) SignalAccepted StepSkipped(s2,1) StepStarted(s3,1) StepCompleted(s3,1) "+
				"StepCompleted(s1,1) RunCompleted")
		}},
	}
}

func failureCases() []testCase {
	return []testCase{
		{name: "W19_ParallelFailure", test: func(w *world) {
			w.steps.Hold("b").Do("a", Try{Fails: "BROKEN"})
			id := w.Start(d4(0, nil))
			w.waitForStep(id, "a", run.StepFailed)
			w.waitForStep(id, "b", run.StepRunning)
			w.steps.Release("b")
			st := w.waitForEnd(id)
			got := w.log(id)
			if tail := strings.Join(
				got[len(got)-4:], " "); tail != "StepFailed(a,1) StepCompleted(b,1) StepSkipped(final,1) RunFailed" {
				w.t.Fatalf("log ends %s", tail)
			}
			if c := st.Failure.RootCause; c == nil || c.StepID != "a" || c.ErrorCode != "BROKEN" {
				w.t.Fatalf("root cause %+v", c)
			}
		}},
		{name: "G17_RetryWithinTheWindow", policy: run.Policy{RetryWindowMS: 60_000}, test: func(w *world) {
			w.steps.Do("s2", Try{Fails: "BROKEN"})
			id := w.Start(l3(60, nil))
			st := w.until(id, "awaiting an operator", func(s run.State) bool { return s.RetryDeadline != nil })
			if st.Substatus() != run.AwaitingOperator {
				w.t.Fatalf("substatus %s", st.Substatus())
			}
			w.Signal(id, run.Signal{Type: run.RetryStep, StepID: "s2"})
			w.waitForEnd(id)
			w.expect(id,
				`StepStarted(s1,1) StepCompleted(s1,1) StepStarted(s2,1) StepFailed(s2,1) SignalAccepted StepStarted(s2,2) StepCompleted(s2,2)
				StepStarted(s3,1) StepCompleted(s3,1) RunCompleted`)
		}},
		{name: "G18_WindowExpires", policy: run.Policy{RetryWindowMS: 1000}, test: func(w *world) {
			w.steps.Do("s2", Try{Fails: "BROKEN"})
			id := w.Start(l3(1, nil))
			w.until(id, "awaiting an operator", func(s run.State) bool { return s.RetryDeadline != nil })
			w.Pass(1100 * time.Millisecond)
			w.waitForEnd(id)
			w.expect(id, "StepStarted(s1,1) StepCompleted(s1,1) StepStarted(s2,1) StepFailed(s2,1) StepSkipped(s3,1) RunFailed")
		}},
		{name: "G20_TwoRetriesOfOneAttempt", policy: run.Policy{RetryWindowMS: 60_000}, test: func(w *world) {
			w.steps.Do("s1", Try{Fails: "BROKEN"})
			id := w.Start(Document(60, nil, "s1"))
			w.waitForStep(id, "s1", run.StepFailed)
			w.steps.Hold("s1")
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.RetryStep, StepID: "s1", ExpectedAttempt: 1}))
			second := w.Signal(id, run.Signal{Type: run.RetryStep, StepID: "s1", ExpectedAttempt: 1})
			if !second.Rejected {
				second = w.waitUntilApplied(id, second)
			}
			if second.Application == run.SignalApplied {
				w.t.Fatalf("%+v", second)
			}
			w.steps.Release("s1")
			if st := w.waitForEnd(id); len(st.Steps[0].Attempts) != 2 {
				w.t.Fatalf("attempts %+v", st.Steps[0].Attempts)
			}
		}},
	}
}

func stopCases() []testCase {
	return []testCase{
		{name: "G23_CancelStopsWhatRuns", test: func(w *world) {
			w.steps.Hold("s2")
			id := w.Start(l3(0, nil))
			w.waitForStep(id, "s2", run.StepRunning)
			r := w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Cancel}))
			st := w.waitForEnd(id)
			w.expect(id, "StepStarted(s1,1) StepCompleted(s1,1) StepStarted(s2,1) SignalAccepted StepFailed(s2,1) RunCancelled")
			if step, _ := st.Step("s2"); step.Attempts[0].Error.Code != string(run.CodeCancelled) || r.AppliedSeq != st.Seq {
				w.t.Fatalf("%+v, receipt %+v", step.Attempts[0], r)
			}
		}},
		{name: "G10_NothingAppliesAfterTheEnd", test: func(w *world) {
			id := w.Start(Document(0, nil, "s1"))
			w.waitForEnd(id)
			if r := w.Signal(id, run.Signal{Type: run.Pause}); !r.Rejected || r.Rejection != run.CodeRunTerminal {
				w.t.Fatalf("%+v", r)
			}
		}},
	}
}
