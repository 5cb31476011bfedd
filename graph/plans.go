package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// PlanReads reads plans and their steps over several runs, and compares runs. What p may not read is NOT_FOUND.
type PlanReads interface {
	Plans(ctx context.Context, p authz.Principal, q reads.PlansQuery) (reads.PlansPage, error)
	Plan(ctx context.Context, p authz.Principal, k reads.PlanKey, runs int) (reads.PlanHistory, error)
	PlanStep(ctx context.Context, p authz.Principal, k reads.PlanKey, stepID string, runs int) (reads.StepHistory, error)
	CompareRuns(ctx context.Context, p authz.Principal, a, b string) (reads.RunComparison, error)
	// ComparePlans returns nil when no worker has fetched one of the plans yet.
	ComparePlans(ctx context.Context, p authz.Principal, a, b run.Header) (*reads.PlanDiff, error)
}

func (q queries) Plans(ctx context.Context, projectID, environmentID, text *string, first *int,
	after *string) (*model.PlanConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	page, err := q.control.Plans(ctx, principal(ctx), reads.PlansQuery{
		ProjectID: mapping.OrZero(projectID), EnvironmentID: mapping.OrZero(environmentID), Text: mapping.OrZero(text),
		First: mapping.OrZero(first), After: mapping.OrZero(after),
	})
	if err != nil {
		return nil, err
	}
	return mapping.PlansPage(page, mapping.OrZero(after)), nil
}

func (q queries) Plan(ctx context.Context, projectID, environmentID, planID string,
	runs *int) (*model.PlanHistory, error) {
	h, err := q.control.Plan(ctx, principal(ctx), reads.PlanKey{ProjectID: projectID, EnvironmentID: environmentID,
		PlanID: planID}, mapping.OrZero(runs))
	if err != nil {
		return nullIfNotFound[model.PlanHistory](err)
	}
	return mapping.PlanHistory(h), nil
}

func (q queries) PlanStep(ctx context.Context, projectID, environmentID, planID, stepID string,
	runs *int) (*model.PlanStepHistory, error) {
	h, err := q.control.PlanStep(ctx, principal(ctx), reads.PlanKey{ProjectID: projectID, EnvironmentID: environmentID,
		PlanID: planID}, stepID, mapping.OrZero(runs))
	if err != nil {
		return nullIfNotFound[model.PlanStepHistory](err)
	}
	return mapping.PlanStep(h), nil
}

func (q queries) CompareRuns(ctx context.Context, a, b string) (*model.RunComparison, error) {
	p := principal(ctx)
	c, err := q.control.CompareRuns(ctx, p, a, b)
	if err != nil {
		return nullIfNotFound[model.RunComparison](err)
	}
	return mapping.RunComparison(c, func(v control.RunView) *model.Run {
		return mapping.GraphOf(v, availability(q.control, p, v), costlyPartsFromContext(ctx)).Run()
	}), nil
}

func (c comparisonFields) Plan(ctx context.Context, of *model.RunComparison) (*model.PlanDiff, error) {
	d, err := readHeavy(ctx, func() (*reads.PlanDiff, int, error) {
		d, err := c.control.ComparePlans(ctx, principal(ctx), comparedHeader(of.A), comparedHeader(of.B))
		return d, sizeOfDiff(d), err
	})
	if err != nil || d == nil {
		return nil, err
	}
	return mapping.PlanDiff(*d), nil
}

// comparedHeader returns the fields of a header that a PlanDiff shows of the previous run.
func comparedHeader(of *model.Run) run.Header {
	h := pastHeader(of)
	h.PlanVersion, h.Status, h.StartedAt, h.CompletedAt = of.Plan.PlanVersion, run.Status(of.StatusRaw), of.StartedAt,
		of.CompletedAt
	return h
}
