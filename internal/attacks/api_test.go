package attacks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The tests write their GraphQL documents by hand, so that they also work with a binary that has an older schema.

// answer is an HTTP answer of the API or the Journal.
type answer struct {
	status int
	body   string
}

func (w *world) post(ctx context.Context, path, token string, body any) (answer, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return answer{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+path, bytes.NewReader(raw))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, string(text)}, err
}

// graphql sends a document to the API and decodes the data into into. The error holds the errors of the API.
func (w *world) graphql(ctx context.Context, token, query string, variables map[string]any, into any) error {
	a, err := w.post(ctx, "/graphql", token, map[string]any{"query": query, "variables": variables})
	if err != nil {
		return err
	}
	var out struct {
		Data   json.RawMessage   `json:"data"`
		Errors []json.RawMessage `json:"errors"`
	}
	if err := json.Unmarshal([]byte(a.body), &out); err != nil {
		return fmt.Errorf("%d %s", a.status, a.body)
	}
	if len(out.Errors) > 0 {
		return errors.New(string(out.Errors[0]))
	}
	return json.Unmarshal(out.Data, into)
}

// requireApprovals makes every run of acme's project vault wait for one approval.
func (w *world) requireApprovals() error {
	var none any
	return w.graphql(context.Background(), admin, `mutation($d: PolicyInput!) {
		setPolicy(input: {requestId: "approvals", expectedVersion: 0, reason: "attacks", document: $d}) { __typename } }`,
		map[string]any{"d": map[string]any{
			"grants": []any{map[string]any{"principal": "anna", "role": "ADMIN"}, map[string]any{"principal": "paula",
				"role": "PLANNER"}, map[string]any{"principal": "olga", "role": "OPERATOR", "environmentId": "dev"}},
			"approvals": []any{map[string]any{"projectId": "vault", "environmentId": "dev", "required": 1}},
		}}, &none)
}

// step is a step of a plan, as JSON.
type step map[string]any

func command(id, queue string, argv ...string) step {
	return step{
		"stepId": id, "type": "COMMAND", "inputs": map[string]any{"argv": argv}, "dependsOn": []string{}, "timeout": "2m",
		"dispatch": map[string]any{"taskQueue": queue}, "retry": map[string]any{"maxAttempts": 1},
	}
}

func noop(id string, dependsOn ...string) step {
	return step{"stepId": id, "type": "NOOP", "inputs": map[string]any{}, "dependsOn": append([]string{}, dependsOn...),
		"timeout": "1m"}
}

func (s step) after(ids ...string) step { s["dependsOn"] = ids; return s }

func (s step) withCompensation(operation string, input map[string]any) step {
	s["compensation"] = map[string]any{"operation": operation, "input": input}
	return s
}

// planOf returns a plan of a tenant and project whose failures are final at once.
func planOf(tenant, project, id string, steps ...step) map[string]any {
	return map[string]any{
		"schemaVersion": "v1.2",
		"metadata": map[string]any{
			"planId": id, "planVersion": "1.0", "createdAt": "2026-01-01T00:00:00Z", "createdBy": "attacks",
			"schemaVersion": "v1.2",
			"failurePolicy": map[string]any{"retryWindowSeconds": 0},
		},
		"scope": map[string]any{"tenantId": tenant, "projectId": project, "environmentId": "dev",
			"repoSha": strings.Repeat("0", 40)},
		"steps": steps,
	}
}

// submit starts a run of a plan. The error holds the refusal of the API.
func (w *world) submit(ctx context.Context, token, requestID, project string, plan map[string]any) (runID string,
	err error) {
	var out struct {
		StartRun struct{ Run struct{ RunID string } }
	}
	err = w.graphql(ctx, token, `mutation($i: StartRunInput!) { startRun(input: $i) { run { runId } } }`,
		map[string]any{"i": map[string]any{
			"plan": plan, "runRequestId": requestID, "projectId": project, "environmentId": "dev",
		}}, &out)
	return out.StartRun.Run.RunID, err
}

// startRun starts a run of these steps with the token of an operator, in the tenant of that operator.
func (w *world) startRun(t *testing.T, token, project string, steps ...step) (runID string) {
	t.Helper()
	tenant := "acme"
	if token == foreign {
		tenant = "globex"
	}
	name := planName(t)
	id, err := w.submit(t.Context(), token, name+fmt.Sprint(time.Now().UnixNano()), project,
		map[string]any{"inline": planOf(tenant, project, name, steps...)})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	return id
}

func planName(t *testing.T) string {
	return strings.NewReplacer("/", "-").Replace(t.Name())
}

// runState is the state of a run in the API.
type runState struct {
	StatusRaw string
	Message   string
	RunSeq    int64
	RootCause *struct{ Code, Message string }
	Steps     []stepState
	Events    struct{ Edges []struct{ Node event } }
}

type stepState struct {
	StepID           string
	StatusRaw        string
	LogicalAttemptID int
	EngineAttemptID  int
	Result           json.RawMessage
	Error            *struct{ Code, Message string }
	Wait             *struct{ Kind string }
}

type event struct {
	EventType        string
	StepID           string
	RunSeq           int64
	LogicalAttemptID int
	EngineAttemptID  int
	EmittedBy        string
	Payload          json.RawMessage
}

// readRun reads a run with its steps and the first 200 events.
func (w *world) readRun(ctx context.Context, token, runID string) (runState, error) {
	var out struct{ Run *runState }
	err := w.graphql(ctx, token, `query($r: String!) { run(runId: $r) {
		statusRaw message runSeq rootCause { code message }
		steps { stepId statusRaw logicalAttemptId engineAttemptId result error { code message } wait { kind } }
		events(first: 200) { edges { node { eventType stepId runSeq logicalAttemptId engineAttemptId emittedBy payload } } }
	} }`, map[string]any{"r": runID}, &out)
	if err == nil && out.Run == nil {
		err = fmt.Errorf("run %s does not exist", runID)
	}
	if err != nil {
		return runState{}, err
	}
	return *out.Run, nil
}

func (r runState) hasEnded() bool {
	return r.StatusRaw == "COMPLETED" || r.StatusRaw == "FAILED" || r.StatusRaw == "CANCELLED"
}

func (r runState) step(id string) stepState {
	for _, s := range r.Steps {
		if s.StepID == id {
			return s
		}
	}
	return stepState{StepID: id}
}

// countEvents returns the number of events of a type of a step. An empty stepID counts the events of the run itself.
func (r runState) countEvents(eventType, stepID string) (n int) {
	for _, e := range r.Events.Edges {
		if e.Node.EventType == eventType && e.Node.StepID == stepID {
			n++
		}
	}
	return n
}

// String returns the log in short form, for messages.
func (r runState) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %d:", r.StatusRaw, r.RunSeq)
	for _, e := range r.Events.Edges {
		n := e.Node
		fmt.Fprintf(&b, " %d %s", n.RunSeq, n.EventType)
		if n.StepID != "" {
			fmt.Fprintf(&b, "(%s,%d,%d)", n.StepID, n.LogicalAttemptID, n.EngineAttemptID)
		}
		if n.EventType == "StepCompleted" || n.EventType == "StepFailed" || n.EventType == "RunFailed" {
			fmt.Fprintf(&b, " %.160s", n.Payload)
		}
	}
	return b.String()
}

// expectEnd waits until a run is over and fails the test when it has another status.
func (w *world) expectEnd(t *testing.T, token, runID, status string, patience time.Duration) runState {
	t.Helper()
	last := w.waitForEnd(t, token, runID, patience)
	if !last.hasEnded() {
		t.Errorf("run %s has not ended within %s: %s", runID, patience, last)
	} else if last.StatusRaw != status {
		t.Errorf("run %s ended %s, want %s: %s", runID, last.StatusRaw, status, last)
	}
	return last
}

// waitForEnd waits until a run is over, for at most patience, and returns its last state.
func (w *world) waitForEnd(t *testing.T, token, runID string, patience time.Duration) (last runState) {
	t.Helper()
	for deadline := time.Now().Add(patient(patience)); time.Now().Before(deadline); time.Sleep(150 * time.Millisecond) {
		r, err := w.readRun(t.Context(), token, runID)
		if err != nil {
			continue
		}
		if last = r; r.hasEnded() {
			return r
		}
	}
	return last
}

// waitForStart waits until the log has a StepStarted of a step.
func (w *world) waitForStart(t *testing.T, token, runID, stepID string) {
	t.Helper()
	waitUntil(t, "the step "+stepID+" has started", time.Minute, func() bool {
		r, err := w.readRun(t.Context(), token, runID)
		return err == nil && r.countEvents("StepStarted", stepID) > 0
	})
}

func (w *world) cancel(t *testing.T, token, runID string) {
	t.Helper()
	var none any
	must(t, w.graphql(t.Context(), token, `mutation($r: String!) { cancelRun(input: {runId: $r, signalId: "stop", reason: "enough"}) { signal { signalId } } }`,
		map[string]any{"r": runID}, &none))
}

// receipt is the receipt of a signal.
type receipt struct{ Application, ApplicationReason string }

// receiptOf reads the receipt of the first signal of a run.
func (w *world) receiptOf(t *testing.T, token, runID string) receipt {
	t.Helper()
	var out struct {
		Run struct {
			Signals struct{ Edges []struct{ Node receipt } }
		}
	}
	must(t, w.graphql(t.Context(), token, `query($r: String!) {
		run(runId: $r) { signals(first: 1) { edges { node { application applicationReason } } } } }`,
		map[string]any{"r": runID}, &out))
	if len(out.Run.Signals.Edges) == 0 {
		t.Fatalf("run %s has no signals", runID)
	}
	return out.Run.Signals.Edges[0].Node
}

func (w *world) approve(t *testing.T, runID string) {
	t.Helper()
	var none any
	must(t, w.graphql(t.Context(), planner, `mutation($r: String!) { approveRun(input: {runId: $r, requestId: "yes"}) { run { runId } } }`,
		map[string]any{"r": runID}, &none))
}

// auditRow is a row of a tenant's audit.
type auditRow struct{ At, Actor, Action, RunID, Outcome, Code, Reason string }

// readAudit reads the rows of a run with one of these actions.
func (w *world) readAudit(t *testing.T, token, runID string, actions ...string) (rows []auditRow) {
	t.Helper()
	for _, action := range actions {
		var out struct {
			Audit struct {
				Edges []struct{ Node struct{ Row *auditRow } }
			}
		}
		must(t, w.graphql(
			t.Context(), token, `query($f: AuditFilter) { audit(filter: $f, first: 50) { edges { node { row { at actor action runId outcome code reason } } } } }`,
			map[string]any{"f": map[string]any{"runId": runID, "action": action}}, &out))
		for _, e := range out.Audit.Edges {
			if e.Node.Row != nil {
				rows = append(rows, *e.Node.Row)
			}
		}
	}
	return rows
}

// expectAudit waits for a row of the run about a refusal. It waits because servers link rows a moment after they are
// written.
func (w *world) expectAudit(t *testing.T, token, runID, about string) {
	t.Helper()
	if oldBinary {
		t.Errorf("the audit of run %s is %+v, but the old binary has no rows of attacks", runID, w.readAudit(t, token, runID,
			"ENGINE_FORGERY", "REFUSE_WORKER"))
		return
	}
	var rows []auditRow
	for deadline := time.Now().Add(patient(15 * time.Second)); time.Now().Before(deadline); time.Sleep(
		200 * time.Millisecond) {
		rows = w.readAudit(t, token, runID, "ENGINE_FORGERY", "REFUSE_WORKER")
		for _, r := range rows {
			if strings.Contains(r.Reason, about) {
				t.Logf("audited: %s by %s: %s", r.Action, r.Actor, r.Reason)
				return
			}
		}
	}
	t.Errorf("the audit of run %s has no row about %q: %+v", runID, about, rows)
}
