package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/graph/ws"
)

// What tests of this package look at beside its handler.

// Parse makes an operation as the transports do.
func (h *Handler) Parse(ctx context.Context, query string, variables map[string]any) (*graphql.OperationContext, gqlerror.List) {
	return h.exec.CreateOperationContext(graphql.StartOperationTrace(ctx), &graphql.RawParams{Query: query, Variables: variables})
}

// Share is the handler's ws.Share.
func (h *Handler) Share(ctx context.Context, op *graphql.OperationContext) (*ws.Shared, error) {
	return h.cfg.Streams.Share(ctx, op)
}

// WithPrincipal is the context of an operation of p.
func WithPrincipal(ctx context.Context, p authz.Principal) context.Context {
	return withPrincipal(ctx, p)
}
