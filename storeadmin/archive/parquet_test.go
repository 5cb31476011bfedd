package archive_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// duckDB runs SQL in the DuckDB of dbt and returns the rows as JSON.
func duckDB(t *testing.T, sql string) string {
	t.Helper()
	python, err := filepath.Abs("../../.tools/dbt/bin/python")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c",
		"import duckdb, json, sys; print(json.dumps(duckdb.sql(sys.stdin.read()).fetchall(), default=str))")
	cmd.Stdin = strings.NewReader(sql)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("DuckDB of `make tools/dbt`: %v\n%s", err, problems.String())
	}
	return strings.TrimSpace(string(out))
}

// documentedQuery returns the SQL of the operations guide, for an archive in a directory.
func documentedQuery(t *testing.T, dir string) string {
	t.Helper()
	guide, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(string(guide), "```sql\n") {
		if sql, _, ok := strings.Cut(part, "```"); ok && strings.Contains(sql, "read_parquet") {
			return strings.ReplaceAll(sql, "s3://BUCKET/archive", dir)
		}
	}
	t.Fatal("docs/operations.md has no query of the archive")
	return ""
}

// DuckDB reads the archive without dvt: the events are those of the store, and join with their runs.
func TestWrite_DuckDBReadsTheTables(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	dir := t.TempDir()
	objects, err := artifact.Open(t.Context(), "file://"+dir)
	f.ok(err)
	t.Cleanup(func() { _ = objects.Close() })
	f.objects = objects
	dir = filepath.Join(dir, "archive")
	counts, want := map[string]int{}, []any{}
	var archived []store.ArchivedRun
	for n := range 3 {
		runID := f.endedRun(n + 1)
		events, err := f.raw.Events(t.Context(), runID, 0, 1000)
		f.ok(err)
		for _, e := range events {
			counts[string(e.Type)]++
		}
		l, err := f.raw.Load(t.Context(), runID)
		f.ok(err)
		want = append(want, []any{runID, string(l.State.Status), float64(len(events)), float64(len(events))})
		archived = append(archived, f.archive(runID, 0))
	}
	all := func(ending string) string { return "'" + dir + "/*/*/*/*" + ending + "'" }
	parse := func(text string) (out []any) {
		f.ok(json.Unmarshal([]byte(text), &out))
		return out
	}
	got := map[string]int{}
	for _, row := range parse(duckDB(t, "SELECT event_type, count(*) FROM "+all(".events.parquet")+" GROUP BY 1")) {
		pair := row.([]any)
		got[pair[0].(string)] = int(pair[1].(float64))
	}
	if diff := cmp.Diff(counts, got); diff != "" {
		t.Errorf("events by type (-store +DuckDB):\n%s", diff)
	}
	joined := parse(duckDB(t, "SELECT r.run_id, r.status, r.events, count(*) FROM "+all(".run.parquet")+" r JOIN "+
		all(".events.parquet")+" e USING (tenant_id, run_id) GROUP BY ALL ORDER BY 1"))
	if diff := cmp.Diff(want, joined); diff != "" {
		t.Errorf("runs with their events (-store +DuckDB):\n%s", diff)
	}
	// Columns have types, and a payload is JSON.
	first, err := f.raw.Events(t.Context(), archived[0].RunID, 0, 1)
	f.ok(err)
	typed := duckDB(t, "SELECT run_seq + 1, epoch_us(persisted_at), typeof(persisted_at), typeof(logical_attempt), "+
		"event_id FROM "+all(".events.parquet")+" WHERE run_id = '"+archived[0].RunID+"' AND run_seq = 1")
	wantTyped, err := json.Marshal([]any{[]any{2, first[0].PersistedAt.UnixMicro(), "TIMESTAMP WITH TIME ZONE", "INTEGER",
		first[0].EventID}})
	f.ok(err)
	if diff := cmp.Diff(parse(string(wantTyped)), parse(typed)); diff != "" {
		t.Errorf("the first event (-store +DuckDB):\n%s", diff)
	}
	payloads := duckDB(t, "SELECT count(*) > 0 FROM "+all(".events.parquet")+" WHERE json_type(payload) = 'OBJECT'")
	if payloads != "[[true]]" {
		t.Errorf("payloads that DuckDB reads as JSON objects exist: %s, want true", payloads)
	}
	if rows := parse(duckDB(t, documentedQuery(t, dir))); len(rows) == 0 {
		t.Error("the query of the operations guide returns no row")
	}
}

// The manifest has the hashes of all objects of a run, and all of them are removed together.
func TestWrite_ManifestNamesAllObjects(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := t.TempDir()
	objects, err := artifact.Open(t.Context(), "file://"+root)
	f.ok(err)
	t.Cleanup(func() { _ = objects.Close() })
	f.objects = objects
	a := f.archive(f.endedRun(1), 0)
	dir := filepath.Join(root, "archive")
	doc, err := os.ReadFile(filepath.Join(dir, strings.TrimSuffix(a.Location, ".ndjson.gz")+".manifest.json"))
	f.ok(err)
	var m archive.Manifest
	f.ok(json.Unmarshal(doc, &m))
	if len(m.Objects) != 3 || m.RunID != a.RunID || m.Events != a.Events {
		t.Fatalf("the manifest is %+v, want three objects of %d events", m, a.Events)
	}
	for _, o := range m.Objects {
		body, err := os.ReadFile(filepath.Join(dir, o.Name))
		f.ok(err)
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != o.SHA256 || int64(len(body)) != o.SizeBytes {
			t.Errorf("%s has %d bytes with the hash %x, the manifest says %d and %s", o.Name, len(body), sum, o.SizeBytes,
				o.SHA256)
		}
	}
	f.ok(archive.Archive{Store: f.raw, Objects: objects}.RemoveRun(t.Context(), a))
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			t.Errorf("%s is left after the run was removed", path)
		}
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) {
		f.ok(err)
	}
}
