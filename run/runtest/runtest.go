// Package runtest makes logs of runs for tests: single valid events, random logs that an engine could have written, and
// hostile logs that no engine should write. The results depend only on the arguments and the seed.
package runtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/run"
)

// ID is the identity of the runs that this package makes.
var ID = run.Identity{
	RunID: "8c5b1d9e-7f0a-4c1b-9a55-2f6d3e4b7a10", TenantID: "t1", ProjectID: "p1", EnvironmentID: "sandbox",
	PlanID: "plan-3", PlanVersion: "1.0",
}

// Epoch is the time of the first event.
var Epoch = time.Date(2026, 2, 16, 12, 0, 0, 0, time.UTC)

// Types lists every type that may be appended.
var Types = []run.EventType{
	run.RunQueued, run.RunApproved, run.RunStarted, run.RunPaused, run.RunResumed, run.RunCompleted, run.RunFailed,
	run.RunCancelled,
	run.StepStartedEvent, run.StepCompletedEvent, run.StepFailedEvent, run.StepSkippedEvent, run.SignalAccepted,
	run.SignalRejected,
	run.StepAwaitingManualCompletion, run.StepCompensated, run.StepCompensationFailed, run.RunCompensationStarted,
	run.StepNodesReported,
}

// M is a JSON object.
type M = map[string]any

// Draft returns a valid draft of type t. The subject is the step of a step event, or the signal of a signal decision or
// of a pause; other types ignore it. The members of more replace the default members of the payload; a nil value
// removes a member.
func Draft(t run.EventType, subject string, logicalAttempt int, more ...M) run.Draft {
	d := run.Draft{Type: t, LogicalAttempt: logicalAttempt, EngineAttempt: 1, EmittedAt: Epoch, EmittedBy: producer(t)}
	payload := defaults(t, subject)
	switch {
	case t.OfStep():
		d.StepID = subject
	case t.OfSignal():
		d.SignalID = subject
	}
	for _, m := range more {
		maps.Copy(payload, m)
	}
	maps.DeleteFunc(payload, func(_ string, v any) bool { return v == nil })
	d.Payload = JSON(payload)
	return d
}

// Start returns a valid RunStarted with the steps in this order. "final<a,b" is the step final that depends on a and b.
func Start(steps ...string) run.Draft {
	outlines := make([]M, 0, len(steps))
	for _, s := range steps {
		id, deps, after := strings.Cut(s, "<")
		o := M{"stepId": id, "type": "NOOP"}
		if after {
			o["dependsOn"] = strings.Split(deps, ",")
		}
		outlines = append(outlines, o)
	}
	return Draft(run.RunStarted, "", 1, M{"steps": outlines})
}

// Log turns drafts into the events of a log from Seq 1, with keys and ids as a store computes them. The clock advances
// by one second with each event.
func Log(drafts ...run.Draft) []run.Event {
	evs := make([]run.Event, len(drafts))
	for i, d := range drafts {
		evs[i] = Event(run.Seq(i+1), d)
	}
	return evs
}

// Event turns a draft into the event at seq of the log of ID.
func Event(seq run.Seq, d run.Draft) run.Event {
	at := Epoch.Add(time.Duration(seq) * time.Second)
	key := d.Key(ID)
	return run.Event{
		Identity: ID, EventID: key.EventID(), Type: d.Type, Seq: seq, Key: key, StepID: d.StepID, SignalID: d.SignalID,
		LogicalAttempt: d.LogicalAttempt, EngineAttempt: d.EngineAttempt, EmittedAt: at,
		PersistedAt: at.Add(time.Millisecond),
		EmittedBy:   d.EmittedBy, Payload: d.Payload,
	}
}

// JSON encodes v. It panics if v cannot be encoded.
func JSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("runtest: %v", err))
	}
	return b
}

func producer(t run.EventType) run.Producer {
	for _, p := range []run.Producer{run.ByEngine, run.ByPlanner, run.ByAdmission, run.ByAuthz} {
		if p.May(t) {
			return p
		}
	}
	return run.ByControl
}

const signalID = "11111111-1111-4111-8111-111111111111"

func defaults(t run.EventType, subject string) M {
	switch t {
	case run.RunQueued:
		return M{"queuePosition": 1, "estimatedWaitMs": 30000}
	case run.RunStarted:
		return M{
			"startedAt": Epoch,
			"planRef": M{"uri": "file:///plans/plan-3.json", "sha256": strings.Repeat("ab", 32), "schemaVersion": "v1.2",
				"planId": ID.PlanID, "planVersion": ID.PlanVersion},
			"engineRunRef": M{"provider": "mock", "namespace": "default", "workflowId": "dvt/t1/" + ID.RunID},
			"policy": M{"retryWindowMs": 600000, "drainTimeoutMs": 300000, "maxParallelSteps": 100,
				"maxLogicalAttemptsManual": 10},
			"steps":       []M{{"stepId": "s1", "type": "NOOP"}, {"stepId": "s2", "type": "NOOP", "dependsOn": []string{"s1"}}},
			"triggeredBy": "ola",
		}
	case run.RunPaused, run.RunResumed:
		if subject == "" {
			subject = signalID
		}
		return M{"signalId": subject, "reason": "maintenance", "pauseRequestedBy": "ola", "runningStepsCount": 0}
	case run.RunFailed:
		return M{"errorCode": "ENGINE_LOST", "errorMessage": "the engine lost the run", "retryable": true,
			"failureCategory": "PLATFORM"}
	case run.RunCancelled:
		return M{"signalId": signalID, "actor": "eng", "reason": "wrong data"}
	case run.StepCompletedEvent:
		return M{"result": M{"rows": 7}, "durationMs": 900,
			"artifactRefs": []M{{"uri": "file:///out/" + subject, "kind": "log-bundle", "sizeBytes": 12}}}
	case run.StepFailedEvent:
		return M{"errorCode": "EXIT_STATUS", "errorMessage": "exit status 1", "retryable": true, "failureCategory": "USER",
			"failureSource": "activity"}
	case run.StepSkippedEvent:
		return M{"reasonCode": "OPERATOR_SKIP", "reason": "not needed today"}
	case run.StepAwaitingManualCompletion:
		return M{"sinceIso": Epoch}
	case run.StepCompensated:
		return M{"stepId": subject, "idempotencyKey": ID.RunID + ":" + subject + ":compensate", "attempts": 1,
			"compensated": true, "result": M{"rows": 7}}
	case run.StepCompensationFailed:
		return M{"stepId": subject, "idempotencyKey": ID.RunID + ":" + subject + ":compensate", "attempts": 2,
			"compensated": false, "errorCode": "EXIT_STATUS", "errorMessage": "exit status 1"}
	case run.StepNodesReported:
		return M{"batch": 1, "counts": M{"total": 3, "running": 1}, "nodes": []M{{"id": "model.shop.orders", "type": "model",
			"status": "RUNNING", "at": Epoch}}}
	case run.RunCompensationStarted:
		return M{"stepIds": []string{"s1"}}
	case run.SignalAccepted:
		return M{"signalId": subject, "signalType": "PAUSE", "actor": "ola", "reason": "maintenance"}
	case run.SignalRejected:
		return M{"signalId": subject, "signalType": "RESUME", "actor": "ola", "code": "INVALID_RUN_STATE"}
	}
	return M{}
}
