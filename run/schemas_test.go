package run_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// compileSchemas returns the schema of every event type.
func compileSchemas(t *testing.T) map[run.EventType]*jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	files, err := fs.Glob(run.Schemas(), "*.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[run.EventType]string{}
	for _, name := range files {
		doc, err := fs.ReadFile(run.Schemas(), name)
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		id := v.(map[string]any)["$id"].(string)
		if err := c.AddResource(id, v); err != nil {
			t.Fatal(err)
		}
		if typ, ok := strings.CutPrefix(id, "urn:dvt:run:event:"); ok {
			if path.Base(name) != typ+".schema.json" {
				t.Errorf("%s has $id %s", name, id)
			}
			ids[run.EventType(typ)] = id
		}
	}
	out := map[run.EventType]*jsonschema.Schema{}
	for typ, id := range ids {
		out[typ] = c.MustCompile(id)
	}
	return out
}

func TestSchemas_HaveOneForEachType(t *testing.T) {
	t.Parallel()
	got := slices.Sorted(maps.Keys(compileSchemas(t)))
	want := slices.Sorted(slices.Values(runtest.Types))
	if !slices.Equal(got, want) {
		t.Errorf("schemas of %v, want of %v", got, want)
	}
	for _, typ := range want {
		if !typ.Known() {
			t.Errorf("%s.Known() = false, want true", typ)
		}
	}
}

// fullDraft returns a draft with every optional member, so that mutations reach them.
func fullDraft(typ run.EventType) run.Draft {
	refs := []runtest.M{{"uri": "s3://b/k", "kind": "log-bundle", "sha256": strings.Repeat("0a", 32), "sizeBytes": 3,
		"contentType": "text/plain"}}
	manual := runtest.M{"signalId": "u1", "outcome": "FAILED", "actor": "pat", "notes": "n",
		"evidenceRefs": []string{"s3://b/k"}}
	hook := runtest.M{"stepId": "s1", "idempotencyKey": "r:s1:compensate", "attempts": 2, "compensated": false,
		"result": 1, "errorCode": "E", "errorMessage": "m"}
	more := runtest.M{"sourceOccurredAt": runtest.Epoch, "colour": "red"}
	switch typ {
	case run.RunApproved, run.RunQueued:
		maps.Copy(more, runtest.M{"actor": "pat", "reason": "fine", "rerun": runtest.M{
			"runId": "r1", "from": runtest.M{"start": false, "failed": true, "steps": []string{"s1"}}, "reuse": []string{"s2"},
		}})
	case run.RunStarted:
		more["steps"] = []runtest.M{{"stepId": "s1", "type": "NOOP", "name": "n", "group": "g", "dependsOn": []string{"s0"},
			"taskQueue": "q", "resourceClass": "heavy"}}
	case run.RunResumed:
		more["retryDeadline"] = runtest.Epoch
	case run.StepStartedEvent:
		maps.Copy(more, runtest.M{"paramsSeq": 4, "signalId": "u1"})
	case run.StepCompletedEvent:
		maps.Copy(more, runtest.M{"artifactRefs": refs, "retryDeadline": runtest.Epoch, "manual": manual,
			"reused": runtest.M{"runId": "r1", "runSeq": 4}})
	case run.StepFailedEvent, run.RunFailed:
		maps.Copy(more, runtest.M{"artifactRefs": refs, "retryDeadline": runtest.Epoch, "durationMs": 5,
			"failureSource": "engine", "manual": manual, "errorLine": 183})
		if typ == run.RunFailed {
			more["rootCause"] = runtest.M{"stepId": "s1", "logicalAttemptId": 1, "errorCode": "E", "errorMessage": "m"}
			more["compensation"], more["compensationOmitted"] = []runtest.M{hook}, 3
		}
	case run.StepAwaitingManualCompletion:
		more["deadline"] = runtest.Epoch
	case run.StepCompensated, run.StepCompensationFailed:
		maps.Copy(more, hook)
	case run.StepNodesReported:
		more["counts"] = runtest.M{"total": 9, "running": 1, "success": 2, "warn": 1, "failed": 1, "skipped": 1}
		more["nodes"] = []runtest.M{{"id": "test.shop.t", "type": "test", "status": "FAILED", "at": runtest.Epoch,
			"durationMs": 5, "rows": 1, "bytes": 2, "failures": 3, "error": "e", "skippedBy": "model.shop.m", "relation": "a.b"}}
	case run.StepSkippedEvent:
		more["signalId"] = "u1"
	case run.SignalAccepted, run.SignalRejected:
		more["stepId"] = "s1"
	}
	return runtest.Draft(typ, "s1", 1, more)
}

// document returns the JSON document that the schemas validate.
func document(t *testing.T, d run.Draft) map[string]any {
	t.Helper()
	body := runtest.JSON(run.Event{Identity: runtest.ID, Type: d.Type, StepID: d.StepID, LogicalAttempt: d.LogicalAttempt,
		EngineAttempt: d.EngineAttempt, EmittedAt: d.EmittedAt, EmittedBy: d.EmittedBy, Payload: d.Payload})
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	doc := v.(map[string]any)
	for _, name := range []string{"eventId", "runSeq", "idempotencyKey", "persistedAt"} { // set by the store
		delete(doc, name)
	}
	return doc
}

// validateInGo validates a document as the store does before an append.
func validateInGo(doc map[string]any) error {
	var e run.Event
	if err := json.Unmarshal(runtest.JSON(doc), &e); err != nil {
		return err
	}
	d := run.Draft{Type: e.Type, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt, EngineAttempt: e.EngineAttempt,
		EmittedAt: e.EmittedAt, EmittedBy: e.EmittedBy, Payload: e.Payload}
	if payload, ok := doc["payload"].(map[string]any); ok && d.Type.OfSignal() {
		d.SignalID, _ = payload["signalId"].(string)
	}
	return d.Validate(e.Identity)
}

// element is one value inside a document, with functions that replace and remove it.
type element struct {
	path string
	set  func(v any)
	drop func()
}

func elements(at string, v any) []element {
	var out []element
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			p := at + "." + k
			out = append(out, element{p, func(x any) { v[k] = x }, func() { delete(v, k) }})
			out = append(out, elements(p, v[k])...)
		}
	case []any:
		for i := range v {
			p := fmt.Sprintf("%s[%d]", at, i)
			out = append(out, element{p, func(x any) { v[i] = x }, func() { v[i] = nil }})
			out = append(out, elements(p, v[i])...)
		}
	}
	return out
}

// replacements returns new values at each call, because a shared map could come to contain itself.
func replacements() []any {
	return []any{
		nil, "", "x", "a|b", "RUN", "NOPE", strings.Repeat("y", 200), strings.Repeat("0f", 32), "2026-01-01",
		"2026-02-30T00:00:00Z",
		"2026-01-01T00:00:00", "2026-01-01T00:00:00.25+02:00", true, false, json.Number("0"), json.Number("-1"),
		json.Number("1"), json.Number("2"),
		json.Number("1.5"), json.Number("2147483648"), json.Number("9007199254740991"), json.Number("9007199254740992"),
		json.Number("1e400"), json.Number("123456789012345678901234567890"),
		map[string]any{}, []any{}, []any{"x"}, []any{map[string]any{}}, "PLAN_X", "SYSTEM", "PAUSE", "COMPLETE_MANUAL_STEP",
		"SUCCEEDED", "engine", "control", "FAIL_FAST", "StepFailed",
	}
}

// isSemantic reports whether all violations compare a payload with its envelope, or steps with each other. A schema
// cannot express these rules.
func isSemantic(err error) bool {
	var schema *run.SchemaError
	if !errors.As(err, &schema) {
		return false
	}
	for _, v := range schema.Violations {
		switch {
		case strings.HasPrefix(v.Path, "payload.planRef.plan") && strings.HasPrefix(v.Message, "must equal"):
		case strings.HasPrefix(v.Path, "payload.steps[") &&
			(v.Code == "DUPLICATE" || strings.Contains(v.Message, "reserved")):
		default:
			return false
		}
	}
	return true
}

// contract: A09
func TestSchemas_AgreeWithValidationInGo(t *testing.T) {
	t.Parallel()
	schemas := compileSchemas(t)
	r := rand.New(rand.NewPCG(3, 3))
	documents, refused := 0, 0
	compare := func(typ run.EventType, what string, doc map[string]any) {
		documents++
		bySchema, goErr := schemas[typ].Validate(doc), validateInGo(doc)
		if bySchema != nil {
			refused++
		}
		if (bySchema == nil) != (goErr == nil) && (bySchema != nil || !isSemantic(goErr)) {
			t.Errorf("%s, %s:\nschema: %v\nGo: %v", typ, what, bySchema, goErr)
		}
	}
	for _, typ := range runtest.Types {
		original := document(t, fullDraft(typ))
		if err := schemas[typ].Validate(original); err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		if err := validateInGo(original); err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		n := len(elements("", original))
		for i := range n {
			doc := document(t, fullDraft(typ))
			p := elements("", doc)[i]
			p.drop()
			compare(typ, "without "+p.path, doc)
			for _, v := range replacements() {
				if p.path == ".eventType" {
					continue // chooses the schema
				}
				doc := document(t, fullDraft(typ))
				elements("", doc)[i].set(v)
				compare(typ, fmt.Sprintf("%s = %v", p.path, v), doc)
			}
		}
		for range 200 {
			doc := document(t, fullDraft(typ))
			var what []string
			for range 2 + r.IntN(3) {
				all, values := elements("", doc), replacements()
				p, v := all[r.IntN(len(all))], values[r.IntN(len(values))]
				if p.path == ".eventType" {
					continue
				}
				what = append(what, fmt.Sprintf("%s = %v", p.path, v))
				p.set(v)
			}
			compare(typ, strings.Join(what, ", "), doc)
		}
	}
	t.Logf("%d documents, %d refused", documents, refused)
	if documents < 5000 || refused < 1000 {
		t.Errorf("%d documents, %d refused, want at least 5000 and 1000 for a meaningful comparison", documents, refused)
	}
}
