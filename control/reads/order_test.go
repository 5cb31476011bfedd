package reads

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dvt-engine/dvt/run"
)

func stepsOf(of ...string) (out []*run.Step) {
	for i := 0; i < len(of); i += 2 {
		step := &run.Step{}
		step.StepID = of[i]
		if of[i+1] != "" {
			step.DependsOn = []string{of[i+1]}
		}
		out = append(out, step)
	}
	return out
}

func TestInRunOrder_SortsByDepthUnlessThePlanHasAnOrder(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []*run.Step
		want  []string
	}{
		{"alphabetical ids", stepsOf("dim", "int", "int", "stg_b", "stg_a", "", "stg_b", ""),
			[]string{"stg_a", "stg_b", "int", "dim"}},
		{"an order of its own", stepsOf("b", "", "a", "b"), []string{"b", "a"}},
		{"an unknown step and a cycle", stepsOf("a", "b", "b", "a", "c", "gone"), []string{"c", "b", "a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, step := range inRunOrder(c.steps) {
				got = append(got, step.StepID)
			}
			if !slices.Equal(got, c.want) {
				t.Fatalf("the order is %v, want %v", got, c.want)
			}
		})
	}
}

// A chain as long as the largest plan is ordered without harm to the stack.
func TestInRunOrder_LongChain(t *testing.T) {
	const n = 20_000
	var of []string
	for i := range n {
		next := ""
		if i+1 < n {
			next = fmt.Sprintf("s%06d", i+1)
		}
		of = append(of, fmt.Sprintf("s%06d", i), next)
	}
	if got := inRunOrder(stepsOf(of...)); got[0].StepID != fmt.Sprintf("s%06d", n-1) {
		t.Fatalf("%s comes first, want the step without dependencies", got[0].StepID)
	}
}
