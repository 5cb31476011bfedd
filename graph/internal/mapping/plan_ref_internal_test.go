package mapping

import (
	"slices"
	"testing"

	"github.com/dvt-engine/dvt/run"
)

// A reader sees which address gave the document, beside all that the reference names.
func TestPlan_NamesTheMirrorThatAnswered(t *testing.T) {
	t.Parallel()
	const first, second = "https://plans.example/p.json", "https://mirror.example/p.json"
	h := run.Header{Identity: run.Identity{PlanID: "nightly", PlanVersion: "1.4"}, PlanMirror: second,
		PlanRef: &run.PlanRef{URI: first, Mirrors: []string{second}, SHA256: "ab", SchemaVersion: "v1.2"}}
	p := mapPlan(h)
	if p.AnsweredBy == nil || *p.AnsweredBy != second || p.URI == nil || *p.URI != first ||
		!slices.Equal(p.Mirrors, []string{second}) {
		t.Errorf("the plan is %+v, want that %s answered for %s", p, second, first)
	}
	h.PlanMirror = ""
	if p := mapPlan(h); p.AnsweredBy != nil {
		t.Errorf("answered by %q, want nothing: the first address gave the document", *p.AnsweredBy)
	}
	h.PlanRef = nil
	if p := mapPlan(h); p.PlanID != "nightly" || p.URI != nil {
		t.Errorf("the plan of a run that has not started is %+v, want its name alone", p)
	}
}
