package graph

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/secrets"
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

// SecretService says who read which secret, and asks workers to check and to revoke secrets. It has no values.
type SecretService interface {
	SecretAccess(ctx context.Context, p authz.Principal, q secrets.AccessQuery) (secrets.AccessPage, error)
	StepSecrets(ctx context.Context, p authz.Principal, runID, stepID string,
		attempt int) ([]secrets.StepSecret, error)
	CheckSecrets(ctx context.Context, p authz.Principal, in secrets.CheckSecrets) ([]secrets.CheckedSecret, error)
	RevokeSecrets(ctx context.Context, p authz.Principal, in secrets.RevokeSecrets) (secrets.Revocation, error)
}

func (q queries) SecretAccess(ctx context.Context, f *model.SecretAccessFilter, first *int,
	after *string) (*model.SecretAccessConnection, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	cursor, err := mapping.DecodeCursor(after)
	if err != nil {
		return nil, err
	}
	in := secrets.AccessQuery{First: mapping.OrZero(first), After: cursor}
	if f != nil {
		in.RunID, in.StepID, in.Provider = mapping.OrZero(f.RunID), mapping.OrZero(f.StepID), mapping.OrZero(f.Provider)
		in.Key, in.From, in.To = mapping.OrZero(f.Key), mapping.OrZero(f.From), mapping.OrZero(f.To)
	}
	page, err := q.control.SecretAccess(ctx, principal(ctx), in)
	if err != nil {
		return nil, err
	}
	return mapping.SecretAccess(page, cursor), nil
}

func (s stepFields) Secrets(ctx context.Context, of *model.Step, attempt *int) ([]model.StepSecret, error) {
	list, err := s.control.StepSecrets(ctx, principal(ctx), headerOf(of.Of).RunID, of.StepID, mapping.OrZero(attempt))
	if err != nil || list == nil {
		return nil, err
	}
	return mapping.MapSlice(list, mapping.StepSecret), nil
}

func (m mutations) CheckSecrets(ctx context.Context, in model.CheckSecretsInput) (*model.CheckSecretsPayload, error) {
	list, err := m.control.CheckSecrets(ctx, principal(ctx), secrets.CheckSecrets{RequestID: in.RequestID,
		Plan: in.Plan})
	if err != nil {
		return nil, err
	}
	return &model.CheckSecretsPayload{Secrets: mapping.MapSlice(list, mapping.SecretCheck)}, nil
}

func (m mutations) RevokeSecrets(ctx context.Context,
	in model.RevokeSecretsInput) (*model.RevokeSecretsPayload, error) {
	r, err := m.control.RevokeSecrets(ctx, principal(ctx), secrets.RevokeSecrets{RequestID: in.RequestID,
		TenantID: mapping.OrZero(in.TenantID), RunID: mapping.OrZero(in.RunID), Reason: in.Reason})
	if err != nil {
		return nil, err
	}
	return &model.RevokeSecretsPayload{TenantID: r.TenantID, RunID: mapping.Text(r.RunID), Workers: r.Workers,
		Done: r.Done, Waiting: append([]string{}, r.Waiting...), ValuesDropped: r.Dropped, LeasesEnded: r.Ended,
		LeasesFailed: r.Failed, Change: mapping.Change(r.Change)}, nil
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
