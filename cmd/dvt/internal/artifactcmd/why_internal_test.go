package artifactcmd

import (
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/run/nodeset"
)

func TestWhy_LeadsToTheModifiedNode(t *testing.T) {
	t.Parallel()
	nodes := []nodeset.Reached{{ID: "model.shop.raw", Why: nodeset.MacroModified, Of: "macro.shop.m"},
		{ID: "model.shop.mid", Why: nodeset.ReadsModified, Of: "model.shop.raw"},
		{ID: "model.shop.top", Why: nodeset.ReadsModified, Of: "model.shop.mid"},
		{ID: "model.shop.loop", Why: nodeset.ReadsModified, Of: "model.shop.loop"}} // of a worker that lies
	var out strings.Builder
	writeWhy(&out, Why{StepID: "build", Attempt: 2, Chain: chainOf(nodes, "top"), Against: "r1", Manifest: "abc"})
	const want = "model.shop.top reads model.shop.mid\n  model.shop.mid reads model.shop.raw\n" +
		"    model.shop.raw uses the macro macro.shop.m, which was modified\n" +
		"Step build, attempt 2, compared with run r1 (manifest abc).\n"
	if out.String() != want {
		t.Errorf("why prints\n%s\nwant\n%s", out.String(), want)
	}
	for node, want := range map[string]int{"model.shop.mid": 2, "op": 0, "nope": 0, "loop": 1} {
		if got := chainOf(nodes, node); len(got) != want {
			t.Errorf("the chain of %s is %v, want %d nodes", node, got, want)
		}
	}
}
