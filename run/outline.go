package run

import "github.com/dvt-engine/dvt/plan"

// Outline returns the steps of a plan as RunStarted fixes them: in canonical order, with resolved queues (contract
// T145, T218).
func Outline(pl plan.Plan, q plan.Queues) []StepOutline {
	sk := pl.Skeleton(q)
	out := make([]StepOutline, len(pl.Steps))
	for i, s := range pl.Steps {
		out[i] = StepOutline{
			StepID: s.StepID, Type: string(s.Type), Name: s.Name, Group: s.Group, DependsOn: s.DependsOn,
			TaskQueue: sk.Steps[i].TaskQueue, ResourceClass: s.Dispatch.ResourceClass,
		}
	}
	return out
}
