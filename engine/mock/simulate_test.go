package mock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine/mock"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

var (
	queues = plan.Queues{Control: "tq-control", Data: "tq-data", Known: []string{"tq-control", "tq-data"}}
	calm   = run.Policy{RetryWindowMS: 600_000, DrainTimeoutMS: 300_000, MaxParallelSteps: 100,
		MaxLogicalAttemptsManual: 10}
)

// document returns a plan of COMMAND steps "id<dep,dep" with one attempt each. A string that begins with { is the
// JSON of a step.
func document(steps ...string) []byte {
	var list []string
	for _, s := range steps {
		if strings.HasPrefix(s, "{") {
			list = append(list, s)
			continue
		}
		id, deps, _ := strings.Cut(s, "<")
		quoted := []string{}
		for d := range strings.SplitSeq(deps, ",") {
			if d != "" {
				quoted = append(quoted, fmt.Sprintf("%q", d))
			}
		}
		list = append(list, fmt.Sprintf(
			`{"stepId": %q, "type": "COMMAND", "inputs": {"argv": ["true"]}, "timeout": "1m", "dependsOn": [%s], "retry": {"maxAttempts": 1}}`,
			id, strings.Join(quoted, ","),
		))
	}
	return []byte(fmt.Sprintf(`{"schemaVersion": "v1.2", "metadata": {"planId": "plan-3", "planVersion": "1.0", "createdAt": "2026-01-01T00:00:00Z",
		"createdBy": "test", "schemaVersion": "v1.2"}, "scope": {"tenantId": "acme", "projectId": "shop", "environmentId": "dev",
		"repoSha": "%040d"}, "steps": [%s]}`, 0, strings.Join(list, ",")))
}

func simulate(t *testing.T, doc []byte, policy run.Policy, script string) (mock.Simulation, error) {
	t.Helper()
	pl, err := plan.Parse(doc, queues)
	if err != nil {
		t.Fatal(err)
	}
	s, err := mock.ParseScript([]byte(script))
	if err != nil {
		t.Fatal(err)
	}
	return mock.Simulate(doc, pl, queues, policy, s)
}

func words(s mock.Simulation) (out []string) {
	for _, e := range s.Events {
		out = append(out, e.Notation())
	}
	return out
}

func expect(t *testing.T, s mock.Simulation, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, words(s)); d != "" {
		t.Fatalf("log, -want +got:\n%s", d)
	}
}

// contract: A01
func TestSimulate_LinearPlanCompletes(t *testing.T) {
	t.Parallel()
	s, err := simulate(t, document("s1", "s2<s1", "s3<s2"), calm, `{"steps": {"s2": [{"takes": "30s"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, s, "RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)",
		"StepCompleted(s2,1)",
		"StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")
	if s.Took != 30*time.Second || s.State.Status != run.Completed {
		t.Fatalf("the run is %s after %v, want COMPLETED after 30s", s.State.Status, s.Took)
	}
}

// A retry in a paused run is accepted at once, and its attempt starts after the resume.
// contract: W-6
func TestSimulate_RetryInAPausedRunWaitsForResume(t *testing.T) {
	t.Parallel()
	s, err := simulate(t, document("s1", "s2<s1", "s3<s2"), calm, `{
		"steps": {"s2": [{"takes": "2s", "fails": "DB_CONNECTION_FAILED", "retryable": false}]},
		"signals": [
			{"at": "1s", "signal": "PAUSE"},
			{"after": "StepFailed(s2,1)", "at": "5s", "signal": "RETRY_STEP", "step": "s2", "force": true},
			{"after": "StepFailed(s2,1)", "at": "10m", "signal": "RESUME"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, s, "RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)",
		"SignalAccepted", "RunPaused(1)",
		"StepFailed(s2,1)", "SignalAccepted", "SignalAccepted", "RunResumed(1)", "StepStarted(s2,2)", "StepCompleted(s2,2)",
		"StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")
	for i, r := range s.Receipts {
		if r.Application != run.SignalApplied {
			t.Errorf("receipt %d is %s, want APPLIED", i, r.Application)
		}
	}
}

// Platform retries take their backoff, in virtual time.
// contract: E-10
func TestSimulate_RetriesTakeTheirBackoff(t *testing.T) {
	t.Parallel()
	step := `{"stepId": "s1", "type": "COMMAND", "inputs": {"argv": ["true"]}, "timeout": "10s", "retry": {"maxAttempts": 10}}`
	var tries []string
	for range 9 {
		tries = append(tries, `{"fails": "FLAKY"}`)
	}
	s, err := simulate(t, document(step), calm, fmt.Sprintf(`{"steps": {"s1": [%s]}}`, strings.Join(tries, ",")))
	if err != nil {
		t.Fatal(err)
	}
	if want := (1 + 2 + 4 + 8 + 16 + 30*4) * time.Second; s.Took != want ||
		s.State.Steps[0].Attempts[0].EngineAttempt != 10 {
		t.Fatalf("took %v, want %v with ten engine attempts; step %+v", s.Took, want, s.State.Steps[0])
	}
}

// contract: E-11
func TestSimulate_AttemptEndsAtItsTimeout(t *testing.T) {
	t.Parallel()
	policy := calm
	policy.RetryWindowMS = 0
	s, err := simulate(t, document("s1"), policy, `{"steps": {"s1": [{"takes": "2m"}]}, "expect": "FAILED"}`)
	if err != nil {
		t.Fatal(err)
	}
	if f := s.State.Failure; s.State.Status != run.Failed || f.Code != "TIMEOUT" || s.Took != time.Minute {
		t.Fatalf("the run is %s with failure %+v after %v, want FAILED with TIMEOUT after 1m", s.State.Status, f, s.Took)
	}
}

// contract: G18
func TestSimulate_RunFailsWhenTheRetryWindowExpires(t *testing.T) {
	t.Parallel()
	s, err := simulate(t, document("s1", "s2<s1"), calm, `{"steps": {"s1": [{"takes": "1s", "fails": "X"}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, s, "RunApproved", "RunStarted", "StepStarted(s1,1)", "StepFailed(s1,1)", "StepSkipped(s2,1)", "RunFailed")
	if s.Took != 10*time.Minute+time.Second {
		t.Fatalf("took %v, want the step's second and the window of 10m", s.Took)
	}
}

// A simulation ends when the run waits for a signal that the script does not send.
func TestSimulate_ReportsARunThatWaitsForever(t *testing.T) {
	t.Parallel()
	s, err := simulate(t, document("s1", "s2<s1"), calm,
		`{"steps": {"s1": [{"takes": "5s"}]}, "signals": [{"at": "1s", "signal": "PAUSE"}]}`)
	if !errors.Is(err, mock.ErrStuck) || s.State.Status != run.Paused {
		t.Fatalf("got error %v of a run that is %s, want ErrStuck of a PAUSED run", err, s.State.Status)
	}
}

func TestScript_ReportsAllMistakesAtOnce(t *testing.T) {
	t.Parallel()
	_, err := simulate(t, document("s1"), calm, `{"steps": {"nope": []}, "compensations": {"no/2": []},
		"signals": [{"signal": "SHOUT"}, {"signal": "RETRY_STEP", "step": "s9"}], "expect": "RUNNING"}`)
	want := "the script does not fit the plan:\n  compensations.no/2: the plan has no such step\n  steps.nope: the " +
		"plan has no such step\n" +
		"  signals[0].signal: \"SHOUT\" is not one of [PAUSE RESUME RETRY_STEP SKIP_STEP CANCEL EMERGENCY_STOP " +
		"COMPLETE_MANUAL_STEP]\n" +
		"  signals[1].step: the plan has no step \"s9\"\n  expect: a run does not end as \"RUNNING\""
	if d := cmp.Diff(want, fmt.Sprint(err)); d != "" {
		t.Fatalf("error (-want +got):\n%s", d)
	}
	for doc, want := range map[string]string{
		`{"stepz": {}}`:                          `unknown field "stepz"`,
		`{"steps": {"s1": [{"takes": "soon"}]}}`: `"soon" is not a duration, such as "90s"`,
		`{"steps": {"s1": [{"takes": 5}]}}`:      `5 is not a duration, such as "90s"`,
	} {
		if _, err := mock.ParseScript([]byte(doc)); !errors.Is(err, mock.ErrScript) || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseScript(%s) returned %v, want ErrScript with %q", doc, err, want)
		}
	}
}

// Steps that start and end at the same virtual time have the same order in every simulation.
func TestSimulate_IsDeterministic(t *testing.T) {
	t.Parallel()
	const script = `{"steps": {"a": [{"takes": "3s", "fails": "X"}], "b": [{"takes": "3s"}], "c": [{"takes": "3s"}]},
		"signals": [{"after": "StepFailed(a,1)", "at": "3s", "signal": "RETRY_STEP", "step": "a"}]}`
	doc := document("{\"stepId\": \"z\", \"type\": \"NOOP\", \"inputs\": {}, \"timeout\": \"1m\"}", "a", "b", "c",
		"final<a,b,c")
	first, err := simulate(t, doc, calm, script)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		next, err := simulate(t, doc, calm, script)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(first.Events, next.Events); d != "" {
			t.Fatalf("a repeated simulation has another log (-first +next):\n%s", d)
		}
	}
}

// The largest permitted plan is simulated fast enough for an author who waits for the result.
func TestSimulate_RunsThePlanWithMostSteps(t *testing.T) {
	t.Parallel()
	steps := []string{"s0000"}
	for i := 1; i < plan.MaxSteps; i++ {
		steps = append(steps, fmt.Sprintf("s%04d<s%04d", i, i-1))
	}
	s, err := simulate(t, document(steps...), calm, `{}`)
	if err != nil || s.State.Counts.Success != plan.MaxSteps {
		t.Fatalf("got error %v and counts %+v, want %d successes", err, s.State.Counts, plan.MaxSteps)
	}
}

// Eight dispatches with at most three per execution need three executions.
// contract: E-04
func TestEngine_RotatesAfterItsDispatches(t *testing.T) {
	t.Parallel()
	var steps []string
	for i := range 8 {
		steps = append(steps, fmt.Sprintf("s%d", i))
	}
	doc := document(steps...)
	pl, err := plan.Parse(doc, queues)
	if err != nil {
		t.Fatal(err)
	}
	log, err := mock.NewLog(pl, doc, queues, calm, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	e := mock.New(mock.Config{Journal: log, RotateAfter: 3})
	if _, err := e.Start(t.Context(), log.Identity(), queues); err != nil {
		t.Fatal(err)
	}
	for e.Next() {
	}
	if log.State().Status != run.Completed || e.Generations(log.Identity().RunID) != 3 {
		t.Fatalf("the run is %s after %d generations, want COMPLETED after 3", log.State().Status,
			e.Generations(log.Identity().RunID))
	}
}

// The wait of a retried manual step opens the retry window while another step is FAILED. Its event carries the retry
// deadline, like every event that opens the window.
// contract: T221
func TestSimulate_AWaitOpensTheRetryWindow(t *testing.T) {
	t.Parallel()
	ok := `{"stepId": "ok", "type": "MANUAL", "inputs": {"instructions": "look"}, "timeout": "1m", "dependsOn": []}`
	s, err := simulate(
		t, document("a", ok), calm, `{"expect": "FAILED", "steps": {"a": [{"takes": "1s", "fails": "X"}]}, "signals": [
		{"after": "StepFailed(a,1)", "signal": "COMPLETE_MANUAL_STEP", "step": "ok", "outcome": "FAILED"},
		{"after": "StepFailed(ok,1)", "at": "2m", "signal": "RETRY_STEP", "step": "ok"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.Events {
		if e.Notation() != "StepAwaitingManualCompletion(ok,2)" {
			continue
		}
		p, err := run.PayloadOf[run.AwaitingPayload](e.Payload)
		if err != nil || p.RetryDeadline == nil || p.RetryDeadline.Sub(e.PersistedAt) != 10*time.Minute {
			t.Fatalf("payload %s, error %v; want a retry deadline 10m after the event", e.Payload, err)
		}
		if s.Took != 12*time.Minute+time.Second {
			t.Fatalf("the run failed after %v, want 12m1s", s.Took)
		}
		return
	}
	t.Fatalf("the log has no wait of the second attempt: %v", words(s))
}
