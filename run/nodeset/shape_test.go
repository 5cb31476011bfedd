package nodeset_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/run/nodeset"
)

func shapeOf(t *testing.T, doc string) nodeset.Shape {
	t.Helper()
	s, err := nodeset.ReadShape(strings.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhy_NamesWhatDiffersAndWhatReadsIt(t *testing.T) {
	t.Parallel()
	before := shapeOf(t, `{"nodes":{
		"model.a":{"checksum":{"checksum":"1"},"unrendered_config":{"x":1},"depends_on":{"macros":["macro.m"]}},
		"model.b":{"checksum":{"checksum":"1"},"unrendered_config":{"x":1},"depends_on":{"nodes":["model.a"]}},
		"model.c":{"checksum":{"checksum":"1"},"unrendered_config":{"x":1},"depends_on":{"nodes":["model.b","model.d"]}},
		"model.d":{"checksum":{"checksum":"1"}},
		"model.e":{"checksum":{"checksum":"1"},"unrendered_config":{"x":1}}},
		"sources":{"source.s":{"unrendered_config":{}}},
		"macros":{"macro.m":{"macro_sql":"old"}}}`)
	now := shapeOf(t, `{"macros":{"macro.m":{"macro_sql":"new"}},"sources":{"source.s":{"unrendered_config":{}}},"nodes":{
		"model.a":{"checksum":{"checksum":"1"},"unrendered_config":{"x": 1},"depends_on":{"macros":["macro.m"]}},
		"model.b":{"checksum":{"checksum":"1"},"unrendered_config":{"x":1},"depends_on":{"nodes":["model.a"]}},
		"model.c":{"checksum":{"checksum":"1"},"unrendered_config":{"x":1},"depends_on":{"nodes":["model.b","model.d"]}},
		"model.d":{"checksum":{"checksum":"1"},"depends_on":{"nodes":["source.s","model.d"]}},
		"model.e":{"checksum":{"checksum":"1"},"unrendered_config":{"x":2}},
		"model.f":{"checksum":{"checksum":"1"},"depends_on":{"nodes":["model.d"]}},
		"test.f":{"checksum":{"checksum":"1"},"depends_on":{"nodes":["model.f"]}}}}`)
	want := []nodeset.Reached{
		{ID: "model.a", Why: nodeset.MacroModified, Of: "macro.m"},
		{ID: "model.b", Why: nodeset.ReadsModified, Of: "model.a"},
		{ID: "model.c", Why: nodeset.ReadsModified, Of: "model.b"},
		{ID: "model.d", Why: nodeset.WasSelected},
		{ID: "model.e", Why: nodeset.ConfigModified},
		{ID: "model.f", Why: nodeset.IsNew},
	}
	ids := []string{"model.f", "model.a", "model.b", "model.c", "model.d", "model.e", "model.a"}
	if diff := cmp.Diff(want, nodeset.Why(before, now, ids)); diff != "" {
		t.Errorf("why (-want +got):\n%s", diff)
	}
}
