package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/limit"

	"github.com/99designs/gqlgen/graphql"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/graph/internal/exec"
)

// Schema is the types and resolvers over c for an executor of somebody else's,
// without what Handler puts around them: limits, presenter, shared and compiled
// rendering, transports. graph/gqlgenpeer is the one user. Its resolvers act for the
// principal of ActingFor.
func Schema(c UseCases, cfg Config) graphql.ExecutableSchema {
	return exec.NewExecutableSchema(exec.Config{Resolvers: &root{control: c, devPrincipals: cfg.DevPrincipals},
		Complexity: limit.Weights()})
}

// ActingFor is the context of operations of p on a Schema.
func ActingFor(ctx context.Context, p authz.Principal) context.Context { return withPrincipal(ctx, p) }
