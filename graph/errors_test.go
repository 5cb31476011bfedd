package graph_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

const signalMutation = `mutation { signalRun(input: {runId: "r1", signalId: "s1", signal: {pause: {}}}) { signal { signalId } } }`

// contract: T134, T222
func TestErrors_ThePresenterSetsTheExtensions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err        error
		want       string // extensions of the error
		retryAfter string
		logged     string
	}{
		"violations": {
			err: &control.Error{Code: run.CodeBadInput, Message: "m",
				Violations: []plan.Violation{{Path: "a[1]", Code: "RANGE", Message: "x"}}},
			want: `{"code":"BAD_USER_INPUT","httpStatus":400,"violations":[{"path":"a[1]","code":"RANGE","message":"x"}]}`,
		},
		"moved": {err: &control.Error{Code: run.CodeRunMoved, Message: "m", RunSeq: 9},
			want: `{"code":"RUN_MOVED","current":{"runSeq":9},"httpStatus":409}`},
		"limit": {err: &control.Error{Code: run.CodeSignalTooLarge, Message: "m", Limit: 64},
			want: `{"code":"SIGNAL_TOO_LARGE","httpStatus":413,"limit":64}`},
		"supported": {err: &control.Error{Code: run.CodePlanSchema, Message: "m", Supported: []string{"v1.2"}},
			want: `{"code":"PLAN_SCHEMA_UNSUPPORTED","httpStatus":400,"supported":["v1.2"]}`},
		"denial": {
			err: &control.Error{Code: run.CodeForbidden, Message: "m", Denial: &control.Denial{Action: authz.Pause,
				Rule:     "r1",
				WhoCould: []string{"eva"}}},
			want: `{"code":"FORBIDDEN","denial":{"action":"PAUSE","rule":"r1","whoCould":["eva"]},"httpStatus":403}`,
		},
		"retry after": {
			err:  &control.Error{Code: run.CodeStoreUnavailable, Message: "m", RetryAfter: 1500 * time.Millisecond},
			want: `{"code":"STORE_UNAVAILABLE","httpStatus":503,"retryAfterMs":1500}`, retryAfter: "2",
		},
		"wrapped": {err: fmt.Errorf("layer: %w", errNotFound), want: `{"code":"NOT_FOUND","httpStatus":404}`},
		"unexpected error": {
			err:    errors.New("pgx: relation /var/lib does not exist"),
			want:   `{"code":"INTERNAL","httpStatus":500,"requestId":"req-1"}`,
			logged: "relation /var/lib does not exist",
		},
		"cancelled": {err: context.Canceled, want: `{"code":"UNAVAILABLE","httpStatus":503}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := serve(t, &fake{signalRun: func(authz.Principal, runs.SignalRun) (runs.SignalReceipt,
				error) {
				return runs.SignalReceipt{}, test.err
			}})
			got := a.do(http.MethodPost, "/", request(signalMutation, nil))
			if got.status != http.StatusOK || !strings.Contains(got.body, `"extensions":`+test.want) {
				t.Errorf("answered %d %s, want 200 with the extensions %s", got.status, got.body, test.want)
			}
			if h := got.header.Get("Retry-After"); h != test.retryAfter {
				t.Errorf("Retry-After is %q, want %q", h, test.retryAfter)
			}
			if n := strings.Count(a.logs.String(), "request failed"); (test.logged != "") != (n == 1) ||
				!strings.Contains(a.logs.String(), test.logged) {
				t.Errorf("logged %q, want %q once", a.logs, test.logged)
			}
			if test.logged != "" && strings.Contains(got.body, test.logged) {
				t.Errorf("answered %s, want an answer without the cause", got.body)
			}
		})
	}
}

func TestErrors_PanicIsInternalAndLoggedOnce(t *testing.T) {
	t.Parallel()
	a := serve(t, &fake{})
	if got := a.query(signalMutation, nil); code(t, got) != "INTERNAL" || strings.Contains(got, "nil pointer") {
		t.Errorf("answered %s, want INTERNAL without the cause", got)
	}
	if strings.Count(a.logs.String(), "request failed") != 1 || !strings.Contains(a.logs.String(), "fake_test.go") {
		t.Errorf("logged %q, want the stack once", a.logs)
	}
}

// A caller cannot distinguish a run that does not exist from one of another tenant. Queries answer null without an
// error, and mutations NOT_FOUND.
// contract: T101, T222
func TestErrors_NotFoundIsNullInQueries(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	f.run = func(authz.Principal, string, *run.Seq) (control.RunView, error) {
		return control.RunView{}, errNotFound
	}
	f.receipt = func(string, string) (runs.SignalReceipt, error) { return runs.SignalReceipt{}, errNotFound }
	f.stepLog = func(reads.StepLogQuery) (reads.StepLog, error) { return reads.StepLog{}, errNotFound }
	f.signalRun = func(authz.Principal, runs.SignalRun) (runs.SignalReceipt, error) {
		return runs.SignalReceipt{}, errNotFound
	}
	a := serve(t, f)
	want := `{"data":{"run":null,"signal":null,"stepLog":null,"node":null}}`
	got := a.query(`{ run(runId: "r1") { runId } signal(runId: "r1", signalId: "s") { runId } stepLog(runId: "r1", stepId: "s") { attempt } node(id: "UnVuOnIx") { id } }`, nil)
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := a.query(signalMutation, nil); code(t, got) != "NOT_FOUND" {
		t.Errorf("the mutation answered %s, want NOT_FOUND", got)
	}
}

func TestInput_SignalsReachControl(t *testing.T) {
	t.Parallel()
	var got runs.SignalRun
	a := serve(t, &fake{signalRun: func(p authz.Principal, in runs.SignalRun) (runs.SignalReceipt, error) {
		if p.ID != "eva" {
			t.Errorf("control got the principal %q, want eva", p.ID)
		}
		got = in
		return receipt(in.Signal.Type), nil
	}})
	for input, want := range map[string]runs.SignalRun{
		`signal: {pause: {reason: "a"}}`: {Reason: "a", Signal: run.Signal{Type: run.Pause},
			Payload: []byte(`{"reason":"a"}`)},
		`signal: {resume: {}}`: {Signal: run.Signal{Type: run.Resume}, Payload: []byte(`{}`)},
		`signal: {retryStep: {stepId: "b"}}, expectedRunSeq: 7`: {
			Signal: run.Signal{Type: run.RetryStep, StepID: "b"}, Payload: []byte(`{"stepId":"b","force":false}`),
			ExpectedRunSeq: new(run.Seq(7)),
		},
		`signal: {retryStep: {stepId: "b", force: null, expectedLogicalAttemptId: 2}}, expectedRunSeq: "7"`: {
			Signal:  run.Signal{Type: run.RetryStep, StepID: "b", ExpectedAttempt: 2},
			Payload: []byte(`{"stepId":"b","force":false,"expectedLogicalAttemptId":2}`), ExpectedRunSeq: new(run.Seq(7)),
		},
	} {
		want.RunID, want.Signal.ID = "r1", "s1"
		body := a.query(`mutation { signalRun(input: {runId: "r1", signalId: "s1", `+input+`}) { signal { typeRaw } } }`,
			nil)
		if diff := cmp.Diff(want, got); diff != "" || code(t, body) != "" {
			t.Errorf("%s: answered %s, input of control (-want +got):\n%s", input, body, diff)
		}
	}
	a.query(`mutation { cancelRun(input: {runId: "r1", signalId: "s1", reason: "x"}) { signal { typeRaw } } }`, nil)
	want := runs.SignalRun{RunID: "r1", Signal: run.Signal{ID: "s1", Type: run.Cancel}, Reason: "x",
		Payload: []byte(`{"reason":"x"}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cancelRun (-want +got):\n%s", diff)
	}
	for _, bad := range []string{`signal: {}`, `signal: {pause: {}, resume: {}}`, `signal: {pause: null}`} {
		if body := a.query(`mutation { signalRun(input: {runId: "r1", signalId: "s1", `+bad+`}) { signal { typeRaw } } }`,
			nil); code(t, body) != "BAD_USER_INPUT" {
			t.Errorf("%s: answered %s, want BAD_USER_INPUT", bad, body)
		}
	}
}

func TestInput_PlanKeepsItsDigits(t *testing.T) {
	t.Parallel()
	var got runs.StartRun
	a := serve(t, &fake{startRun: func(_ authz.Principal, in runs.StartRun) (runs.StartedRun, error) {
		got = in
		return runs.StartedRun{View: failedRun()}, nil
	}})
	a.do(http.MethodPost, "/", `{"query":"mutation($i: StartRunInput!) { startRun(input: $i) { deduplicated } }", "variables": {"i": {
		"plan": {"inline": {"z": 12345678901234567890, "a": 1.50, "t": "<&>"}}, "runRequestId": "q", "projectId": "shop", "environmentId": "dev", "params": {"n": 1e3}}}}`)
	if want := `{"a":1.50,"t":"<&>","z":12345678901234567890}`; string(got.Inline) != want ||
		string(got.Params) != `{"n":1e3}` {
		t.Errorf("inline %s, params %s; want %s", got.Inline, got.Params, want)
	}
	a.query(`mutation { startRun(input: {plan: {ref: {uri: "file:///p", sha256: "s", schemaVersion: "v1.2", planId: "p", planVersion: "1", sizeBytes: 5}},
		runRequestId: "q", projectId: "shop", environmentId: "dev"}) { deduplicated } }`, nil)
	want := &plan.Ref{URI: "file:///p", SHA256: "s", SchemaVersion: "v1.2", PlanID: "p", PlanVersion: "1", SizeBytes: 5}
	if diff := cmp.Diff(want, got.Ref); diff != "" || got.Inline != nil {
		t.Errorf("inline %s, reference of the plan (-want +got):\n%s", got.Inline, diff)
	}
}

// contract: T154, T228
func TestInput_ASeqIsAWholeNumberUpTo2To53(t *testing.T) {
	t.Parallel()
	var got *run.Seq
	f := newAnsweringFake()
	f.run = func(_ authz.Principal, _ string, at *run.Seq) (control.RunView, error) {
		got = at
		return failedRun(), nil
	}
	a := serve(t, f)
	for literal, want := range map[string]run.Seq{`0`: 0, `9007199254740991`: run.MaxSeq,
		`"9007199254740991"`: run.MaxSeq,
		`1e3`:                1000} {
		body := a.do(http.MethodPost, "/",
			`{"query":"query($at: Seq) { run(runId: \"r1\", at: $at) { runSeq } }","variables":{"at":`+literal+`}}`).body
		if got == nil || *got != want {
			t.Errorf("control got %v for %s, want %d; answered %s", got, literal, want, body)
		}
	}
	for _, literal := range []string{`-1`, `9007199254740992`, `"x"`, `""`, `"-1"`, `1.5`, `true`, `{}`, `1e30`} {
		body := a.do(http.MethodPost, "/",
			`{"query":"query($at: Seq) { run(runId: \"r1\", at: $at) { runSeq } }","variables":{"at":`+literal+`}}`).body
		if code(t, body) != "BAD_USER_INPUT" {
			t.Errorf("%s: answered %s, want BAD_USER_INPUT", literal, body)
		}
	}
}

func TestInput_PagesAndFiltersReachControl(t *testing.T) {
	t.Parallel()
	var got control.RunsQuery
	f := newAnsweringFake()
	runs := f.runs
	f.runs = func(q control.RunsQuery) (control.RunsPage, error) { got = q; return runs(q) }
	a := serve(t, f)
	a.query(`{ runs(last: 3, before: "c", orderBy: CREATED_ASC, filter: {projectId: "p", statuses: [FAILED], text: "x", createdFrom: "2026-11-21T04:12:07.123+01:00"}) { edges { cursor } } }`, nil)
	want := control.RunsQuery{Last: 3, Before: "c", Filter: control.RunFilter{
		ProjectIDs: []string{"p"}, Statuses: []run.Status{run.Failed}, Text: "x", CreatedFrom: instant, Ascending: true,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("query of control (-want +got):\n%s", diff)
	}
	for order, want := range map[string]control.RunFilter{
		"CREATED_DESC": {}, "ENDED_DESC": {Sort: "ENDED"}, "DURATION_ASC": {Sort: "DURATION", Ascending: true},
		"TIME_LEFT_ASC": {Sort: "TIME_LEFT", Ascending: true},
	} {
		a.query(`{ runs(orderBy: `+order+`) { edges { cursor } } }`, nil)
		if diff := cmp.Diff(want, got.Filter); diff != "" {
			t.Errorf("the filter of %s (-want +got):\n%s", order, diff)
		}
	}
	for _, query := range []string{
		`{ runs(first: 0) { edges { cursor } } }`, `{ runs(filter: {statuses: [UNKNOWN]}) { edges { cursor } } }`,
		`{ runs(first: 4294967296) { edges { cursor } } }`, `{ viewer { signals(first: 51) { runId } } }`,
		`{ run(runId: "r1") { events(last: -1) { edges { cursor } } } }`,
	} {
		if body := a.query(query, nil); code(t, body) != "BAD_USER_INPUT" {
			t.Errorf("%s: answered %s, want BAD_USER_INPUT", query, body)
		}
	}
	if body := a.query(`{ run(runId: "r1") { signals(after: "?") { edges { cursor } } } }`, nil); code(t,
		body) != "CURSOR_INVALID" {
		t.Errorf("answered %s, want CURSOR_INVALID", body)
	}
}
