package graph

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// largeFields are the fields whose values may have megabytes, and how many of each one operation may select.
var largeFields = map[string]int{ //nolint:gochecknoglobals // a table
	"Run.planDocument": 2, "Run.planDiff": 2, "Query.stepLog": 25, "Step.inputs": 10, "Step.dbtNodes": 10,
}

// heavyReads is how many documents of plans one process handles at once, each caller at most one of them: a document costs
// several times its size while its secrets are hidden.
const heavyReads = 4

// answerLimit bounds what an answer may hold: first by the fields that the operation selects, before anything is read,
// then by the bytes of the large values, as they are read. It is safe for concurrent use.
type answerLimit struct {
	bytes int64
	heavy *heavyGate
}

var (
	_ graphql.HandlerExtension        = answerLimit{}
	_ graphql.OperationContextMutator = answerLimit{}
	_ graphql.OperationInterceptor    = answerLimit{}
)

func newAnswerLimit(bytes int64) answerLimit {
	return answerLimit{bytes: bytes, heavy: newHeavyGate(heavyReads)}
}

func (answerLimit) ExtensionName() string                   { return "AnswerLimit" }
func (answerLimit) Validate(graphql.ExecutableSchema) error { return nil }

func (answerLimit) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	return largeCount{}.walk(op.Operation.SelectionSet, "")
}

// largeCount holds the places in the answer of each of largeFields. Selections that merge have one place.
type largeCount map[string]map[string]bool

// walk visits every field; guard has bounded how many there are.
func (c largeCount) walk(set ast.SelectionSet, place string) *gqlerror.Error {
	for _, s := range set {
		var err *gqlerror.Error
		switch s := s.(type) {
		case *ast.Field:
			err = c.field(s, place+"."+s.Alias)
		case *ast.InlineFragment:
			err = c.walk(s.SelectionSet, place)
		case *ast.FragmentSpread:
			err = c.walk(s.Definition.SelectionSet, place)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c largeCount) field(f *ast.Field, place string) *gqlerror.Error {
	name := f.ObjectDefinition.Name + "." + f.Name
	most := largeFields[name]
	if most == 0 {
		return c.walk(f.SelectionSet, place)
	}
	if c[name] == nil {
		c[name] = map[string]bool{}
	}
	c[name][place] = true
	if n := len(c[name]); n > most {
		err := over(run.CodeQueryTooComplex, "The operation selects "+name+" %d times", n, most)
		err.Locations = []gqlerror.Location{{Line: f.Position.Line, Column: f.Position.Column}}
		return err
	}
	return c.walk(f.SelectionSet, place)
}

func (l answerLimit) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	if graphql.GetOperationContext(ctx).Operation.Operation != ast.Subscription { // frames have limits of their own
		ctx = context.WithValue(ctx, answerBudgetKey{}, &answerBudget{limit: l.bytes, heavy: l.heavy})
	}
	return next(ctx)
}

// answerBudget is what the large values of one answer may still take.
type answerBudget struct {
	limit int64
	spent atomic.Int64
	heavy *heavyGate
}

type answerBudgetKey struct{}

// readLarge runs read, which returns a value and its size in bytes, within the budget of the operation. QUERY_TOO_COMPLEX
// when the answer would hold too much; then nothing more is read for the operation.
func readLarge[V any](ctx context.Context, read func() (V, int, error)) (V, error) {
	var none V
	b, ok := ctx.Value(answerBudgetKey{}).(*answerBudget)
	if !ok {
		v, _, err := read()
		return v, err
	}
	if b.spent.Load() > b.limit {
		return none, b.exceeded()
	}
	v, size, err := read()
	if err != nil {
		return none, err
	}
	if b.spent.Add(int64(size)) > b.limit {
		return none, b.exceeded()
	}
	return v, nil
}

// readPlan is readLarge for what is made of a whole plan. It waits for its turn for as long as its caller does.
func readPlan[V any](ctx context.Context, read func() (V, int, error)) (V, error) {
	b, ok := ctx.Value(answerBudgetKey{}).(*answerBudget)
	if !ok {
		return readLarge(ctx, read)
	}
	leave, err := b.heavy.enter(ctx, peerKey(principal(ctx)))
	if err != nil {
		var none V
		return none, err
	}
	defer leave()
	return readLarge(ctx, read)
}

func (b *answerBudget) exceeded() error {
	return &control.Error{
		Code: run.CodeQueryTooComplex, Limit: b.limit,
		Message: fmt.Sprintf("The answer would have more than %d bytes. Ask for less at once.", b.limit),
	}
}

// sizeInJSON is how many bytes a text takes in an answer, but for its quotes.
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
