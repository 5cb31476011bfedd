package run_test

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// draftOf returns a valid draft of type t.
func draftOf(t run.EventType) run.Draft { return runtest.Draft(t, "s1", 1) }

// contract: A09
func TestValidate_AcceptsEveryType(t *testing.T) {
	t.Parallel()
	for _, typ := range runtest.Types {
		if err := draftOf(typ).Validate(runtest.ID); err != nil {
			t.Errorf("Validate(%s): %v", typ, err)
		}
	}
}

// contract: A09, A10, T40
func TestValidate_RefusesInvalidDrafts(t *testing.T) {
	t.Parallel()
	change := func(typ run.EventType, f func(*run.Draft)) run.Draft {
		d := draftOf(typ)
		f(&d)
		return d
	}
	payload := func(typ run.EventType, m runtest.M) run.Draft { return runtest.Draft(typ, "s1", 1, m) }
	noPlan := runtest.ID
	noPlan.PlanID = ""
	pipe := runtest.ID
	pipe.TenantID = "t|1"
	huge := json.RawMessage(`{"x":"` + strings.Repeat("x", run.MaxPayloadBytes) + `"}`)

	tests := []struct {
		name  string
		id    run.Identity
		draft run.Draft
		path  string
	}{
		{"type with the prefix on", runtest.ID, change(run.RunStarted, func(d *run.Draft) { d.Type = "onRunStarted" }),
			"eventType"},
		{"unknown type", runtest.ID, change(run.RunStarted, func(d *run.Draft) { d.Type = "FutureThing" }), "eventType"},
		{"no planId", noPlan, draftOf(run.RunApproved), "planId"},
		{"delimiter in an id", pipe, draftOf(run.RunApproved), "tenantId"},
		{"logical attempt 0", runtest.ID, change(run.StepStartedEvent, func(d *run.Draft) { d.LogicalAttempt = 0 }),
			"logicalAttemptId"},
		{"no engine attempt", runtest.ID, change(run.StepStartedEvent, func(d *run.Draft) { d.EngineAttempt = 0 }),
			"engineAttemptId"},
		{"second attempt of a run", runtest.ID, change(run.RunStarted, func(d *run.Draft) { d.LogicalAttempt = 2 }),
			"logicalAttemptId"},
		{"run event with a step", runtest.ID, change(run.RunCompleted, func(d *run.Draft) { d.StepID = "s1" }), "stepId"},
		{"step event without a step", runtest.ID, change(run.StepStartedEvent, func(d *run.Draft) { d.StepID = "" }),
			"stepId"},
		{"delimiter in a step", runtest.ID, change(run.StepStartedEvent, func(d *run.Draft) { d.StepID = "a|1" }), "stepId"},
		{"reserved step", runtest.ID, change(run.StepStartedEvent, func(d *run.Draft) { d.StepID = "RUN" }), "stepId"},
		{"decision without a signal", runtest.ID, change(run.SignalAccepted, func(d *run.Draft) { d.SignalID = "" }),
			"signalId"},
		{"signal on another event", runtest.ID, change(run.RunPaused, func(d *run.Draft) { d.SignalID = "u1" }), "signalId"},
		{"another signal in the payload", runtest.ID, change(run.SignalAccepted, func(d *run.Draft) { d.SignalID = "u2" }),
			"payload.signalId"},
		{"no time", runtest.ID, change(run.RunApproved, func(d *run.Draft) { d.EmittedAt = time.Time{} }), "emittedAt"},
		{"another producer", runtest.ID, change(run.RunApproved, func(d *run.Draft) { d.EmittedBy = run.ByEngine }),
			"emittedBy"},
		{"no producer", runtest.ID, change(run.RunApproved, func(d *run.Draft) { d.EmittedBy = "" }), "emittedBy"},
		{"another plan version", runtest.ID, payload(run.RunStarted, runtest.M{"planRef": runtest.M{
			"sha256": strings.Repeat("a", 64), "schemaVersion": "v1", "planId": "plan-3", "planVersion": "2.0"}}),
			"payload.planRef.planVersion"},
		{"a step twice", runtest.ID, payload(run.RunStarted, runtest.M{"steps": []runtest.M{
			{"stepId": "a", "type": "NOOP"}, {"stepId": "a", "type": "NOOP"}}}), "payload.steps[1].stepId"},
		{"payload is not an object", runtest.ID, change(run.RunApproved,
			func(d *run.Draft) { d.Payload = json.RawMessage(`[]`) }), "payload"},
		{"payload is not UTF-8", runtest.ID, change(run.RunApproved,
			func(d *run.Draft) { d.Payload = json.RawMessage("{\"a\":\"\xff\"}") }), "payload"},
		{"payload past 1 MiB", runtest.ID, change(run.StepCompletedEvent, func(d *run.Draft) { d.Payload = huge }),
			"payload"},
		{"failure without a code", runtest.ID, payload(run.StepFailedEvent, runtest.M{"errorCode": nil}),
			"payload.errorCode"},
		{"failed run without a root cause and with the code of a step", runtest.ID, payload(run.RunFailed, runtest.M{"errorCode": "EXIT_STATUS"}), "payload.errorCode"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := tt.draft.Validate(tt.id)
			var schema *run.SchemaError
			if !errors.As(err, &schema) || !errors.Is(err, run.ErrSchema) || schema.Code() != run.CodeSchemaValidation {
				t.Fatalf("Validate() = %v, want a *SchemaError", err)
			}
			if got := schema.Violations[0]; got.Path != tt.path || got.Message == "" {
				t.Errorf("first violation %+v, want a message and the path %s", got, tt.path)
			}
		})
	}
}

// contract: A09
func TestValidate_ReportsAllViolationsAtOnce(t *testing.T) {
	t.Parallel()
	d := runtest.Draft(run.StepFailedEvent, "a|1", 0, runtest.M{"errorCode": nil, "retryable": "yes"})
	d.EmittedBy = run.ByPlanner
	err := d.Validate(run.Identity{})
	var schema *run.SchemaError
	if !errors.As(err, &schema) {
		t.Fatalf("Validate() = %v, want a *SchemaError", err)
	}
	var paths []string
	for _, v := range schema.Violations {
		paths = append(paths, v.Path)
	}
	want := []string{"runId", "tenantId", "projectId", "environmentId", "planId", "planVersion",
		"emittedBy", "stepId", "logicalAttemptId", "payload.errorCode", "payload.retryable"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("paths of the violations (-want +got):\n%s", diff)
	}
	steps := make([]runtest.M, 5000)
	for i := range steps {
		steps[i] = runtest.M{"stepId": "", "type": ""}
	}
	errors.As(runtest.Draft(run.RunStarted, "", 1, runtest.M{"steps": steps}).Validate(runtest.ID), &schema)
	if len(schema.Violations) != 100 {
		t.Errorf("%d violations, want the limit of 100", len(schema.Violations))
	}
}

// contract: T183, T223
func TestProducer_MayAppendOnlyItsTypes(t *testing.T) {
	t.Parallel()
	want := map[run.Producer][]run.EventType{
		run.ByEngine: {run.RunStarted, run.RunPaused, run.RunResumed, run.RunCompleted, run.RunFailed, run.RunCancelled,
			run.StepStartedEvent, run.StepCompletedEvent, run.StepFailedEvent, run.StepSkippedEvent,
			run.StepAwaitingManualCompletion, run.StepCompensated, run.StepCompensationFailed, run.RunCompensationStarted,
			run.StepNodesReported},
		run.ByPlanner:   {run.RunApproved},
		run.ByAdmission: {run.RunQueued, run.RunFailed},
		run.ByAuthz:     {run.SignalAccepted, run.SignalRejected},
		run.ByControl:   {run.RunPaused, run.RunFailed, run.RunCancelled, run.StepFailedEvent},
		"worker":        nil,
	}
	for p, types := range want {
		var got []run.EventType
		for _, typ := range runtest.Types {
			if p.May(typ) {
				got = append(got, typ)
			}
		}
		if diff := cmp.Diff(types, got); diff != "" {
			t.Errorf("types that %s may append (-want +got):\n%s", p, diff)
		}
	}
}

// contract: A11
func TestPayloadOf_IgnoresUnknownAndReportsWrongMembers(t *testing.T) {
	t.Parallel()
	d := runtest.Draft(run.StepFailedEvent, "s1", 1, runtest.M{"colour": "red"})
	if err := d.Validate(runtest.ID); err != nil {
		t.Fatal(err)
	}
	p, err := run.PayloadOf[run.FailurePayload](d.Payload)
	if err != nil || p.ErrorCode != "EXIT_STATUS" {
		t.Errorf("PayloadOf() = %+v, %v; want EXIT_STATUS and no error", p, err)
	}
	p, err = run.PayloadOf[run.FailurePayload](json.RawMessage(`{"retryable":"yes","errorCode":"E"}`))
	if err == nil || p.ErrorCode != "E" {
		t.Errorf("PayloadOf() of a wrong member = %+v, %v; want an error and the rest", p, err)
	}
}

// Validate checks ids byte by byte. It must accept the same ids as the regular expressions in its messages.
// contract: T13, T228
func TestValidate_AcceptsIdsThatMatchTheirExpressions(t *testing.T) {
	t.Parallel()
	word, runID := regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`),
		regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)
	rapid.Check(t, func(r *rapid.T) {
		s := rapid.OneOf(
			rapid.StringMatching(`[A-Za-z0-9_.:-]{0,4}`), rapid.StringN(0, 4, 8), rapid.StringMatching(`[a-z.-]{127,129}`),
		).Draw(r, "id")
		d := runtest.Draft(run.StepStartedEvent, "s1", 1)
		id := runtest.ID
		d.StepID = s
		if got, want := d.Validate(id) == nil, word.MatchString(s) && s != "RUN"; got != want {
			r.Fatalf("stepId %q is valid: %v, want %v", s, got, want)
		}
		d.StepID, id.RunID = "s1", s
		if got, want := d.Validate(id) == nil, runID.MatchString(s); got != want {
			r.Fatalf("runId %q is valid: %v, want %v", s, got, want)
		}
	})
}
