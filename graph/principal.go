package graph

import (
	"context"

	"github.com/dvt-engine/dvt/authz"
)

type principalKey struct{}

// withPrincipal hands the caller from the transport to the resolvers, past
// gqlgen, which knows only contexts. Resolvers take it out at once: inwards of
// here a principal is a parameter.
func withPrincipal(ctx context.Context, p authz.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// principal is the caller; the handler lets nobody in without one. The zero
// Principal, of no tenant and without grants, may do nothing.
func principal(ctx context.Context) authz.Principal {
	p, _ := ctx.Value(principalKey{}).(authz.Principal)
	return p
}
