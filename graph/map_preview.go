package graph

import (
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

func mapPreview(p runs.ActionPreview) *model.ActionPreview {
	out := &model.ActionPreview{
		BasedOnSeq: p.BasedOnSeq, Outcome: model.ActionOutcome(p.Outcome), Code: text(p.Code), Reason: text(p.Reason),
		Blocked: list(p.Blocked), Warnings: list(p.Warnings),
		Changes: each(p.Changes, mapChange),
	}
	if p.Bulk != nil {
		out.Bulk = mapBulkPreview(*p.Bulk)
	}
	if p.Status != "" {
		out.Status = new(enumOf[model.RunStatus](p.Status))
	}
	return out
}

func mapChange(c runs.StepChange) model.StepChange {
	return model.StepChange{
		StepID: c.StepID, Kind: model.StepChangeKind(c.Kind), From: enumOf[model.StepStatus](c.From),
		To: enumOf[model.StepStatus](c.To), Why: c.Why,
	}
}
