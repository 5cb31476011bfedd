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
	// MyDecisions returns the approvals about which p has decided, the newest decision first.
	MyDecisions(ctx context.Context, p authz.Principal, limit int) ([]runs.Approval, error)
	// Approval returns nil for a run that never needed one.
	Approval(ctx context.Context, p authz.Principal, runID string) (*runs.Approval, error)
	// RunRequest returns what a run was requested with.
	RunRequest(ctx context.Context, p authz.Principal, runID string) (runs.RunRequest, error)
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
	return &model.RunPayload{
		Run:    mapping.GraphOf(v, availability(m.control, p, v), mapping.AllCostlyParts()).Run(),
		Change: m.decisionReceipt(ctx, p, in.RunID),
	}, nil
}

// decisionReceipt returns the receipt of the decision of p, which is the first one if p decided several times. It
// returns nil when the decision cannot be read: the decision stands whether or not its receipt can be shown.
func (m mutations) decisionReceipt(ctx context.Context, p authz.Principal, runID string) *model.ChangeReceipt {
	a, err := m.control.Approval(ctx, p, runID)
	if err != nil || a == nil {
		return nil
	}
	own, ok := a.DecisionBy(p.ID)
	if !ok {
		return nil
	}
	return mapping.Change(control.Change{Action: string(authz.Approve), RequestID: own.RequestID, Actor: own.Principal,
		At: own.At})
}

func (v viewerFields) Decisions(ctx context.Context, _ *model.Viewer, first *int) ([]model.DecidedRun, error) {
	if n := mapping.OrZero(first); n < 1 || n > 50 {
		return nil, badInput("first", "RANGE", "must be from 1 to 50")
	}
	p := principal(ctx)
	list, err := v.control.MyDecisions(ctx, p, *first)
	return mapping.MapSlice(list, func(a runs.Approval) model.DecidedRun {
		own, _ := a.DecisionBy(p.ID)
		return model.DecidedRun{
			RunID: a.RunID, PlanID: a.PlanID, PlanVersion: a.PlanVersion, ProjectID: a.ProjectID,
			EnvironmentID: a.EnvironmentID, Decision: decisionOf(own), At: own.At, Approval: mapApproval(a),
		}
	}), err
}

func (r runFields) Request(ctx context.Context, of *model.Run) (*model.RunRequest, error) {
	in, err := r.control.RunRequest(ctx, principal(ctx), of.RunID)
	if err != nil {
		return nil, err
	}
	return &model.RunRequest{Steps: mapping.Optional(in.Steps), Params: in.Params}, nil
}

func decisionOf(d runs.ApprovalDecision) model.Decision {
	if d.Approved {
		return model.DecisionApprove
	}
	return model.DecisionReject
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
			return model.ApprovalDecision{Principal: d.Principal, Decision: decisionOf(d), Reason: mapping.Text(d.Reason),
				At: d.At}
		})}
	if a.Open {
		out.ExpiresAt = &a.ExpiresAt
	}
	return out
}
