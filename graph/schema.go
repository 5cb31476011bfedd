package graph

import (
	"context"

	"github.com/dvt-engine/dvt/graph/limit"

	"github.com/99designs/gqlgen/graphql"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/graph/internal/exec"
)

// Schema returns the executable schema over c without the parts that Handler adds: limits, error presenter, shared and
// compiled rendering, transports. graph/gqlgenpeer is its only user, as a peer for benchmarks. The resolvers act for
// the principal that ActingFor put into the context.
func Schema(c UseCases, cfg Config) graphql.ExecutableSchema {
	return exec.NewExecutableSchema(exec.Config{Resolvers: &root{control: c, devPrincipals: cfg.DevPrincipals},
		Complexity: limit.Weights()})
}

// ActingFor returns a context in which the resolvers of Schema act for p.
func ActingFor(ctx context.Context, p authz.Principal) context.Context { return withPrincipal(ctx, p) }
