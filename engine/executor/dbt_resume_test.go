package executor_test

import (
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

// endLine is a line of dbt's log file about a node that ended.
func endLine(id, status string) string {
	return fmt.Sprintf(`{"data":{"execution_time":1.5,"node_info":{"unique_id":%q,"resource_type":"model","node_status":%q,`+
		`"node_finished_at":"2026-11-29T08:00:00"}},"info":{"name":"LogModelResult","level":"info","msg":"done"}}`, id,
		status) + "\n"
}

// A worker that is killed has not reported the nodes that ended last. The next try finds them in the file that dbt
// wrote, reports them and does not run them. The dispatch of these tests is the second try.
func TestDBT_ReadsTheLogOfAnInterruptedTry(t *testing.T) {
	t.Parallel()
	const half = `{"data":{"node_info":{"unique_id":"model.shop.after_broken","node_sta` // the kill cut it
	for _, c := range []struct {
		name, file, log string
		all             bool // whether all nodes run again
	}{
		{"customers ended", "1.1/logs/dbt.log", endLine("model.shop.customers", "success") +
			endLine("model.shop.broken", "error") + half, false},
		{"in a file before the last one", "1.1/logs/dbt.log.2", endLine("model.shop.customers", "success"), false},
		{"text of an earlier version of the worker", "1.1/logs/dbt.log", "08:00:00 OK model.shop.customers\n", true},
		{"another attempt", "2.1/logs/dbt.log", endLine("model.shop.customers", "success"), true},
		{"a link", "1.1/logs/dbt.log", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.DBTRun, struct{}{})
			j.only = &engine.NodeSelection{Base: 1, Chosen: 3, DBTVersion: "1.11.16",
				Counts: run.NodeCounts{Total: 4, Success: 1, Failed: 1, Skipped: 2}, Nodes: []engine.SelectedNode{
					{ID: "model.shop.customers", Was: run.NodeSkipped}, {ID: "model.shop.after_broken", Was: run.NodeSkipped},
					{ID: "model.shop.broken", Was: run.NodeFailed}}}
			dbt := replay(t, endLine("model.shop.broken", "success"), recording(t, "manifest.json"),
				`{"results":[{"unique_id":"model.shop.broken","status":"success"},{"unique_id":"model.shop.after_broken",`+
					`"status":"success"},{"unique_id":"model.shop.customers","status":"success"}]}`)
			if !c.all { // dbt does not know the node that it did not run
				dbt = replay(t, endLine("model.shop.broken", "success"), recording(t, "manifest.json"),
					`{"results":[{"unique_id":"model.shop.broken","status":"success"},{"unique_id":"model.shop.after_broken",`+
						`"status":"success"}]}`)
			}
			r := worker(t, j, executor.Config{DBTPath: dbt, Read: []string{filepath.Dir(dbt)}})
			r.ProjectRoot = t.TempDir()
			own := filepath.Join(r.WorkspaceRoot, identity.RunID, "dbt", "s1")
			path := filepath.Join(own, filepath.FromSlash(c.file))
			for _, dir := range []string{filepath.Dir(path), filepath.Join(r.ProjectRoot, "shop")} {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if c.log == "" {
				outside := filepath.Join(t.TempDir(), "dbt.log")
				if err := os.WriteFile(outside, []byte(endLine("model.shop.customers", "success")), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(outside, path); err != nil {
					t.Fatal(err)
				}
			} else if err := os.WriteFile(path, []byte(c.log), 0o600); err != nil {
				t.Fatal(err)
			}
			end, _ := dbtStep(t, r, j, plan.DBTRun, plan.DBTInputs{ProjectDir: "shop"})
			if end.Completed == nil {
				t.Fatalf("the step failed: %+v\n%s", end.Failed, j.log())
			}
			chosen, err := os.ReadFile(filepath.Join(own, "1.2", "selection", "run_results.json"))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(chosen), "model.shop.customers") != c.all ||
				!strings.Contains(string(chosen), "model.shop.after_broken") {
				t.Errorf("dbt runs %s, want customers: %t", chosen, c.all)
			}
			if diff := cmp.Diff(run.NodeCounts{Total: 4, Success: 4}, j.nodes[len(j.nodes)-1].Counts); diff != "" {
				t.Errorf("the counts at the end (-want +got):\n%s", diff)
			}
			got := statuses(j.folded())["model.shop.customers"]
			if got != "SUCCESS" {
				t.Errorf("the log says that customers is %q, want SUCCESS", got)
			}
		})
	}
}
