package graph

import (
	"strconv"

	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

func mapEvent(e run.Event) model.RunEvent {
	return model.RunEvent{
		EventID: e.EventID, EventType: string(e.Type), RunID: e.RunID, RunSeq: e.Seq, IdempotencyKey: string(e.Key),
		TenantID: e.TenantID, ProjectID: e.ProjectID, EnvironmentID: e.EnvironmentID, PlanID: e.PlanID,
		PlanVersion: e.PlanVersion,
		StepID:      text(e.StepID), LogicalAttemptID: e.LogicalAttempt, EngineAttemptID: e.EngineAttempt,
		EmittedAt: e.EmittedAt, PersistedAt: e.PersistedAt, EmittedBy: text(e.EmittedBy), Payload: e.Payload,
	}
}

func mapEventsPage(page reads.EventsPage) *model.EventConnection {
	edges := each(page.Events, func(e run.Event) model.EventEdge {
		return model.EventEdge{Cursor: strconv.FormatInt(int64(e.Seq), 10), Node: new(mapEvent(e))}
	})
	return &model.EventConnection{
		Edges:    edges,
		PageInfo: pageInfo(edges, func(e model.EventEdge) string { return e.Cursor }, page.HasNext, page.HasPrev),
	}
}

func mapEventsFrame(f watch.EventsFrame) *model.RunEventUpdate {
	return &model.RunEventUpdate{
		Sync: model.SyncState(f.Sync), Reason: syncReason(f.Reason), HeadSeq: optional(f.HeadSeq), StoreEpoch: f.Epoch,
		AsOf: f.AsOf, Reset: f.Reset, Events: each(f.Events, mapEvent),
	}
}
