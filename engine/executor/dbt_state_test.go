package executor_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/nodeset"
)

// slimProject writes a project: child reads changed and same, grandchild reads child, and alone reads same.
func slimProject(t *testing.T, root string) {
	t.Helper()
	for name, body := range map[string]string{
		"dbt_project.yml": "name: slim\nversion: '1.0'\nprofile: slim\nflags: {send_anonymous_usage_stats: false}\n" +
			"models: {slim: {+materialized: table}}\n",
		"profiles.yml": "slim: {target: dev, outputs: {dev: {type: duckdb, threads: 1, path: \"{{ var('db') }}\", " +
			"schema: \"{{ var('schema', 'main') }}\"}}}\n",
		"models/changed.sql":    "select 1 as id",
		"models/same.sql":       "select 1 as id",
		"models/child.sql":      "select id from {{ ref('changed') }} union all select id from {{ ref('same') }}",
		"models/grandchild.sql": "select * from {{ ref('child') }}",
		"models/alone.sql":      "select * from {{ ref('same') }}",
	} {
		path := filepath.Join(root, "slim", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// kept returns the newest artifact of the journal with a file name, and its reference.
func (j *journal) keptFile(t *testing.T, name string) ([]byte, run.ArtifactRef) {
	t.Helper()
	for i := len(j.refs) - 1; i >= 0; i-- {
		if filepath.Base(j.refs[i].URI) != name {
			continue
		}
		body, err := j.kept.Open(t.Context(), j.refs[i].URI)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = body.Close() }()
		doc, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		return doc, j.refs[i]
	}
	t.Fatalf("no artifact %s was kept", name)
	return nil, run.ArtifactRef{}
}

func gzipped(t *testing.T, doc []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(doc)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Only what was modified and what reads it runs, with a real dbt. The slim steps build into another schema, so that
// what they do not run can only come from the manifest that they compare with.
func TestDBT_SlimStepRunsWhatWasModified(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.DBTRun, struct{}{})
	r := worker(t, j, executor.Config{DBTPath: filepath.Join(dbtBin(t), "dbt")})
	r.ProjectRoot = t.TempDir()
	slimProject(t, r.ProjectRoot)
	db := filepath.Join(t.TempDir(), "slim.duckdb")
	in := plan.DBTInputs{ProjectDir: "slim", Vars: json.RawMessage(fmt.Sprintf(`{"db":%q}`, db))}
	if end, _ := dbtStep(t, r, j, plan.DBTRun, in); end.Completed == nil {
		t.Fatalf("the full step failed: %+v\n%s", end.Failed, j.log())
	}
	manifest, ref := j.keptFile(t, "manifest.json")
	j.state, j.packed = &run.StateBase{RunID: "green", LogicalAttempt: 1, Manifest: &ref}, gzipped(t, manifest)

	in.State = &plan.DBTState{Against: plan.LastGreen}
	in.Vars = json.RawMessage(fmt.Sprintf(`{"db":%q,"schema":"slim"}`, db))
	changed := filepath.Join(r.ProjectRoot, "slim", "models", "changed.sql")
	if err := os.WriteFile(changed, []byte("select 2 as id"), 0o600); err != nil {
		t.Fatal(err)
	}
	j.nodes = nil
	if end, _ := dbtStep(t, r, j, plan.DBTRun, in); end.Completed == nil {
		t.Fatalf("the slim step failed: %+v\n%s", end.Failed, j.log())
	}
	if diff := cmp.Diff(map[string]string{"model.slim.changed": "SUCCESS", "model.slim.child": "SUCCESS",
		"model.slim.grandchild": "SUCCESS"}, statuses(j.folded())); diff != "" {
		t.Errorf("the nodes of the slim step (-want +got):\n%s", diff)
	}
	doc, _ := j.keptFile(t, nodeset.ReasonsFile)
	var why nodeset.Reasons
	if err := json.Unmarshal(doc, &why); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]nodeset.Reached{{ID: "model.slim.changed", Why: nodeset.BodyModified},
		{ID: "model.slim.child", Why: nodeset.ReadsModified, Of: "model.slim.changed"},
		{ID: "model.slim.grandchild", Why: nodeset.ReadsModified, Of: "model.slim.child"}}, why.Nodes); diff != "" {
		t.Errorf("why (-want +got):\n%s", diff)
	}
	if why.Against.RunID != "green" || why.Against.Manifest.SHA256 != ref.SHA256 {
		t.Errorf("the reasons are against %+v, want the manifest of the run green", why.Against)
	}

	// With nothing modified, nothing runs and the step succeeds.
	if err := os.WriteFile(changed, []byte("select 1 as id"), 0o600); err != nil {
		t.Fatal(err)
	}
	j.nodes = nil
	if end, _ := dbtStep(t, r, j, plan.DBTRun, in); end.Completed == nil {
		t.Errorf("the step without changes failed: %+v\n%s", end.Failed, j.log())
	}
	if got := statuses(j.folded()); len(got) > 0 {
		t.Errorf("without changes %v ran, want nothing", got)
	}
}

// A slim step without a manifest fails with a code of its own, or runs in full when its plan says so. It never runs in
// full because a manifest has other bytes.
func TestDBT_SlimStepWithoutAManifest(t *testing.T) {
	t.Parallel()
	ref := run.ArtifactRef{URI: "artifact:t1/r/s1/1/1/manifest.json", SHA256: strings.Repeat("0", 64)}
	for _, c := range []struct {
		name   string
		state  *run.StateBase
		packed []byte
		full   bool   // what the plan says
		code   string // "": the step succeeds
	}{
		{"no green run", &run.StateBase{}, nil, false, executor.CodeDBTNoState},
		{"no green run, and full by choice", &run.StateBase{}, nil, true, ""},
		{"gone", &run.StateBase{RunID: "green", Manifest: &ref}, nil, false, executor.CodeDBTNoState},
		{"gone, and full by choice", &run.StateBase{RunID: "green", Manifest: &ref}, nil, true, ""},
		{"a server that chose none", nil, nil, false, executor.CodeDBTNoState},
		{"other bytes", &run.StateBase{RunID: "green", Manifest: &ref}, gzipped(t, []byte("{}")), true, executor.CodeUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.DBTRun, struct{}{})
			j.state, j.packed = c.state, c.packed
			dbt := replay(t, "started\n", recording(t, "manifest.json"), `{"results":[]}`)
			r := worker(t, j, executor.Config{DBTPath: dbt, Read: []string{filepath.Dir(dbt)}})
			r.ProjectRoot = t.TempDir()
			if err := os.Mkdir(filepath.Join(r.ProjectRoot, "shop"), 0o700); err != nil {
				t.Fatal(err)
			}
			state := &plan.DBTState{Against: plan.LastGreen}
			if c.full {
				state.Otherwise = plan.FullWithoutState
			}
			end, _ := dbtStep(t, r, j, plan.DBTRun, plan.DBTInputs{ProjectDir: "shop", State: state})
			if c.code == "" {
				if end.Completed == nil || !strings.Contains(j.log(), "the step runs in full") {
					t.Errorf("the step ended with %+v, want a full run:\n%s", end.Failed, j.log())
				}
				return
			}
			if end.Failed == nil || end.Failed.ErrorCode != c.code || strings.Contains(j.log(), "started") {
				t.Errorf("the step ended with %+v, want %s, and no dbt:\n%s", end.Failed, c.code, j.log())
			}
		})
	}
}
