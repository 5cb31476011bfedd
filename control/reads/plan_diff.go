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
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/run"
)

// Limits of the details in a PlanDiff.
const (
	maxDiffSteps = 200
	maxDiffParts = 20
	maxDiffText  = 300 // bytes
)

// PlanChange is the kind of the difference of a step.
type PlanChange string

// Kinds of differences.
const (
	PlanStepAdded   PlanChange = "ADDED"
	PlanStepRemoved PlanChange = "REMOVED"
	PlanStepChanged PlanChange = "CHANGED"
)

// PlanDiff is the difference between the plan of a run and that of the run before it.
type PlanDiff struct {
	Previous                       RunBefore
	Total, Added, Removed, Changed int        // steps
	Parts                          []PlanPart // differences outside of the steps
	// Steps are the first maxDiffSteps differing steps, in the order of the plan; removed ones come last.
	Steps []PlanStepDiff
}

// PlanStepDiff is a step that differs.
type PlanStepDiff struct {
	StepID string
	Change PlanChange
	Parts  []PlanPart // set for CHANGED
}

// PlanPart is a member that differs, with its values as JSON. "" means that there is no value.
type PlanPart struct{ Path, From, To string }

// PlanDiff compares the plan of h with that of the newest run before it of the same plan id, project and environment,
// whatever its status. It returns nil when p may read no such run, or when PlanDocument returns nil for one of the
// runs. Secrets are hidden before the comparison, so a change of a secret is not a difference. Error: NOT_FOUND.
func (s *RunLists) PlanDiff(ctx context.Context, p authz.Principal, h run.Header) (*PlanDiff, error) {
	rows, err := s.earlierRuns(ctx, p, h, control.RunFilter{Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, control.Translate(err)
	}
	out, err := comparePlans(ctx, s.plans, p, rows[0].Header.RunID, h.RunID)
	if out != nil {
		out.Previous = runBeforeOf(rows[0].Header)
	}
	return out, err
}

// PlanDiffFrom compares the plan of h with that of an earlier run of LastGreen. It returns nil when PlanDocument
// returns nil for one of them. Error: NOT_FOUND.
func (s *RunLists) PlanDiffFrom(ctx context.Context, p authz.Principal, before RunBefore, h run.Header) (*PlanDiff,
	error) {
	out, err := comparePlans(ctx, s.plans, p, before.RunID, h.RunID)
	if out != nil {
		out.Previous = before
	}
	return out, err
}

func comparePlans(ctx context.Context, plans *runs.PlanReader, p authz.Principal, before, after string) (*PlanDiff,
	error) {
	to, err := plans.PlanDocument(ctx, p, after)
	if err != nil || to == nil {
		return nil, err
	}
	from, err := plans.PlanDocument(ctx, p, before)
	if err != nil || from == nil {
		return nil, err
	}
	out := diffPlans(from, to)
	return &out, nil
}

// Changes counts the differences of content and names the first n of them, such as "load (inputs.argv)". The version of
// the plan is none: it only names the content.
func (d PlanDiff) Changes(n int) (count int, names []string) {
	for _, part := range d.Parts {
		if part.Path != "metadata.planVersion" {
			names = append(names, part.Path)
		}
	}
	count = len(names) + d.Added + d.Removed + d.Changed
	for _, step := range d.Steps {
		what := map[PlanChange]string{PlanStepAdded: "added", PlanStepRemoved: "removed"}[step.Change]
		if len(step.Parts) > 0 {
			what = step.Parts[0].Path
		}
		names = append(names, step.StepID+" ("+what+")")
	}
	return count, names[:min(n, len(names))]
}

// planMembers is a plan document, split into its steps by id and its other members.
type planMembers struct {
	rest  map[string]any
	steps map[string]any
	order []string
}

func membersOf(doc json.RawMessage) (out planMembers) {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	_ = d.Decode(&out.rest) // the document was validated when the run started
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

// diffMembers appends the members that differ. Members of objects are compared by path; a list is compared as one
// value.
func diffMembers(out []PlanPart, path string, from, to any) []PlanPart {
	a, both := from.(map[string]any)
	b, ok := to.(map[string]any)
	if !both || !ok {
		if len(out) == maxDiffParts || reflect.DeepEqual(from, to) {
			return out
		}
		return append(out, PlanPart{Path: path, From: jsonText(from), To: jsonText(to)})
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

// jsonText returns v as JSON, cut to maxDiffText bytes; "" for nil.
func jsonText(v any) string {
	if v == nil {
		return ""
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false) // people read it: "2>&1", not "2\u003e\u00261"
	if e.Encode(v) != nil {
		return "" // cannot happen: the value was decoded from JSON
	}
	doc := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if len(doc) <= maxDiffText {
		return string(doc)
	}
	cut := maxDiffText
	for !utf8.RuneStart(doc[cut]) {
		cut--
	}
	return string(doc[:cut]) + "…"
}
