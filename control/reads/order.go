package reads

import (
	"cmp"
	"slices"

	"github.com/dvt-engine/dvt/run"
)

// inPlanOrder returns the steps in the order of the plan document, by the positions of its steps. Without positions
// they are in run order.
func inPlanOrder(steps []*run.Step, positions map[string]int) []*run.Step {
	if len(positions) == 0 {
		return inRunOrder(steps)
	}
	out := slices.Clone(steps)
	slices.SortStableFunc(out, func(a, b *run.Step) int {
		return cmp.Compare(positions[a.StepID], positions[b.StepID])
	})
	return out
}

// inRunOrder returns the steps in the order in which they can run. Most plans come in the alphabetical order of their
// ids, which says nothing: their steps are sorted by the longest path from a step without dependencies, and steps of
// the same depth stay as they are. A plan with another order keeps it.
func inRunOrder(steps []*run.Step) []*run.Step {
	byID := func(a, b *run.Step) int { return cmp.Compare(a.StepID, b.StepID) }
	if !slices.IsSortedFunc(steps, byID) {
		return steps
	}
	known := make(map[string]*run.Step, len(steps))
	for _, step := range steps {
		known[step.StepID] = step
	}
	depths := make(map[string]int, len(steps))
	var depthOf func(step *run.Step) int
	depthOf = func(step *run.Step) int {
		depth, found := depths[step.StepID]
		if found {
			return depth
		}
		depths[step.StepID] = 0 // ends the recursion in a cycle, which no valid plan has
		for _, id := range step.DependsOn {
			if before := known[id]; before != nil {
				depth = max(depth, depthOf(before)+1)
			}
		}
		depths[step.StepID] = depth
		return depth
	}
	for _, step := range steps {
		depthOf(step)
	}
	out := slices.Clone(steps)
	slices.SortStableFunc(out, func(a, b *run.Step) int { return cmp.Compare(depths[a.StepID], depths[b.StepID]) })
	return out
}
