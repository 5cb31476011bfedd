package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/dvt-engine/dvt/plan"
)

// nightly is a plan of two steps.
const nightly = `{
  "schemaVersion": "v1.2",
  "metadata": {"planId": "nightly", "planVersion": "1.0", "schemaVersion": "v1.2",
    "createdAt": "2026-01-01T00:00:00Z", "createdBy": "planner"},
  "scope": {"tenantId": "acme", "projectId": "shop", "environmentId": "prod",
    "repoSha": "0000000000000000000000000000000000000000"},
  "steps": [
    {"stepId": "load", "type": "COMMAND", "inputs": {"argv": ["load.sh"]}, "timeout": "10m"},
    {"stepId": "report", "type": "NOOP", "inputs": {}, "timeout": "1m", "dependsOn": ["load"]}
  ]
}`

func ExampleParse() {
	pl, err := plan.Parse([]byte(nightly), plan.DefaultQueues())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, step := range pl.Steps {
		fmt.Println(step.StepID, step.Type, step.DependsOn)
	}
	// Output:
	// load COMMAND []
	// report NOOP [load]
}

// The error of an invalid plan lists all violations, not only the first.
func ExampleParse_violations() {
	_, err := plan.Parse([]byte(`{"schemaVersion": "v1.2", "steps": [
	  {"stepId": "a", "type": "COMMAND", "inputs": {"argv": []}, "timeout": "never", "dependsOn": ["b"]}]}`),
		plan.DefaultQueues())
	var invalid *plan.InvalidError
	if errors.As(err, &invalid) {
		for _, v := range invalid.Violations {
			if strings.HasPrefix(v.Path, "steps") {
				fmt.Println(v.Path, v.Code)
			}
		}
	}
	// Output:
	// steps[0].dependsOn[0] DANGLING
	// steps[0].inputs.argv INVALID
	// steps[0].timeout INVALID
}

// A reference pins a plan by the hash of its bytes, so that nobody can change it after approval.
func ExampleRefOf() {
	pl, err := plan.Parse([]byte(nightly), plan.DefaultQueues())
	if err != nil {
		fmt.Println(err)
		return
	}
	ref := plan.RefOf([]byte(nightly), pl, "https://plans.example.com/nightly.json")
	fmt.Println(ref.PlanID, ref.PlanVersion, ref.Check([]byte(nightly)))
	fmt.Println(errors.Is(ref.Check([]byte(nightly+" ")), plan.ErrHashMismatch))
	// Output:
	// nightly 1.0 <nil>
	// true
}

func ExampleMergePatch() {
	patched := plan.MergePatch(
		json.RawMessage(`{"argv":["load.sh"],"env":{"MODE":"full","DEBUG":"1"}}`),
		json.RawMessage(`{"env":{"MODE":"delta","DEBUG":null}}`))
	fmt.Println(string(patched))
	// Output: {"argv":["load.sh"],"env":{"MODE":"delta"}}
}

func ExampleQueues_For() {
	q := plan.Queues{Control: "tq-control-{env}", Data: "tq-data-{env}", Isolation: "tq-isolation-{tenant}-{env}",
		IsolationTenants: []string{"bank"}}
	fmt.Println(q.For("acme", "prod").Data)
	fmt.Println(q.For("bank", "prod").Data)
	// Output:
	// tq-data-prod
	// tq-isolation-bank-prod
}
