package mapping

import (
	"github.com/dvt-engine/dvt/control/nodes"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// Preview maps the preview of a signal.
func Preview(p runs.ActionPreview) *model.ActionPreview {
	out := &model.ActionPreview{
		BasedOnSeq: p.BasedOnSeq, Outcome: model.ActionOutcome(p.Outcome), Code: Text(p.Code), Reason: Text(p.Reason),
		WhoCould: List(p.WhoCould), Blocked: List(p.Blocked), Warnings: List(p.Warnings),
		Changes: MapSlice(p.Changes, mapChange),
	}
	if p.Bulk != nil {
		out.Bulk = mapBulkPreview(*p.Bulk)
	}
	if p.Nodes != nil {
		out.Nodes = &model.RetryNodesPreview{Attempt: p.Nodes.Attempt, Count: len(p.Nodes.Nodes),
			Nodes: MapSlice(p.Nodes.Nodes, mapRetryNode)}
	}
	if p.Status != "" {
		out.Status = new(enumOf[model.RunStatus](p.Status))
	}
	return out
}

func mapRetryNode(n nodes.Node) model.RetryNode {
	named := reads.DBTNode{UniqueID: n.ID}
	return model.RetryNode{UniqueID: n.ID, Name: named.Name(), ResourceType: named.ResourceType(),
		Why: model.RetryNodeReason(n.Why), Because: Text(n.Of)}
}

func mapChange(c runs.StepChange) model.StepChange {
	return model.StepChange{
		StepID: c.StepID, Kind: model.StepChangeKind(c.Kind), From: enumOf[model.StepStatus](c.From),
		To: enumOf[model.StepStatus](c.To), Why: c.Why,
	}
}
