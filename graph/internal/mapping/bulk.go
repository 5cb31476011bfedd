package mapping

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// BulkID returns the id of a bulk from its node id, or "" when the node id names something else.
func BulkID(id string) string {
	if kind, parts := ParseNodeID(id); kind == BulkNode && len(parts) == 1 {
		return parts[0]
	}
	return ""
}

// BulkNotFound returns the NOT_FOUND error for a bulk that does not exist for the caller.
func BulkNotFound() error {
	return &control.Error{Code: run.CodeNotFound, Message: "There is no such bulk, or it is not yours."}
}

// Bulk maps a bulk with its counts.
func Bulk(b bulk.Bulk) *model.Bulk {
	out := &model.Bulk{
		ID: nodeID(BulkNode, b.ID), State: model.BulkState(b.State()), Action: model.Action(b.Action),
		Type: enumOf[model.SignalType](b.Action), TypeRaw: string(b.Action),
		StepID: Text(b.Signal.StepID), Payload: b.Payload, Reason: b.Reason, RequestID: b.RequestID, CreatedAt: b.CreatedAt,
		FinishedAt: b.FinishedAt, StoppedAt: b.StoppedAt, LeftOut: b.LeftOut,
		Counts: &model.BulkCounts{Total: b.Total, Waiting: b.Waiting(), Accepted: b.Accepted, Rejected: b.Rejected,
			Refused: b.Refused, NotSent: b.NotSent},
	}
	if out.State == model.BulkStatePaced {
		out.PacedCode, out.PacedUntil = Text(b.Paced), b.PacedUntil
	}
	if b.Progress != nil {
		out.Applications, out.Runs = Applications(b.Progress.Applications), BulkRunCounts(b.Progress.Runs)
	}
	return out
}

// BulkRunCounts maps the numbers of runs of a bulk by their status.
func BulkRunCounts(c bulk.BulkRunCounts) *model.BulkRunCounts {
	return &model.BulkRunCounts{Waiting: c.Waiting, Running: c.Running, Paused: c.Paused, Completed: c.Completed,
		Failed: c.Failed, Cancelled: c.Cancelled}
}

// BulkRunsNow maps the numbers of runs of bulks, in the order of their ids.
func BulkRunsNow(counts map[string]bulk.BulkRunCounts) []model.BulkRunsNow {
	return MapSlice(slices.Sorted(maps.Keys(counts)), func(id string) model.BulkRunsNow {
		return model.BulkRunsNow{BulkID: nodeID(BulkNode, id), Runs: BulkRunCounts(counts[id])}
	})
}

// Applications maps the numbers of signals of a bulk by their application.
func Applications(a bulk.BulkApplications) *model.BulkApplications {
	return &model.BulkApplications{Pending: a.Pending, Delivered: a.Delivered, Applied: a.Applied, Noop: a.Noop,
		NotApplied: a.NotApplied}
}

// Bulks maps a page of bulks. after is the cursor of the request; "" is the first page.
func Bulks(page bulk.BulksPage, after string) *model.BulkConnection {
	edges := MapSlice(page.Bulks, func(b bulk.Bulk) model.BulkEdge {
		return model.BulkEdge{Cursor: EncodeCursor(b.ID), Node: Bulk(b)}
	})
	return &model.BulkConnection{
		Edges: edges, PageInfo: PageInfo(edges, func(e model.BulkEdge) string { return e.Cursor }, page.HasNext,
			after != ""),
	}
}

// BulkRows maps a page of the runs of a bulk. after is the cursor of the request; "" is the first page.
func BulkRows(page bulk.BulkRowsPage, after string) *model.BulkRowConnection {
	edges := MapSlice(page.Rows, func(r bulk.BulkRow) model.BulkRowEdge {
		return model.BulkRowEdge{Cursor: EncodeCursor(strconv.Itoa(r.No)), Node: new(mapBulkRow(r))}
	})
	return &model.BulkRowConnection{
		Edges: edges, PageInfo: PageInfo(edges, func(e model.BulkRowEdge) string { return e.Cursor }, page.HasNext,
			after != ""),
	}
}

func mapBulkRow(r bulk.BulkRow) model.BulkRow {
	out := model.BulkRow{
		No: r.No, RunID: r.RunID, ProjectID: r.ProjectID, EnvironmentID: r.EnvironmentID,
		Outcome:    enumOf[model.BulkOutcome](r.Outcome),
		OutcomeRaw: string(r.Outcome), Code: Text(r.Code), Message: Text(r.Message), At: r.At, Failed: r.Failed(),
		NewRunID: Text(r.NewRunID), RunStatus: optionalEnum[model.RunStatus](r.RunStatus), PlanID: Text(r.PlanID),
	}
	if c := r.Cause; c != nil && c.Error != nil {
		out.CauseStep, out.CauseCode, out.CauseMessage = Text(cmp.Or(c.Name, c.StepID)), Text(c.Error.Code),
			Text(c.Error.Message)
	}
	if rc := r.Receipt; rc != nil {
		out.Signal = new(Receipt(runs.SignalReceipt{SignalReceipt: *rc}))
		if rc.Rejected {
			out.Code, out.Message = Text(rc.Rejection), Text(rc.RejectText)
		}
	}
	return out
}

// BulkFrame maps a frame of the stream of a bulk.
func BulkFrame(f bulk.BulkFrame) *model.BulkUpdate {
	return &model.BulkUpdate{
		Sync: model.SyncState(f.Sync), Reason: SyncReason(f.Reason), AsOf: f.AsOf, Reset: f.Reset,
		Bulk: Bulk(f.Bulk), Rows: MapSlice(f.Rows, mapBulkRow),
	}
}

func mapBulkPreview(p runs.BulkPreview) *model.BulkPreview {
	reason := func(r runs.BulkReason) model.BulkReason {
		return model.BulkReason{Code: string(r.Code), Reason: r.Reason, Count: r.Count}
	}
	return &model.BulkPreview{
		Count: p.Count, Excluded: MapSlice(p.Excluded, reason), Refusals: MapSlice(p.Refusals, reason),
		Samples: MapSlice(p.Samples, mapBulkSample),
	}
}

func mapBulkSample(s runs.BulkSample) model.BulkSample {
	p := Preview(s.Preview)
	return model.BulkSample{
		RunID: s.RunID, Status: enumOf[model.RunStatus](s.Status), BasedOnSeq: p.BasedOnSeq, Outcome: p.Outcome, Code: p.Code,
		Reason:      p.Reason,
		StatusAfter: p.Status, Changes: p.Changes, Warnings: p.Warnings,
	}
}
