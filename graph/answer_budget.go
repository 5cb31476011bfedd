package graph

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/dvt-engine/dvt/graph/limit"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// largeFields contains the fields whose values may take megabytes, with the maximum number of selections in one
// operation.
var largeFields = map[string]int{ //nolint:gochecknoglobals // a table
	"Run.planDocument": 2, "Run.planDiff": 2, "RunComparison.plan": 2, "Query.stepLog": 25, "Query.logSearch": 2,
	"Step.inputs": 10, "Step.dbtNodes": 10, "Step.nodes": 10,
}

// heavyReads is the number of plan documents and searches in logs that one process handles concurrently, at most one
// for each caller. Hiding the secrets of a document takes several times its size in memory, and a search reads many
// megabytes.
const heavyReads = 4

// answerLimit limits the size of an answer. Before anything is read it counts the large fields that the operation
// selects. During reads it counts the bytes of the large values. It is safe for concurrent use.
type answerLimit struct {
	bytes int64
	heavy *limit.HeavyGate
}

var (
	_ graphql.HandlerExtension        = answerLimit{}
	_ graphql.OperationContextMutator = answerLimit{}
	_ graphql.OperationInterceptor    = answerLimit{}
)

func newAnswerLimit(bytes int64) answerLimit {
	return answerLimit{bytes: bytes, heavy: limit.NewHeavyGate(heavyReads)}
}

func (answerLimit) ExtensionName() string                   { return "AnswerLimit" }
func (answerLimit) Validate(graphql.ExecutableSchema) error { return nil }

func (answerLimit) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	return largeCount{}.walk(op.Operation.SelectionSet, "")
}

// largeCount maps each of largeFields to its paths in the answer. Selections that GraphQL merges share one path.
type largeCount map[string]map[string]bool

// walk visits every field. limit.Guard has already limited their number.
func (c largeCount) walk(set ast.SelectionSet, path string) *gqlerror.Error {
	for _, s := range set {
		var err *gqlerror.Error
		switch s := s.(type) {
		case *ast.Field:
			err = c.field(s, path+"."+s.Alias)
		case *ast.InlineFragment:
			err = c.walk(s.SelectionSet, path)
		case *ast.FragmentSpread:
			err = c.walk(s.Definition.SelectionSet, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c largeCount) field(f *ast.Field, path string) *gqlerror.Error {
	name := f.ObjectDefinition.Name + "." + f.Name
	most := largeFields[name]
	if most == 0 {
		return c.walk(f.SelectionSet, path)
	}
	if c[name] == nil {
		c[name] = map[string]bool{}
	}
	c[name][path] = true
	if n := len(c[name]); n > most {
		err := limit.ErrorOf(run.CodeQueryTooComplex, "The operation selects "+name+" %d times", n, most)
		err.Locations = []gqlerror.Location{{Line: f.Position.Line, Column: f.Position.Column}}
		return err
	}
	return c.walk(f.SelectionSet, path)
}

func (l answerLimit) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	// Frames of subscriptions have separate limits.
	if graphql.GetOperationContext(ctx).Operation.Operation != ast.Subscription {
		ctx = context.WithValue(ctx, answerBudgetKey{}, &answerBudget{limit: l.bytes, heavy: l.heavy})
	}
	return next(ctx)
}

// answerBudget tracks the bytes of large values in one answer.
type answerBudget struct {
	limit int64
	spent atomic.Int64
	heavy *limit.HeavyGate
}

type answerBudgetKey struct{}

// readLarge calls read, which returns a value and its size in bytes, within the budget of the operation. Its error is
// QUERY_TOO_COMPLEX when the value exceeds the budget. Later calls for the same operation then fail without reading.
func readLarge[V any](ctx context.Context, read func() (V, int, error)) (V, error) {
	var none V
	b, ok := ctx.Value(answerBudgetKey{}).(*answerBudget)
	if !ok {
		v, _, err := read()
		return v, err
	}
	if b.spent.Load() > b.limit {
		return none, b.exceededError()
	}
	v, size, err := read()
	if err != nil {
		return none, err
	}
	if b.spent.Add(int64(size)) > b.limit {
		return none, b.exceededError()
	}
	return v, nil
}

// readHeavy is readLarge for values that need a whole plan document or many logs. It waits for its turn at the heavy
// gate until ctx ends.
func readHeavy[V any](ctx context.Context, read func() (V, int, error)) (V, error) {
	b, ok := ctx.Value(answerBudgetKey{}).(*answerBudget)
	if !ok {
		return readLarge(ctx, read)
	}
	leave, err := b.heavy.Enter(ctx, peerKey(principal(ctx)))
	if err != nil {
		var none V
		return none, err
	}
	defer leave()
	return readLarge(ctx, read)
}

func (b *answerBudget) exceededError() error {
	return &control.Error{
		Code: run.CodeQueryTooComplex, Limit: b.limit,
		Message: fmt.Sprintf("The answer would have more than %d bytes. Select fewer large fields or smaller pages.", b.limit),
	}
}

// sizeInJSON returns the number of bytes that a text takes in an answer, without its quotes.
func sizeInJSON(text string) int {
	n := len(text)
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			n++
		case c < ' ' || c == 0x7f || c == '<' || c == '>' || c == '&':
			n += 5
		}
	}
	return n
}
