package mapping

import (
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// Receipt maps the receipt of a signal.
func Receipt(r runs.SignalReceipt) model.Signal {
	s := model.Signal{
		ID: nodeID(SignalNode, r.RunID, r.Signal.ID), SignalID: r.Signal.ID, RunID: r.RunID,
		Type: enumOf[model.SignalType](r.Signal.Type), TypeRaw: string(r.Signal.Type), StepID: Text(r.Signal.StepID),
		Payload: r.Payload, Actor: r.Actor, Reason: Text(r.Reason), Decision: model.SignalDecisionAccepted,
		Duplicate:   r.Duplicate,
		AcceptedSeq: Optional(r.AcceptedSeq), AppliedSeq: Optional(r.AppliedSeq), QuiescentSeq: Optional(r.QuiescentSeq),
		ReceivedAt: r.ReceivedAt, DeliveredAt: r.DeliveredAt, AppliedAt: r.AppliedAt,
	}
	if r.Rejected {
		s.Decision, s.Rejection = model.SignalDecisionRejected, &model.Rejection{Code: string(r.Rejection),
			Message: r.RejectText}
		return s
	}
	s.Application, s.ApplicationReason = new(model.SignalApplication(r.Application)), Text(r.ApplicationReason)
	return s
}

// ReceiptsPage maps a page of receipts. after is the cursor of the request; "" is the first page.
func ReceiptsPage(page runs.ReceiptsPage, after string) *model.SignalConnection {
	edges := MapSlice(page.Receipts, func(r runs.SignalReceipt) model.SignalEdge {
		return model.SignalEdge{Cursor: EncodeCursor(r.Signal.ID), Node: new(Receipt(r))}
	})
	return &model.SignalConnection{
		Edges:    edges,
		PageInfo: PageInfo(edges, func(e model.SignalEdge) string { return e.Cursor }, page.HasNext, after != ""),
	}
}
