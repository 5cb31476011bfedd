package graph_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/run"
)

// aliases returns a query that selects field n times, under different aliases.
func aliases(n int, field string) string {
	var b strings.Builder
	b.WriteString("{")
	for i := range n {
		b.WriteString(" a" + string(rune('a'+i/26)) + string(rune('a'+i%26)) + `: ` + field)
	}
	return b.String() + " }"
}

func TestAnswerLimit_AnOperationSelectsFewLargeFields(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	var opened atomic.Int32
	known := f.run
	f.run = func(p authz.Principal, id string, at *run.Seq) (control.RunView, error) {
		opened.Add(1)
		return known(p, id, at)
	}
	a := serve(t, f)
	for name, query := range map[string]string{
		"by aliases":   aliases(3, `run(runId: "r1") { planDocument }`),
		"by fragments": `{ a: run(runId: "r1") { ...P } b: run(runId: "r1") { ...P } } fragment P on Run { planDocument again: planDocument }`,
		"lines":        aliases(26, `stepLog(runId: "r1", stepId: "s", first: 1) { totalLines }`),
	} {
		got := a.do(http.MethodPost, "/", request(query, nil), "Accept", "application/graphql-response+json")
		if code(t, got.body) != "QUERY_TOO_COMPLEX" || got.status != http.StatusBadRequest {
			t.Errorf("%s: answered %d %.300s, want 400 with QUERY_TOO_COMPLEX", name, got.status, got.body)
		}
	}
	if n := opened.Load(); n > 0 {
		t.Errorf("rejected operations read %d runs, want 0", n)
	}
	got := a.do(http.MethodPost, "/", request(aliases(2, `run(runId: "r1") { planDocument }`), nil))
	if strings.Contains(got.body, "errors") {
		t.Errorf("two plan documents answered %.300s, want no errors", got.body)
	}
}

func TestAnswerLimit_LargeValuesShareOneBudget(t *testing.T) {
	t.Parallel()
	const line = 1 << 10
	f := newAnsweringFake()
	var opened atomic.Int32
	f.stepLog = func(q reads.StepLogQuery) (reads.StepLog, error) {
		opened.Add(1)
		lines := make([]artifact.Line, 100)
		for i := range lines {
			lines[i].Text = strings.Repeat("\x01", line/6) // each character takes six bytes in JSON
		}
		return reads.StepLog{RunID: q.RunID, StepID: q.StepID, Page: artifact.Page{Lines: lines}}, nil
	}
	a := serve(t, f, func(c *graph.Config) { c.Limits.AnswerBytes = 250 * line })
	got := a.do(http.MethodPost, "/", request(aliases(20, `stepLog(runId: "r1", stepId: "s") { lines { text } }`), nil))
	if !strings.Contains(got.body, "QUERY_TOO_COMPLEX") {
		t.Errorf("20 logs over the budget answered %d bytes %.300s, want QUERY_TOO_COMPLEX", len(got.body), got.body)
	}
	if len(got.body) > 300*line {
		t.Errorf("the answer has %d bytes, want about %d, the budget, at most", len(got.body), 250*line)
	}
	if got := a.do(http.MethodPost, "/", request(aliases(2, `stepLog(runId: "r1", stepId: "s") { lines { text } }`),
		nil)); strings.Contains(got.body, "errors") {
		t.Errorf("two logs within the budget answered %.300s, want no errors", got.body)
	}
}
