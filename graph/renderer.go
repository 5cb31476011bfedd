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

// newRenderer returns the renderer for the field of a subscription whose messages are M, and the parts of M that must
// be mapped. It prefers a compiled selection and falls back on gqlgen.
func newRenderer[M any](ctx context.Context, s sharer, op *graphql.OperationContext,
	field graphql.CollectedField) (renderer[M], mapping.CostlyParts) {
	plan, err := s.compiler.Compile(op, field, reflect.TypeFor[M](), map[string]selection.Hook{"Run.steps": cacheSteps})
	if err != nil {
		return startExecution[M](ctx, s.exec, op), mapping.AllCostlyParts()
	}
	return &compiledRenderer[M]{
		plan: plan, head: `{"data":{"` + field.Alias + `":`,
		newExecution: func() *execution[M] { return startExecution[M](ctx, s.exec, op) },
	}, costlyPartsOf(plan)
}

// compiledRenderer is the renderer of a compiled selection.
type compiledRenderer[M any] struct {
	plan         *selection.Plan
	head         string
	size         int // bytes of the last response, to allocate the next one
	newExecution func() *execution[M]
	execution    *execution[M] // set when a value could not be rendered by plan
}

func (d *compiledRenderer[M]) render(b []byte, m *M) ([]byte, error) {
	begin := len(b)
	out, err := d.plan.Append(append(slices.Grow(b, d.size+d.size/8+len(d.head)+64), d.head...), m)
	if err == nil {
		d.size = len(out) - begin
		return append(out, '}', '}'), nil
	}
	if d.execution == nil {
		d.execution = d.newExecution()
	}
	return d.execution.render(b, m)
}

func (d *compiledRenderer[M]) close() {
	if d.execution != nil {
		d.execution.close()
	}
}

// execution is the renderer for every operation that is not compiled. It runs gqlgen's execution of the subscription,
// whose resolver reads the messages from a channel of the group.
type execution[M any] struct {
	in   chan *M
	next func() *graphql.Response
	end  context.CancelFunc
}

type groupMessagesKey struct{}

// groupMessages returns the channel of messages in the context of a group's execution, or nil in the context of a
// viewer.
func groupMessages[M any](ctx context.Context) <-chan *M {
	in, _ := ctx.Value(groupMessagesKey{}).(chan *M)
	return in
}

// startExecution starts op for a group. It copies the operation context, because the one of op belongs to one viewer.
func startExecution[M any](ctx context.Context, exec graphql.GraphExecutor,
	op *graphql.OperationContext) *execution[M] {
	own := &graphql.OperationContext{
		RawQuery: op.RawQuery, Variables: op.Variables, OperationName: op.OperationName, Doc: op.Doc, Operation: op.Operation,
		DisableIntrospection: op.DisableIntrospection, RecoverFunc: op.RecoverFunc,
		ResolverMiddleware: op.ResolverMiddleware, RootResolverMiddleware: op.RootResolverMiddleware,
	}
	d := &execution[M]{in: make(chan *M, 1)}
	ctx, d.end = context.WithCancel(context.WithValue(ctx, groupMessagesKey{}, d.in))
	next, opCtx := exec.DispatchOperation(graphql.WithOperationContext(ctx, own), own)
	d.next = func() *graphql.Response { return next(opCtx) }
	return d
}

func (d *execution[M]) render(b []byte, m *M) ([]byte, error) {
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

func (d *execution[M]) close() { d.end() }
