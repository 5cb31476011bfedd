package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/access"
	"github.com/dvt-engine/dvt/graph/internal/model"
)

// ScopeReads reads the scopes (project and environment) in which a viewer may read.
type ScopeReads interface {
	Scopes(ctx context.Context, p authz.Principal, first int) ([]access.Scope, error)
}

func (v viewerFields) Places(ctx context.Context, _ *model.Viewer, first *int) ([]model.Place, error) {
	if err := pageSizes(first, nil); err != nil {
		return nil, err
	}
	places, err := v.control.Scopes(ctx, principal(ctx), mapping.OrZero(first))
	return mapping.MapSlice(places, func(at access.Scope) model.Place {
		return model.Place{ProjectID: at.ProjectID, EnvironmentID: at.EnvironmentID}
	}), err
}
