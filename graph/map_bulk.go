package graph

import (
	"strconv"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/bulk"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// bulkID is what a node id names; one that names something else names no bulk.
func bulkID(id string) string {
	if kind, parts := parseNodeID(id); kind == bulkNode && len(parts) == 1 {
		return parts[0]
	}
	return ""
}

func bulkNotFound() error {
	return &control.Error{Code: run.CodeNotFound, Message: "There is no such bulk, or it is not yours."}
}

func mapBulk(b bulk.Bulk) *model.Bulk {
	out := &model.Bulk{
		ID: nodeID(bulkNode, b.ID), State: model.BulkState(b.State()), Type: enumOf[model.SignalType](b.Signal.Type),
		TypeRaw: string(b.Signal.Type),
		StepID:  text(b.Signal.StepID), Payload: b.Payload, Reason: b.Reason, RequestID: b.RequestID, CreatedAt: b.CreatedAt,
		FinishedAt: b.FinishedAt, StoppedAt: b.StoppedAt,
		Counts: &model.BulkCounts{Total: b.Total, Waiting: b.Waiting(), Accepted: b.Accepted, Rejected: b.Rejected,
			Refused: b.Refused, NotSent: b.NotSent},
	}
	if out.State == model.BulkStatePaced {
		out.PacedCode, out.PacedUntil = text(b.Paced), b.PacedUntil
	}
	if b.Applications != nil {
		out.Applications = mapApplications(*b.Applications)
	}
	return out
}

func mapApplications(a bulk.BulkApplications) *model.BulkApplications {
	return &model.BulkApplications{Pending: a.Pending, Delivered: a.Delivered, Applied: a.Applied, Noop: a.Noop,
		NotApplied: a.NotApplied}
}

func mapBulks(page bulk.BulksPage, after string) *model.BulkConnection {
	edges := each(page.Bulks, func(b bulk.Bulk) model.BulkEdge {
		return model.BulkEdge{Cursor: encodeCursor(b.ID), Node: mapBulk(b)}
	})
	return &model.BulkConnection{
		Edges: edges, PageInfo: pageInfo(edges, func(e model.BulkEdge) string { return e.Cursor }, page.HasNext,
			after != ""),
	}
}

func mapBulkRows(page bulk.BulkRowsPage, after string) *model.BulkRowConnection {
	edges := each(page.Rows, func(r bulk.BulkRow) model.BulkRowEdge {
		return model.BulkRowEdge{Cursor: encodeCursor(strconv.Itoa(r.No)), Node: new(mapBulkRow(r))}
	})
	return &model.BulkRowConnection{
		Edges: edges, PageInfo: pageInfo(edges, func(e model.BulkRowEdge) string { return e.Cursor }, page.HasNext,
			after != ""),
	}
}

func mapBulkRow(r bulk.BulkRow) model.BulkRow {
	out := model.BulkRow{
		No: r.No, RunID: r.RunID, ProjectID: r.ProjectID, EnvironmentID: r.EnvironmentID,
		Outcome:    enumOf[model.BulkOutcome](r.Outcome),
		OutcomeRaw: string(r.Outcome), Code: text(r.Code), Message: text(r.Message), At: r.At, Failed: r.Failed(),
	}
	if rc := r.Receipt; rc != nil {
		out.Signal = new(mapReceipt(runs.SignalReceipt{Receipt: *rc}))
		if rc.Rejected {
			out.Code, out.Message = text(rc.Rejection), text(rc.RejectText)
		}
	}
	return out
}

func mapBulkFrame(f bulk.BulkFrame) *model.BulkUpdate {
	return &model.BulkUpdate{
		Sync: model.SyncState(f.Sync), Reason: syncReason(f.Reason), AsOf: f.AsOf, Reset: f.Reset,
		Bulk: mapBulk(f.Bulk), Rows: each(f.Rows, mapBulkRow),
	}
}

func mapBulkPreview(p runs.BulkPreview) *model.BulkPreview {
	reason := func(r runs.BulkReason) model.BulkReason {
		return model.BulkReason{Code: string(r.Code), Reason: r.Reason, Count: r.Count}
	}
	return &model.BulkPreview{
		Count: p.Count, Excluded: each(p.Excluded, reason), Refusals: each(p.Refusals, reason),
		Samples: each(p.Samples, mapBulkSample),
	}
}

func mapBulkSample(s runs.BulkSample) model.BulkSample {
	p := mapPreview(s.Preview)
	return model.BulkSample{
		RunID: s.RunID, Status: enumOf[model.RunStatus](s.Status), BasedOnSeq: p.BasedOnSeq, Outcome: p.Outcome, Code: p.Code,
		Reason:      p.Reason,
		StatusAfter: p.Status, Changes: p.Changes, Warnings: p.Warnings,
	}
}
