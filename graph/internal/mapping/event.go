package mapping

import (
	"strconv"

	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// Event maps an event of a log.
func Event(e run.Event) model.RunEvent {
	return model.RunEvent{
		EventID: e.EventID, EventType: string(e.Type), RunID: e.RunID, RunSeq: e.Seq, IdempotencyKey: string(e.Key),
		TenantID: e.TenantID, ProjectID: e.ProjectID, EnvironmentID: e.EnvironmentID, PlanID: e.PlanID,
		PlanVersion: e.PlanVersion,
		StepID:      Text(e.StepID), LogicalAttemptID: e.LogicalAttempt, EngineAttemptID: e.EngineAttempt,
		EmittedAt: e.EmittedAt, PersistedAt: e.PersistedAt, EmittedBy: Text(e.EmittedBy), Payload: e.Payload,
	}
}

// EventsPage maps a page of events.
func EventsPage(page reads.EventsPage) *model.EventConnection {
	edges := MapSlice(page.Events, func(e run.Event) model.EventEdge {
		return model.EventEdge{Cursor: strconv.FormatInt(int64(e.Seq), 10), Node: new(Event(e))}
	})
	return &model.EventConnection{
		Edges:    edges,
		PageInfo: PageInfo(edges, func(e model.EventEdge) string { return e.Cursor }, page.HasNext, page.HasPrev),
	}
}

// EventsFrame maps a frame of the stream of events.
func EventsFrame(f watch.EventsFrame) *model.RunEventUpdate {
	return &model.RunEventUpdate{
		Sync: model.SyncState(f.Sync), Reason: SyncReason(f.Reason), HeadSeq: Optional(f.HeadSeq), StoreEpoch: f.Epoch,
		AsOf: f.AsOf, Reset: f.Reset, Events: MapSlice(f.Events, Event),
	}
}
