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

// ArtifactReads reads what steps produced, and makes links of artifacts.
type ArtifactReads interface {
	ListArtifacts(ctx context.Context, p authz.Principal, q reads.ArtifactsQuery) (reads.ArtifactsPage, error)
	LinkArtifact(ctx context.Context, p authz.Principal, runID, uri, requestID string) (reads.ArtifactLink, error)
	// StepOutput returns false when the attempt does not exist.
	StepOutput(ctx context.Context, p authz.Principal, runID, stepID string, attempt int) (reads.StepOutput, bool, error)
}

func (r runFields) ArtifactList(ctx context.Context, of *model.Run, stepID *string, kinds []string, first *int,
	after *string) (*model.ArtifactConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	from, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	page, err := r.control.ListArtifacts(ctx, principal(ctx), reads.ArtifactsQuery{RunID: of.RunID,
		StepID: mapping.OrZero(stepID), Kinds: kinds, First: mapping.OrZero(first), After: from})
	if err != nil {
		return nil, err
	}
	return mapping.ArtifactsPage(of.RunID, page, from), nil
}

func (s stepFields) Output(ctx context.Context, of *model.Step, attempt *int) (*model.StepOutput, error) {
	runID := headerOf(of.Of).RunID
	o, ok, err := s.control.StepOutput(ctx, principal(ctx), runID, of.StepID, mapping.OrZero(attempt))
	if err != nil || !ok {
		return nil, err
	}
	return mapping.StepOutput(runID, o), nil
}

func (m mutations) LinkArtifact(ctx context.Context, in model.LinkArtifactInput) (*model.LinkArtifactPayload, error) {
	link, err := m.control.LinkArtifact(ctx, principal(ctx), in.RunID, in.URI, in.RequestID)
	if err != nil {
		return nil, err
	}
	return &model.LinkArtifactPayload{Path: link.Path, ExpiresAt: link.ExpiresAt}, nil
}
