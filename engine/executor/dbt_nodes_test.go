package executor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// folded returns the nodes of the batches as the log would have them.
func (j *journal) folded() *run.Nodes {
	j.mu.Lock()
	defer j.mu.Unlock()
	var n run.Nodes
	for i, p := range j.nodes {
		e := run.Event{Seq: run.Seq(i + 1), Type: run.StepNodesReported, EngineAttempt: 1, Payload: runtest.JSON(p)}
		n.Apply(&e)
	}
	return &n
}

// statuses returns the status of each node, and the failed node that made dbt skip it.
func statuses(n *run.Nodes) map[string]string {
	out := map[string]string{}
	for _, node := range n.List {
		out[node.ID] = strings.TrimSuffix(string(node.Status)+" by "+node.SkippedBy, " by ")
	}
	return out
}

func TestDBT_ReportsNodesWhileItRuns(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.DBTRun, struct{}{})
	var live atomic.Int64 // batches before the program of the step ended
	j.evidence = func(e engine.Evidence) error {
		if e.Nodes != nil && e.Nodes.Counts.Running > 0 {
			live.Add(1)
		}
		return nil
	}
	r := worker(t, j, executor.Config{DBTPath: filepath.Join(dbtBin(t), "dbt")})
	r.ProjectRoot = t.TempDir()
	if err := os.CopyFS(filepath.Join(r.ProjectRoot, "shop"),
		os.DirFS(filepath.Join(repository(t), "examples", "shop"))); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(r.ProjectRoot, "shop", "models", "staging", "stg_orders.sql")
	if err := os.WriteFile(broken, []byte("select no_such_column from {{ source('shop', 'raw_orders') }}"),
		0o600); err != nil {
		t.Fatal(err)
	}
	end, _ := dbtStep(t, r, j, plan.DBTRun, plan.DBTInputs{ProjectDir: "shop",
		Vars: json.RawMessage(fmt.Sprintf(`{"shop_dir":%q}`, t.TempDir()))})
	wantFailed(t, end, executor.CodeDBTFailed, true)
	nodes := j.folded()
	want := map[string]string{
		"model.shop.stg_orders": "FAILED", "model.shop.stg_customers": "SUCCESS", "model.shop.stg_payments": "SUCCESS",
		"model.shop.orders":                "SKIPPED by model.shop.stg_orders",
		"model.shop.customers":             "SKIPPED by model.shop.stg_orders",
		"model.shop.daily_revenue":         "SKIPPED by model.shop.stg_orders",
		"operation.shop.shop-on-run-end-0": "SUCCESS",
	}
	if diff := cmp.Diff(want, statuses(nodes)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	counts := j.nodes[len(j.nodes)-1].Counts
	if want := (run.NodeCounts{Total: 7, Success: 3, Failed: 1, Skipped: 3}); counts != want {
		t.Errorf("the last batch has the counts %+v, want %+v", counts, want)
	}
	for i, p := range j.nodes {
		if got := p.Warehouse; (i == 0) != (strings.HasPrefix(got, "duckdb:///") && strings.HasSuffix(got, ".duckdb")) {
			t.Errorf("batch %d says the warehouse %q, want the database file in the first one only", i+1, got)
		}
	}
	if live.Load() == 0 {
		t.Error("no batch has a running node: the nodes came after dbt")
	}
	for _, n := range nodes.List {
		switch n.ID {
		case "model.shop.stg_orders":
			if !strings.Contains(n.Error, "no_such_column") || strings.Contains(n.Error, "Traceback") || n.Relation == "" {
				t.Errorf("stg_orders has the error %q and the relation %q", n.Error, n.Relation)
			}
		case "model.shop.stg_customers":
			if n.Rows == nil || *n.Rows != 100 || n.StartedAt == nil || n.EndedAt == nil || n.DurationMS == nil {
				t.Errorf("stg_customers is %+v, want 100 rows, two times and a duration", n)
			}
		}
	}
}

// replay writes a program that behaves as dbt: it prints the file, and writes the manifest as dbt parse.
func replay(t *testing.T, output, manifest, results string) string {
	t.Helper()
	dir := t.TempDir()
	for name, body := range map[string]string{"output": output, "manifest": manifest, "results": results} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	script := `#!/bin/sh
verb=; target=
while [ $# -gt 0 ]; do
  case "$1" in run|parse|test|compile) verb=$1 ;; --target-path) target=$2 ;; esac
  shift
done
mkdir -p "$target"
if [ "$verb" = parse ]; then cp ` + dir + `/manifest "$target/manifest.json"; exit 0; fi
cat ` + dir + `/output
sleep 1
cp ` + dir + `/manifest "$target/manifest.json"
cp ` + dir + `/results "$target/run_results.json"
`
	path := filepath.Join(dir, "dbt")
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// replayed runs a step with that program.
func replayed(t *testing.T, j *journal, path string) engine.End {
	t.Helper()
	r := worker(t, j, executor.Config{DBTPath: path, Read: []string{filepath.Dir(path)}})
	r.ProjectRoot = t.TempDir()
	if err := os.Mkdir(filepath.Join(r.ProjectRoot, "shop"), 0o700); err != nil {
		t.Fatal(err)
	}
	end, _ := dbtStep(t, r, j, plan.DBTRun, plan.DBTInputs{ProjectDir: "shop"})
	return end
}

func recording(t *testing.T, name string) string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("dbtlog", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// dbt 2 writes its manifest at its end, so the worker has it parsed beside the execution. A program of the project
// prints an event of a node that the manifest does not name.
func TestDBT2_ReportsNodesOfTheParsedManifest(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.DBTRun, struct{}{})
	var running atomic.Int64
	j.evidence = func(e engine.Evidence) error {
		if e.Nodes != nil {
			running.Add(1)
		}
		return nil
	}
	const fake = `{"info":{"name":"LogModelResult","level":"info","msg":"fake"},"data":{"node_info":{"unique_id":` +
		`"model.shop.invented","node_status":"success"}}}` + "\n"
	path := replay(t, recording(t, "2.0.0a4.jsonl")+fake, recording(t, "manifest.json"), `{"results":[{"unique_id":`+
		`"model.shop.invented_too","status":"success"},{"unique_id":"model.shop.customers","status":"success",`+
		`"adapter_response":{"rows_affected":0}}]}`)
	if end := replayed(t, j, path); end.Completed == nil {
		t.Fatalf("the step failed: %+v; log:\n%s", end.Failed, j.log())
	}
	got := statuses(j.folded())
	if _, entered := got["model.shop.invented"]; entered || len(got) != 14 {
		t.Errorf("%d nodes, want the 14 of the manifest: %v", len(got), got)
	}
	if got["model.shop.after_broken"] != "SKIPPED by model.shop.broken" || got["model.shop.customers"] != "SUCCESS" {
		t.Errorf("nodes %v", got)
	}
	for _, n := range j.folded().List {
		if n.ID == "model.shop.customers" && (n.Rows == nil || *n.Rows != 2) {
			t.Errorf("customers has the rows %v, want the 2 that the project counted", n.Rows)
		}
	}
}

// The batches stay few and small, none is lost or repeated, and a server that does not answer delays nothing.
func TestDBT_3000NodesInBatches(t *testing.T) {
	t.Parallel()
	const nodes = 3_000
	var output, manifest strings.Builder
	output.WriteString(`{"info":{"name":"MainReportVersion","level":"info","msg":"Running"},"data":{"version":"=2.0.0"}}` + "\n")
	manifest.WriteString(`{"nodes":{"model.s.none":{}`)
	for i := range nodes {
		fmt.Fprintf(&manifest, `,"model.s.m%d":{}`, i)
		for _, status := range []string{"started", "success"} {
			fmt.Fprintf(&output, `{"info":{"name":"X","level":"info","msg":"","ts":"2026-11-29T03:00:00Z"},"data":{"total":%d,`+
				`"node_info":{"unique_id":"model.s.m%d","node_status":%q}}}`+"\n", nodes, i, status)
		}
	}
	manifest.WriteString("}}")
	j := newJournal(t, plan.DBTRun, struct{}{})
	calls, largest := 0, 0
	j.evidence = func(e engine.Evidence) error {
		if e.Nodes == nil {
			return nil
		}
		largest = max(largest, len(e.Nodes.Nodes), len(runtest.JSON(e.Nodes))/1000)
		if calls++; calls%3 == 2 {
			return errors.New("no answer")
		}
		return nil
	}
	began := time.Now()
	if end := replayed(t, j, replay(t, output.String(), manifest.String(), `{"results":[]}`)); end.Completed == nil {
		t.Fatalf("the step failed: %+v", end.Failed)
	}
	got := j.folded()
	counts := map[run.NodeStatus]int{}
	for _, n := range got.List {
		counts[n.Status]++
	}
	if diff := cmp.Diff(map[run.NodeStatus]int{run.NodeSuccess: nodes}, maps.Clone(counts)); diff != "" {
		t.Errorf("nodes by status (-want +got):\n%s", diff)
	}
	if last := j.nodes[len(j.nodes)-1].Counts; last.Success != nodes || last.Total != nodes {
		t.Errorf("the last batch counts %+v, want %d", last, nodes)
	}
	if largest > run.MaxNodesOfBatch {
		t.Errorf("a batch has %d nodes or kB, want at most %d", largest, run.MaxNodesOfBatch)
	}
	t.Logf("%d nodes in %d events and %d calls, %s", nodes, len(j.nodes), calls, time.Since(began))
}

func TestDBT_NodesStopAfterARefusal(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.DBTRun, struct{}{})
	var calls atomic.Int64
	j.evidence = func(e engine.Evidence) error {
		if e.Nodes == nil {
			return nil
		}
		calls.Add(1)
		return &run.SchemaError{}
	}
	path := replay(t, recording(t, "2.0.0a4.jsonl"), recording(t, "manifest.json"), `{"results":[]}`)
	if end := replayed(t, j, path); end.Completed == nil {
		t.Fatalf("the step failed with its reports: %+v", end.Failed)
	}
	if calls.Load() != 1 {
		t.Errorf("the worker sent %d batches after the refusal of the first, want none", calls.Load()-1)
	}
}
