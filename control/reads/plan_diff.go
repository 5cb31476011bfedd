package reads

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"unicode/utf8"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// Bounds of what of a PlanDiff is told in full.
const (
	maxDiffSteps = 200
	maxDiffParts = 20
	maxDiffText  = 300 // bytes
)

// PlanChange says how a plan differs in one of its steps.
type PlanChange string

// The ways to differ.
const (
	PlanStepAdded   PlanChange = "ADDED"
	PlanStepRemoved PlanChange = "REMOVED"
	PlanStepChanged PlanChange = "CHANGED"
)

// PlanDiff is how the plan of a run differs from that of the run before it.
type PlanDiff struct {
	Previous                       RunBefore
	Total, Added, Removed, Changed int        // steps
	Parts                          []PlanPart // that differ outside of the steps
	// the first of those that differ, in the order of the plan; removed ones come last
	Steps []PlanStepDiff
}

// PlanStepDiff is a step that differs.
type PlanStepDiff struct {
	StepID string
	Change PlanChange
	Parts  []PlanPart // of CHANGED
}

// PlanPart is a member that differs, with its values as JSON: "" where there is none.
type PlanPart struct{ Path, From, To string }

// PlanDiff compares the plan of h with that of the newest run before it, of the same plan id, project and
// environment, whatever became of that one. Nil when there is none that p may read, or when one of the documents
// cannot be shown: PlanDocument says when. What looks like a secret is compared as it is shown, hidden. NOT_FOUND.
func (s *RunLists) PlanDiff(ctx context.Context, p authz.Principal, h run.Header) (*PlanDiff, error) {
	rows, err := s.before(ctx, p, h, control.RunFilter{Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, control.Translate(err)
	}
	before := rows[0].Header
	to, err := s.plans.PlanDocument(ctx, p, h.RunID)
	if err != nil || to == nil {
		return nil, err
	}
	from, err := s.plans.PlanDocument(ctx, p, before.RunID)
	if err != nil || from == nil {
		return nil, err
	}
	out := diffPlans(from, to)
	out.Previous = beforeOf(before)
	return &out, nil
}

// planMembers is a document in parts: its members but the steps, and those by their id.
type planMembers struct {
	rest  map[string]any
	steps map[string]any
	order []string
}

func membersOf(doc json.RawMessage) (out planMembers) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	_ = d.Decode(&out.rest) // it was a plan when the run began
	list, _ := out.rest["steps"].([]any)
	delete(out.rest, "steps")
	out.steps = make(map[string]any, len(list))
	for _, step := range list {
		members, _ := step.(map[string]any)
		id, _ := members["stepId"].(string)
		out.steps[id] = members
		out.order = append(out.order, id)
	}
	return out
}

func diffPlans(before, after json.RawMessage) PlanDiff {
	from, to := membersOf(before), membersOf(after)
	out := PlanDiff{Total: len(to.order), Parts: diffMembers(nil, "", from.rest, to.rest)}
	tell := func(d PlanStepDiff, n *int) {
		*n++
		if len(out.Steps) < maxDiffSteps {
			out.Steps = append(out.Steps, d)
		}
	}
	for _, id := range to.order {
		old, ok := from.steps[id]
		switch {
		case !ok:
			tell(PlanStepDiff{StepID: id, Change: PlanStepAdded}, &out.Added)
		case !reflect.DeepEqual(old, to.steps[id]):
			tell(PlanStepDiff{StepID: id, Change: PlanStepChanged, Parts: diffMembers(nil, "", old, to.steps[id])},
				&out.Changed)
		}
	}
	for _, id := range from.order {
		if _, ok := to.steps[id]; !ok {
			tell(PlanStepDiff{StepID: id, Change: PlanStepRemoved}, &out.Removed)
		}
	}
	return out
}

// diffMembers adds the members that differ, those of objects by their path; a list is one value.
func diffMembers(out []PlanPart, path string, from, to any) []PlanPart {
	a, both := from.(map[string]any)
	b, ok := to.(map[string]any)
	if !both || !ok {
		if len(out) == maxDiffParts || reflect.DeepEqual(from, to) {
			return out
		}
		return append(out, PlanPart{Path: path, From: shown(from), To: shown(to)})
	}
	names := maps.Clone(a)
	maps.Copy(names, b)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		at := name
		if path != "" {
			at = path + "." + name
		}
		out = diffMembers(out, at, a[name], b[name])
	}
	return out
}

// shown is a value as JSON, cut where it is long; "" for none.
func shown(v any) string {
	if v == nil {
		return ""
	}
	doc, err := json.Marshal(v)
	if err != nil {
		return "" // what was read is always written
	}
	if len(doc) <= maxDiffText {
		return string(doc)
	}
	cut := maxDiffText
	for !utf8.RuneStart(doc[cut]) {
		cut--
	}
	return string(doc[:cut]) + "…"
}
