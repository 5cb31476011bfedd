package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// ApprovalService lists runs that need an approval before they start, and records decisions.
type ApprovalService interface {
	Approvals(ctx context.Context, p authz.Principal, first int, after string) (control.RunsPage, error)
	ApproveRun(ctx context.Context, p authz.Principal, in runs.ApproveRun) (control.RunView, error)
	// Approval returns nil for a run that never needed one.
	Approval(ctx context.Context, p authz.Principal, runID string) (*runs.Approval, error)
}

func (q queries) Approvals(ctx context.Context, first *int, after *string) (*model.RunConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	p := principal(ctx)
	page, err := q.control.Approvals(ctx, p, mapping.OrZero(first), mapping.OrZero(after))
	if err != nil {
		return nil, err
	}
	return mapping.RunsPage(page, availabilityTo(q.control, p), costlyPartsFromContext(ctx)), nil
}

func (m mutations) ApproveRun(ctx context.Context, in model.ApproveRunInput) (*model.RunPayload, error) {
	p := principal(ctx)
	v, err := m.control.ApproveRun(ctx, p, runs.ApproveRun{
		RunID: in.RunID, RequestID: in.RequestID, Reject: in.Decision == model.DecisionReject,
		Reason:         mapping.OrZero(in.Reason),
		ExpectedRunSeq: in.ExpectedRunSeq,
	})
	if err != nil {
		return nil, err
	}
	return &model.RunPayload{Run: mapping.GraphOf(v, availability(m.control, p, v), mapping.AllCostlyParts()).Run()}, nil
}

func (r runFields) Approval(ctx context.Context, of *model.Run) (*model.RunApproval, error) {
	if g, ok := of.StepsOf.(*mapping.Graph); ok && g.View.Approval != nil {
		return mapApproval(*g.View.Approval), nil // already read with the run
	}
	a, err := r.control.Approval(ctx, principal(ctx), of.RunID)
	if err != nil || a == nil {
		return nil, err
	}
	return mapApproval(*a), nil
}

func mapApproval(a runs.Approval) *model.RunApproval {
	out := &model.RunApproval{
		Required: a.Required, Decisions: mapping.MapSlice(a.Decisions, func(d runs.ApprovalDecision) model.ApprovalDecision {
			decision := model.DecisionReject
			if d.Approved {
				decision = model.DecisionApprove
			}
			return model.ApprovalDecision{Principal: d.Principal, Decision: decision, Reason: mapping.Text(d.Reason), At: d.At}
		})}
	if a.Open {
		out.ExpiresAt = &a.ExpiresAt
	}
	return out
}
