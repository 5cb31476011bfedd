package graph_test

import (
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/run"
)

func TestAPIPage_HasAnAnchorForEachTypeFieldAndCode(t *testing.T) {
	t.Parallel()
	raw, err := graph.APIPage()
	if err != nil {
		t.Fatal(err)
	}
	page := string(raw)
	for _, want := range []string{
		`id="Query.audit"`, `id="Mutation.startRun"`, `id="AuditFilter.runId"`, `id="RunStatus.FAILED"`,
		`<a href="#AuditConnection">AuditConnection!</a>`, "Part of the name of who acted, in any case.",
		"first: Int = 50", `<code>runHistogram(from: `, `<a href="#CURSOR_INVALID"><code>CURSOR_INVALID</code></a>`,
		"<p><strong>What to do:</strong> Nothing.</p>", "<code>audit-heads</code>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	for _, code := range append(run.CodeTable(), run.StepCodeTable()...) {
		if !strings.Contains(page, `<dt id="`+string(code.Code)+`">`) {
			t.Errorf("the page has no anchor of %s", code.Code)
		}
	}
	const own = `<script src="/docs/api.js" defer></script>`
	if n := strings.Count(page, "<script"); n != 1 || !strings.Contains(page, own) {
		t.Errorf("the page has %d scripts, want its own file only", n)
	}
	for _, bad := range []string{"`", "http://", "https://", "style="} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q, which its content policy refuses or which leads elsewhere", bad)
		}
	}
}
