package graph

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
)

type principalKey struct{}

// withPrincipal passes the caller from the transport to the resolvers in the context, because gqlgen passes nothing
// else. Resolvers take it out and pass it on as a parameter.
func withPrincipal(ctx context.Context, p authz.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// principal returns the caller. The handler rejects requests without one. Without a principal in ctx it returns the
// zero Principal, which has no tenant and no rights.
func principal(ctx context.Context) authz.Principal {
	p, _ := ctx.Value(principalKey{}).(authz.Principal)
	return p
}
