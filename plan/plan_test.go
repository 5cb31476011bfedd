package plan_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/plan"
)

var queues = plan.Queues{Control: "tq-control-dev", Data: "tq-data-dev", Known: []string{"tq-control-dev",
	"tq-data-dev"}}

// apiPlan is the plan in the public documentation.
const apiPlan = `{ "schemaVersion": "v1.2",
  "metadata": { "planId": "nightly", "planVersion": "1.0", "createdAt": "2026-11-21T00:00:00Z", "createdBy": "planner", "schemaVersion": "v1.2",
                "failurePolicy": { "retryWindowSeconds": 600, "cancelRunning": false } },
  "scope": { "tenantId": "acme", "projectId": "shop", "environmentId": "dev", "repoSha": "0000000000000000000000000000000000000000" },
  "steps": [
    { "stepId": "compile", "type": "DBT_COMPILE", "inputs": { "projectDir": "examples/shop" }, "timeout": "2m" },
    { "stepId": "run", "type": "DBT_RUN", "dependsOn": ["compile"], "inputs": { "projectDir": "examples/shop", "select": "+orders" }, "timeout": "10m",
      "retry": { "maxAttempts": 3, "initialBackoffMs": 1000, "backoffMultiplier": 2.0, "maxBackoffMs": 30000, "retryableErrors": ["timeout", "transport"] },
      "dispatch": { "taskQueue": "tq-data-dev", "resourceClass": "heavy", "cancellable": true } } ] }`

// withSteps returns a valid document with the given steps.
func withSteps(steps ...string) []byte {
	return []byte(`{"schemaVersion":"v1.2","metadata":{"planId":"p","planVersion":"1.0","createdAt":"2026-11-21T00:00:00Z","createdBy":"me","schemaVersion":"v1.2"},` +
		`"scope":{"tenantId":"t","projectId":"p","environmentId":"e","repoSha":"abc"},"steps":[` + strings.Join(steps, ",") +
		`]}`)
}

// noop returns a NOOP step with further members, as JSON.
func noop(id, more string) string {
	name, _ := json.Marshal(id)
	return `{"stepId":` + string(name) + `,"type":"NOOP","inputs":{},"timeout":"1m"` + more + `}`
}

func mustParse(t testing.TB, doc []byte) plan.Plan {
	t.Helper()
	p, err := plan.Parse(doc, queues)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return p
}

// violations returns the violations of an invalid document, each as "CODE path".
func violations(t testing.TB, doc []byte) []string {
	t.Helper()
	_, err := plan.Parse(doc, queues)
	return violationsOf(t, err)
}

// violationsOf returns the violations of an *InvalidError, each as "CODE path".
func violationsOf(t testing.TB, err error) []string {
	t.Helper()
	var invalid *plan.InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v, want *InvalidError", err)
	}
	var list []string
	for _, v := range invalid.Violations {
		if v.Message == "" {
			t.Errorf("%s %s has no message", v.Code, v.Path)
		}
		list = append(list, v.Code+" "+v.Path)
	}
	return list
}

// mutate returns apiPlan after f has changed its parsed JSON.
func mutate(t testing.TB, f func(doc map[string]any)) []byte {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(apiPlan), &doc); err != nil {
		t.Fatal(err)
	}
	f(doc)
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A plan of a deprecated version is read as before, with a warning that names the day and the version to write.
// contract: R281
func TestWarnings_NameTheEndOfADeprecatedSchema(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{"v1": "2028-06-30", "v1.0": "2028-06-30", "v1.1": "", "v1.2": ""} {
		p := mustParse(t, []byte(strings.ReplaceAll(apiPlan, `"v1.2"`, `"`+version+`"`)))
		if p.SchemaVersion != version {
			t.Fatalf("the plan has the version %s, want %s", p.SchemaVersion, version)
		}
		var found string
		for _, w := range p.Warnings() {
			if w.Path == "schemaVersion" {
				found += w.Message
			}
		}
		if plan.SchemaEnd(version) != want || strings.Contains(found, want+". Write v1.2.") != (want != "") {
			t.Errorf("%s: the end is %q and the warning %q, want %q", version, plan.SchemaEnd(version), found, want)
		}
	}
}
