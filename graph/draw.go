package graph

import (
	"context"

	"github.com/99designs/gqlgen/graphql"

	"github.com/dvt-engine/dvt/graph/ws"
)

// executed is the drawer that knows every operation: gqlgen's own execution,
// which reads what it is to render from a channel instead of from a resolver.
type executed[M any] struct {
	in   chan *M
	next func() *graphql.Response
	end  context.CancelFunc
}

type fedKey struct{}

// fed is the channel that a group's execution reads; nil in any other.
func fed[M any](ctx context.Context) <-chan *M {
	in, _ := ctx.Value(fedKey{}).(chan *M)
	return in
}

// execute begins op for a group. The context of an operation belongs to one
// viewer, so the group has another.
func execute[M any](ctx context.Context, exec graphql.GraphExecutor, op *graphql.OperationContext) *executed[M] {
	own := &graphql.OperationContext{
		RawQuery: op.RawQuery, Variables: op.Variables, OperationName: op.OperationName, Doc: op.Doc, Operation: op.Operation,
		DisableIntrospection: op.DisableIntrospection, RecoverFunc: op.RecoverFunc,
		ResolverMiddleware: op.ResolverMiddleware, RootResolverMiddleware: op.RootResolverMiddleware,
	}
	d := &executed[M]{in: make(chan *M, 1)}
	ctx, d.end = context.WithCancel(context.WithValue(ctx, fedKey{}, d.in))
	next, opCtx := exec.DispatchOperation(graphql.WithOperationContext(ctx, own), own)
	d.next = func() *graphql.Response { return next(opCtx) }
	return d
}

func (d *executed[M]) draw(m *M) ([]byte, error) {
	d.in <- m
	switch r := d.next(); {
	case r == nil:
		return nil, context.Canceled
	case len(r.Data) == 0 && len(r.Errors) > 0:
		return nil, r.Errors
	default:
		return ws.AppendResponse(nil, r), nil // a copy: gqlgen writes into one buffer
	}
}

func (d *executed[M]) close() { d.end() }

func drawerOf[M any](ctx context.Context, exec graphql.GraphExecutor, op *graphql.OperationContext) drawer[M] {
	return execute[M](ctx, exec, op)
}
