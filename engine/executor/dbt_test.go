package executor_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/internal/checkout"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

func repository(t *testing.T) string {
	t.Helper()
	root, err := checkout.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// dbtBin returns the directory of the real dbt.
func dbtBin(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(repository(t), ".tools", "dbt", "bin")
	if _, err := os.Stat(filepath.Join(bin, "dbt")); err != nil {
		path, err := exec.LookPath("dbt")
		if err != nil {
			t.Fatal("this test runs the real dbt, which is neither in .tools/dbt nor on PATH: run make tools/dbt")
		}
		return filepath.Dir(path)
	}
	return bin
}

// dump returns every row of every table, in an order that does not depend on the order of writing.
func dump(t *testing.T, bin, db string) string {
	t.Helper()
	const script = `
import duckdb, sys
c = duckdb.connect(sys.argv[1], read_only=True)
for (name,) in c.execute("select table_name from information_schema.tables order by 1").fetchall():
    print(name)
    for row in sorted(map(repr, c.execute(f'select * from "{name}"').fetchall())):
        print(row)
`
	out, err := exec.Command(filepath.Join(bin, "python"), "-c", script, db).CombinedOutput()
	if err != nil {
		t.Fatalf("dump: %v\n%s", err, out)
	}
	return string(out)
}

type summary struct {
	Command              string
	Models, Tests, Seeds map[string]int
	Rows                 map[string]int64
	ElapsedMS            int64 `json:"elapsedMs"`
}

func dbtStep(t *testing.T, r *executor.Runner, j *journal, typ plan.StepType, in plan.DBTInputs) (engine.End, summary) {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	j.step = plan.Step{StepID: "s1", Type: typ, Inputs: raw, Timeout: testtime.Of(3 * time.Minute)}
	end := execute(t, t.Context(), r)
	var s summary
	if end.Completed != nil {
		if err := json.Unmarshal(end.Completed.Result, &s); err != nil {
			t.Fatal(err)
		}
	}
	return end, s
}

// contract: T219
func TestDBT_GivesTheSameResultAsTheCommandLine(t *testing.T) {
	t.Parallel()
	bin := dbtBin(t)
	project := filepath.Join(t.TempDir(), "root")
	if err := os.CopyFS(filepath.Join(project, "shop"),
		os.DirFS(filepath.Join(repository(t), "examples", "shop"))); err != nil {
		t.Fatal(err)
	}
	byHand, bySteps := t.TempDir(), t.TempDir()

	cli := exec.Command(filepath.Join(bin, "dbt"), "build", "--project-dir", ".", "--profiles-dir", ".", "--target-path",
		byHand, "--log-path", byHand,
		"--vars", fmt.Sprintf(`{"shop_dir": %q}`, byHand))
	cli.Dir = filepath.Join(project, "shop")
	cli.Env = append(os.Environ(), "DBT_SEND_ANONYMOUS_USAGE_STATS=0")
	if out, err := cli.CombinedOutput(); err != nil {
		t.Fatalf("dbt build by hand: %v\n%s", err, out)
	}
	want := map[string]int{}
	var results struct {
		Results []struct {
			UniqueID string `json:"unique_id"`
			Status   string
		}
	}
	raw, err := os.ReadFile(filepath.Join(byHand, "run_results.json"))
	if err != nil || json.Unmarshal(raw, &results) != nil {
		t.Fatal(err)
	}
	for _, n := range results.Results {
		kind, _, _ := strings.Cut(n.UniqueID, ".")
		if kind == "operation" {
			continue // the hook of the project that counts rows
		}
		want[kind+" "+n.Status]++
	}

	j := newJournal(t, plan.DBTRun, struct{}{})
	r := worker(t, j, executor.Config{DBTPath: filepath.Join(bin, "dbt")})
	r.ProjectRoot = project
	before := listing(t, project)
	in := plan.DBTInputs{ProjectDir: "shop", Vars: json.RawMessage(fmt.Sprintf(`{"shop_dir":%q}`, bySteps))}
	got := map[string]int{}
	rows := map[string]int64{}
	for _, s := range []struct {
		typ plan.StepType
		sel string
	}{{plan.DBTRun, "staging"}, {plan.DBTRun, "marts"}, {plan.DBTTest, ""}} {
		in.Select = s.sel
		end, sum := dbtStep(t, r, j, s.typ, in)
		if end.Completed == nil {
			t.Fatalf("%s failed with %+v; log:\n%s", s.typ, end.Failed, j.log())
		}
		for status, n := range sum.Models {
			got["model "+status] += n
		}
		for status, n := range sum.Tests {
			got["test "+status] += n
		}
		for model, n := range sum.Rows {
			rows[model] = n
		}
		if kinds := storedKinds(t, j, end.Completed.ArtifactRefs); !cmp.Equal(kinds,
			[]string{"dbt-manifest", "dbt-run-results"}) {
			t.Errorf("%s stored the artifacts %v, want dbt-manifest and dbt-run-results", s.typ, kinds)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("nodes by kind and status (-command line +steps):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"stg_customers": 100, "stg_orders": 120, "stg_payments": 148, "orders": 120,
		"customers": 100, "daily_revenue": 61}, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(dump(t, bin, filepath.Join(byHand, "shop.duckdb")), dump(t, bin,
		filepath.Join(bySteps, identity.RunID+".duckdb"))); diff != "" {
		t.Errorf("rows in the database (-command line +steps):\n%s", diff)
	}
	if diff := cmp.Diff(before, listing(t, project)); diff != "" {
		t.Errorf("the project's directory changed:\n%s", diff)
	}
	if log := j.log(); !strings.Contains(log, "OK created sql table model main.orders") || strings.Contains(log, "\x1b") ||
		strings.Contains(log, `"info"`) {
		t.Errorf("want readable lines without JSON and colours, got:\n%s", log)
	}
}

// contract: T219
func TestDBT_ExitStatusesAreFailuresWithCodes(t *testing.T) {
	t.Parallel()
	bin := dbtBin(t)
	j := newJournal(t, plan.DBTRun, struct{}{})
	r := worker(t, j, executor.Config{DBTPath: filepath.Join(bin, "dbt")})
	r.ProjectRoot = t.TempDir()
	data := t.TempDir()
	if err := os.CopyFS(filepath.Join(r.ProjectRoot, "shop"),
		os.DirFS(filepath.Join(repository(t), "examples", "shop"))); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(r.ProjectRoot, "shop", "models", "staging", "stg_orders.sql")
	if err := os.WriteFile(broken, []byte("select no_such_column from {{ source('shop', 'raw_orders') }}"),
		0o600); err != nil {
		t.Fatal(err)
	}
	in := plan.DBTInputs{ProjectDir: "shop", Select: "staging",
		Vars: json.RawMessage(fmt.Sprintf(`{"shop_dir":%q}`, data))}
	end, _ := dbtStep(t, r, j, plan.DBTRun, in)
	wantFailed(t, end, executor.CodeDBTFailed, true)
	if !strings.HasPrefix(end.Failed.ErrorMessage, "model.shop.stg_orders: ") || !strings.Contains(end.Failed.ErrorMessage,
		"no_such_column") || !strings.Contains(end.Failed.ErrorMessage, "\n  ") {
		t.Errorf("message %q, want the node and its error on several lines", end.Failed.ErrorMessage)
	}
	if len(end.Failed.ArtifactRefs) != 2 {
		t.Errorf("a failed run stored the artifacts %+v, want two", end.Failed.ArtifactRefs)
	}

	in.Target = "nowhere"
	end, _ = dbtStep(t, r, j, plan.DBTRun, in)
	wantFailed(t, end, executor.CodeDBTUsage, false)
	if !strings.Contains(end.Failed.ErrorMessage, "nowhere") {
		t.Errorf("message %q, want the name of the missing target", end.Failed.ErrorMessage)
	}
	in.Target, in.Select = "", "--profiles-dir=/"
	end, _ = dbtStep(t, r, j, plan.DBTRun, in)
	wantFailed(t, end, executor.CodeDBTUsage, false)
}

// storedKinds returns the kinds of stored artifacts, after it has checked their content.
func storedKinds(t *testing.T, j *journal, refs []run.ArtifactRef) (kinds []string) {
	t.Helper()
	for _, ref := range refs {
		body, err := j.kept.Open(t.Context(), ref.URI)
		if err != nil {
			t.Fatalf("%s: %v", ref.URI, err)
		}
		raw, err := io.ReadAll(body)
		if err != nil || int64(len(raw)) != ref.SizeBytes || !bytes.Contains(raw, []byte(`"dbt_schema_version"`)) ||
			ref.ContentType != "application/json" {
			t.Errorf("artifact %+v has %d bytes, error %v; want JSON of dbt of the named size", ref, len(raw), err)
		}
		_ = body.Close()
		kinds = append(kinds, string(ref.Kind))
	}
	return kinds
}

func listing(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		files = append(files, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
