package graph

import (
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

func mapReceipt(r runs.SignalReceipt) model.Signal {
	s := model.Signal{
		ID: nodeID(signalNode, r.RunID, r.Signal.ID), SignalID: r.Signal.ID, RunID: r.RunID,
		Type: enumOf[model.SignalType](r.Signal.Type), TypeRaw: string(r.Signal.Type), StepID: text(r.Signal.StepID),
		Payload: r.Payload, Actor: r.Actor, Reason: text(r.Reason), Decision: model.SignalDecisionAccepted,
		Duplicate:   r.Duplicate,
		AcceptedSeq: optional(r.AcceptedSeq), AppliedSeq: optional(r.AppliedSeq), QuiescentSeq: optional(r.QuiescentSeq),
		ReceivedAt: r.ReceivedAt, DeliveredAt: r.DeliveredAt, AppliedAt: r.AppliedAt,
	}
	if r.Rejected {
		s.Decision, s.Rejection = model.SignalDecisionRejected, &model.Rejection{Code: string(r.Rejection),
			Message: r.RejectText}
		return s
	}
	s.Application, s.ApplicationReason = new(model.SignalApplication(r.Application)), text(r.ApplicationReason)
	return s
}

func mapReceiptsPage(page runs.ReceiptsPage, after string) *model.SignalConnection {
	edges := each(page.Receipts, func(r runs.SignalReceipt) model.SignalEdge {
		return model.SignalEdge{Cursor: encodeCursor(r.Signal.ID), Node: new(mapReceipt(r))}
	})
	return &model.SignalConnection{
		Edges:    edges,
		PageInfo: pageInfo(edges, func(e model.SignalEdge) string { return e.Cursor }, page.HasNext, after != ""),
	}
}
