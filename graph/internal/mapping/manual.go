package mapping

import (
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

func mapManualTask(t runs.ManualTask) *model.ManualTask {
	return &model.ManualTask{
		RunID: t.Identity.RunID, StepID: t.StepID, StepName: Text(t.StepName), LogicalAttemptID: t.LogicalAttempt,
		ProjectID: t.Identity.ProjectID, EnvironmentID: t.Identity.EnvironmentID,
		Instructions: Text(t.Instructions), Evidence: t.Evidence, Since: t.Since, Deadline: t.Deadline,
		Action: new(Action(t.Action)), Token: Text(t.Token),
	}
}

// ManualTasks maps a page of manual tasks. after is the cursor of the request; "" is the first page.
func ManualTasks(page runs.ManualTasksPage, after string) *model.ManualTaskConnection {
	edges := make([]model.ManualTaskEdge, len(page.Tasks))
	for i, t := range page.Tasks {
		edges[i] = model.ManualTaskEdge{Cursor: EncodeCursor(page.Cursors[i]), Node: mapManualTask(t)}
	}
	return &model.ManualTaskConnection{
		Edges:    edges,
		PageInfo: PageInfo(edges, func(e model.ManualTaskEdge) string { return e.Cursor }, page.HasNext, after != ""),
	}
}
