package reads_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

func command(id string, change controltest.M) controltest.M {
	step := controltest.M{"stepId": id, "type": "COMMAND", "timeout": "1m",
		"inputs": controltest.M{"argv": []string{"true"}}}
	for name, value := range change {
		step[name] = value
	}
	return step
}

// PlanDiff compares the plan of a run with that of the run before it of the same plan and scope, without secrets.
// contract: L07
func TestPlanDiff_WithTheRunBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	start := func(requestID string, change controltest.M) run.Header {
		t.Helper()
		return w.header(controltest.Must[runs.StartedRun](t)(
			w.StartRun(t.Context(), w.Engineer(), controltest.StartOf(requestID, controltest.Document(change)))).View.Run.RunID)
	}
	diff := func(p authz.Principal, h run.Header) *reads.PlanDiff {
		t.Helper()
		return controltest.Must[*reads.PlanDiff](t)(w.PlanDiff(t.Context(), p, h))
	}
	viewer := w.Principal("dev-viewer")
	first := start("d1", controltest.M{"steps": []controltest.M{
		command("keep", nil), command("gone", nil),
		command("moved", controltest.M{"inputs": controltest.M{"argv": []string{"a"},
			"env": controltest.M{"API_TOKEN": "hunter2", "MODE": "x"}}}),
	}})
	if got := diff(viewer, first); got != nil {
		t.Errorf("the first run of a plan is compared with %s", got.Previous.RunID)
	}
	start("d2", controltest.M{"metadata.planId": "other", "steps": []controltest.M{command("x", nil)}})
	second := start("d3", controltest.M{"metadata.planVersion": "1.1", "steps": []controltest.M{
		command("keep", nil), command("new", nil),
		command("moved", controltest.M{"dependsOn": []string{"keep"}, "inputs": controltest.M{"argv": []string{"a"},
			"env": controltest.M{"API_TOKEN": "hunter3", "MODE": strings.Repeat("ä", 400)}}}),
	}})
	got := diff(viewer, second)
	want := &reads.PlanDiff{
		Total: 3, Added: 1, Removed: 1, Changed: 1,
		Parts: []reads.PlanPart{{Path: "metadata.planVersion", From: `"1.0"`, To: `"1.1"`}},
		Steps: []reads.PlanStepDiff{
			{StepID: "new", Change: reads.PlanStepAdded},
			{StepID: "moved", Change: reads.PlanStepChanged, Parts: []reads.PlanPart{
				{Path: "dependsOn", To: `["keep"]`},
				{Path: "inputs.env.MODE", From: `"x"`, To: `"` + strings.Repeat("ä", 149) + "…"},
			}},
			{StepID: "gone", Change: reads.PlanStepRemoved},
		},
	}
	if got == nil || got.Previous.RunID != first.RunID || got.Previous.PlanVersion != "1.0" {
		t.Fatalf("compared with %+v, want %s", got, first.RunID)
	}
	want.Previous = got.Previous
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the difference (-want +got):\n%s", d)
	}
	for _, p := range []authz.Principal{w.Principal("nobody"), w.ForeignPrincipal()} {
		if got, err := w.PlanDiff(t.Context(), p, second); got != nil || err != nil {
			t.Errorf("%s of %s gets the difference %+v with the error %v, want none", p.ID, p.TenantID, got, err)
		}
	}
	third := start("d4", controltest.M{"metadata.planVersion": "1.1", "steps": []controltest.M{command("keep", nil)}})
	theirs := []byte(strings.Replace(string(controltest.Document(nil, "s1")), `"acme"`, `"globex"`, 1))
	if err := w.Store.PutPlan(t.Context(), controltest.TokenHash(string(theirs)), theirs); err != nil {
		t.Fatal(err)
	}
	stolen := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Engineer(), runs.StartRun{
		RequestID: "d5", ProjectID: third.ProjectID, EnvironmentID: third.EnvironmentID,
		Ref: &plan.Ref{URI: "file:///theirs", SHA256: controltest.TokenHash(string(theirs)), SchemaVersion: "v1.2",
			PlanID:      third.PlanID,
			PlanVersion: "1.0"},
	})).View.Run.RunID
	if got := diff(viewer, w.header(stolen)); got != nil {
		t.Errorf("a run that names the digest of another tenant's plan is compared: %+v", got)
	}
	if got := diff(viewer, w.header(
		controltest.Must[runs.StartedRun](t)(
			w.StartRun(t.Context(), w.Engineer(), controltest.StartOf("d6", controltest.Document(nil,
				"s1")))).View.Run.RunID)); got != nil {
		t.Errorf("the plan of another tenant is told as a difference: %+v", got)
	}
}

// PlanDiff counts all of thousands of differing steps and lists a part of them.
func TestPlanDiff_ListsAPartOfManyDifferences(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	of := func(requestID string, n int, argv string) run.Header {
		steps := make([]controltest.M, n)
		for i := range steps {
			env := controltest.M{}
			for j := range 30 {
				env[fmt.Sprintf("V%02d", j)] = argv
			}
			steps[i] = command(fmt.Sprintf("s%03d", i), controltest.M{"inputs": controltest.M{"argv": []string{argv},
				"env": env}})
		}
		return w.header(controltest.Must[runs.StartedRun](t)(
			w.StartRun(t.Context(), w.Engineer(), controltest.StartOf(requestID,
				controltest.Document(controltest.M{"steps": steps})))).View.Run.RunID)
	}
	of("m1", 250, "a")
	got := controltest.Must[*reads.PlanDiff](t)(w.PlanDiff(t.Context(), w.Engineer(), of("m2", 300, "b")))
	if got == nil || got.Changed != 250 || got.Added != 50 || len(got.Steps) != 200 || len(got.Steps[0].Parts) != 20 {
		t.Errorf("the difference is %+v, want 250 changed and 50 added steps, of them 200 listed with 20 parts", got)
	}
}

// StepInputs have the changes that were accepted before the attempt started, and no secret.
// contract: L07, T197
func TestStepInputs_AsOfTheAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateStepsWith("i1", json.RawMessage(`{"day":"1","password":"hunter2"}`), "COMMAND s1", "COMMAND s2")
	w.SendOverlay(controltest.NewParamsOf(id, "o1", "", controltest.M{"day": "2"}))
	w.BeginAttempt(id, "s1", 1, 1)
	w.AppendEvents(id, runtest.Draft(run.StepFailedEvent, "s1", 1))
	w.SendOverlay(controltest.OverrideOf(id, "o2", "s1", controltest.M{"env": controltest.M{"KEPT": "2"}}))
	begun := w.StateOf(id).Steps[0].Attempts[0].StartedSeq
	for _, c := range []struct {
		name, step     string
		upTo           run.Seq
		inputs, params string
		changes        string
	}{
		{"the attempt that ran", "s1", begun, `{"argv":["true"],"env":{"KEPT":"1"}}`, `{"day":"2","password":"***"}`, "o1"},
		{"the next one", "s1", 0, `{"argv":["true"],"env":{"KEPT":"2"}}`, `{"day":"2","password":"***"}`, "o1 o2"},
		{"another step", "s2", 0, `{"argv":["true"],"env":{"KEPT":"1"}}`, `{"day":"2","password":"***"}`, "o1"},
	} {
		got := controltest.Must[*runs.StepInputs](t)(w.StepInputs(t.Context(), w.Principal("dev-viewer"), id, c.step, c.upTo))
		if got == nil {
			t.Fatalf("%s: there are no inputs", c.name)
		}
		var changes []string
		for _, r := range got.Changes {
			changes = append(changes, r.Signal.ID)
		}
		if cmp.Diff(controltest.ParseJSON(t, c.inputs), controltest.ParseJSON(t, string(got.Inputs))) != "" ||
			cmp.Diff(controltest.ParseJSON(t, c.params),
				controltest.ParseJSON(t, string(got.Params))) != "" || strings.Join(changes, " ") != c.changes {
			t.Errorf("%s: the inputs are %s, the params %s and the changes %v; want those of the case",
				c.name, got.Inputs, got.Params, changes)
		}
	}
	if got := controltest.Must[*runs.StepInputs](t)(w.StepInputs(t.Context(), w.Engineer(), id, "none", 0)); got != nil {
		t.Errorf("the inputs of an unknown step are %+v, want nil", got)
	}
	_, err := w.StepInputs(t.Context(), w.ForeignPrincipal(), id, "s1", 0)
	controltest.Refusal(t, err, run.CodeNotFound)
}
