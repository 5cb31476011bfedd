package graph

import (
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

func mapManualTask(t runs.ManualTask) *model.ManualTask {
	return &model.ManualTask{
		RunID: t.Identity.RunID, StepID: t.StepID, LogicalAttemptID: t.LogicalAttempt,
		ProjectID: t.Identity.ProjectID, EnvironmentID: t.Identity.EnvironmentID,
		Instructions: text(t.Instructions), Evidence: t.Evidence, Since: t.Since, Deadline: t.Deadline,
		Action: new(mapAction(t.Action)), Token: text(t.Token),
	}
}

func mapManualTasks(page runs.ManualTasksPage, after string) *model.ManualTaskConnection {
	edges := make([]model.ManualTaskEdge, len(page.Tasks))
	for i, t := range page.Tasks {
		edges[i] = model.ManualTaskEdge{Cursor: encodeCursor(page.Cursors[i]), Node: mapManualTask(t)}
	}
	return &model.ManualTaskConnection{
		Edges:    edges,
		PageInfo: pageInfo(edges, func(e model.ManualTaskEdge) string { return e.Cursor }, page.HasNext, after != ""),
	}
}
