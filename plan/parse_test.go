package plan_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

func TestParse_ReadsTheDocumentedPlan(t *testing.T) {
	t.Parallel()
	window := 600
	want := plan.Plan{
		SchemaVersion: "v1.2",
		Metadata: plan.Metadata{
			PlanID: "nightly", PlanVersion: "1.0", CreatedAt: time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC),
			CreatedBy: "planner", SchemaVersion: "v1.2", FailurePolicy: plan.FailurePolicy{RetryWindowSeconds: &window},
		},
		Scope: plan.Scope{TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev", RepoSHA: strings.Repeat("0", 40)},
		Steps: []plan.Step{
			{StepID: "compile", Type: plan.DBTCompile, DependsOn: []string{},
				Inputs:  json.RawMessage(`{"projectDir":"examples/shop"}`),
				Timeout: 2 * time.Minute, Retry: plan.Retry{MaxAttempts: 3, InitialBackoffMS: 1000, BackoffMultiplier: 2,
					MaxBackoffMS: 30000}},
			{StepID: "run", Type: plan.DBTRun, DependsOn: []string{"compile"},
				Inputs:  json.RawMessage(`{"projectDir":"examples/shop","select":"+orders"}`),
				Timeout: 10 * time.Minute, Retry: plan.Retry{MaxAttempts: 3, InitialBackoffMS: 1000, BackoffMultiplier: 2,
					MaxBackoffMS:    30000,
					RetryableErrors: []string{"timeout", "transport"}},
				Dispatch: plan.Dispatch{TaskQueue: "tq-data-dev", ResourceClass: "heavy", Cancellable: true}},
		},
	}
	if diff := cmp.Diff(want, mustParse(t, []byte(apiPlan))); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

// contract: L01
func TestParse_RequiresEachRequiredField(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"schemaVersion", "metadata", "scope", "steps",
		"metadata.planId", "metadata.planVersion", "metadata.createdAt", "metadata.createdBy", "metadata.schemaVersion",
		"scope.tenantId", "scope.projectId", "scope.environmentId", "scope.repoSha",
		"steps[1].stepId", "steps[1].type", "steps[1].inputs", "steps[1].timeout",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			doc := mutate(t, func(doc map[string]any) {
				at, key := doc, path
				if parent, field, nested := strings.Cut(path, "."); nested {
					key = field
					if parent == "steps[1]" {
						at = doc["steps"].([]any)[1].(map[string]any)
					} else {
						at = doc[parent].(map[string]any)
					}
				}
				delete(at, key)
			})
			if diff := cmp.Diff([]string{"MISSING " + path}, violations(t, doc)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// withField returns apiPlan with one field of its second step replaced.
func withField(t *testing.T, key, raw string) []byte {
	return mutate(t, func(doc map[string]any) {
		doc["steps"].([]any)[1].(map[string]any)[key] = json.RawMessage(raw)
	})
}

// contract: L01, T13, T66, T142
func TestParse_RefusesInvalidFieldsOfAStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, raw, want string }{
		{"stepId", `"a|1"`, "INVALID steps[1].stepId"}, // "|" separates the parts of keys
		{"stepId", `"RUN"`, "RESERVED steps[1].stepId"},
		{"stepId", `""`, "INVALID steps[1].stepId"},
		{"stepId", `"` + strings.Repeat("x", 129) + `"`, "INVALID steps[1].stepId"},
		{"stepId", `"a\n"`, "INVALID steps[1].stepId"},
		{"stepId", `7`, "INVALID steps[1].stepId"},
		{"type", `"SPARK"`, "UNKNOWN steps[1].type"},
		{"type", `"dbt_run"`, "UNKNOWN steps[1].type"},
		{"timeout", `"0s"`, "RANGE steps[1].timeout"},
		{"timeout", `"-1s"`, "RANGE steps[1].timeout"},
		{"timeout", `"169h"`, "RANGE steps[1].timeout"},
		{"timeout", `"soon"`, "INVALID steps[1].timeout"},
		{"timeout", `0`, "RANGE steps[1].timeout"},
		{"timeout", `604800001`, "RANGE steps[1].timeout"},
		{"timeout", `1.5`, "INVALID steps[1].timeout"},
		{"timeout", `1e999`, "RANGE steps[1].timeout"},
		{"timeout", `null`, "INVALID steps[1].timeout"},
		{"retry", `{"maxAttempts":0}`, "RANGE steps[1].retry.maxAttempts"},
		{"retry", `{"maxAttempts":11}`, "RANGE steps[1].retry.maxAttempts"},
		{"retry", `{"maxAttempts":"3"}`, "INVALID steps[1].retry.maxAttempts"},
		{"retry", `{"initialBackoffMs":99}`, "RANGE steps[1].retry.initialBackoffMs"},
		{"retry", `{"backoffMultiplier":0.5}`, "RANGE steps[1].retry.backoffMultiplier"},
		{"retry", `{"backoffMultiplier":10.5}`, "RANGE steps[1].retry.backoffMultiplier"},
		{"retry", `{"initialBackoffMs":2000,"maxBackoffMs":1000}`, "RANGE steps[1].retry.maxBackoffMs"},
		{"retry", `{"retryableErrors":["sunspots"]}`, "UNKNOWN steps[1].retry.retryableErrors[0]"},
		{"retry", `{"retryableErrors":["timeout","timeout"]}`, "DUPLICATE steps[1].retry.retryableErrors[1]"},
		{"retry", `{"attempts":3}`, "UNKNOWN steps[1].retry.attempts"},
		{"retry", `[]`, "INVALID steps[1].retry"},
		{"dispatch", `{"taskQueue":"tq-elsewhere"}`, "UNKNOWN steps[1].dispatch.taskQueue"},
		{"dispatch", `{"taskQueue":"tq-data-*"}`, "UNKNOWN steps[1].dispatch.taskQueue"},
		{"dispatch", `{"resourceClass":"huge"}`, "UNKNOWN steps[1].dispatch.resourceClass"},
		{"dispatch", `{"cancellable":"yes"}`, "INVALID steps[1].dispatch.cancellable"},
		{"name", `"a\u0007b"`, "INVALID steps[1].name"},
		{"group", `""`, "INVALID steps[1].group"},
		{"secretRefs", `{}`, "INVALID steps[1].secretRefs"},
		{"secretRefs", `[{"provider":"env"}]`, "MISSING steps[1].secretRefs[0].key"},
		{"secretRefs", `[{"provider":"v","key":"a/../b"}]`, "INVALID steps[1].secretRefs[0].key"},
		{"secretRefs", `[{"provider":"v","key":"/a"}]`, "INVALID steps[1].secretRefs[0].key"},
		{"secretRefs", `[{"provider":"v","key":"a/b/c/d/e/f/g/h/i"}]`, "RANGE steps[1].secretRefs[0].key"},
		{"secretRefs", `[{"provider":"v","key":"a","as":{}}]`, "INVALID steps[1].secretRefs[0].as"},
		{"secretRefs", `[{"provider":"v","key":"a","as":{"env":"A-B"}}]`, "INVALID steps[1].secretRefs[0].as.env"},
		{"secretRefs", `[{"provider":"v","key":"a","as":{"env":"DVT_RUN_ID"}}]`, "RESERVED steps[1].secretRefs[0].as.env"},
		{"secretRefs", `[{"provider":"v","key":"a","as":{"file":".."}}]`, "INVALID steps[1].secretRefs[0].as.file"},
		{"secretRefs", `[{"provider":"v","key":"a#p"},{"provider":"w","key":"p"}]`, "DUPLICATE steps[1].secretRefs[1]"},
		{"plugin", `{"id":"x"}`, "UNKNOWN steps[1].plugin"},
		{"odd key", `1`, `UNKNOWN steps[1]["odd key"]`},
	} {
		t.Run(c.key+" "+c.raw[:min(len(c.raw), 40)], func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff([]string{c.want}, violations(t, withField(t, c.key, c.raw))); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// contract: L01
func TestParse_RefusesInvalidFieldsOfADocument(t *testing.T) {
	t.Parallel()
	under := func(parent, key string, val any) func(map[string]any) {
		return func(doc map[string]any) { doc[parent].(map[string]any)[key] = val }
	}
	for _, c := range []struct {
		name   string
		change func(map[string]any)
		want   string
	}{
		{"unknown at the top", func(doc map[string]any) { doc["hooks"] = 1 }, "UNKNOWN hooks"},
		{"unknown in metadata", under("metadata", "owner", "x"), "UNKNOWN metadata.owner"},
		{"unknown in scope", under("scope", "region", "x"), "UNKNOWN scope.region"},
		{"case matters", under("scope", "TenantId", "x"), "UNKNOWN scope.TenantId"},
		{"planVersion with a bar", under("metadata", "planVersion", "1|0"), "INVALID metadata.planVersion"},
		{"tenant with a space", under("scope", "tenantId", "a b"), "INVALID scope.tenantId"},
		{"createdAt", under("metadata", "createdAt", "yesterday"), "INVALID metadata.createdAt"},
		{"createdAt after the year 9999 in UTC", under("metadata", "createdAt", "9999-12-31T23:59:59-10:00"),
			"INVALID metadata.createdAt"},
		{"createdBy", under("metadata", "createdBy", ""), "INVALID metadata.createdBy"},
		{"repoSha", under("scope", "repoSha", strings.Repeat("x", 257)), "RANGE scope.repoSha"},
		{"different schema versions", under("metadata", "schemaVersion", "v1.1"), "INVALID metadata.schemaVersion"},
		{"window below 0", under("metadata", "failurePolicy", map[string]any{"retryWindowSeconds": -1}),
			"RANGE metadata.failurePolicy.retryWindowSeconds"},
		{"unknown policy", under("metadata", "failurePolicy", map[string]any{"continueOnFailure": true}),
			"UNKNOWN metadata.failurePolicy.continueOnFailure"},
		{"steps an object", func(doc map[string]any) { doc["steps"] = map[string]any{} }, "INVALID steps"},
		{"no steps", func(doc map[string]any) { doc["steps"] = []any{} }, "RANGE steps"},
		{"a step that is not an object", func(doc map[string]any) { doc["steps"] = []any{7} }, "INVALID steps[0]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff([]string{c.want}, violations(t, mutate(t, c.change))); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// contract: L01
func TestParse_ReportsAllViolationsInDocumentOrder(t *testing.T) {
	t.Parallel()
	doc := `{"steps":[{"stepId":"a|1","type":"X","inputs":{},"timeout":"0s","retry":{"maxAttempts":11}},` +
		`{"stepId":"b","type":"COMMAND","inputs":{"argv":[]},"timeout":"1s","dependsOn":["c"]}],` +
		`"scope":{"tenantId":"t"},"metadata":{"planId":"p","planId":"p"},"schemaVersion":"v1","extra":1}`
	want := []string{
		"DUPLICATE metadata.planId", "MISSING metadata.planVersion", "MISSING metadata.createdAt",
		"MISSING metadata.createdBy",
		"MISSING metadata.schemaVersion", "MISSING scope.projectId", "MISSING scope.environmentId", "MISSING scope.repoSha",
		"INVALID steps[0].stepId", "UNKNOWN steps[0].type", "RANGE steps[0].timeout", "RANGE steps[0].retry.maxAttempts",
		"DANGLING steps[1].dependsOn[0]", "INVALID steps[1].inputs.argv", "UNKNOWN extra",
	}
	if diff := cmp.Diff(want, violations(t, []byte(doc))); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

func TestParse_ReportsDuplicateKeysAtEveryLevel(t *testing.T) {
	t.Parallel()
	doc := withSteps(
		`{"stepId":"a","type":"NOOP","type":"SLEEP","inputs":{},"timeout":"1s"}`,
		`{"stepId":"b","type":"DBT_RUN","timeout":"1s","inputs":{"projectDir":"x","vars":{"k":[{"deep":1,"de\u0065p":2}]}}}`,
		`{"stepId":"c","type":"COMMAND","timeout":"1s","inputs":{"argv":["x"],"env":{"A":"1","A":"2"}}}`,
	)
	want := []string{"DUPLICATE steps[0].type", "DUPLICATE steps[1].inputs.vars.k[0].deep",
		"DUPLICATE steps[2].inputs.env.A"}
	if diff := cmp.Diff(want, violations(t, doc)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

func TestParse_RefusesTextThatIsNotAJSONObject(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ doc, message string }{
		"empty":        {"", "unexpected end"},
		"syntax":       {"{\n  \"steps\": [,]\n}", "line 2, column 13"},
		"two values":   {`{} {}`, "line 1"},
		"not UTF-8":    {"{\"a\":\"\xff\"}", "UTF-8"},
		"too deep":     {strings.Repeat("[", 40) + strings.Repeat("]", 40), "deeper than 32"},
		"far too deep": {strings.Repeat("[", 1_000_000), "not JSON"},
		"a list":       {`[]`, "write an object"},
		"null":         {`null`, "write an object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := plan.Parse([]byte(c.doc), queues)
			violationsOf(t, err)
			if !strings.Contains(err.Error(), c.message) {
				t.Errorf("Parse() = %q, want an error that contains %q", err, c.message)
			}
		})
	}
}

// contract: L02, T140
func TestParse_AcceptsSupportedSchemaVersionsOnly(t *testing.T) {
	t.Parallel()
	doc := func(top, inner string) []byte {
		return mutate(t, func(doc map[string]any) {
			doc["schemaVersion"] = top
			doc["metadata"].(map[string]any)["schemaVersion"] = inner
		})
	}
	for _, v := range [][2]string{{"v1", "v1"}, {"v1", "v1.0"}, {"v1.0", "v1"}, {"v1.1", "v1.1"}, {"v1.2", "v1.2"}} {
		if p := mustParse(t, doc(v[0], v[1])); p.SchemaVersion != v[0] {
			t.Errorf("schemaVersion %q, want %q", p.SchemaVersion, v[0])
		}
	}
	for _, v := range []string{"v9", "v2", "v1.3", "1.2", ""} {
		if _, err := plan.Parse(doc(v, v), queues); !errors.Is(err, plan.ErrUnsupportedSchema) {
			t.Errorf("%q: got %v, want ErrUnsupportedSchema", v, err)
		}
	}
	// The rest of a document with another version is not checked.
	if _, err := plan.Parse([]byte(`{"schemaVersion":"v9"}`), queues); !errors.Is(err, plan.ErrUnsupportedSchema) {
		t.Errorf("got %v, want ErrUnsupportedSchema", err)
	}
}

func TestParse_IgnoresAdapterConstraints(t *testing.T) {
	t.Parallel()
	mustParse(t, mutate(t, func(doc map[string]any) {
		doc["metadata"].(map[string]any)["adapterConstraints"] = map[string]any{"temporal": []any{"signal"}}
	}))
}

// contract: L07
func TestParse_RefusesALiteralSecretWithoutRepeatingIt(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-hunter2"
	_, err := plan.Parse(
		withField(t, "secretRefs", `[{"provider":"env","key":"DB","version":"3"},{"provider":"env","key":"DB2","value":"`+secret+
			`"}]`), queues)
	if diff := cmp.Diff([]string{"LITERAL steps[1].secretRefs[1].value"}, violationsOf(t, err)); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	text, _ := json.Marshal(invalid(t, err))
	if strings.Contains(err.Error()+string(text), secret) {
		t.Error("the error contains the secret")
	}
}

// contract: O5
func TestParse_LimitsStepsAndBytes(t *testing.T) {
	t.Parallel()
	many := func(n int) []byte {
		var list []string
		for i := range n {
			list = append(list, noop(fmt.Sprintf("s%05d", i), ""))
		}
		return withSteps(list...)
	}
	if p := mustParse(t, many(plan.MaxSteps)); len(p.Steps) != plan.MaxSteps {
		t.Errorf("the plan has %d steps, want %d", len(p.Steps), plan.MaxSteps)
	}
	if diff := cmp.Diff([]string{"RANGE steps"}, violations(t, many(plan.MaxSteps+1))); diff != "" {
		t.Errorf("violations of a plan with too many steps (-want +got):\n%s", diff)
	}
	fits := append([]byte(apiPlan), bytes.Repeat([]byte(" "), plan.MaxDocumentBytes-len(apiPlan))...)
	mustParse(t, fits)
	if _, err := plan.Parse(append(fits, ' '), queues); !errors.Is(err, plan.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", err)
	}
}

func TestParse_BoundsTheListOfViolations(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range plan.MaxSteps {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"stepId":"s%d"}`, i)
	}
	_, err := plan.Parse(withSteps(b.String()), queues)
	list := violationsOf(t, err)
	if got, want := len(list), plan.MaxViolations+1; got != want {
		t.Fatalf("%d violations, want %d", got, want)
	}
	found := invalid(t, err)
	if last := found[len(found)-1]; last.Code != plan.CodeTooMany ||
		last.Message != "10000 more are not listed; correct these first" {
		t.Errorf("last violation %+v, want TOO_MANY with the number 10000", last)
	}
}

func TestParse_BoundsTheViolationsOfOneObject(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 2 * plan.MaxViolations {
		fmt.Fprintf(&b, `"k%d":0,`, i)
	}
	doc := "{" + strings.TrimSuffix(b.String(), ",") + "}"
	if got, want := len(violations(t, []byte(doc))), plan.MaxViolations+1; got != want {
		t.Errorf("%d violations, want %d", got, want)
	}
}

func TestParse_ReadsAMarshalledPlanAsTheSamePlan(t *testing.T) {
	t.Parallel()
	for name, doc := range map[string][]byte{
		"documented": []byte(apiPlan),
		"chain":      withSteps(noop("b", ""), noop("a", `,"name":"<A & B>"`)),
		"parallel":   withSteps(noop("b", `,"dependsOn":[]`), noop("a", `,"dependsOn":[]`)),
		"hooks": withSteps(manual("a", ""), manual("b", `,"manual":{"sod":false,"timeout":1500}`),
			noop("c", `,"compensation":{"operation":"COMMAND","input":{"argv":["<&>"]}}`)),
		"escapes": withSteps(`{"stepId":"a","type":"COMMAND","timeout":1500,"inputs":{"argv":["sh", "<&>\u2028 \ud800"]}}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := mustParse(t, doc)
			again, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(p, mustParse(t, again)); diff != "" {
				t.Errorf("plan after a round trip (-want +got):\n%s", diff)
			}
		})
	}
}

// invalid returns the violations of an *InvalidError.
func invalid(t *testing.T, err error) []plan.Violation {
	t.Helper()
	var e *plan.InvalidError
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *InvalidError", err)
	}
	return e.Violations
}
