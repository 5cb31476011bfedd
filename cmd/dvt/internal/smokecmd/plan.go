package smokecmd

import (
	"encoding/json"
	"time"
)

// The steps of the run.
const (
	stepSleep  = "sleep" // all others depend on it, so that there is time to pause the run
	stepNoop   = "noop"
	stepHello  = "hello" // prints a text that the log must contain
	stepFails  = "fails-once"
	stepManual = "manual"
	stepNotify = "notify"
)

// sleepTime is how long the first step takes. The run is paused meanwhile.
const sleepTime = 3 * time.Second

type object = map[string]any

// plan returns the document of the run with a step of every type that the options name. hello is what a step prints.
func (o options) plan(tenant, hello string, now time.Time) (json.RawMessage, error) {
	steps := []object{step(stepSleep, "SLEEP", nil, object{"ms": sleepTime.Milliseconds()})}
	add := func(id, kind string, inputs object) {
		steps = append(steps, step(id, kind, []string{stepSleep}, inputs))
	}
	add(stepNoop, "NOOP", object{})
	if !o.noCommand {
		add(stepHello, "COMMAND", object{"argv": []string{"sh", "-c", "echo " + hello}})
		add(stepFails, "COMMAND", object{"argv": []string{"sh", "-c", `test "$DVT_LOGICAL_ATTEMPT" -gt 1`}})
	}
	if !o.noManual {
		add(stepManual, "MANUAL", object{"instructions": "dvt smoke completes this step."})
		steps[len(steps)-1]["manual"] = object{"sod": false} // the caller started the run
	}
	if o.notify != "" {
		add(stepNotify, "HTTP_NOTIFY", object{"url": o.notify, "method": "POST", "body": object{"text": "dvt smoke"}})
	}
	if o.dbt != "" {
		var before []string
		for _, kind := range []string{"compile", "run", "test"} {
			id := "dbt-" + kind
			s := step(id, "DBT_"+map[string]string{"compile": "COMPILE", "run": "RUN", "test": "TEST"}[kind],
				append([]string{stepSleep}, before...), object{"projectDir": o.dbt})
			steps, before = append(steps, s), []string{id}
		}
	}
	const schema = "v1.2"
	return json.Marshal(object{
		"schemaVersion": schema,
		"metadata": object{"planId": "dvt-smoke", "planVersion": "1.0", "schemaVersion": schema,
			"createdAt": now.UTC().Format(time.RFC3339), "createdBy": "dvt smoke",
			"failurePolicy": object{"retryWindowSeconds": 600}},
		"scope": object{"tenantId": tenant, "projectId": o.project, "environmentId": o.environment,
			"repoSha": "0000000000000000000000000000000000000000"},
		"steps": steps,
	})
}

func step(id, kind string, dependsOn []string, inputs object) object {
	if dependsOn == nil {
		dependsOn = []string{}
	}
	s := object{"stepId": id, "name": "Smoke: " + id, "type": kind, "timeout": "5m", "dependsOn": dependsOn,
		"inputs": inputs}
	if kind != "SLEEP" && kind != "NOOP" && kind != "MANUAL" {
		s["retry"] = object{"maxAttempts": 1, "initialBackoffMs": 1000, "backoffMultiplier": 2.0, "maxBackoffMs": 30_000}
	}
	return s
}

// drainPlan returns the document of the run while a worker is drained: one step on the queue of that worker.
func (o options) drainPlan(tenant, hello string) (json.RawMessage, error) {
	doc, err := o.plan(tenant, hello, time.Now())
	if err != nil || o.noCommand {
		return doc, err
	}
	var p object
	if err := json.Unmarshal(doc, &p); err != nil {
		return nil, err
	}
	p["steps"] = []object{step(stepHello, "COMMAND", nil, object{"argv": []string{"sh", "-c", "echo " + hello}})}
	return json.Marshal(p)
}
