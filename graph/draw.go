package graph

import (
	"context"
	"reflect"
	"slices"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/99designs/gqlgen/graphql"

	"github.com/dvt-engine/dvt/graph/internal/selection"
	"github.com/dvt-engine/dvt/graph/ws"
)

// drawerOf renders what field, the one of a subscription, selects of an M, and says
// what of that must be mapped.
func drawerOf[M any](ctx context.Context, s sharing, op *graphql.OperationContext,
	field graphql.CollectedField) (drawer[M], mapping.Wants) {
	plan, err := s.compiler.Compile(op, field, reflect.TypeFor[M](), map[string]selection.Hook{"Run.steps": keepSteps})
	if err != nil {
		return execute[M](ctx, s.exec, op), mapping.Everything()
	}
	return &appended[M]{
		plan: plan, head: `{"data":{"` + field.Alias + `":`,
		otherwise: func() *executed[M] { return execute[M](ctx, s.exec, op) },
	}, wantsOf(plan)
}

// appended is the drawer of a compiled selection.
type appended[M any] struct {
	plan      *selection.Plan
	head      string
	size      int // of the last response
	otherwise func() *executed[M]
	executed  *executed[M] // once a value had what the plan cannot render
}

func (d *appended[M]) draw(b []byte, m *M) ([]byte, error) {
	begin := len(b)
	out, err := d.plan.Append(append(slices.Grow(b, d.size+d.size/8+len(d.head)+64), d.head...), m)
	if err == nil {
		d.size = len(out) - begin
		return append(out, '}', '}'), nil
	}
	if d.executed == nil {
		d.executed = d.otherwise()
	}
	return d.executed.draw(b, m)
}

func (d *appended[M]) close() {
	if d.executed != nil {
		d.executed.close()
	}
}

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

func (d *executed[M]) draw(b []byte, m *M) ([]byte, error) {
	d.in <- m
	switch r := d.next(); {
	case r == nil:
		return nil, context.Canceled
	case len(r.Data) == 0 && len(r.Errors) > 0:
		return nil, r.Errors
	default:
		return ws.AppendResponse(b, r), nil
	}
}

func (d *executed[M]) close() { d.end() }
