package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/plan"
)

func ids(p plan.Plan) string {
	var list []string
	for _, s := range p.Steps {
		list = append(list, s.StepID)
	}
	return strings.Join(list, " ")
}

func deps(p plan.Plan) map[string][]string {
	m := map[string][]string{}
	for _, s := range p.Steps {
		m[s.StepID] = s.DependsOn
	}
	return m
}

func steps(names ...string) []string {
	var list []string
	for _, n := range names {
		list = append(list, noop(n, ""))
	}
	return list
}

// contract: T71
func TestParse_SortsStepsInByteOrder(t *testing.T) {
	t.Parallel()
	p := mustParse(t, withSteps(steps("b", "B", "a", "_x", "s10", "s2", "A")...))
	if got, want := ids(p), "A B _x a b s10 s2"; got != want {
		t.Errorf("order %q, want %q", got, want)
	}
}

// contract: T70
func TestParse_OrderSortsBeforeID(t *testing.T) {
	t.Parallel()
	p := mustParse(t, withSteps(noop("a", `,"order":3`), noop("z", `,"order":1`), noop("c", `,"order":2`),
		noop("b", `,"order":2`)))
	if got, want := ids(p), "z b c a"; got != want {
		t.Errorf("order %q, want %q", got, want)
	}
}

// contract: T70, L01
func TestParse_RefusesOrdersWithGapsOrOnSomeSteps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		doc  []byte
		want []string
	}{
		"gap":          {withSteps(noop("a", `,"order":1`), noop("b", `,"order":3`)), []string{"ORDER steps"}},
		"not from one": {withSteps(noop("a", `,"order":2`)), []string{"ORDER steps"}},
		"mixed":        {withSteps(noop("a", `,"order":1`), noop("b", "")), []string{"ORDER steps"}},
		"zero":         {withSteps(noop("a", `,"order":0`)), []string{"RANGE steps[0].order"}},
		"not whole":    {withSteps(noop("a", `,"order":1.5`)), []string{"INVALID steps[0].order"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, violations(t, c.doc)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// contract: T72, L06
func TestParse_MakesAChainUnlessAStepDeclaresDependencies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		doc  []byte
		want map[string][]string
	}{
		"no step declares dependencies: a chain": {withSteps(steps("c", "a", "b")...), map[string][]string{"a": {},
			"b": {"a"}, "c": {"b"}}},
		"no step declares dependencies: a chain by order": {withSteps(noop("c", `,"order":1`), noop("a", `,"order":3`),
			noop("b", `,"order":2`)),
			map[string][]string{"c": {}, "b": {"c"}, "a": {"b"}}},
		"all dependencies empty: parallel steps": {withSteps(noop("a", `,"dependsOn":[]`), noop("b", `,"dependsOn":[]`)),
			map[string][]string{"a": {}, "b": {}}},
		"a step without dependsOn beside one with it: a root": {withSteps(noop("a", ""), noop("b", `,"dependsOn":["a"]`),
			noop("c", "")),
			map[string][]string{"a": {}, "b": {"a"}, "c": {}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, deps(mustParse(t, c.doc))); diff != "" {
				t.Errorf("dependencies (-want +got):\n%s", diff)
			}
		})
	}
}

// contract: L01, T146
func TestParse_RefusesInvalidDependencies(t *testing.T) {
	t.Parallel()
	got := violations(t, withSteps(
		noop("a", `,"dependsOn":["a","ghost"]`),
		noop("b", `,"dependsOn":["a","a"]`),
		noop("c", `,"dependsOn":"a"`),
		noop("d", `,"dependsOn":[7]`),
		noop("e", `,"dependsOn":null`),
	))
	want := []string{
		"SELF steps[0].dependsOn[0]", "DANGLING steps[0].dependsOn[1]", "DUPLICATE steps[1].dependsOn[1]",
		"INVALID steps[2].dependsOn", "INVALID steps[3].dependsOn[0]", "INVALID steps[4].dependsOn",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}

// contract: W-9
func TestParse_ReportsCyclesThenDuplicatesThenMissingFields(t *testing.T) {
	t.Parallel()
	untimed := `{"stepId":"b","type":"NOOP","inputs":{},"dependsOn":["a"]}`
	doc := withSteps(noop("a", `,"dependsOn":["b"]`), untimed, noop("a", ""))
	_, err := plan.Parse(doc, queues)
	if diff := cmp.Diff([]string{"CYCLE steps", "DUPLICATE steps[2].stepId", "MISSING steps[1].timeout"},
		violationsOf(t, err)); diff != "" {
		t.Fatalf("violations (-want +got):\n%s", diff)
	}
	found := invalid(t, err)
	for i, begin := range []string{"a, b wait", "a is", "add timeout"} {
		if !strings.HasPrefix(found[i].Message, begin) {
			t.Errorf("message %q, want it to begin with %q", found[i].Message, begin)
		}
	}
}

// contract: L01
func TestParse_ReportsEachCycleOnceInCanonicalOrder(t *testing.T) {
	t.Parallel()
	on := func(id, dep string) string { return noop(id, fmt.Sprintf(`,"dependsOn":[%q]`, dep)) }
	_, err := plan.Parse(withSteps(on("z", "y"), on("y", "x"), on("x", "z"), on("b", "a"), on("a", "b"), on("tail", "a")),
		queues)
	var messages []string
	if violationsOf(t, err); true {
		for _, v := range invalid(t, err) {
			messages = append(
				messages, v.Code+" "+strings.TrimSuffix(v.Message, " wait for one another; remove one of their dependencies"))
		}
	}
	if diff := cmp.Diff([]string{"CYCLE a, b", "CYCLE x, y, z"}, messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
