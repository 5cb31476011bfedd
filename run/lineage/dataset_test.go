package lineage_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run/lineage"
)

// lists are the datasets of a node, as "namespace name" in ascending order.
type lists struct {
	Inputs  []string `json:"inputs"`
	Outputs []string `json:"outputs"`
}

func readManifest(t *testing.T, name string) *lineage.Manifest {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "manifest-"+name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := lineage.ReadManifest(f)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func readReference(t *testing.T, name string) (out map[string]lists) {
	t.Helper()
	doc, err := os.ReadFile(filepath.Join("testdata", "reference-"+name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc, &out); err != nil {
		t.Fatal(err)
	}
	if len(out) == 0 {
		t.Fatalf("the reference %s has no nodes", name)
	}
	return out
}

func listsOf(m *lineage.Manifest, id, warehouse string) (out lists) {
	texts := func(all []lineage.Dataset) []string {
		out := []string{}
		for _, d := range all {
			out = append(out, d.Namespace+" "+d.Name)
		}
		slices.Sort(out)
		return out
	}
	in, to := m.Datasets(id, warehouse)
	return lists{texts(in), texts(to)}
}

// The datasets are those of openlineage-dbt. It reads artifacts without the seeds that a node reads, and the structured
// output, recorded for PostgreSQL and Snowflake, with them, as we do.
func TestDatasets_AreThoseOfTheReferenceProducer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, warehouse string
		withoutSeeds    bool
	}{
		{"1.11", "duckdb:///srv/warehouse.duckdb", true},
		{"postgres", "postgres://postgres:5432", false},
		{"snowflake", "snowflake://mysnowflakeaccount.us-east-1.aws", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := readManifest(t, c.name)
			for id, want := range readReference(t, c.name) {
				got := listsOf(m, id, c.warehouse)
				if c.withoutSeeds {
					got.Inputs = slices.DeleteFunc(got.Inputs, func(name string) bool { return strings.Contains(name, ".raw_") })
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("datasets of %s (-reference +ours):\n%s", id, diff)
				}
			}
		})
	}
}

func TestDatasets_AreTheSameForBothVersionsOfDBT(t *testing.T) {
	t.Parallel()
	one, two := readManifest(t, "1.11"), readManifest(t, "2.0")
	if one.Adapter != "duckdb" || two.Adapter != "duckdb" || one.DBTVersion == two.DBTVersion {
		t.Fatalf("the manifests are of %s %s and %s %s", one.Adapter, one.DBTVersion, two.Adapter, two.DBTVersion)
	}
	compared := 0
	for _, id := range []string{"model.big.m001", "model.big.m013", "snapshot.big.snap_2", "seed.big.raw_0",
		"unit_test.big.m000.amounts_are_scaled", "test.big.no_row_has_a_negative_id"} {
		want, got := listsOf(one, id, "duckdb:///w"), listsOf(two, id, "duckdb:///w")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("datasets of %s (-1.11 +2.0):\n%s", id, diff)
		}
		compared += len(got.Inputs) + len(got.Outputs)
	}
	if compared < 9 {
		t.Errorf("%d datasets were compared, want at least 9", compared)
	}
}

// An ephemeral model has no table: its readers read what it reads, and it writes nothing.
func TestDatasets_OfAnEphemeralModelAreThoseBehindIt(t *testing.T) {
	t.Parallel()
	m, err := lineage.ReadManifest(strings.NewReader(`{"metadata": {"adapter_type": "postgres"}, "nodes": {
		"model.p.a": {"database": "d", "schema": "s", "name": "a", "alias": "renamed", "depends_on": {"nodes": []}},
		"model.p.b": {"name": "b", "config": {"materialized": "ephemeral"}, "depends_on": {"nodes": ["model.p.a", "source.p.x.y"]}},
		"model.p.c": {"name": "c", "schema": "s", "depends_on": {"nodes": ["model.p.b", "model.p.a", "macro.p.z"]}}},
		"sources": {"source.p.x.y": {"database": "d", "schema": "x", "name": "y", "identifier": "other"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := lists{Inputs: []string{"postgres d.s.renamed", "postgres d.x.y"}, Outputs: []string{"postgres s.c"}}
	if diff := cmp.Diff(want, listsOf(m, "model.p.c", "")); diff != "" {
		t.Errorf("datasets of the reader (-want +got):\n%s", diff)
	}
	if got := listsOf(m, "model.p.b", ""); len(got.Outputs) > 0 {
		t.Errorf("the ephemeral model writes %v, want nothing", got.Outputs)
	}
}

func TestReadManifest_RefusesOtherDocuments(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{``, `[]`, `{"nodes": 3}`, `{"nodes": {"a": 3}}`, `{"nodes": {"a": {`} {
		if _, err := lineage.ReadManifest(strings.NewReader(doc)); err == nil {
			t.Errorf("the document %q was read, want an error", doc)
		}
	}
}
