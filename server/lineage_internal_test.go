package server

import (
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/run"
)

// Lineage knows datasets from the manifest that the log names, and from nothing else.
func TestReadManifest_ReadsTheBytesThatTheLogNames(t *testing.T) {
	t.Parallel()
	bucket, err := artifact.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bucket.Close() })
	const doc = `{"metadata": {"adapter_type": "duckdb"}, "nodes": {}}`
	id := run.Identity{TenantID: "acme", RunID: "r1"}
	put := func(name, content string) run.ArtifactRef {
		uri, sum, size, err := bucket.Put(t.Context(), name, strings.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		return run.ArtifactRef{URI: uri, SHA256: sum, SizeBytes: size}
	}
	good := put("acme/r1/s1/1/manifest.json", doc)
	other := good
	other.SHA256 = strings.Repeat("0", len(good.SHA256))
	gone := good
	gone.URI += "x"
	for name, c := range map[string]struct {
		ref   run.ArtifactRef
		known bool
	}{
		"the manifest":                  {good, true},
		"other bytes":                   {other, false},
		"removed":                       {gone, false},
		"no manifest":                   {put("acme/r1/s2/1/manifest.json", `[]`), false},
		"an artifact of another run":    {put("acme/r2/s1/1/manifest.json", doc), false},
		"an artifact of another tenant": {put("globex/r1/s1/1/manifest.json", doc), false},
	} {
		m, err := readManifest(t.Context(), bucket, id, c.ref)
		if err != nil || (m != nil) != c.known {
			t.Errorf("%s: the manifest is %v (%v), want known: %t", name, m, err, c.known)
		}
	}
}
