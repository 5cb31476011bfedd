package run_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/run"
)

var nightly = run.Identity{TenantID: "acme", ProjectID: "shop", EnvironmentID: "prod", RunID: "r-1",
	PlanID: "nightly", PlanVersion: "1.0"}

// events gives drafts consecutive positions, as a store does when it appends them.
func events(drafts ...run.Draft) (log []run.Event) {
	at := time.Date(2026, 1, 1, 2, 0, 0, 0, time.UTC)
	for i, d := range drafts {
		log = append(log, run.Event{Identity: nightly, Type: d.Type, Seq: run.Seq(i + 1), Key: d.Key(nightly),
			StepID: d.StepID, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: at, PersistedAt: at, Payload: d.Payload})
	}
	return log
}

// failedRun returns the log of a run whose only step failed.
func failedRun() []run.Event {
	return events(
		run.Draft{Type: run.RunApproved, LogicalAttempt: 1},
		run.Draft{Type: run.RunStarted, LogicalAttempt: 1,
			Payload: json.RawMessage(`{"steps":[{"stepId":"load","type":"COMMAND"}]}`)},
		run.Draft{Type: run.StepStartedEvent, StepID: "load", LogicalAttempt: 1},
		run.Draft{Type: run.StepFailedEvent, StepID: "load", LogicalAttempt: 1,
			Payload: json.RawMessage(`{"errorCode":"EXIT_STATUS","errorMessage":"exit status 1","retryable":true}`)},
	)
}

// The state of a run is the fold of its log. It depends on nothing else.
func ExampleProject() {
	state := run.Project(nightly, failedRun())
	step, _ := state.Step("load")
	fmt.Println(state.Status, state.Seq)
	fmt.Println(step.StepID, step.Status, step.Attempts[0].Error.Code)
	// Output:
	// RUNNING 4
	// load FAILED EXIT_STATUS
}

// Events that a state already contains change nothing, so a reader may fold overlapping pages of a log.
func ExampleFold() {
	log := failedRun()
	state, _, _ := run.Fold(run.State{Header: run.Header{Identity: nightly}}, log[:3])
	fmt.Println(state.Seq)
	state, changes, _ := run.Fold(state, log[1:])
	fmt.Println(state.Seq, changes.Steps)
	// Output:
	// 3
	// 4 [0]
}

// Judge decides a signal in the same way when it is previewed, accepted and applied.
func ExampleJudge() {
	state := run.Project(nightly, failedRun())
	for _, sig := range []run.Signal{
		{ID: "s1", Type: run.RetryStep, StepID: "load"},
		{ID: "s2", Type: run.Resume},
		{ID: "s3", Type: run.RetryStep, StepID: "missing"},
	} {
		d := run.Judge(state, sig)
		fmt.Printf("%s %t %q\n", sig.Type, d.Outcome == run.Accept, d.Code)
	}
	// Output:
	// RETRY_STEP true ""
	// RESUME false "ALREADY_IN_STATE"
	// RETRY_STEP false "STEP_NOT_FOUND"
}

// The key of an event depends on its fact, not on the engine attempt, so that an append can be repeated.
func ExampleDraft_Key() {
	started := run.Draft{Type: run.StepStartedEvent, StepID: "load", LogicalAttempt: 1, EngineAttempt: 1}
	again := started
	again.EngineAttempt = 2 // another worker, the same attempt
	retry := started
	retry.LogicalAttempt = 2
	fmt.Println(started.Key(nightly) == again.Key(nightly), started.Key(nightly) == retry.Key(nightly))
	// Output: true false
}

// A viewer at position 3 needs the header and one step to be up to date.
func ExampleState_Since() {
	state := run.Project(nightly, failedRun())
	delta := state.Since(3)
	fmt.Println(delta.From, delta.To, len(delta.Steps))
	// Output: 3 4 1
}
