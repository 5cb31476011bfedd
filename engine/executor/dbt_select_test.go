package executor_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// countingProject writes a project whose models each add a row to the table ran of the warehouse. The model broken
// fails while the var mended is not set; first and second read it, and it has a test. The folder ok has the same name
// as the model ok, so that the name ok selects both models.
func countingProject(t *testing.T, root string) {
	t.Helper()
	for name, body := range map[string]string{
		"dbt_project.yml": "name: count\nversion: '1.0'\nprofile: count\nflags: {send_anonymous_usage_stats: false}\n" +
			"on-run-start: \"create table if not exists ran (model varchar)\"\n" +
			"models: {count: {+materialized: table, +post-hook: \"insert into ran values ('{{ this.name }}')\"}}\n",
		"profiles.yml":        "count: {target: dev, outputs: {dev: {type: duckdb, threads: 1, path: \"{{ var('db') }}\"}}}\n",
		"models/ok.sql":       "select 1 as id",
		"models/ok/other.sql": "select 2 as id",
		"models/broken.sql":   "select {{ '1' if var('mended', false) else 'no_such_column' }} as id",
		"models/first.sql":    "select * from {{ ref('broken') }}",
		"models/second.sql":   "select * from {{ ref('broken') }}",
		"models/schema.yml":   "models: [{name: broken, columns: [{name: id, data_tests: [not_null, unique]}]}]\n",
	} {
		path := filepath.Join(root, "count", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// rowsRan counts the rows of ran by model.
func rowsRan(t *testing.T, db string) map[string]int {
	t.Helper()
	out := map[string]int{}
	in := false
	for line := range strings.Lines(dump(t, dbtBin(t), db)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "(") {
			in = line == "ran"
		} else if in {
			out[strings.Trim(line, "(),'")]++
		}
	}
	return out
}

// Each model writes one row for each time that it ran, so the warehouse itself says what a retry of nodes ran.
func TestDBT_RunsExactlyTheSelectedNodes(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.DBTRun, struct{}{})
	r := worker(t, j, executor.Config{DBTPath: filepath.Join(dbtBin(t), "dbt")})
	r.ProjectRoot = t.TempDir()
	countingProject(t, r.ProjectRoot)
	db := filepath.Join(t.TempDir(), "count.duckdb")
	vars := func(more string) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"db":%q%s}`, db, more)) }
	step := func(more string) engine.End {
		t.Helper()
		j.nodes = nil
		end, _ := dbtStep(t, r, j, plan.DBTRun, plan.DBTInputs{ProjectDir: "count", Select: "broken+ ok", Exclude: "other",
			Vars: vars(more)})
		return end
	}
	wantFailed(t, step(""), executor.CodeDBTFailed, true)
	if diff := cmp.Diff(map[string]int{"ok": 1}, rowsRan(t, db)); diff != "" {
		t.Fatalf("the first attempt (-want +got):\n%s\n%s", diff, j.log())
	}
	counts := run.NodeCounts{Total: 5, Success: 2, Failed: 1, Skipped: 2}
	selection := func(ids ...string) *engine.NodeSelection {
		out := &engine.NodeSelection{Base: 1, Chosen: len(ids), DBTVersion: "1.11.16", Counts: counts,
			Hooks: map[string]run.NodeStatus{"operation.count.count-on-run-start-0": run.NodeSuccess}}
		was := map[string]run.NodeStatus{"model.count.broken": run.NodeFailed, "model.count.first": run.NodeSkipped,
			"model.count.second": run.NodeSkipped, "model.count.ok": run.NodeSuccess}
		for _, id := range ids {
			out.Nodes = append(out.Nodes, engine.SelectedNode{ID: id, Was: was[id]})
		}
		return out
	}

	// It still fails: the counts are those of the whole step, and the finished model does not run again.
	j.only = selection("model.count.broken", "model.count.first", "model.count.second")
	wantFailed(t, step(""), executor.CodeDBTFailed, true)
	if last := j.nodes[len(j.nodes)-1]; last.Base != 1 || last.Counts != counts {
		t.Errorf("the last batch of the failed retry is %+v, want base 1 and %+v", last, counts)
	}
	if first := j.nodes[0]; len(first.Nodes) != 0 || first.Counts != counts {
		t.Errorf("the first batch is %+v, want the counts of the base without nodes", first)
	}
	if end := step(`,"mended":true`); end.Completed == nil {
		t.Fatalf("the mended retry failed: %+v\n%s", end.Failed, j.log())
	}
	want := map[string]int{"ok": 1, "broken": 1, "first": 1, "second": 1}
	if diff := cmp.Diff(want, rowsRan(t, db)); diff != "" {
		t.Errorf("after the retry (-want +got):\n%s", diff)
	}
	if last := j.nodes[len(j.nodes)-1].Counts; last != (run.NodeCounts{Total: 5, Success: 5}) {
		t.Errorf("the last batch counts %+v, want 5 of 5", last)
	}

	// A step that runs only models builds a set with tests, and no other test of the model.
	test := testOf(t, j, "not_null")
	if test == "" {
		t.Fatal("the manifest has no test not_null")
	}
	j.only = selection("model.count.ok", test)
	if end := step(`,"mended":true`); end.Completed == nil {
		t.Fatalf("a model and a test failed: %+v\n%s", end.Failed, j.log())
	}
	want["ok"] = 2
	if diff := cmp.Diff(want, rowsRan(t, db)); diff != "" {
		t.Errorf("a model and a test (-want +got):\n%s", diff)
	}
	got := statuses(j.folded())
	if diff := cmp.Diff(map[string]string{"model.count.ok": "SUCCESS", test: "SUCCESS",
		"operation.count.count-on-run-start-0": "SUCCESS"}, got); diff != "" {
		t.Errorf("the nodes of a model and a test (-want +got):\n%s", diff)
	}
}

// A set that dbt ended well does not make a step green when dbt did not run all of it, or other nodes are open. An
// empty rest runs nothing.
func TestDBT_ASetAloneIsNotTheWholeStep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		nodes []string
		open  int
		code  string
	}{
		{"all of it", []string{"customers"}, 0, ""},
		{"a node that the project no longer has", []string{"customers", "removed"}, 0, executor.CodeDBTNodesMissing},
		{"open nodes beside it", []string{"customers"}, 2, executor.CodeDBTNodesOpen},
		{"nothing left, and open nodes", nil, 2, executor.CodeDBTNodesOpen},
		{"nothing left", nil, 0, ""},
	} {
		j := newJournal(t, plan.DBTRun, struct{}{})
		j.only = &engine.NodeSelection{Base: 1, Chosen: 2, DBTVersion: "1.11.16", OpenCount: c.open}
		for _, name := range c.nodes {
			j.only.Nodes = append(j.only.Nodes, engine.SelectedNode{ID: "model.shop." + name, Was: run.NodeFailed})
		}
		for i := range c.open {
			j.only.Open = append(j.only.Open, fmt.Sprintf("model.shop.open%d", i))
		}
		end := replayed(t, j, replay(t, "started\n", recording(t, "manifest.json"),
			`{"results":[{"unique_id":"model.shop.customers","status":"success"}]}`))
		if c.code != "" {
			wantFailed(t, end, c.code, true)
		} else if end.Completed == nil {
			t.Errorf("%s: the step failed: %+v", c.name, end.Failed)
		}
		if ran := strings.Contains(j.log(), "started"); ran != (len(c.nodes) > 0) {
			t.Errorf("%s: dbt ran: %t", c.name, ran)
		}
	}
}

// testOf returns the id of a test of the last manifest whose name begins so.
func testOf(t *testing.T, j *journal, name string) string {
	t.Helper()
	for _, ref := range j.refs {
		if ref.Kind != run.KindDBTManifest {
			continue
		}
		body, err := j.kept.Open(t.Context(), ref.URI)
		if err != nil {
			t.Fatal(err)
		}
		var m struct{ Nodes map[string]json.RawMessage }
		err = json.NewDecoder(body).Decode(&m)
		_ = body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for id := range m.Nodes {
			if strings.HasPrefix(id, "test.count."+name) {
				return id
			}
		}
	}
	return ""
}

// dbt 2 does not select by the results of another version, so the worker names each node by its name, type and file.
func TestDBT2_SelectsByNameTypeAndFile(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.DBTRun, struct{}{})
	dir := t.TempDir()
	path := replay(t, recording(t, "2.0.0a4.jsonl"), recording(t, "manifest.json"),
		`{"results":[{"unique_id":"model.shop.customers","status":"success"}]}`)
	script, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	said := filepath.Join(dir, "dbt")
	loud := strings.Replace(string(script), "#!/bin/sh\n", "#!/bin/sh\necho \"said: $*\"\n", 1)
	if err := os.WriteFile(said, []byte(loud), 0o700); err != nil {
		t.Fatal(err)
	}
	j.only = &engine.NodeSelection{Base: 1, Chosen: 1, DBTVersion: "2.0.0-alpha.4", Nodes: []engine.SelectedNode{{
		ID: "model.shop.customers", Was: run.NodeFailed, FQN: []string{"shop", "marts", "customers"},
		Path: "models/marts/customers.sql"}}}
	r := worker(t, j, executor.Config{DBTPath: said, Read: []string{filepath.Dir(path), dir}})
	r.ProjectRoot = t.TempDir()
	if err := os.Mkdir(filepath.Join(r.ProjectRoot, "shop"), 0o700); err != nil {
		t.Fatal(err)
	}
	end, _ := dbtStep(t, r, j, plan.DBTRun, plan.DBTInputs{ProjectDir: "shop", Select: "tag:nightly"})
	const want = "--select fqn:shop.marts.customers,resource_type:model,path:models/marts/customers.sql " +
		"--indirect-selection empty"
	if log := j.log(); end.Completed == nil || !strings.Contains(log, want) || strings.Contains(log, "nightly") {
		t.Errorf("the step ended with %+v; log:\n%s", end.Failed, log)
	}
	j.only.Nodes[0].FQN[2] = "a,b"
	end, _ = dbtStep(t, r, j, plan.DBTRun, plan.DBTInputs{ProjectDir: "shop"})
	wantFailed(t, end, executor.CodeDBTUsage, false)
}
