package runs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// A caller who may read a run may read its plan, without values that look like secrets.
// contract: L07
func TestPlanDocument_WithoutSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := controltest.Document(nil, "s1", "b<s1")
	secret := controltest.Document(controltest.M{"steps": []controltest.M{{"stepId": "s1", "type": "COMMAND",
		"timeout": "1m", "inputs": controltest.M{
			"argv": []string{"true"}, "env": controltest.M{"API_TOKEN": "hunter2", "MODE": "<safe>", "PASSWORD": ""},
		}}}}, "s1")
	read := func(doc []byte, requestID string) (id string, got json.RawMessage) {
		t.Helper()
		id = controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(), controltest.StartOf(requestID,
			doc))).View.Run.RunID
		return id, controltest.Must[json.RawMessage](t)(w.PlanDocument(t.Context(), w.Principal("dev-viewer"), id))
	}
	if _, got := read(plain, "plain"); string(got) != string(plain) {
		t.Errorf("a plan without secrets is not shown as it is: %s", got)
	}
	_, got := read(secret, "secret")
	if diff := cmp.Diff(controltest.ParseJSON(t, strings.Replace(string(secret), "hunter2", "***", 1)),
		controltest.ParseJSON(t, string(got))); diff != "" {
		t.Errorf("the plan (-want +got):\n%s", diff)
	}
	webhook := controltest.Document(controltest.M{"steps": []controltest.M{{"stepId": "s1", "type": "HTTP_NOTIFY",
		"timeout": "1m", "inputs": controltest.M{
			"url":     "https://hooks.example.com/services/T0/hunter2?x=1",
			"headers": controltest.M{"X-Docs": "https://example.com/guide"},
		}}}}, "s1")
	id, got := read(webhook, "webhook")
	if diff := cmp.Diff(controltest.ParseJSON(t, strings.Replace(string(webhook), "services/T0/hunter2?x=1", "***", 1)),
		controltest.ParseJSON(t, string(got))); diff != "" {
		t.Errorf("the plan with a webhook (-want +got):\n%s", diff)
	}
	if in := controltest.Must[*runs.StepInputs](t)(w.StepInputs(t.Context(), w.Engineer(), id, "s1", 0)); strings.Contains(
		string(in.Inputs), "hunter2") {
		t.Errorf("the inputs of a step show the path of its webhook: %s", in.Inputs)
	}
	theirs := plain
	if err := w.Store.PutPlan(t.Context(), controltest.TokenHash(string(theirs)), theirs); err != nil {
		t.Fatal(err)
	}
	stolen := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(), runs.StartRun{
		RequestID: "stolen", ProjectID: "bank", EnvironmentID: "dev",
		Ref: &plan.Ref{URI: "file:///theirs", SHA256: controltest.TokenHash(string(theirs)), SchemaVersion: "v1.2",
			PlanID:      "plan-3",
			PlanVersion: "1.0"},
	})).View.Run.RunID
	if got := controltest.Must[json.RawMessage](t)(w.PlanDocument(t.Context(), w.Engineer(), stolen)); got != nil {
		t.Errorf("a run that names the digest of another project's plan shows it: %s", got)
	}
	if got := controltest.Must[*runs.StepInputs](t)(w.StepInputs(t.Context(), w.Engineer(), stolen, "s1", 0)); got != nil {
		t.Errorf("a run that names the digest of another project's plan shows the inputs of its steps: %s", got.Inputs)
	}
	_, err := w.PlanDocument(t.Context(), w.ForeignPrincipal(), id)
	controltest.Refusal(t, err, run.CodeNotFound)
}
