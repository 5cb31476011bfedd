package executor_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/internal/dbttest"
	"github.com/dvt-engine/dvt/internal/testserver"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// differences are what versions and adapters do differently. The table in docs/operations.md says the same.
type differences struct {
	errorLive     bool // the first report of the end of a failed model has its error
	rowsLive      bool // the same of the rows of a table
	rows          bool // the rows of a table are known at the end
	ephemerals    int  // nodes of ephemeral models in a run
	modelsInTest, // nodes of models in a test
	unitTests int
}

// The nodes in the log are those of dbt's own run_results.json, on each version and adapter, on a project with seeds,
// snapshots, incremental and ephemeral models, tests, unit tests, exposures, hooks, macros and a package.
// It needs tools/prepare dbt-versions; DBT_VERSIONS_MODELS sets the number of models, such as 300.
func TestDBTVersions_NodesAreThoseOfTheResults(t *testing.T) {
	t.Parallel()
	if os.Getenv("TEST_LONG") == "" {
		t.Skip("seven projects on four versions of dbt take minutes: set TEST_LONG")
	}
	one := differences{unitTests: 1}
	onPostgres := differences{unitTests: 1, rowsLive: true, rows: true}
	for _, c := range []struct {
		version  string
		postgres bool
		want     differences
	}{
		{"1.10", false, one}, {"1.11", false, one}, {"1.12", false, one},
		{"1.10", true, onPostgres}, {"1.11", true, onPostgres}, {"1.12", true, onPostgres},
		{"2.0", false, differences{errorLive: true, ephemerals: 1, modelsInTest: 1, unitTests: 1}},
	} {
		adapter := "duckdb"
		if c.postgres {
			adapter = "postgres"
		}
		t.Run(c.version+" on "+adapter, func(t *testing.T) {
			p := versionProject(t, c.version, c.postgres)
			got := differences{}
			p.checkRun(t, &got)
			p.checkTest(t, &got)
			got.ephemerals, got.modelsInTest = min(got.ephemerals, 1), min(got.modelsInTest, 1)
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(differences{})); diff != "" {
				t.Errorf("what this version does (-documented +seen):\n%s", diff)
			}
		})
	}
}

// ofVersion is a project whose seeds are loaded, and the program of a version of dbt.
type ofVersion struct {
	program, root string
	models        int
}

const brokenVars = `{"` + dbttest.Broken + `": true}`

func versionProject(t *testing.T, version string, onPostgres bool) ofVersion {
	t.Helper()
	p := ofVersion{program: filepath.Join(repository(t), ".tools", "dbt-versions", version, "dbt"), root: t.TempDir(),
		models: 60}
	if _, err := os.Stat(p.program); err != nil {
		t.Fatalf("this test runs dbt %s: run make tools/dbt-versions", version)
	}
	if n, err := strconv.Atoi(os.Getenv("DBT_VERSIONS_MODELS")); err == nil {
		p.models = n
	}
	project := dbttest.Project{Models: p.models}
	if onPostgres {
		project.Postgres = testserver.Postgres(t)
	}
	dir := filepath.Join(p.root, "big")
	if err := project.Write(dir); err != nil {
		t.Fatal(err)
	}
	target := t.TempDir()
	seed := exec.CommandContext(t.Context(), p.program, "seed", "--project-dir", dir, "--profiles-dir", dir,
		"--target-path", target, "--log-path", target)
	seed.Env = append(os.Environ(), "DBT_SEND_ANONYMOUS_USAGE_STATS=0")
	if out, err := seed.CombinedOutput(); err != nil {
		t.Fatalf("dbt seed: %v\n%s", err, out)
	}
	return p
}

// execute runs a step and returns what the log has of its nodes. It compares them with the results of dbt.
func (p ofVersion) execute(t *testing.T, typ plan.StepType) (*journal, *run.Nodes) {
	t.Helper()
	j := newJournal(t, typ, struct{}{})
	r := worker(t, j, executor.Config{DBTPath: p.program})
	r.ProjectRoot = p.root
	end, _ := dbtStep(t, r, j, typ, plan.DBTInputs{ProjectDir: "big", Vars: json.RawMessage(brokenVars)})
	wantFailed(t, end, executor.CodeDBTFailed, true)
	i := slices.IndexFunc(j.refs, func(a run.ArtifactRef) bool { return a.Kind == run.KindDBTRunResults })
	if i < 0 {
		t.Fatalf("the step stored no results; log:\n%s", j.log())
	}
	body, err := j.kept.Open(t.Context(), j.refs[i].URI)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	var results struct {
		Results []struct {
			UniqueID string `json:"unique_id"`
			Status   string `json:"status"`
		} `json:"results"`
	}
	if err := json.NewDecoder(body).Decode(&results); err != nil {
		t.Fatal(err)
	}
	statusOf := map[string]string{"success": "SUCCESS", "pass": "SUCCESS", "error": "FAILED", "fail": "FAILED",
		"skipped": "SKIPPED"}
	want := map[string]string{}
	for _, n := range results.Results {
		want[n.UniqueID] = statusOf[n.Status]
	}
	nodes := j.folded()
	got := map[string]string{}
	for _, n := range nodes.List {
		got[n.ID] = string(n.Status)
		if kind, _, _ := strings.Cut(n.ID, "."); kind == "operation" && want[n.ID] == "" { // dbt 2 has no results of hooks
			delete(got, n.ID)
		}
		if number, err := strconv.Atoi(strings.TrimPrefix(n.ID, "model.big.m")); err == nil && dbttest.IsEphemeral(number) {
			delete(want, n.ID) // dbt 2 calls it skipped in the results and successful in its output
			delete(got, n.ID)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes (-results of dbt +log):\n%s", diff)
	}
	reports, running := 0, 0
	for _, b := range j.nodes {
		reports += len(b.Nodes)
		running = max(running, b.Counts.Running)
	}
	t.Logf("%s: %d nodes, %d reports in %d events", typ, len(nodes.List), reports, len(j.nodes))
	if reports > 3*len(nodes.List) || running == 0 {
		t.Errorf("%d reports, at most %d running nodes in a batch; want at most 3 a node, and nodes that run", reports,
			running)
	}
	return j, nodes
}

// firstEnd returns the first report of the end of a node.
func (j *journal) firstEnd(id string) (found run.StepNode) {
	for _, b := range j.nodes {
		for _, n := range b.Nodes {
			if n.ID == id && n.Status.Ended() {
				return n
			}
		}
	}
	return found
}

// checkRun runs the models. One is broken.
func (p ofVersion) checkRun(t *testing.T, seen *differences) {
	t.Helper()
	j, nodes := p.execute(t, plan.DBTRun)
	byID := map[string]run.Node{}
	skipped := map[string]string{}
	for _, n := range nodes.List {
		byID[n.ID] = n
		if n.Status == run.NodeSkipped {
			skipped[n.ID] = n.SkippedBy
		}
		if number, err := strconv.Atoi(strings.TrimPrefix(n.ID, "model.big.m")); err == nil && dbttest.IsEphemeral(number) {
			seen.ephemerals++
		}
	}
	const broken = "model.big." + dbttest.Mid
	want := map[string]string{}
	for i := 20; i < p.models; i += 10 {
		want[fmt.Sprintf("model.big.m%03d", i)] = broken
	}
	if diff := cmp.Diff(want, skipped); diff != "" {
		t.Errorf("skipped nodes and why (-want +got):\n%s", diff)
	}
	if text := byID[broken].Error; !strings.Contains(text, "no_such_column") || strings.Contains(text, "Traceback") ||
		strings.Contains(text, "<unknown>") {
		t.Errorf("the broken model has the error %q, want that of the warehouse alone", text)
	}
	const table = "model.big.m001"
	seen.errorLive, seen.rowsLive = j.firstEnd(broken).Error != "", j.firstEnd(table).Rows != nil
	seen.rows = byID[table].Rows != nil && *byID[table].Rows == 20
	if n := byID[table]; n.StartedAt == nil || n.EndedAt == nil || n.DurationMS == nil || n.Relation == "" {
		t.Errorf("%s is %+v, want two times, a duration and a relation", table, n)
	}
	for _, hook := range []string{"operation.big.big-on-run-start-0", "operation.big.big-on-run-end-0"} {
		if byID[hook].Status != run.NodeSuccess {
			t.Errorf("%s is %q in %v", hook, byID[hook].Status, slices.Sorted(maps.Keys(byID)))
		}
	}
}

// checkTest runs the tests. One fails by the var, and others because their models do not exist.
func (p ofVersion) checkTest(t *testing.T, seen *differences) {
	t.Helper()
	_, nodes := p.execute(t, plan.DBTTest)
	doomed := false
	for _, n := range nodes.List {
		switch kind, name, _ := strings.Cut(n.ID, "."); {
		case kind == "model":
			seen.modelsInTest++
		case kind == "unit_test":
			seen.unitTests++
		case strings.Contains(name, dbttest.DoomedTest):
			doomed = n.Status == run.NodeFailed && n.Failures != nil && *n.Failures == 1 && n.Error != ""
			if !doomed {
				t.Errorf("the doomed test is %+v", n)
			}
		}
	}
	if !doomed {
		t.Error("the doomed test is no failed node")
	}
}
