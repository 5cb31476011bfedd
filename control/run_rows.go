package control

import (
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// RowView returns the view of a row of a list. It has steps only if the list was asked for them.
func RowView(row store.RunRow, epoch string) RunView {
	return RunView{Run: store.Run{ParentRunID: row.ParentRunID},
		State: run.State{Header: row.Header, Steps: row.Steps}, Epoch: epoch, OpsRev: row.OpsRev, Approval: row.Approval}
}

// Complete fills in facts of the run that its log does not contain before RunStarted.
func Complete(v *RunView) {
	r := v.Run
	v.State.TriggeredBy = r.TriggeredBy
	if v.State.CreatedAt.IsZero() {
		v.State.CreatedAt = r.CreatedAt
	}
	if v.State.PlanRef == nil {
		v.State.PlanRef = &run.PlanRef{
			URI: r.PlanRef.URI, SHA256: r.PlanRef.SHA256, SchemaVersion: r.PlanRef.SchemaVersion, PlanID: r.PlanID,
			PlanVersion: r.PlanVersion,
		}
	}
}
