package mock_test

import (
	"fmt"

	"github.com/dvt-engine/dvt/engine/mock"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// A script gives the behaviour of executions. Here the first execution fails after 5 s, and the platform retries it
// after a backoff of 1 s within the same attempt. The simulation needs no server and no real time.
func ExampleSimulate() {
	doc := []byte(`{"schemaVersion": "v1.2", "metadata": {"planId": "nightly", "planVersion": "1.0",
	  "schemaVersion": "v1.2", "createdAt": "2026-01-01T00:00:00Z", "createdBy": "planner"},
	  "scope": {"tenantId": "acme", "projectId": "shop", "environmentId": "prod",
	    "repoSha": "0000000000000000000000000000000000000000"},
	  "steps": [{"stepId": "load", "type": "COMMAND", "inputs": {"argv": ["load.sh"]}, "timeout": "10m",
	    "retry": {"maxAttempts": 2, "initialBackoffMs": 1000, "backoffMultiplier": 2.0, "maxBackoffMs": 30000}}]}`)
	pl, err := plan.Parse(doc, plan.DefaultQueues())
	if err != nil {
		fmt.Println(err)
		return
	}
	script, err := mock.ParseScript([]byte(`{"steps": {"load": [{"takes": "5s", "fails": "EXIT_STATUS"}]}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	sim, err := mock.Simulate(doc, pl, plan.DefaultQueues(), run.DefaultPolicy(), script)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range sim.Events {
		fmt.Println(e.Seq, e.Type)
	}
	fmt.Println(sim.State.Status, "after", sim.Took)
	// Output:
	// 1 RunApproved
	// 2 RunStarted
	// 3 StepStarted
	// 4 StepCompleted
	// 5 RunCompleted
	// COMPLETED after 6s
}
