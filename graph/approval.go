package graph

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// ApprovalService is about runs that wait for people before they start.
type ApprovalService interface {
	Approvals(ctx context.Context, p authz.Principal, first int, after string) (control.RunsPage, error)
	ApproveRun(ctx context.Context, p authz.Principal, in runs.ApproveRun) (control.RunView, error)
	// Approval is nil for a run that never needed one.
	Approval(ctx context.Context, p authz.Principal, runID string) (*runs.Approval, error)
}

func (q queries) Approvals(ctx context.Context, first *int, after *string) (*model.RunConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	p := principal(ctx)
	page, err := q.control.Approvals(ctx, p, orZero(first), orZero(after))
	if err != nil {
		return nil, err
	}
	return mapRunsPage(q.control, p, page, wanted(ctx)), nil
}

func (m mutations) ApproveRun(ctx context.Context, in model.ApproveRunInput) (*model.RunPayload, error) {
	p := principal(ctx)
	v, err := m.control.ApproveRun(ctx, p, runs.ApproveRun{
		RunID: in.RunID, RequestID: in.RequestID, Reject: in.Decision == model.DecisionReject, Reason: orZero(in.Reason),
		ExpectedRunSeq: in.ExpectedRunSeq,
	})
	if err != nil {
		return nil, err
	}
	return &model.RunPayload{Run: graphOf(v, availability(m.control, p, v), everything()).run()}, nil
}

func (r runFields) Approval(ctx context.Context, of *model.Run) (*model.RunApproval, error) {
	if g, ok := of.StepsOf.(*stepGraph); ok && g.view.Approval != nil {
		return mapApproval(*g.view.Approval), nil // it was read with the run
	}
	a, err := r.control.Approval(ctx, principal(ctx), of.RunID)
	if err != nil || a == nil {
		return nil, err
	}
	return mapApproval(*a), nil
}

func mapApproval(a runs.Approval) *model.RunApproval {
	out := &model.RunApproval{
		Required: a.Required, Decisions: each(a.Decisions, func(d runs.ApprovalDecision) model.ApprovalDecision {
			decision := model.DecisionReject
			if d.Approved {
				decision = model.DecisionApprove
			}
			return model.ApprovalDecision{Principal: d.Principal, Decision: decision, Reason: text(d.Reason), At: d.At}
		})}
	if a.Open {
		out.ExpiresAt = &a.ExpiresAt
	}
	return out
}

// message is the header's, or says that the run waits for people: it is PENDING and does
// not wait in the queue (T36).
func message(v control.RunView) string {
	h := v.State.Header
	if h.Status == run.Pending && !h.Queued && !v.Past {
		return "The run waits for approval."
	}
	return h.Message()
}
