package graph

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/run"
)

// PastReads are about what ran before a run.
type PastReads interface {
	// LastGreen is nil when there is none.
	LastGreen(ctx context.Context, p authz.Principal, h run.Header) (*control.RunBefore, error)
	// PlanDocument is nil when no worker has fetched it yet.
	PlanDocument(ctx context.Context, p authz.Principal, runID string) (json.RawMessage, error)
	StepMedians(ctx context.Context, p authz.Principal, h run.Header) (map[string]time.Duration, error)
}

// medians are those of the steps of one run, read when the first of them is asked for.
type medians struct {
	once sync.Once
	of   map[string]time.Duration
	err  error
}

// headerOf is that of the run whose steps they are.
func headerOf(steps model.StepsOf) run.Header {
	g, ok := steps.(*stepGraph)
	if !ok {
		return run.Header{}
	}
	return g.view.State.Header
}

func (s stepFields) MedianMs(ctx context.Context, of *model.Step) (*time.Duration, error) {
	g, ok := of.Of.(*stepGraph)
	if !ok {
		return nil, nil //nolint:nilnil // of no run
	}
	m := &g.medians
	m.once.Do(func() { m.of, m.err = s.control.StepMedians(ctx, principal(ctx), g.view.State.Header) })
	if took, known := m.of[of.StepID]; known {
		return &took, nil
	}
	return nil, m.err
}

func (r runFields) PlanDocument(ctx context.Context, of *model.Run) (json.RawMessage, error) {
	return r.control.PlanDocument(ctx, principal(ctx), of.RunID)
}

func (r runFields) LastGreen(ctx context.Context, of *model.Run) (*model.RunRef, error) {
	h := run.Header{CreatedAt: of.CreatedAt, Identity: run.Identity{
		RunID: of.RunID, TenantID: of.TenantID, ProjectID: of.ProjectID, EnvironmentID: of.EnvironmentID, PlanID: of.Plan.PlanID,
	}}
	green, err := r.control.LastGreen(ctx, principal(ctx), h)
	if err != nil || green == nil {
		return nil, err
	}
	return &model.RunRef{
		RunID: green.RunID, PlanVersion: green.PlanVersion, Status: enumOf[model.RunStatus](green.Status), StatusRaw: string(green.Status),
		CreatedAt: green.CreatedAt, StartedAt: green.StartedAt, CompletedAt: green.CompletedAt,
	}, nil
}
