package control

import (
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// RowView is a row of a list, with its steps if they were asked for.
func RowView(row store.RunRow, epoch string) RunView {
	return RunView{State: run.State{Header: row.Header, Steps: row.Steps}, Epoch: epoch, OpsRev: row.OpsRev}
}

// Complete adds to the state what the run was created with and its log does not
// say before RunStarted.
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
