package graph

import (
	"context"
	"reflect"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/graph/internal/exec"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/graph/internal/selection"
	"github.com/dvt-engine/dvt/graph/ws"
)

// Costly are the fields that lists and subscriptions reject.
var Costly = costly //nolint:gochecknoglobals // a table

// Parse creates an operation as the transports do.
func (h *Handler) Parse(ctx context.Context, query string, variables map[string]any) (*graphql.OperationContext,
	gqlerror.List) {
	return h.exec.CreateOperationContext(graphql.StartOperationTrace(ctx), &graphql.RawParams{Query: query,
		Variables: variables})
}

// ParseNamed is Parse of one operation of a document.
func (h *Handler) ParseNamed(
	ctx context.Context, document, operation string, variables map[string]any,
) (*graphql.OperationContext, gqlerror.List) {
	return h.exec.CreateOperationContext(graphql.StartOperationTrace(ctx), &graphql.RawParams{
		Query: document, OperationName: operation, Variables: variables,
	})
}

// Share calls the handler's ws.Share.
func (h *Handler) Share(ctx context.Context, op *graphql.OperationContext) (*ws.Shared, error) {
	return h.cfg.Streams.Share(ctx, op)
}

// WithPrincipal returns the context of an operation of p.
func WithPrincipal(ctx context.Context, p authz.Principal) context.Context {
	return withPrincipal(ctx, p)
}

// Unshare makes every subscription run alone, so that a client gets each frame of a fake stream. A shared subscription
// may skip frames. Call it before the handler is used.
func (h *Handler) Unshare() {
	h.cfg.Streams.Share = nil
	h.streams = ws.New(h.cfg.Streams)
}

// Dispatch starts an operation.
func (h *Handler) Dispatch(ctx context.Context, op *graphql.OperationContext) (graphql.ResponseHandler,
	context.Context) {
	return h.exec.DispatchOperation(ctx, op)
}

// Compiles returns nil when the subscription op has a compiled selection.
func (h *Handler) Compiles(op *graphql.OperationContext) error {
	of := map[string]reflect.Type{"runUpdates": reflect.TypeFor[model.RunUpdate](),
		"runListUpdates": reflect.TypeFor[model.RunListUpdate]()}
	field := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Subscription"})[0]
	c := newCompiledQueries(exec.NewExecutableSchema(exec.Config{}).Schema(), 1)
	_, err := c.compiler.Compile(op, field, of[field.Name], map[string]selection.Hook{"Run.steps": cacheSteps})
	return err
}

// Alone returns the first response of a subscription that runs unshared.
func (h *Handler) Alone(ctx context.Context, op *graphql.OperationContext) *graphql.Response {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next, ctx := h.exec.DispatchOperation(ctx, op)
	return next(ctx)
}
