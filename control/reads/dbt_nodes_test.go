package reads_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
)

// dbtProgram returns the path of the real dbt.
func dbtProgram(t *testing.T) string {
	t.Helper()
	own, err := filepath.Abs("../../.tools/dbt/bin/dbt")
	if err == nil {
		if _, err = os.Stat(own); err == nil {
			return own
		}
	}
	path, err := exec.LookPath("dbt")
	if err != nil {
		t.Fatal("this test runs the real dbt, which is neither in .tools/dbt nor on PATH: run make tools/dbt")
	}
	return path
}

// brokenShop returns the run_results.json of the sample project with a model that fails.
func brokenShop(t *testing.T) []byte {
	t.Helper()
	project, target := t.TempDir(), t.TempDir()
	if err := os.CopyFS(project, os.DirFS("../../examples/shop")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(project, "models", "staging", "stg_orders.sql"),
		[]byte("select no_such_column from {{ source('shop', 'raw_orders') }}"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dbtProgram(t), "build", "--project-dir", project, "--profiles-dir", project, "--target-path",
		target, "--log-path", target,
		"--vars", fmt.Sprintf(`{"shop_dir": %q}`, target))
	cmd.Dir = project
	cmd.Env = append(os.Environ(), "DBT_SEND_ANONYMOUS_USAGE_STATS=0")
	var exit *exec.ExitError
	if out, err := cmd.CombinedOutput(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("dbt ended with %v, want status 1\n%s", err, out)
	}
	return controltest.Must[[]byte](t)(os.ReadFile(filepath.Join(target, "run_results.json")))
}

// dbtStep makes a run whose step s1 failed and stored body as its results at uri. With "" the uri is the one of the
// attempt.
func (w *world) dbtStep(requestID string, body []byte, uri string) string {
	w.T.Helper()
	id := w.CreateRunning(requestID, "s1")
	name := artifact.Name(artifact.AttemptID{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1}, 1,
		"run_results.json")
	at, sum, size, err := w.Artifacts.Put(w.T.Context(), name, bytes.NewReader(body))
	if err != nil {
		w.T.Fatal(err)
	}
	if uri == "" {
		uri = at
	}
	w.FinishStep(id, "s1", 1, run.StepFailedEvent, controltest.M{
		"artifactRefs": []controltest.M{{"uri": uri, "kind": "run_results", "sha256": sum, "sizeBytes": size}}})
	return id
}

// The nodes matter most after a failure, so they are readable for failed attempts too.
// contract: T219
func TestDBTNodes_OfAFailedRunOfTheRealDBT(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	results := brokenShop(t)
	id := w.dbtStep("dbt", results, "")
	read := func(q reads.DBTNodesQuery) reads.DBTNodesPage {
		t.Helper()
		q.RunID, q.StepID = id, "s1"
		page, ok, err := w.DBTNodes(t.Context(), w.Principal("dev-viewer"), q)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		return page
	}
	failed := read(reads.DBTNodesQuery{Statuses: []string{"error"}})
	if failed.Total != 1 || len(failed.Nodes) != 1 || failed.Attempt != 1 {
		t.Fatalf("the page of failed nodes is %+v, want one node of attempt 1", failed)
	}
	n := failed.Nodes[0]
	if n.Name() != "stg_orders" || n.ResourceType() != "model" || !strings.Contains(n.Message, "no_such_column") ||
		n.ExecutionTime <= 0 || !strings.Contains(n.CompiledSQL, "select no_such_column") || n.SQLCut {
		t.Errorf("the node is %+v, want the failed model with its SQL and duration", n)
	}
	if failed.ByStatus["skipped"] < 5 || failed.ByStatus["success"] < 2 || failed.ByStatus["pass"] < 2 {
		t.Errorf("the counts by status are %v, want skipped, successful and passed nodes", failed.ByStatus)
	}
	total := 0
	for _, count := range failed.ByStatus {
		total += count
	}
	var paged []string
	for after := ""; ; {
		page := read(reads.DBTNodesQuery{First: 4, After: after})
		for _, n := range page.Nodes {
			paged = append(paged, n.UniqueID)
		}
		if page.Total != total {
			t.Errorf("the page counts %d nodes, want %d", page.Total, total)
		}
		if !page.HasNext {
			break
		}
		after = page.Cursors[len(page.Cursors)-1]
	}
	var whole []string
	for _, n := range read(reads.DBTNodesQuery{First: 200}).Nodes {
		whole = append(whole, n.UniqueID)
		if n.ResourceType() == "test" && n.Status == "pass" && (n.Failures == nil || *n.Failures != 0 ||
			strings.Contains(n.Name(), ".")) {
			t.Errorf("the test node is %+v, want a name without the digest", n)
		}
	}
	if diff := cmp.Diff(whole, paged); diff != "" || len(whole) != total {
		t.Errorf("%d of %d nodes (-whole +in pages):\n%s", len(whole), total, diff)
	}

	_, _, err := w.DBTNodes(t.Context(), w.ForeignPrincipal(), reads.DBTNodesQuery{RunID: id, StepID: "s1"})
	controltest.Refusal(t, err, run.CodeNotFound)
	_, _, err = w.DBTNodes(t.Context(), w.Engineer(), reads.DBTNodesQuery{RunID: id, StepID: "s1", After: "x"})
	controltest.Refusal(t, err, run.CodeCursorInvalid)
	_, _, err = w.DBTNodes(t.Context(), w.Engineer(), reads.DBTNodesQuery{RunID: id, StepID: "zz"})
	controltest.Refusal(t, err, run.CodeNotFound)
	if _, ok, err := w.DBTNodes(t.Context(), w.Engineer(), reads.DBTNodesQuery{RunID: id, StepID: "s1", Attempt: 2}); ok ||
		err != nil {
		t.Errorf("of an attempt that did not begin: %v, %v", ok, err)
	}
}

// A worker cannot show the artifacts of other attempts by naming their URI.
func TestDBTNodes_RefusesArtifactsOfOtherAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := artifact.Name(artifact.AttemptID{TenantID: "globex", RunID: "r9", StepID: "s1", LogicalAttempt: 1}, 1,
		"run_results.json")
	uri, _, _, err := w.Artifacts.Put(t.Context(), secret,
		strings.NewReader(`{"results":[{"unique_id":"model.theirs.a","status":"success"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	id := w.dbtStep("theft", []byte(`{"results":[]}`), uri)
	if page, ok, err := w.DBTNodes(t.Context(), w.Engineer(), reads.DBTNodesQuery{RunID: id, StepID: "s1"}); ok ||
		err != nil {
		t.Errorf("the page is %+v with the error %v, want none", page, err)
	}
}

// A page is bounded regardless of the size of dbt's output.
func TestDBTNodes_PagesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := fmt.Sprintf(`{"metadata":{"x":[1,{"y":2}]},"results":[{"unique_id":"model.p.a.v2","status":"success","message":%q,"compiled_code":%q,"adapter_response":{"rows_affected":7}},
		{"unique_id":"odd","status":"new word","adapter_response":{"rows_affected":"many"}}],"elapsed_time":1}`,
		strings.Repeat("é", 4000), strings.Repeat("x", 40_000))
	id := w.dbtStep("long", []byte(long), "")
	page, _, err := w.DBTNodes(t.Context(), w.Engineer(), reads.DBTNodesQuery{RunID: id, StepID: "s1"})
	if err != nil || len(page.Nodes) != 2 {
		t.Fatalf("the page is %+v with the error %v, want two nodes", page, err)
	}
	if n := page.Nodes[0]; len(n.Message) != 4096 || len(n.CompiledSQL) != 32<<10 || !n.SQLCut || n.Name() != "a.v2" ||
		n.RowsAffected == nil || *n.RowsAffected != 7 {
		t.Errorf("node %s has a message of %d bytes and SQL of %d bytes, cut %v, rows %v; want both cut and 7 rows",
			n.Name(), len(n.Message), len(n.CompiledSQL), n.SQLCut, n.RowsAffected)
	}
	if n := page.Nodes[1]; n.Name() != "odd" || n.RowsAffected != nil {
		t.Errorf("the node is %+v, want the name odd and no rows", n)
	}
	id = w.dbtStep("large", bytes.Repeat([]byte(" "), 16<<20+1), "")
	_, _, err = w.DBTNodes(t.Context(), w.Engineer(), reads.DBTNodesQuery{RunID: id, StepID: "s1"})
	if e := controltest.Refusal(t, err, run.CodeQueryTooComplex); e.Limit != 16<<20 {
		t.Errorf("the refusal has the limit %d, want 16 MiB", e.Limit)
	}
}
