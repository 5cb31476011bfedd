package plan_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dvt-engine/dvt/plan"
)

// schemaOf compiles the JSON Schema of a version.
func schemaOf(t testing.TB, version string) *jsonschema.Schema {
	t.Helper()
	doc, ok := plan.JSONSchema(version)
	if !ok {
		t.Fatalf("there is no schema of %s", version)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("plan.json", v); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("plan.json")
	if err != nil {
		t.Fatalf("compile the schema of %s: %v", version, err)
	}
	return s
}

// checkSchema returns the error of the schema about a document.
func checkSchema(t testing.TB, s *jsonschema.Schema, doc []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func TestJSONSchema_AcceptsTheExamplesAndEachVersion(t *testing.T) {
	t.Parallel()
	for _, version := range plan.SupportedSchemas() {
		doc := strings.ReplaceAll(apiPlan, `"v1.2"`, `"`+version+`"`)
		if err := checkSchema(t, schemaOf(t, version), []byte(doc)); err != nil {
			t.Errorf("the documented plan as %s: %v", version, err)
		}
	}
	if err := checkSchema(t, schemaOf(t, "v1.0"), []byte(strings.ReplaceAll(apiPlan, `"v1.2"`, `"v1"`))); err != nil {
		t.Errorf("v1 stands for v1.0: %v", err)
	}
	if _, ok := plan.JSONSchema("v9"); ok {
		t.Error("there is a schema of v9, want none")
	}
	examples, err := filepath.Glob("../examples/plans/*.json")
	if err != nil || len(examples) == 0 {
		t.Fatalf("found no examples: %v", err)
	}
	for _, name := range examples {
		doc, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkSchema(t, schemaOf(t, "v1.2"), doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the schema refuses, Parse refuses too, so that an editor never marks a valid plan.
func TestJSONSchema_RefusesOnlyWhatParseRefuses(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, "v1.2")
	refused := 0
	for _, seed := range fuzzDocuments(t) {
		_, err := plan.Parse(seed, queues)
		if checkSchema(t, s, seed) != nil {
			refused++
			if err == nil && bytes.Contains(seed, []byte(`"v1.2"`)) {
				t.Errorf("the schema refuses a plan that Parse accepts: %.300s", seed)
			}
		}
	}
	if refused == 0 {
		t.Error("the schema refuses none of the seeds, want some of them")
	}
	full := withSteps(
		`{"stepId":"a","type":"COMMAND","name":"A","group":"g","order":1,"inputs":{"argv":["x","y"],"env":{"A":"1"},"dir":"d"},`+
			`"timeout":90000,"dispatch":{"cancellable":true,"allowCancelOnPause":true,"resourceClass":"light"},`+
			`"secretRefs":[{"provider":"env","key":"K/x#y","version":"1","as":{"env":"A"},"unmasked":true}],"retry":{"maxAttempts":1,"retryableErrors":["timeout"]},`+
			`"sandbox":{"read":["r"],"write":["w"],"connect":["443"],"memory":33554432,"cpu":0.5,"pids":4,"disk":1048576,`+
			`"require":["files"]},"compensation":{"operation":"COMMAND","input":{"argv":["undo"]},"timeout":"1m"}}`,
		`{"stepId":"b","type":"HTTP_NOTIFY","order":2,"timeout":"1.5h","inputs":{"url":"https://x.test/","method":"PUT",`+
			`"headers":{"A":"b"},"body":[1],"expectStatus":[200,204]}}`,
		`{"stepId":"c","type":"HTTP_NOTIFY","order":3,"timeout":"+1s","inputs":{"url":"https://x.test/","body":"t","expectStatus":200}}`,
		`{"stepId":"d","type":"DBT_RUN","order":4,"timeout":".5s","dependsOn":["a"],"inputs":{"projectDir":"p","profilesDir":"q",`+
			`"select":"s","exclude":"e","vars":{"a":1},"target":"t","threads":4,"fullRefresh":true,`+
			`"state":{"against":"LAST_GREEN","otherwise":"FULL"}}}`,
		`{"stepId":"e","type":"MANUAL","order":5,"timeout":"1h","inputs":{"instructions":"look","evidence":["x"]},`+
			`"manual":{"sod":false,"timeout":"1h"}}`,
		`{"stepId":"f","type":"SLEEP","order":6,"timeout":"1s","inputs":{"ms":0}}`, noop("g", `,"order":7`),
	)
	mustParse(t, full)
	if err := checkSchema(t, s, full); err != nil {
		t.Errorf("a plan with every field: %v", err)
	}
}

// fuzzDocuments returns the documents of the committed corpus and the valid plans of the tests.
func fuzzDocuments(t testing.TB) [][]byte {
	t.Helper()
	out := [][]byte{[]byte(apiPlan), withSteps(noop("a", ""))}
	files, err := filepath.Glob("testdata/fuzz/*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, value, _ := strings.Cut(string(text), "[]byte(")
		var doc string
		if json.Unmarshal([]byte(strings.TrimSuffix(strings.TrimSpace(value), ")")), &doc) == nil {
			out = append(out, []byte(doc))
		}
	}
	return out
}

func TestJSONSchema_AndParseRefuseTheSameFaults(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, "v1.2")
	for _, path := range []string{"schemaVersion", "metadata", "scope", "steps"} {
		bothRefuse(t, s, "without "+path, mutate(t, func(doc map[string]any) { delete(doc, path) }))
	}
	for _, c := range []struct{ parent, key string }{{"metadata", "planId"}, {"metadata", "createdBy"},
		{"scope", "tenantId"}, {"scope", "repoSha"}} {
		bothRefuse(t, s, "without "+c.key, mutate(t, func(doc map[string]any) {
			delete(doc[c.parent].(map[string]any), c.key)
		}))
		bothRefuse(t, s, "empty "+c.key, mutate(t, func(doc map[string]any) {
			doc[c.parent].(map[string]any)[c.key] = ""
		}))
	}
	bothRefuse(t, s, "another version", mutate(t, func(doc map[string]any) { doc["schemaVersion"] = "v9" }))
	bothRefuse(t, s, "no steps", mutate(t, func(doc map[string]any) { doc["steps"] = []any{} }))
	bothRefuse(t, s, "an unknown field", mutate(t, func(doc map[string]any) { doc["stages"] = 1 }))
	for _, c := range []struct{ key, raw string }{
		{"stepId", `"a b"`}, {"stepId", `"RUN"`}, {"type", `"PYTHON"`}, {"timeout", `"soon"`}, {"timeout", `0`},
		{"timeout", `1.5`}, {"timeout", `null`}, {"retry", `{"maxAttempts":11}`}, {"retry", `{"attempts":3}`},
		{"retry", `{"initialBackoffMs":99}`}, {"retry", `{"retryableErrors":["sunspots"]}`}, {"retry", `[]`},
		{"dispatch", `{"resourceClass":"huge"}`}, {"dispatch", `{"cancellable":"yes"}`}, {"group", `""`},
		{"secretRefs", `[{"provider":"v","key":"a/../b"}]`}, {"secretRefs", `[{"provider":"v","key":"a","as":{}}]`},
		{"secretRefs", `[{"provider":"v","key":"a","as":{"env":"DVT_X"}}]`},
		{"secretRefs", `[{"provider":"env"}]`}, {"secretRefs", `[{"provider":"env","key":"k","value":"v"}]`},
		{"inputs", `{"argv":["x"]}`}, {"inputs", `[]`}, {"manual", `{"sod":true}`}, {"order", `0`}, {"plugin", `1`},
		{"compensation", `{"operation":"MANUAL","input":{}}`}, {"compensation", `{"operation":"SLEEP","input":{}}`},
		{"sandbox", `{"cpu":0}`}, {"dependsOn", `["compile","compile"]`}, {"dependsOn", `[1]`},
	} {
		bothRefuse(t, s, c.key+" "+c.raw, withField(t, c.key, c.raw))
	}
}

func bothRefuse(t *testing.T, s *jsonschema.Schema, what string, doc []byte) {
	t.Helper()
	if _, err := plan.Parse(doc, queues); err == nil {
		t.Errorf("%s: Parse accepts it", what)
	}
	if checkSchema(t, s, doc) == nil {
		t.Errorf("%s: the schema accepts it", what)
	}
}
