package lineage_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/lineage"
	"github.com/dvt-engine/dvt/run/runtest"
)

// validator checks documents against the schemas of OpenLineage.
type validator struct {
	event  *jsonschema.Schema
	facets map[string]*jsonschema.Schema // by _schemaURL
}

func newValidator(t *testing.T) *validator {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	files, err := filepath.Glob("testdata/spec/*.json")
	if err != nil {
		t.Fatal(err)
	}
	v := &validator{facets: map[string]*jsonschema.Schema{}}
	var urls []string
	for _, name := range files {
		doc, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
		if err != nil {
			t.Fatal(err)
		}
		id := schema.(map[string]any)["$id"].(string)
		if err := c.AddResource(id, schema); err != nil {
			t.Fatal(err)
		}
		urls = append(urls, id+"#/$defs/"+strings.TrimSuffix(filepath.Base(name), ".json"))
	}
	for _, url := range urls {
		if !strings.HasSuffix(url, "/OpenLineage") {
			v.facets[url] = c.MustCompile(url)
		}
	}
	v.event = c.MustCompile("https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent")
	return v
}

// check validates an event, and each of its facets by the schema that the facet names. seen counts the facets by name.
func (v *validator) check(t *testing.T, doc []byte, seen map[string]int) {
	t.Helper()
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.event.Validate(instance); err != nil {
		t.Fatalf("an event is not valid: %v\n%s", err, doc)
	}
	var walk func(name string, at any)
	walk = func(name string, at any) {
		switch at := at.(type) {
		case []any:
			for _, one := range at {
				walk("", one)
			}
		case map[string]any:
			if url, ok := at["_schemaURL"].(string); ok {
				schema := v.facets[url]
				if schema == nil {
					t.Fatalf("the facet %s names the unknown schema %s", name, url)
				}
				if err := schema.Validate(at); err != nil {
					t.Fatalf("the facet %s is not valid: %v\n%s", name, err, doc)
				}
				seen[name]++
			}
			for key, one := range at {
				walk(key, one)
			}
		}
	}
	walk("", instance)
}

// event is the part of a document that tests read.
type event struct {
	EventType string
	EventTime time.Time
	Run       struct {
		RunID  string
		Facets struct {
			Parent struct {
				Run struct{ RunID string }
			}
			ErrorMessage struct{ Message string }
		}
	}
	Job             struct{ Namespace, Name string }
	Inputs, Outputs []struct {
		Namespace, Name string
		OutputFacets    struct {
			OutputStatistics struct{ RowCount int }
		}
		InputFacets struct {
			DataQualityAssertions struct {
				Assertions []struct {
					Assertion, Column string
					Success           bool
				}
			}
		}
	}
}

func encode(t *testing.T, e lineage.Event, m *lineage.Manifest) (doc []byte, out event) {
	t.Helper()
	doc, err := e.Encode(m, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc, &out); err != nil {
		t.Fatal(err)
	}
	return doc, out
}

func of(events []run.Event) []lineage.Event { return lineage.Of(runtest.ID, events) }

// Whatever the log is, each run, step and node has one START and after it at most one end, each document is valid, and
// the events do not depend on how the log is divided.
func TestEvents_AreOneStartAndOneEndOfEachAndValid(t *testing.T) {
	t.Parallel()
	v := newValidator(t)
	sources := map[string]func(uint64) []run.Event{"valid": runtest.RandomLog, "hostile": runtest.Hostile}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			states := map[lineage.State]int{}
			for seed := range uint64(250) {
				log := source(seed)
				all := of(log)
				b := lineage.New(runtest.ID, time.Time{})
				var parts []lineage.Event
				for i := 0; i < len(log); i += 1 + int(seed%3) {
					parts = append(parts, b.Add(log[max(0, i-1):min(len(log), i+1+int(seed%3))])...) // some are read again
				}
				checkOnce(t, seed, log, all)
				for i := range max(len(all), len(parts)) {
					if i >= len(all) || i >= len(parts) || all[i].ID != parts[i].ID || all[i].Time != parts[i].Time {
						t.Fatalf("seed %d: event %d of %d and %d is another one when the log is divided", seed, i, len(all), len(parts))
					}
				}
				for _, e := range all {
					states[e.State]++
					if doc, _ := encode(t, e, nil); seed < 50 {
						v.check(t, doc, map[string]int{})
					}
				}
			}
			t.Log(states)
			if len(states) < 4 {
				t.Errorf("the logs gave the states %v, want all 4", states)
			}
		})
	}
}

func checkOnce(t *testing.T, seed uint64, log []run.Event, all []lineage.Event) {
	t.Helper()
	ids, last := map[string]bool{}, map[string]time.Time{}
	for _, e := range all {
		doc, out := encode(t, e, nil)
		if ids[e.ID] {
			t.Fatalf("seed %d: two events have the id %s", seed, e.ID)
		}
		ids[e.ID] = true
		began, started := last[out.Run.RunID]
		switch {
		case e.State == lineage.Start:
			last[out.Run.RunID] = e.Time
		case !started:
			t.Fatalf("seed %d: an end has no START before it: %s", seed, doc)
		case e.Time.Before(began):
			t.Fatalf("seed %d: an end is before its START: %s", seed, doc)
		}
	}
	ended := slices.ContainsFunc(log, func(e run.Event) bool { return e.Type.EndsRun() })
	if ended && len(ids) != 2*len(last) {
		t.Fatalf("seed %d: %d runs have %d events, want a START and an end of each", seed, len(last), len(ids))
	}
}

type m = runtest.M

// nodesOf returns the report of nodes; each node is "id STATUS" and may have further members.
func nodesOf(attempt, batch int, more m, nodes ...m) run.Draft {
	payload := m{"batch": batch, "counts": m{"total": len(nodes)}, "nodes": nodes}
	for k, v := range more {
		payload[k] = v
	}
	return runtest.Draft(run.StepNodesReported, "load", attempt, payload)
}

func node(id string, status run.NodeStatus, second int, more ...m) m {
	kind, _, _ := strings.Cut(id, ".")
	out := m{"id": id, "type": kind, "status": status, "at": runtest.Epoch.Add(time.Duration(second) * time.Second)}
	for _, add := range more {
		for k, v := range add {
			out[k] = v
		}
	}
	return out
}

const warehouse = "duckdb:///srv/warehouse.duckdb"

// retried is the log of a run whose step fails at one node and whose retry of nodes continues it.
func retried() []run.Event {
	manifest := m{"artifactRefs": []m{{"uri": "artifact:t1/r/load/1/1/manifest.json", "kind": "dbt-manifest"}}}
	return runtest.Log(
		runtest.Draft(run.RunApproved, "", 1), runtest.Start("load"),
		runtest.Draft(run.StepStartedEvent, "load", 1),
		nodesOf(1, 1, m{"warehouse": warehouse}, node("model.big.m000", run.NodeRunning, 4),
			node("operation.big.big-on-run-start-0", run.NodeSuccess, 3)),
		nodesOf(1, 2, nil, node("model.big.m000", run.NodeSuccess, 5, m{"rows": 12, "durationMs": 900}),
			node("model.big.m001", run.NodeFailed, 5, m{"error": "Binder Error: no column \"x\""}),
			node("model.big.m011", run.NodeSkipped, 5, m{"skippedBy": "model.big.m001"})),
		runtest.Draft(run.StepFailedEvent, "load", 1, manifest),
		runtest.Draft(run.StepStartedEvent, "load", 2),
		nodesOf(2, 1, m{"base": 1}, node("model.big.m001", run.NodeSuccess, 8, m{"rows": 3}),
			node("test.big.no_row_has_a_negative_id", run.NodeFailed, 8, m{"failures": 2, "error": "Got 2 results"})),
		runtest.Draft(run.StepFailedEvent, "load", 2, manifest),
		runtest.Draft(run.RunFailed, "", 1, m{"errorCode": "DBT_FAILED", "errorMessage": "a test failed"}),
	)
}

// The nodes of a step have their last results, whichever attempt they are from, with datasets, rows and errors.
func TestEvents_OfARetriedStepHaveTheLastResultOfEachNode(t *testing.T) {
	t.Parallel()
	v, mf, seen := newValidator(t), readManifest(t, "1.11"), map[string]int{}
	var got []string
	byName := map[string]event{}
	for _, e := range of(retried()) {
		var with *lineage.Manifest
		if e.Manifest != nil {
			with = mf
		}
		doc, out := encode(t, e, with)
		v.check(t, doc, seen)
		got = append(got, out.EventType+" "+strings.TrimPrefix(out.Job.Name, runtest.ID.PlanID))
		byName[out.EventType+" "+strings.TrimPrefix(out.Job.Name, runtest.ID.PlanID+".load.")] = out
		if out.Job.Namespace != "dvt://t1/p1/sandbox" {
			t.Errorf("the namespace of the job is %s", out.Job.Namespace)
		}
	}
	want := []string{"START ", "START .load",
		"START .load.model.big.m000", "COMPLETE .load.model.big.m000",
		"START .load.model.big.m001", "COMPLETE .load.model.big.m001",
		"START .load.model.big.m011", "ABORT .load.model.big.m011",
		"START .load.test.big.no_row_has_a_negative_id", "FAIL .load.test.big.no_row_has_a_negative_id",
		"FAIL .load", "FAIL "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	model := byName["COMPLETE model.big.m000"]
	if model.Run.Facets.Parent.Run.RunID != lineage.StepID(runtest.ID.RunID, "load") ||
		model.Run.RunID != lineage.NodeID(runtest.ID.RunID, "load", "model.big.m000") {
		t.Errorf("the ids of the model are %+v, want those of its step and of itself", model.Run)
	}
	if len(model.Outputs) != 1 || model.Outputs[0].Namespace != warehouse ||
		model.Outputs[0].Name != "warehouse.main.m000" || model.Outputs[0].OutputFacets.OutputStatistics.RowCount != 12 {
		t.Errorf("the outputs of the model are %+v, want its table with 12 rows", model.Outputs)
	}
	if len(model.Inputs) != 1 || model.Inputs[0].Name != "warehouse.main.raw_0" {
		t.Errorf("the inputs of the model are %+v, want its seed", model.Inputs)
	}
	test := byName["FAIL test.big.no_row_has_a_negative_id"]
	if test.Run.Facets.ErrorMessage.Message != "Got 2 results" || len(test.Outputs) > 0 || len(test.Inputs) != 1 ||
		len(test.Inputs[0].InputFacets.DataQualityAssertions.Assertions) != 1 ||
		test.Inputs[0].InputFacets.DataQualityAssertions.Assertions[0].Success {
		t.Errorf("the test is %+v, want a failed assertion on its table", test)
	}
	for _, name := range []string{"jobType", "parent", "errorMessage", "processing_engine", "sql", "dataSource",
		"outputStatistics", "dataQualityAssertions"} {
		if seen[name] == 0 {
			t.Errorf("no event has the facet %s", name)
		}
	}
}

// A receiver that was set up while a run was running gets each START, also of what had started before.
func TestEvents_SinceATimeHaveEachStart(t *testing.T) {
	t.Parallel()
	log := retried()
	for i := range log {
		b := lineage.New(runtest.ID, log[i].PersistedAt)
		checkOnce(t, uint64(i), log[i:], b.Add(log))
	}
	if late := lineage.New(runtest.ID, log[len(log)-1].PersistedAt.Add(time.Second)).Add(log); len(late) > 0 {
		t.Errorf("a run that ended before has %d events, want none", len(late))
	}
}

// Steps that a rerun took over did not execute.
func TestEvents_OfAReusedStepAreNone(t *testing.T) {
	t.Parallel()
	log := runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("load"),
		runtest.Draft(run.StepCompletedEvent, "load", 1, m{"reused": m{"runId": runtest.ID.RunID, "runSeq": 3}}),
		runtest.Draft(run.RunCompleted, "", 1))
	for _, e := range of(log) {
		if _, out := encode(t, e, nil); strings.HasSuffix(out.Job.Name, ".load") {
			t.Errorf("the step has the event %s, want none", e.ID)
		}
	}
}

// A real manifest of PostgreSQL gives every facet of datasets; an event that would be too large loses its SQL first.
func TestEncode_HoldsTheLimitAndIsValid(t *testing.T) {
	t.Parallel()
	v, mf, seen := newValidator(t), readManifest(t, "postgres"), map[string]int{}
	log := runtest.Log(runtest.Draft(run.RunApproved, "", 1), runtest.Start("load"),
		runtest.Draft(run.StepStartedEvent, "load", 1),
		nodesOf(1, 1, m{"warehouse": "postgres://db:5432"}, node("model.jaffle_shop.customers", run.NodeSuccess, 4)),
		runtest.Draft(run.StepCompletedEvent, "load", 1), runtest.Draft(run.RunCompleted, "", 1))
	sizes := map[int]bool{}
	for _, e := range of(log) {
		for _, limit := range []int{1 << 20, 5500, 2500} {
			doc, err := e.Encode(mf, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(doc) > limit {
				t.Errorf("an event has %d bytes, want at most %d", len(doc), limit)
			}
			if strings.Contains(string(doc), "customers") && e.State == lineage.Complete {
				sizes[len(doc)] = true
			}
			v.check(t, doc, seen)
		}
	}
	if len(sizes) != 3 {
		t.Errorf("the sizes of the event of a model are %v, want 3", sizes)
	}
	for _, name := range []string{"schema", "documentation", "sql"} {
		if seen[name] == 0 {
			t.Errorf("no event has the facet %s: %v", name, seen)
		}
	}
	t.Log(fmt.Sprint(seen))
}
