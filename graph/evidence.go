package graph

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/graph/internal/mapping"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// EvidenceReads reads the evidence of steps.
type EvidenceReads interface {
	StepEvidence(ctx context.Context, p authz.Principal, runID, stepID string, attempt int) (reads.StepEvidence, error)
}

func (s stepFields) Evidence(ctx context.Context, of *model.Step, attempt *int) (*model.StepEvidence, error) {
	e, err := s.control.StepEvidence(ctx, principal(ctx), headerOf(of.Of).RunID, of.StepID, mapping.OrZero(attempt))
	if err != nil {
		return nil, err
	}
	return mapping.StepEvidence(e), nil
}
