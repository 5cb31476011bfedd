package mapping

import (
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/plan"
)

// RunBefore maps a reference to an earlier run of the same plan.
func RunBefore(r reads.RunBefore) model.RunRef {
	return model.RunRef{
		RunID: r.RunID, PlanVersion: r.PlanVersion, Status: enumOf[model.RunStatus](r.Status), StatusRaw: string(r.Status),
		CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, CompletedAt: r.CompletedAt,
	}
}

// PlanDiff maps the difference of two plans.
func PlanDiff(d reads.PlanDiff) *model.PlanDiff {
	return &model.PlanDiff{
		Previous: new(RunBefore(d.Previous)), Total: d.Total, Added: d.Added, Removed: d.Removed, Changed: d.Changed,
		Parts: MapSlice(d.Parts, mapPlanPart),
		Steps: MapSlice(d.Steps, func(s reads.PlanStepDiff) model.PlanStepDiff {
			return model.PlanStepDiff{StepID: s.StepID, Change: model.PlanChange(s.Change), Parts: MapSlice(s.Parts,
				mapPlanPart)}
		}),
	}
}

func mapPlanPart(p reads.PlanPart) model.PlanPartDiff {
	return model.PlanPartDiff{Path: p.Path, From: Text(p.From), To: Text(p.To)}
}

// StepInputs maps the inputs of a step.
func StepInputs(in runs.StepInputs) *model.StepInputs {
	return &model.StepInputs{
		Inputs: in.Inputs, Params: in.Params, Changes: MapSlice(in.Changes, Receipt),
		Secrets: MapSlice(in.Secrets, func(r plan.SecretRef) model.SecretRef {
			return model.SecretRef{Provider: r.Provider, Key: r.Key, Version: Text(r.Version)}
		}),
	}
}
