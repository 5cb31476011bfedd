package graph_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/run"
)

// histories is a fake graph.PlanReads.
type histories struct{ graph.UseCases }

func (histories) summary() reads.PlanSummary {
	h := failedRun().State.Header
	done := h
	done.RunID, done.Status, done.CompletedAt, done.RetryDeadline = "r0", run.Completed, after(time.Minute), nil
	half, slow := 30*time.Second, time.Minute
	return reads.PlanSummary{PlanKey: key(h), LastRunAt: instant, Runs: []run.Header{h, done}, Open: 1, Waiting: 1,
		Ended: 1, Succeeded: 1, Next: reads.NextRetry, NextRunID: h.RunID,
		Took: reads.PlanDurations{Median: &half, Slow: &slow, RecentMedian: &half}}
}

func key(h run.Header) reads.PlanKey {
	return reads.PlanKey{TenantID: h.TenantID, ProjectID: h.ProjectID, EnvironmentID: h.EnvironmentID, PlanID: h.PlanID}
}

func (f histories) Plans(context.Context, authz.Principal, reads.PlansQuery) (reads.PlansPage, error) {
	return reads.PlansPage{Plans: []reads.PlanSummary{f.summary()}, Cursors: []string{"c1"}, HasNext: true}, nil
}

func (f histories) Plan(_ context.Context, _ authz.Principal, k reads.PlanKey, runs int) (reads.PlanHistory, error) {
	if k.PlanID != "nightly" || runs != 20 {
		return reads.PlanHistory{}, errNotFound
	}
	took := time.Second
	s := f.summary()
	return reads.PlanHistory{PlanSummary: s, Used: 2, More: true,
		Versions: []reads.PlanVersion{{PlanVersion: "1.0", SHA256: "00", FirstUsedAt: instant, LastUsedAt: instant, Runs: 2,
			LastRunID: "r1"}},
		Starters: []reads.PlanStarter{{Principal: "eva", Runs: 2, LastRunAt: instant, LastRunID: "r1"}},
		Grid: reads.PlanGrid{Runs: s.Runs, LeftOut: 3, Steps: []reads.GridStep{{StepID: "build", Name: "Build",
			Cells: []*reads.GridCell{{Status: run.StepFailed, Duration: &took, Attempts: 1}, nil}}}},
	}, nil
}

func (histories) PlanStep(_ context.Context, _ authz.Principal, k reads.PlanKey, stepID string,
	_ int) (reads.StepHistory, error) {
	if stepID != "build" {
		return reads.StepHistory{}, errNotFound
	}
	attempts := failedRun().State.Steps
	past := reads.PastAttempt{RunID: "r1", PlanVersion: "1.0", Attempt: attempts[1].Attempts[0]}
	green := reads.PastAttempt{RunID: "r0", PlanVersion: "1.0", Attempt: attempts[0].Attempts[0]}
	took := 2 * time.Second
	return reads.StepHistory{PlanKey: k, StepID: stepID, Runs: 2, Ran: 2, Succeeded: 1, Flaky: 1,
		Attempts: []reads.PastAttempt{past, green}, Median: &took, Slow: &took, LastGreen: &green,
		Failures: []reads.FailureCount{{Code: "EXIT_STATUS", Count: 1, Last: past, Message: "exit status 1"}}}, nil
}

func (histories) CompareRuns(_ context.Context, _ authz.Principal, a, b string) (reads.RunComparison, error) {
	if b == "r9" {
		return reads.RunComparison{}, errNotFound
	}
	v := failedRun()
	steps := v.State.Steps
	return reads.RunComparison{A: v, B: v, WaitedB: 509 * time.Second,
		Params: []reads.PlanPart{{Path: "day", From: `"1"`, To: `"2"`}},
		Steps: []reads.StepComparison{
			{StepID: "build", A: steps[0], B: steps[1], Changes: []reads.StepChange{reads.StepStatusChanged}},
			{StepID: "new", B: steps[0], Changes: []reads.StepChange{reads.StepAdded}},
		}}, nil
}

func (histories) ComparePlans(_ context.Context, _ authz.Principal, a, _ run.Header) (*reads.PlanDiff, error) {
	return &reads.PlanDiff{Previous: reads.RunBefore{RunID: a.RunID, PlanVersion: a.PlanVersion, Status: a.Status,
		CreatedAt: a.CreatedAt}, Total: 2, Changed: 1}, nil
}

var _ graph.PlanReads = histories{}

func TestGolden_Plans(t *testing.T) {
	t.Parallel()
	a := serve(t, &fake{UseCases: histories{newAnsweringFake()}})
	const nightly, other = `(projectId: "shop", environmentId: "dev", planId: "nightly"`,
		`(projectId: "shop", environmentId: "dev", planId: "x"`
	for name, operation := range map[string]string{
		"plans": `{ plans(first: 1)` + selectAll(t, "PlanConnection") + `}`,
		"plan":  `{ plan` + nightly + `)` + selectAll(t, "PlanHistory") + ` none: plan` + other + `) { moreRuns } }`,
		"planStep": `{ planStep` + nightly + `, stepId: "build")` + selectAll(t, "PlanStepHistory") +
			` none: planStep` + nightly + `, stepId: "x") { ran } }`,
		"compareRuns": `{ compareRuns(a: "r1", b: "r2")` +
			selectAll(t, "RunComparison", "RunComparison.a", "RunComparison.b") +
			` runs: compareRuns(a: "r1", b: "r2") { a { runId status } b { plan { planId } } }
			none: compareRuns(a: "r1", b: "r9") { a { runId } } }`,
	} {
		got := a.do(http.MethodPost, "/graphql", request(operation, nil))
		golden(t, name, got.body)
	}
	if a.logs.Len() > 0 {
		t.Errorf("logged %s, want nothing", a.logs)
	}
	for _, bad := range []string{`{ plans(first: 0) { edges { cursor } } }`} {
		got := a.do(http.MethodPost, "/graphql", request(bad, nil))
		if want := "BAD_USER_INPUT"; !strings.Contains(got.body, want) {
			t.Errorf("%s: %s, want %s", bad, got.body, want)
		}
	}
}
