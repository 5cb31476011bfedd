package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// bulks is a fake graph.BulkService. made is the input of its last SignalRuns or PreviewBulk.
type bulks struct {
	graph.UseCases
	made *bulk.SignalRuns
}

func newBulk(id string, change ...func(*bulk.Bulk)) bulk.Bulk {
	b := bulk.Bulk{Action: authz.RetryStep, Signal: run.Signal{Type: run.RetryStep, StepID: "build"},
		Payload: json.RawMessage(`{"stepId":"build"}`)}
	b.ID, b.Reason, b.RequestID, b.CreatedAt, b.Total, b.Accepted, b.Rejected, b.Refused = id, "release", "b-1", instant,
		200, 77, 2, 1
	for _, f := range change {
		f(&b)
	}
	return b
}

func bulkRow(no int, outcome bulk.BulkOutcome) bulk.BulkRow {
	r := bulk.BulkRow{No: no, RunID: fmt.Sprint("r", no), ProjectID: "shop", EnvironmentID: "dev", Outcome: outcome,
		At: after(time.Second)}
	if outcome == "ACCEPTED" || outcome == "REJECTED" {
		rc := receipt(run.RetryStep).SignalReceipt
		if outcome == "REJECTED" {
			rc.Rejected, rc.Rejection, rc.RejectText = true, run.CodeRunTerminal, "The run has ended."
		}
		r.Receipt = &rc
	}
	return r
}

func (b *bulks) SignalRuns(_ context.Context, _ authz.Principal, in bulk.SignalRuns) (bulk.MadeBulk, error) {
	b.made = &in
	if in.ExpectedCount == 3 {
		return bulk.MadeBulk{}, &control.Error{Code: run.CodeBulkMoved, Message: "4 runs are meant now.", Count: 4}
	}
	return bulk.MadeBulk{Bulk: newBulk("b1"), Duplicate: true}, nil
}

func (b *bulks) CancelBulk(_ context.Context, _ authz.Principal, in bulk.CancelBulk) (bulk.Bulk, error) {
	if in.ID != "b1" || in.RequestID != "s-1" || in.Reason != "wrong runs" {
		return bulk.Bulk{}, &control.Error{Code: run.CodeNotFound}
	}
	return newBulk(in.ID, func(b *bulk.Bulk) { b.StoppedAt, b.NotSent = after(time.Second), 40 }), nil
}

func (b *bulks) Bulk(_ context.Context, _ authz.Principal, id string) (bulk.Bulk, error) {
	if id != "b1" {
		return bulk.Bulk{}, &control.Error{Code: run.CodeNotFound}
	}
	return newBulk(id), nil
}

func (b *bulks) Bulks(context.Context, authz.Principal, int, string) (bulk.BulksPage, error) {
	return bulk.BulksPage{HasNext: true, Bulks: []bulk.Bulk{
		newBulk("b2", func(b *bulk.Bulk) { b.Paced, b.PacedUntil = run.CodeSignalRate, after(time.Minute) }),
		newBulk("b1", func(b *bulk.Bulk) { b.FinishedAt, b.Accepted, b.Signal.Type = after(time.Hour), 197, "FUTURE" }),
	}}, nil
}

func (b *bulks) BulkRows(_ context.Context, _ authz.Principal, q bulk.BulkRowsQuery) (bulk.BulkRowsPage, error) {
	refused := bulkRow(3, "REFUSED")
	refused.Code, refused.Message = run.CodeForbidden, "You need the Engineer role on shop / dev to retry a step."
	if q.Failed {
		return bulk.BulkRowsPage{Rows: []bulk.BulkRow{refused}}, nil
	}
	if q.Outcome != "" {
		return bulk.BulkRowsPage{Rows: []bulk.BulkRow{bulkRow(9, q.Outcome)}}, nil
	}
	waiting := bulkRow(4, "WAITING")
	waiting.At = nil
	return bulk.BulkRowsPage{Rows: []bulk.BulkRow{bulkRow(1, "ACCEPTED"), bulkRow(2, "REJECTED"), refused, waiting,
		bulkRow(5, "LATER")}, HasNext: true}, nil
}

func (b *bulks) BulkProgress(context.Context, authz.Principal, string) (bulk.BulkProgress, error) {
	return bulk.BulkProgress{
		Applications: bulk.BulkApplications{Pending: 1, Delivered: 2, Applied: 70, Noop: 3, NotApplied: 1},
		Runs:         bulk.BulkRunCounts{Waiting: 1, Running: 2, Paused: 3, Completed: 64, Failed: 5, Cancelled: 2},
	}, nil
}

func (b *bulks) BulkRunCounts(_ context.Context, _ authz.Principal, ids []string) (map[string]bulk.BulkRunCounts,
	error) {
	return map[string]bulk.BulkRunCounts{ids[0]: {Completed: 1, Failed: 2}}, nil
}

func (b *bulks) WatchBulk(_ context.Context, _ authz.Principal, id string) (graph.Stream[bulk.BulkFrame], error) {
	counted := newBulk(id, func(b *bulk.Bulk) {
		b.Progress = &bulk.BulkProgress{Applications: bulk.BulkApplications{Pending: 77}}
	})
	ended := &control.Error{Code: run.CodeForbidden, Message: "No longer.", Denial: &control.Denial{Action: authz.Read,
		Rule: "r"}}
	return stream[bulk.BulkFrame](ended, bulk.BulkFrame{Sync: live.Live, Reset: true, AsOf: instant, Bulk: counted},
		bulk.BulkFrame{Sync: live.Live, AsOf: instant, Bulk: counted, Rows: []bulk.BulkRow{bulkRow(1, "ACCEPTED")}},
		bulk.BulkFrame{Sync: live.Stale, Reason: live.StoreDown, AsOf: instant, Bulk: counted})
}

func (b *bulks) PreviewBulk(_ context.Context, _ authz.Principal, in bulk.PreviewBulk) (runs.ActionPreview,
	error) {
	b.made = &bulk.SignalRuns{Runs: in.Runs, Signal: in.Signal, Rerun: in.Rerun}
	return runs.ActionPreview{Outcome: "APPLY", Bulk: &runs.BulkPreview{
		Count: 200, Excluded: []runs.BulkReason{{Code: run.CodeNotFound, Reason: "There is no such run.", Count: 2}},
		Refusals: []runs.BulkReason{{Code: run.CodeForbidden,
			Reason: "You need the Engineer role on shop / dev to retry a step.", Count: 3}},
		Samples: []runs.BulkSample{{RunID: "r1", Status: run.Running, Preview: runs.ActionPreview{
			BasedOnSeq: 7, Outcome: "APPLY", Status: run.Running, Warnings: []string{"w"},
			Changes: []runs.StepChange{{StepID: "build", Kind: "RERUN", From: run.StepFailed, To: run.StepRunning,
				Why: "asked for"}},
		}}},
	}}, nil
}

const (
	b1       = "QnVsazpiMQ" // Bulk:b1
	bulkRuns = `runs: {filter: {statuses: [RUNNING], projectId: "shop"}}, action: {signal: {retryStep: {stepId: "build"}}}`
)

func TestGolden_Bulks(t *testing.T) {
	t.Parallel()
	a := serve(t, &fake{UseCases: &bulks{}})
	for name, operation := range map[string]string{
		"bulk":  `{ bulk(id: "` + b1 + `")` + selectAll(t, "Bulk") + `}`,
		"bulks": `{ bulks(first: 2)` + selectAll(t, "BulkConnection", "Bulk.rows", "Bulk.applications", "Bulk.runs") + `}`,
		"bulkRunCounts": `{ bulkRunCounts(ids: ["` + b1 +
			`"])` + selectAll(t, "BulkRunsNow") + `}`,
		"bulkNode": `{ node(id: "` + b1 +
			`") { id ... on Bulk { reason } } none: bulk(id: "QnVsazpiMg") { id } other: bulk(id: "UnVuOnIx") { id } }`,
		"bulkRows": `{ bulk(id: "` + b1 +
			`") { failed: rows(failed: true) { edges { node { no code } } } accepted: rows(outcome: ACCEPTED, after: "Mg") { edges { cursor node { outcome } } pageInfo { hasPreviousPage } } } }`,
		"signalRuns": `mutation { signalRuns(input: {requestId: "b-1", ` + bulkRuns +
			`, reason: "release", expectedCount: 200})` + selectAll(t, "BulkSignalPayload") + `}`,
		"bulkMoved": `mutation { signalRuns(input: {requestId: "b-1", ` + bulkRuns +
			`, reason: "release", expectedCount: 3}) { duplicate } }`,
		"previewBulk": `{ preview(action: {bulk: {` + bulkRuns + `}})` + selectAll(t, "ActionPreview") + `}`,
		"bulkUpdates": `subscription { bulkUpdates(id: "` + b1 + `")` + selectAll(t, "BulkUpdate", "Bulk.rows") + `}`,
	} {
		accept := "application/json"
		if strings.HasPrefix(operation, "subscription") {
			accept = "text/event-stream"
		}
		golden(t, name, a.do(http.MethodPost, "/graphql", request(operation, nil), "Accept", accept).body)
	}
	if a.logs.Len() > 0 {
		t.Errorf("logged %s, want nothing", a.logs)
	}
}

// Every combination of the ways to select runs and actions reaches control unchanged.
func TestBulk_InputsReachControl(t *testing.T) {
	t.Parallel()
	b := &bulks{}
	a := serve(t, &fake{UseCases: b})
	for action, want := range map[string]runs.SignalRun{
		`{cancel: {reason: "wrong"}}`: {Signal: run.Signal{Type: run.Cancel}, Reason: "wrong",
			Payload: json.RawMessage(`{"reason":"wrong"}`)},
		`{cancel: {}}`: {Signal: run.Signal{Type: run.Cancel}, Payload: json.RawMessage(`{}`)},
		`{signal: {skipStep: {stepId: "x"}}}`: {Signal: run.Signal{Type: run.SkipStep, StepID: "x"},
			Payload: json.RawMessage(`{"stepId":"x"}`)},
	} {
		for runs, wantRuns := range map[string]bulk.BulkRuns{
			`{ids: ["r1", "r2"]}`:     {IDs: []string{"r1", "r2"}},
			`{filter: {planId: "p"}}`: {Filter: &control.RunFilter{PlanID: "p"}}, `{failedOf: "` + b1 +
				`"}`: {FailedOf: "b1"},
		} {
			in := `runs: ` + runs + `, action: ` + action
			if body := a.query(`mutation { signalRuns(input: {requestId: "b", `+in+
				`, reason: "r", expectedCount: 2}) { duplicate } }`, nil); code(t, body) != "" {
				t.Fatalf("signalRuns with %s answered %s, want no error", in, body)
			}
			if diff := cmp.Diff(bulk.SignalRuns{RequestID: "b", Runs: wantRuns, Signal: want, Reason: "r", ExpectedCount: 2},
				*b.made); diff != "" {
				t.Errorf("input of control for %s (-want +got):\n%s", in, diff)
			}
			if body := a.query(`{ preview(action: {bulk: {`+in+`}}) { outcome } }`, nil); code(t, body) != "" {
				t.Fatalf("preview with %s answered %s, want no error", in, body)
			}
			if diff := cmp.Diff(bulk.SignalRuns{Runs: wantRuns, Signal: want}, *b.made); diff != "" {
				t.Errorf("preview of %s (-want +got):\n%s", in, diff)
			}
		}
	}
}

// A bulk rerun reaches control with what runs again and the new params; null params are those of each run.
func TestBulk_RerunReachesControl(t *testing.T) {
	t.Parallel()
	b := &bulks{}
	a := serve(t, &fake{UseCases: b})
	for action, want := range map[string]runs.Rerun{
		`{from: {failed: true}, reason: "why"}`: {Failed: true, Reason: "why"},
		`{from: {start: true}, params: null}`:   {Start: true},
		`{from: {steps: ["a"]}, params: {day: "2026-02-17"}}`: {Steps: []string{"a"},
			Params: json.RawMessage(`{"day":"2026-02-17"}`)},
	} {
		in := `runs: {ids: ["r1"]}, action: {rerun: ` + action + `}`
		if body := a.query(`mutation { signalRuns(input: {requestId: "b", `+in+
			`, reason: "r", expectedCount: 1}) { duplicate } }`, nil); code(t, body) != "" {
			t.Fatalf("signalRuns with %s answered %s, want no error", in, body)
		}
		if diff := cmp.Diff(&want, b.made.Rerun); diff != "" {
			t.Errorf("rerun of %s (-want +got):\n%s", in, diff)
		}
		if body := a.query(`{ preview(action: {bulk: {`+in+`}}) { outcome } }`, nil); code(t, body) != "" {
			t.Fatalf("preview with %s answered %s, want no error", in, body)
		}
		if diff := cmp.Diff(&want, b.made.Rerun); diff != "" {
			t.Errorf("preview of %s (-want +got):\n%s", in, diff)
		}
	}
}

// Unavailable fields and wrong inputs are rejected before the operation starts.
// contract: T155
func TestBulk_UnavailableFieldsAndWrongInputsAreRejected(t *testing.T) {
	t.Parallel()
	a := serve(t, &fake{UseCases: &bulks{}})
	for operation, want := range map[string]string{
		`{ bulks { edges { node { rows { edges { cursor } } } } } }`:                                "Bulk.rows is not available in a list; select it on bulk(id:).",
		`{ bulks { edges { node { ... on Node { ... on Bulk { applications { applied } } } } } } }`: "Bulk.applications is not available in a list; select it on bulk(id:).",
		`subscription { bulkUpdates(id: "` + b1 +
			`") { bulk { rows { edges { cursor } } } } }`: "Bulk.rows is not available inside a subscription; select it " +
			"on bulk(id:).",
		`{ bulk(id: "` + b1 +
			`") { rows(outcome: UNKNOWN) { edges { cursor } } } }`: "outcome: UNKNOWN is for reading only.",
		`{ bulk(id: "` + b1 +
			`") { rows(first: 0) { edges { cursor } } } }`: "first: must be from 1 to 200.",
		`mutation { signalRuns(input: {requestId: "b", runs: {filter: {statuses: [UNKNOWN]}}, action: {cancel: {}}, reason: "r", expectedCount: 1}) { duplicate } }`: "filter.statuses: UNKNOWN is for reading only.",
		`mutation { signalRuns(input: {requestId: "b", runs: {failedOf: "UnVuOnIx"}, action: {cancel: {}}, reason: "r", expectedCount: 1}) { duplicate } }`:          "There is no such bulk, or it is not yours.",
	} {
		if body := a.query(operation, nil); !strings.Contains(body, want) {
			t.Errorf("%s: answered %s, want %q in it", operation, body, want)
		}
	}
}
