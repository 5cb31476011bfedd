package graph_test

import (
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/control"
)

// A page reads the steps of its runs only if they are selected, because they are many.
func TestRuns_StepsAreReadWhenSelected(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	var asked bool
	runs := f.runs
	f.runs = func(q control.RunsQuery) (control.RunsPage, error) {
		asked = q.Filter.Steps
		return runs(q)
	}
	a := serve(t, f)
	for query, want := range map[string]bool{
		`{ runs { edges { node { runId } } } }`:                                                                false,
		`{ runs { edges { node { runId steps { stepId } } } } }`:                                               true,
		`{ x: runs { e: edges { n: node { s: steps { stepId } } } } }`:                                         true,
		`{ runs { ...F } } fragment F on RunConnection { edges { node { ... on Run { steps { stepId } } } } }`: true,
		`{ runs { edges { node { runId steps @include(if: false) { stepId } } } } }`:                           false,
		`{ runs { pageInfo { hasNextPage } } run(runId: "r1") { steps { stepId } } }`:                          false,
	} {
		if got := a.query(query, nil); strings.Contains(got, "errors") || asked != want {
			t.Errorf("%s: control was asked for steps %t, want %t; answered %s", query, asked, want, got)
		}
	}
	got := a.query(`{ runs { edges { node { rootCause { stepId blockedSteps } steps { stepId } } } } }`, nil)
	if !strings.Contains(got, `{"stepId":"build","blockedSteps":2}`) {
		t.Errorf("a row with steps answered %s, want 2 blocked steps", got)
	}
	got = a.query(`{ runs { edges { node { rootCause { stepId blockedSteps } } } } }`, nil)
	if !strings.Contains(got, `{"stepId":"build","blockedSteps":0}`) {
		t.Errorf("a row without steps answered %s, want 0 blocked steps", got)
	}
}
