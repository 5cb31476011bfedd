package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/doctor"
	"github.com/dvt-engine/dvt/run/forecast"
)

func (f *fake) Scopes(context.Context, authz.Principal, int) ([]access.Scope, error) {
	return []access.Scope{{ProjectID: "shop", EnvironmentID: "dev"}}, nil
}

func (f *fake) InboxCount(context.Context, authz.Principal) (int, error) { return 3, nil }

func (f *fake) CountOpenAlerts(context.Context, authz.Principal) (int, error) { return 5, nil }

func (f *fake) AttentionCount(context.Context, authz.Principal) (int, error) { return 4, nil }

func (f *fake) Attention(context.Context, authz.Principal, int, string) (watch.AttentionPage, error) {
	at := time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	return watch.AttentionPage{Items: []watch.AttentionItem{
		{Kind: watch.FailedWaiting, RunID: "r1", StepID: "s1", LogicalAttempt: 2, ProjectID: "shop",
			EnvironmentID: "prod",
			PlanID:        "nightly", PlanVersion: "1.0", Since: at, Deadline: new(at.Add(time.Minute)), Code: "EXIT_STATUS",
			Message: "it ended with 1", HeldSteps: 150, BlockedSteps: 9, FailedSteps: 1,
			Actions: []authz.Action{authz.RetryStep}},
		{Kind: watch.NeedsApproval, RunID: "r2", ProjectID: "shop", EnvironmentID: "prod", PlanID: "nightly",
			PlanVersion: "1.0", Since: at, Approvals: 1, Required: 2, WhoCould: []string{"ana", "ben"}, Stuck: true},
	}, Cursors: []string{"a", "b"}, Count: 2, HasNext: true, AsOf: at}, nil
}

func TestGolden_Attention(t *testing.T) {
	t.Parallel()
	golden(t, "attention", serve(t, newAnsweringFake()).query(`{ attention(first: 2, after: "YQ") { count asOf
		edges { cursor node { kind runId projectId environmentId planId planVersion stepId logicalAttemptId since deadline
			expectedBy code message heldSteps blockedSteps failedSteps approvals approvalsRequired actions whoCould stuck } }
		pageInfo { hasNextPage hasPreviousPage endCursor } } }`, nil))
}

func (f *fake) WatchInbox(context.Context, authz.Principal) (graph.Stream[watch.InboxFrame], error) {
	approval := watch.InboxItem{RunID: "r2", ProjectID: "shop", EnvironmentID: "prod", Since: instant, Yours: true}
	task := watch.InboxItem{RunID: "r1", StepID: "look", LogicalAttempt: 2, ProjectID: "shop", EnvironmentID: "dev",
		Since: instant}
	return stream(&control.Error{Code: run.CodeForbidden, Message: "No longer."},
		watch.InboxFrame{Sync: live.Stale, Reason: live.StoreDown, Reset: true},
		watch.InboxFrame{Sync: live.Live, AsOf: instant, Reset: true, Count: new(0)},
		watch.InboxFrame{Sync: live.Live, AsOf: instant, Count: new(1), Changed: []watch.InboxItem{approval},
			Removed: []watch.InboxItem{task}},
	)
}

func (f *fake) DBTNodes(_ context.Context, _ authz.Principal, in reads.DBTNodesQuery) (reads.DBTNodesPage, bool,
	error) {
	if in.RunID != "r1" || in.StepID != "build" || in.Attempt != 1 {
		return reads.DBTNodesPage{}, false, nil
	}
	failed := reads.DBTNode{
		UniqueID: "test.shop.not_null_stg_orders_order_id.81cfe2fe64", Status: "fail", Message: "Got 3 results",
		Failures:    new(int64(3)),
		CompiledSQL: "select 1", SQLCut: true, ExecutionTime: 1500 * time.Millisecond,
	}
	model := reads.DBTNode{UniqueID: "model.shop.orders", Status: "success", RowsAffected: new(int64(120))}
	return reads.DBTNodesPage{
		Attempt: 1, Nodes: []reads.DBTNode{failed, model}, Cursors: []string{"1", "4"}, Total: 3, HasNext: true,
		ByStatus: map[string]int{"success": 1, "fail": 1, "skipped": 2},
	}, true, nil
}

func (f *fake) StepEvidence(_ context.Context, _ authz.Principal, runID, stepID string, attempt int) (
	reads.StepEvidence, error) {
	if runID != "r1" || stepID != "build" || attempt > 1 {
		return reads.StepEvidence{}, control.Refuse(run.CodeNotFound, "There is no such attempt.")
	}
	failed := engine.TryRecord{Worker: "host/7", StartedAt: instant, EndedAt: instant.Add(time.Second),
		LastHeartbeatAt: instant, Outcome: engine.TryFailed, ErrorCode: "EXIT_STATUS", ErrorClass: "transport",
		ExitStatus: new(3), LogLines: 2, LogBytes: 40, Stack: "goroutine 7"}
	return reads.StepEvidence{
		Attempt: 1, Engine: "temporal",
		Tries: []reads.StepTry{
			{EngineAttempt: 1, Outcome: "FAILED", Recorded: true, StoredTry: engine.StoredTry{Account: "data-1",
				TryRecord: failed}},
			{EngineAttempt: 2, Outcome: reads.TryLost}, {EngineAttempt: 3, Outcome: "SOMETHING_NEW"},
		},
		Compensation: &reads.StepCompensation{At: instant, CompensationPayload: run.CompensationPayload{
			StepID: "build", IdempotencyKey: "r1:build:compensate", Attempts: 2, ErrorCode: "HTTP_STATUS",
			ErrorMessage: "503"}},
	}, nil
}

func (f *fake) LastGreen(_ context.Context, _ authz.Principal, h run.Header) (*reads.RunBefore, error) {
	if h.RunID != "r1" || h.PlanID != "nightly" || h.ProjectID != "shop" || h.EnvironmentID != "dev" ||
		h.CreatedAt.IsZero() {
		return nil, nil //nolint:nilnil // there is none
	}
	return &reads.RunBefore{RunID: "r0", PlanVersion: "0.9", Status: run.Completed, CreatedAt: instant,
		CompletedAt: after(time.Minute)}, nil
}

func (f *fake) Diagnose(_ context.Context, _ authz.Principal, runID string) ([]doctor.Cause, error) {
	if runID != "r1" {
		return nil, nil
	}
	return []doctor.Cause{{
		Code: "DBT_FAILED", Kind: doctor.Fault, Confidence: doctor.Certain, Title: "dbt ended with status 1.",
		Steps: []string{"load"}, More: 2, Since: &instant, Until: after(time.Hour),
		Evidence: []doctor.Evidence{
			{Source: doctor.FromLog, Text: "DBT_FAILED: Got 3 results", Seq: 9, StepID: "load", Attempt: 1},
			{Source: doctor.FromOutput, Text: "Got 3 results", StepID: "load", Attempt: 1, Line: 17},
			{Source: doctor.FromWorkers, Text: "tq-data: 3 tasks wait.", Metric: "engine_queue_backlog"},
			{Source: doctor.FromQueue, Text: "The start is due."},
			{Source: doctor.FromHealth, Text: "The engine does not answer."},
			{Source: doctor.FromEngine, Text: "The last heartbeat was 2m0s ago.", StepID: "load", Attempt: 1},
			{Source: doctor.FromHistory, Text: "Run r0 completed with version 0.9.", RunID: "r0"},
		},
		Next: []doctor.Next{{Text: "Fix the nodes."}, {Text: "Retry the step.", Signal: run.RetryStep,
			StepID: "load", Safe: true}, {Text: "Retry the step by force.", Signal: run.RetryStep, StepID: "drop", Force: true}},
	}}, nil
}

// Forecast has one for the run r1 alone.
func (f *fake) Forecast(_ context.Context, _ authz.Principal, runID string) (forecast.Forecast, error) {
	if runID != "r1" {
		return forecast.Forecast{Gap: forecast.TooFewRuns, Runs: 3}, nil
	}
	at := time.Date(2026, 3, 1, 5, 47, 0, 0, time.UTC)
	return forecast.Forecast{Earliest: at, Expected: at.Add(5 * time.Minute), Latest: at.Add(14 * time.Minute), Runs: 12,
		Basis: forecast.PlanRuns}, nil
}

func (f *fake) StepMedians(_ context.Context, _ authz.Principal, h run.Header) (map[string]time.Duration, error) {
	f.medians.Add(1)
	return map[string]time.Duration{"build": 1500 * time.Millisecond}, nil
}

func (f *fake) PlanDocument(_ context.Context, _ authz.Principal, runID string) (json.RawMessage, error) {
	if runID != "r1" {
		return nil, nil
	}
	return json.RawMessage(`{"schemaVersion":"v1.2","steps":[{"stepId":"build","inputs":{"env":{"TOKEN":"***"}}}]}`), nil
}

func (f *fake) PlanDiff(_ context.Context, _ authz.Principal, h run.Header) (*reads.PlanDiff, error) {
	if h.RunID != "r1" || h.PlanID != "nightly" || h.ProjectID != "shop" || h.EnvironmentID != "dev" ||
		h.CreatedAt.IsZero() {
		return nil, nil //nolint:nilnil // there is none
	}
	return &reads.PlanDiff{
		Previous: reads.RunBefore{RunID: "r0", PlanVersion: "0.9", Status: run.Failed, CreatedAt: instant}, Total: 3,
		Added: 1, Changed: 1,
		Parts: []reads.PlanPart{{Path: "metadata.planVersion", From: `"0.9"`, To: `"1.0"`}},
		Steps: []reads.PlanStepDiff{
			{StepID: "build", Change: reads.PlanStepChanged, Parts: []reads.PlanPart{{Path: "inputs.threads",
				To: "4"}}},
			{StepID: "test", Change: reads.PlanStepAdded},
		},
	}, nil
}

func (f *fake) StepInputs(_ context.Context, _ authz.Principal, runID, stepID string,
	upTo run.Seq) (*runs.StepInputs, error) {
	if runID != "r1" || stepID != "build" {
		return nil, nil //nolint:nilnil // there is none
	}
	return &runs.StepInputs{
		Inputs: json.RawMessage(`{"projectDir":"shop"}`), Params: json.RawMessage(fmt.Sprintf(`{"upTo":%d}`, upTo)),
		Secrets: []plan.SecretRef{{Provider: "vault", Key: "db/password"}},
		Changes: []runs.SignalReceipt{
			{SignalReceipt: run.SignalReceipt{RunID: "r1", Signal: run.Signal{ID: "s1", Type: run.UpdateParams},
				Actor:       "ana",
				AcceptedSeq: 2, ReceivedAt: instant}}},
	}, nil
}

// A run has a forecast, or the reason why it has none.
func TestForecast_IsABandOrAGap(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
	const fields = `{ forecast { low high expectedEnd confidence runs basis } forecastGap { reason runs needed } } }`
	got := a.query(`{ run(runId: "r1") `+fields, nil)
	const want = `"forecast":{"low":"2026-03-01T05:47:00.000Z","high":"2026-03-01T06:01:00.000Z",` +
		`"expectedEnd":"2026-03-01T05:52:00.000Z","confidence":0.8,"runs":12,"basis":"PLAN_RUNS"},"forecastGap":null`
	if !strings.Contains(got, want) {
		t.Errorf("answered %s, want %s", got, want)
	}
}

// The inputs of a step are those at the start of the attempt. A list of steps rejects them.
func TestStepInputs_AreThoseOfTheAttempt(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
	const begun = `"params":{"upTo":6}`
	if got := a.query(`{ run(runId: "r1") { step(stepId: "build") { inputs { inputs params secrets { provider key version } changes { signalId type acceptedSeq } } } } }`, nil); !strings.Contains(got, begun) ||
		!strings.Contains(
			got,
			`"secrets":[{"provider":"vault","key":"db/password","version":null}],"changes":[{"signalId":"s1","type":"UPDATE_PARAMS","acceptedSeq":2}]`) {
		t.Errorf("the latest attempt answered %s, want its inputs with secrets and changes", got)
	}
	if got := a.query(`{ run(runId: "r1") { step(stepId: "build") { inputs(attempt: 1) { params } } } }`,
		nil); !strings.Contains(got, begun) {
		t.Errorf("attempt 1 answered %s, want %s in it", got, begun)
	}
	if got := a.query(`{ run(runId: "r1") { step(stepId: "build") { inputs(attempt: 7) { params } } } }`,
		nil); !strings.Contains(got, "BAD_USER_INPUT") {
		t.Errorf("an attempt that does not exist answered %s, want BAD_USER_INPUT", got)
	}
	if got := a.query(`{ run(runId: "r1") { steps { inputs { params } } } }`, nil); !strings.Contains(got, "errors") {
		t.Errorf("the inputs of all steps answered %s, want errors", got)
	}
}

// The medians of all steps of a run cost one read of its earlier runs.
func TestStepMedian_AllStepsOfARunCostOneRead(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	a := serve(t, f)
	got := a.query(`{ run(runId: "r1") { steps { stepId medianMs } step(stepId: "build") { medianMs } } }`, nil)
	if n := f.medians.Load(); n != 1 || !strings.Contains(got, `{"stepId":"build","medianMs":1500}`) ||
		!strings.Contains(got, `{"stepId":"test","medianMs":null}`) {
		t.Errorf("answered %s with %d reads, want the medians with 1 read", got, n)
	}
	a.query(`{ run(runId: "r1") { steps { stepId } } }`, nil)
	if n := f.medians.Load(); n != 1 {
		t.Errorf("%d reads after a query without medianMs, want still 1", n)
	}
}

func (f *fake) RunHistogram(_ context.Context, _ authz.Principal, in reads.RunHistogram) ([]reads.RunCount, error) {
	if len(in.Filter.ProjectIDs) != 1 || in.Filter.ProjectIDs[0] != "shop" {
		return nil, errNotFound
	}
	out := make([]reads.RunCount, in.Buckets)
	out[1] = reads.RunCount{Total: 3, Failed: 1}
	return out, nil
}

func TestGolden_RunHistogram(t *testing.T) {
	t.Parallel()
	golden(t, "runHistogram", serve(t, newAnsweringFake()).query(
		`{ runHistogram(filter: {projectId: "shop"}, from: "2026-11-21T00:00:00Z", to: "2026-11-21T03:00:00Z", buckets: 3)`+
			selectAll(t, "RunBucket")+`}`, nil))
}

func TestGolden_DBTNodes(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	view := failedRun()
	build := *view.State.Steps[1]
	build.Type = "DBT_RUN"
	view.State.Steps[1] = &build
	f.run = func(authz.Principal, string, *run.Seq) (control.RunView, error) { return view, nil }
	a := serve(t, f)
	golden(t, "dbtNodes", a.query(
		`{ run(runId: "r1") { step(stepId: "build") { dbtNodes(status: ["fail", "success"], first: 2)`+
			selectAll(t, "DbtNodeConnection")+` }
		again: step(stepId: "build") { dbtNodes(attempt: 2) { total } } other: step(stepId: "compile") { dbtNodes { total } } } }`, nil))
	for _, query := range []string{
		`{ run(runId: "r1") { steps { dbtNodes { total } } } }`,
		`{ runs { edges { node { steps { dbtNodes { total } } } } } }`,
		`{ runDiff(runId: "r1", a: 1, b: 2) { steps { to { dbtNodes { total } } } } }`,
	} {
		if got := a.query(query, nil); code(t, got) != "BAD_USER_INPUT" {
			t.Errorf("%s: answered %s, want BAD_USER_INPUT", query, got)
		}
	}
}

func (f *fake) StepNodes(_ context.Context, _ authz.Principal, in reads.StepNodesQuery) (reads.StepNodesPage, bool,
	error) {
	if in.RunID != "r1" || in.StepID != "build" || in.Attempt != 1 {
		return reads.StepNodesPage{}, false, nil
	}
	failed := reads.StepNode{CompiledIn: "artifact:acme/r1/build/1/1/run_results.json#model.shop.orders", Node: run.Node{
		StartedAt: &instant, EndedAt: &instant, ChangedSeq: 9, StepNode: run.StepNode{ID: "model.shop.orders", Type: "model",
			Status: run.NodeFailed, DurationMS: new(int64(1500)), Rows: new(int64(3)), Bytes: new(int64(7)),
			Failures: new(int64(1)), Error: "Binder Error", Relation: "a.b"}}}
	skipped := reads.StepNode{Node: run.Node{ChangedSeq: 10, StepNode: run.StepNode{
		ID: "test.shop.not_null_orders.81cfe2fe64", Status: run.NodeSkipped, SkippedBy: "model.shop.orders"}}}
	return reads.StepNodesPage{Attempt: 1, Seq: in.ChangedAfter + 12, Nodes: []reads.StepNode{failed, skipped},
		Cursors: []string{"1", "2"}, Total: 3, Omitted: 1, HasNext: true}, true, nil
}

func TestGolden_StepNodes(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	view := failedRun()
	build := *view.State.Steps[1]
	build.Type = "DBT_RUN"
	build.Attempts = slices.Clone(build.Attempts)
	build.Attempts[len(build.Attempts)-1].Nodes = &run.NodeProgress{Unfinished: 2,
		NodeCounts: run.NodeCounts{Total: 9, Success: 3, Warn: 1, Failed: 1, Skipped: 1}}
	view.State.Steps[1] = &build
	f.run = func(authz.Principal, string, *run.Seq) (control.RunView, error) { return view, nil }
	a := serve(t, f)
	golden(t, "stepNodes", a.query(
		`{ run(runId: "r1") { step(stepId: "build") { nodeCounts`+selectAll(t, "StepNodeCounts")+
			` nodes(status: [FAILED, SKIPPED], changedAfter: 4, first: 2)`+selectAll(t, "StepNodeConnection")+` }
		again: step(stepId: "build") { nodes(attempt: 2) { total } } other: step(stepId: "compile") { nodeCounts { total } nodes { total } } } }`,
		nil))
	for _, query := range []string{
		`{ run(runId: "r1") { steps { nodes { total } } } }`,
		`{ runs { edges { node { steps { nodes { total } } } } } }`,
	} {
		if got := a.query(query, nil); code(t, got) != "BAD_USER_INPUT" {
			t.Errorf("%s: answered %s, want BAD_USER_INPUT", query, got)
		}
	}
}

func TestGolden_StepEvidence(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	view := failedRun()
	f.run = func(authz.Principal, string, *run.Seq) (control.RunView, error) { return view, nil }
	a := serve(t, f)
	golden(t, "stepEvidence", a.query(
		`{ run(runId: "r1") { step(stepId: "build") { evidence`+selectAll(t, "StepEvidence")+` } } }`, nil))
	for query, want := range map[string]string{
		`{ run(runId: "r1") { step(stepId: "build") { evidence(attempt: 2) { engine } } } }`:      "NOT_FOUND",
		`{ run(runId: "r1") { steps { evidence { engine } } } }`:                                  "BAD_USER_INPUT",
		`subscription { runUpdates(runId: "r1") { snapshot { steps { evidence { engine } } } } }`: "BAD_USER_INPUT",
	} {
		if got := a.query(query, nil); code(t, got) != want {
			t.Errorf("%s: answered %s, want %s", query, got, want)
		}
	}
}

func TestGolden_InboxUpdates(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
	got := a.do(http.MethodPost, "/graphql", request(`subscription { inboxUpdates`+selectAll(t, "InboxUpdate")+`}`,
		nil),
		"Accept", "text/event-stream")
	if got.status != http.StatusOK {
		t.Fatalf("status %d: %s", got.status, got.body)
	}
	golden(t, "inboxUpdates", got.body)
}
