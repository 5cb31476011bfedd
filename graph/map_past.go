package graph

import (
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/plan"
)

func mapRunBefore(r reads.RunBefore) model.RunRef {
	return model.RunRef{
		RunID: r.RunID, PlanVersion: r.PlanVersion, Status: enumOf[model.RunStatus](r.Status), StatusRaw: string(r.Status),
		CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, CompletedAt: r.CompletedAt,
	}
}

func mapPlanDiff(d reads.PlanDiff) *model.PlanDiff {
	return &model.PlanDiff{
		Previous: new(mapRunBefore(d.Previous)), Total: d.Total, Added: d.Added, Removed: d.Removed, Changed: d.Changed,
		Parts: each(d.Parts, mapPlanPart),
		Steps: each(d.Steps, func(s reads.PlanStepDiff) model.PlanStepDiff {
			return model.PlanStepDiff{StepID: s.StepID, Change: model.PlanChange(s.Change), Parts: each(s.Parts, mapPlanPart)}
		}),
	}
}

func mapPlanPart(p reads.PlanPart) model.PlanPartDiff {
	return model.PlanPartDiff{Path: p.Path, From: text(p.From), To: text(p.To)}
}

func mapStepInputs(in runs.StepInputs) *model.StepInputs {
	return &model.StepInputs{
		Inputs: in.Inputs, Params: in.Params, Changes: each(in.Changes, mapReceipt),
		Secrets: each(in.Secrets, func(r plan.SecretRef) model.SecretRef {
			return model.SecretRef{Provider: r.Provider, Key: r.Key, Version: text(r.Version)}
		}),
	}
}
