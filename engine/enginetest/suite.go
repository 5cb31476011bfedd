package enginetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// Run tests an engine. open makes a new Fixture for each test and releases it with t.Cleanup. Tests run in parallel, so
// several goroutines call open.
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

// testCase is one test of the suite. rotate is Options.RotateAfter.
type testCase struct {
	name   string
	policy run.Policy
	rotate int
	test   func(*world)
}

// The plans L3 (a line of three steps) and D4 (a diamond) of the contract, in the notation of Document.
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
		{name: "LinearPlanCompletesStepByStep", test: func(w *world) {
			id := w.Start(l3(0, nil))
			st := w.waitForEnd(id)
			w.expect(id, "StepStarted(s1,1) StepCompleted(s1,1) StepStarted(s2,1) StepCompleted(s2,1) StepStarted(s3,1) "+
				"StepCompleted(s3,1) RunCompleted")
			if st.Status != run.Completed || st.Counts.Success != 3 || st.Engine == nil || st.Engine.WorkflowID == "" {
				w.t.Fatalf("the run is %+v, want COMPLETED with three successes and the engine's reference", st.Header)
			}
		}},
		// Both branches of a diamond run at once, and the last step waits for both.
		// contract: C03
		{name: "JoinWaitsForBothBranches", test: func(w *world) {
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
				w.t.Fatalf("want the starts of a and b after init; log:\n%s", strings.Join(got, "\n"))
			}
			rest := "StepCompleted(b,1) StepCompleted(a,1) StepStarted(final,1) StepCompleted(final,1) RunCompleted"
			if strings.Join(got[6:], " ") != rest {
				w.t.Fatalf("got\n%s\nwant\n%s", strings.Join(got[6:], " "), rest)
			}
		}},
		// Ten independent steps all start before the first one ends.
		// contract: E-15
		{name: "ParallelStepsOverlap", test: func(w *world) {
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
		// The platform retries inside one logical attempt, so that the log has one start and one end.
		// contract: E-10
		{name: "PlatformRetriesStayInOneAttempt", test: func(w *world) {
			w.steps.Do("s1", Try{Fails: "FLAKY"}, Try{Fails: "FLAKY"})
			retry := map[string]map[string]any{"s1": {"retry": map[string]any{"maxAttempts": 3, "initialBackoffMs": 100}}}
			id := w.Start(Document(0, retry, "s1"))
			w.waitForStep(id, "s1", run.StepRunning)
			w.Pass(500 * time.Millisecond)
			st := w.waitForEnd(id)
			w.expect(id, "StepStarted(s1,1) StepCompleted(s1,1) RunCompleted")
			if a := st.Steps[0].Attempts[0]; a.EngineAttempt != 3 || fmt.Sprint(w.steps.Calls()) != "[s1/1.1 s1/1.2 s1/1.3]" {
				w.t.Fatalf("attempt %+v, executions %v; want three engine attempts of one logical attempt", a, w.steps.Calls())
			}
		}},
	}
}

func signalCases() []testCase {
	return []testCase{
		// Each pause and resume has its own epoch, so that the second pause is not a duplicate of the first.
		// contract: W-5
		{name: "SecondPauseGetsItsOwnEpoch", test: func(w *world) {
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
					w.t.Fatalf("receipts of pause %d: %+v %+v; want both applied in order", i+1, p, r)
				}
			}
			w.waitForStep(id, "s3", run.StepRunning)
			w.steps.Release("s3")
			w.waitForEnd(id)
			w.expect(id, `StepStarted(s1,1) SignalAccepted RunPaused(1) StepCompleted(s1,1) SignalAccepted RunResumed(1)
				StepStarted(s2,1) SignalAccepted RunPaused(2) StepCompleted(s2,1) SignalAccepted RunResumed(2)
				StepStarted(s3,1) StepCompleted(s3,1) RunCompleted`)
		}},
		// A signal that is sent twice is accepted once, and a pause of a paused run is a no-op.
		// contract: G04, G07
		{name: "RepeatedPauseHasNoEffect", test: func(w *world) {
			w.steps.Hold("s1")
			id := w.Start(l3(0, nil))
			w.waitForStep(id, "s1", run.StepRunning)
			sig := run.Signal{ID: "u1", Type: run.Pause}
			w.waitUntilApplied(id, w.Signal(id, sig))
			w.Signal(id, sig)
			second := w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Pause}))
			if second.Application != run.SignalNoop || second.ApplicationReason != string(run.CodeAlreadyInState) {
				w.t.Fatalf("receipt of the second pause %+v, want a NOOP because the run is paused", second)
			}
			w.steps.Release("s1")
			w.waitForStep(id, "s1", run.StepSuccess)
			w.expect(id, "StepStarted(s1,1) SignalAccepted RunPaused(1) SignalAccepted StepCompleted(s1,1)")
		}},
		// A run that has nothing left to do still waits for its RESUME.
		// contract: G13
		{name: "RunStaysPausedWhenItsLastStepEnds", test: func(w *world) {
			w.steps.Hold("s1")
			id := w.Start(Document(0, nil, "s1"))
			w.waitForStep(id, "s1", run.StepRunning)
			w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Pause}))
			w.steps.Release("s1")
			w.waitForStep(id, "s1", run.StepSuccess)
			if st := w.State(id); st.Status != run.Paused {
				w.t.Fatalf("the run is %s after its last step, want PAUSED", st.Status)
			}
			w.Signal(id, run.Signal{Type: run.Resume})
			w.waitForEnd(id)
			w.expect(id, "StepStarted(s1,1) SignalAccepted RunPaused(1) StepCompleted(s1,1) SignalAccepted RunResumed(1) "+
				"RunCompleted")
		}},
		// A RESUME takes effect when the steps in flight have ended or the drain timeout has passed.
		// contract: G12
		{name: "ResumeWaitsForTheDrain", policy: run.Policy{DrainTimeoutMS: 1000}, test: func(w *world) {
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
				w.t.Fatalf("the run resumed before it drained: %s", strings.Join(w.log(id), " "))
			}
			w.Pass(600 * time.Millisecond)
			if r := w.waitUntilApplied(id, resume); r.Application != run.SignalApplied {
				w.t.Fatalf("receipt of the resume %+v, want APPLIED after the drain timeout", r)
			}
			w.steps.Release("a") // a late completion still counts
			if st := w.waitForEnd(id); st.Status != run.Completed {
				w.t.Fatalf("the run ended %s, want COMPLETED", st.Status)
			}
		}},
		// A step with allowCancelOnPause fails at the pause and gets a new attempt after the resume.
		// contract: G15
		{name: "PauseCancelsAStepThatAllowsIt", test: func(w *world) {
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
		// A RETRY_STEP is accepted while the run is paused; its attempt starts after the resume.
		// contract: W-6
		{name: "RetryInAPausedRunWaitsForResume", policy: run.Policy{RetryWindowMS: 60_000}, test: func(w *world) {
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
				w.t.Fatalf("receipt of the retry %+v, want it applied by event 12, StepStarted(s2,2)", r)
			}
		}},
		// The successors of a skipped step start.
		// contract: G22
		{name: "SkippedStepReleasesItsSuccessors", test: func(w *world) {
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
		// After a failure, running steps end and no further step starts.
		// contract: W-19
		{name: "RunningStepEndsAfterAFailure", test: func(w *world) {
			w.steps.Hold("a", "b").Do("a", Try{Fails: "BROKEN"})
			id := w.Start(d4(0, nil))
			w.waitForStep(id, "b", run.StepRunning)
			w.steps.Release("a")
			w.waitForStep(id, "a", run.StepFailed)
			w.steps.Release("b")
			st := w.waitForEnd(id)
			got := w.log(id)
			if tail := strings.Join(
				got[len(got)-4:], " "); tail != "StepFailed(a,1) StepCompleted(b,1) StepSkipped(final,1) RunFailed" {
				w.t.Fatalf("the log ends %s, want the end of b, the skip of final and RunFailed", tail)
			}
			if c := st.Failure.RootCause; c == nil || c.StepID != "a" || c.ErrorCode != "BROKEN" {
				w.t.Fatalf("root cause %+v, want BROKEN of step a", c)
			}
		}},
		// A RETRY_STEP before the retry deadline continues the run.
		// contract: G17
		{name: "RetryWithinTheWindowSavesTheRun", policy: run.Policy{RetryWindowMS: 60_000}, test: func(w *world) {
			w.steps.Do("s2", Try{Fails: "BROKEN"})
			id := w.Start(l3(60, nil))
			st := w.until(id, "awaiting an operator", func(s run.State) bool { return s.RetryDeadline != nil })
			if st.Substatus() != run.AwaitingOperator {
				w.t.Fatalf("substatus %s, want %s", st.Substatus(), run.AwaitingOperator)
			}
			w.Signal(id, run.Signal{Type: run.RetryStep, StepID: "s2"})
			w.waitForEnd(id)
			w.expect(id,
				`StepStarted(s1,1) StepCompleted(s1,1) StepStarted(s2,1) StepFailed(s2,1) SignalAccepted StepStarted(s2,2) StepCompleted(s2,2)
				StepStarted(s3,1) StepCompleted(s3,1) RunCompleted`)
		}},
		// Without a RETRY_STEP the run fails at the retry deadline.
		// contract: G18
		{name: "RunFailsWhenTheRetryWindowExpires", policy: run.Policy{RetryWindowMS: 1000}, test: func(w *world) {
			w.steps.Do("s2", Try{Fails: "BROKEN"})
			id := w.Start(l3(1, nil))
			w.until(id, "awaiting an operator", func(s run.State) bool { return s.RetryDeadline != nil })
			w.Pass(1100 * time.Millisecond)
			w.waitForEnd(id)
			w.expect(id, "StepStarted(s1,1) StepCompleted(s1,1) StepStarted(s2,1) StepFailed(s2,1) StepSkipped(s3,1) RunFailed")
		}},
		// Two RETRY_STEP signals for one attempt cause one new attempt.
		// contract: G20
		{name: "SecondRetryOfAnAttemptHasNoEffect", policy: run.Policy{RetryWindowMS: 60_000}, test: func(w *world) {
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
				w.t.Fatalf("the second retry of attempt 1 was applied: %+v", second)
			}
			w.steps.Release("s1")
			if st := w.waitForEnd(id); len(st.Steps[0].Attempts) != 2 {
				w.t.Fatalf("attempts %+v, want two", st.Steps[0].Attempts)
			}
		}},
	}
}

func stopCases() []testCase {
	return []testCase{
		// A CANCEL stops running steps before the run ends.
		// contract: G23
		{name: "CancelStopsRunningSteps", test: func(w *world) {
			w.steps.Hold("s2")
			id := w.Start(l3(0, nil))
			w.waitForStep(id, "s2", run.StepRunning)
			r := w.waitUntilApplied(id, w.Signal(id, run.Signal{Type: run.Cancel}))
			st := w.waitForEnd(id)
			w.expect(id, "StepStarted(s1,1) StepCompleted(s1,1) StepStarted(s2,1) SignalAccepted StepFailed(s2,1) RunCancelled")
			if step, _ := st.Step("s2"); step.Attempts[0].Error.Code != string(run.CodeCancelled) || r.AppliedSeq != st.Seq {
				w.t.Fatalf("attempt %+v, receipt %+v; want CANCELLED, applied by the last event", step.Attempts[0], r)
			}
		}},
		// A run that has ended rejects signals.
		// contract: G10
		{name: "SignalAfterTheEndIsRejected", test: func(w *world) {
			id := w.Start(Document(0, nil, "s1"))
			w.waitForEnd(id)
			if r := w.Signal(id, run.Signal{Type: run.Pause}); !r.Rejected || r.Rejection != run.CodeRunTerminal {
				w.t.Fatalf("receipt %+v, want it rejected with %s", r, run.CodeRunTerminal)
			}
		}},
	}
}
