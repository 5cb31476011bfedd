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

// compiled holds the schema of every event type.
func compiled(t *testing.T) map[run.EventType]*jsonschema.Schema {
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

func TestSchemas_OneForEachType(t *testing.T) {
	t.Parallel()
	got := slices.Sorted(maps.Keys(compiled(t)))
	want := slices.Sorted(slices.Values(runtest.Types))
	if !slices.Equal(got, want) {
		t.Errorf("schemas of %v, want of %v", got, want)
	}
	for _, typ := range want {
		if !typ.Known() {
			t.Errorf("%s is not known", typ)
		}
	}
}

// full adds to a draft every optional member that there is, so that mutations reach them.
func full(typ run.EventType) run.Draft {
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
			"failureSource": "engine", "manual": manual})
		if typ == run.RunFailed {
			more["rootCause"] = runtest.M{"stepId": "s1", "logicalAttemptId": 1, "errorCode": "E", "errorMessage": "m"}
			more["compensation"], more["compensationOmitted"] = []runtest.M{hook}, 3
		}
	case run.StepAwaitingManualCompletion:
		more["deadline"] = runtest.Epoch
	case run.StepCompensated, run.StepCompensationFailed:
		maps.Copy(more, hook)
	case run.StepSkippedEvent:
		more["signalId"] = "u1"
	case run.SignalAccepted, run.SignalRejected:
		more["stepId"] = "s1"
	}
	return runtest.Draft(typ, "s1", 1, more)
}

// document is the draft as the schemas see it.
func document(t *testing.T, d run.Draft) map[string]any {
	t.Helper()
	body := runtest.JSON(run.Event{Identity: runtest.ID, Type: d.Type, StepID: d.StepID, LogicalAttempt: d.LogicalAttempt,
		EngineAttempt: d.EngineAttempt, EmittedAt: d.EmittedAt, EmittedBy: d.EmittedBy, Payload: d.Payload})
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	doc := v.(map[string]any)
	for _, name := range []string{"eventId", "runSeq", "idempotencyKey", "persistedAt"} { // the store's part
		delete(doc, name)
	}
	return doc
}

// byGo validates a document as the Append Authority does.
func byGo(doc map[string]any) error {
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

// place is one value inside a document, with ways to replace and to drop it.
type place struct {
	path string
	set  func(v any)
	drop func()
}

func places(at string, v any) []place {
	var out []place
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			p := at + "." + k
			out = append(out, place{p, func(x any) { v[k] = x }, func() { delete(v, k) }})
			out = append(out, places(p, v[k])...)
		}
	case []any:
		for i := range v {
			p := fmt.Sprintf("%s[%d]", at, i)
			out = append(out, place{p, func(x any) { v[i] = x }, func() { v[i] = nil }})
			out = append(out, places(p, v[i])...)
		}
	}
	return out
}

// replacements are made anew each time: a shared map could come to hold itself.
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

// semantic violations compare a payload with its envelope, which no schema can.
func semantic(err error) bool {
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
func TestSchemas_GoValidationAgrees(t *testing.T) {
	t.Parallel()
	schemas := compiled(t)
	r := rand.New(rand.NewPCG(3, 3))
	documents, refused := 0, 0
	compare := func(typ run.EventType, what string, doc map[string]any) {
		documents++
		bySchema, goErr := schemas[typ].Validate(doc), byGo(doc)
		if bySchema != nil {
			refused++
		}
		if (bySchema == nil) != (goErr == nil) && (bySchema != nil || !semantic(goErr)) {
			t.Errorf("%s, %s:\nschema: %v\nGo: %v", typ, what, bySchema, goErr)
		}
	}
	for _, typ := range runtest.Types {
		original := document(t, full(typ))
		if err := schemas[typ].Validate(original); err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		if err := byGo(original); err != nil {
			t.Fatalf("%s: %v", typ, err)
		}
		n := len(places("", original))
		for i := range n {
			doc := document(t, full(typ))
			p := places("", doc)[i]
			p.drop()
			compare(typ, "without "+p.path, doc)
			for _, v := range replacements() {
				if p.path == ".eventType" {
					continue // chooses the schema
				}
				doc := document(t, full(typ))
				places("", doc)[i].set(v)
				compare(typ, fmt.Sprintf("%s = %v", p.path, v), doc)
			}
		}
		for range 200 {
			doc := document(t, full(typ))
			var what []string
			for range 2 + r.IntN(3) {
				all, values := places("", doc), replacements()
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
		t.Errorf("%d documents, %d refused: too few to mean anything", documents, refused)
	}
}
