package graph

import (
	"context"
	"io"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/dvt-engine/dvt/graph/internal/mapping"

	"github.com/99designs/gqlgen/graphql"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"github.com/dvt-engine/dvt/graph/internal/exec"
	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/graph/internal/selection"
)

// compiledQueries renders the fields `run` and `runs` with compiled selections, because gqlgen's marshalling is slow
// for large answers. gqlgen still reads the arguments, calls the resolvers and collects errors. It also renders every
// field that the compiler does not support. compiledQueries is safe for concurrent use.
type compiledQueries struct {
	compiler *selection.Compiler
	plans    *lru.Cache[planKey, map[string]*fieldPlan]
}

var _ graphql.OperationContextMutator = compiledQueries{}

func (compiledQueries) ExtensionName() string                   { return "Compiled" }
func (compiledQueries) Validate(graphql.ExecutableSchema) error { return nil }

// planKey identifies the plans of an operation. The document cache keeps documents parsed, so the same text has the
// same op. conditions holds the values of the variables of @skip and @include, which decide on the selected fields.
type planKey struct {
	op         *ast.OperationDefinition
	conditions string
}

// fieldPlan is the compiled plan of one field of Query.
type fieldPlan struct {
	*selection.Plan
	costlyParts mapping.CostlyParts
	size        atomic.Int64 // bytes of the last answer, to allocate the next one
}

func newCompiledQueries(schema *ast.Schema, keep int) compiledQueries {
	plans, err := lru.New[planKey, map[string]*fieldPlan](keep)
	if err != nil {
		panic(err) // cannot happen: keep is positive
	}
	return compiledQueries{plans: plans, compiler: &selection.Compiler{Schema: schema,
		Resolved: resolverCheck(reflect.TypeFor[exec.ResolverRoot]())}}
}

// resolverCheck returns a function that reports whether a field has a resolver. It looks at the methods of gqlgen's
// resolver interfaces.
func resolverCheck(root reflect.Type) func(object, field string) bool {
	return func(object, field string) bool {
		of, ok := root.MethodByName(object)
		if !ok {
			return false
		}
		_, ok = of.Type.Out(0).MethodByName(field)
		return ok
	}
}

// compiledType returns the Go type of a field of Query that is compiled, or nil for other fields.
func compiledType(field string) reflect.Type {
	switch field {
	case "run":
		return reflect.TypeFor[model.Run]()
	case "runs":
		return reflect.TypeFor[model.RunConnection]()
	}
	return nil
}

// MutateOperationContext wraps the resolver middleware of queries, so that the results of compiled fields reach gqlgen
// as finished JSON. A value that the plan cannot render is returned as it came, and gqlgen renders it.
func (c compiledQueries) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
	if op.Operation.Operation != ast.Query {
		return nil
	}
	plans := c.plansOf(op)
	if len(plans) == 0 {
		return nil
	}
	around := op.ResolverMiddleware
	op.ResolverMiddleware = func(ctx context.Context, resolve graphql.Resolver) (any, error) {
		at := graphql.GetFieldContext(ctx)
		p := plans[at.Field.Alias]
		if p == nil || at.Object != "Query" {
			return around(ctx, resolve)
		}
		result, err := around(context.WithValue(ctx, costlyPartsKey{}, p.costlyParts), resolve)
		if err != nil {
			return result, err
		}
		data, err := p.Append(make([]byte, 0, p.size.Load()*9/8), result)
		if err != nil {
			return result, nil //nolint:nilerr // gqlgen renders the value and reports its error
		}
		p.size.Store(int64(len(data)))
		return rawJSON(data), nil
	}
	return nil
}

// rawJSON is a value that is already JSON.
type rawJSON []byte

func (r rawJSON) MarshalGQL(w io.Writer) { _, _ = w.Write(r) }

// plansOf returns the plans of the compiled fields of an operation by response key. It caches them.
func (c compiledQueries) plansOf(op *graphql.OperationContext) map[string]*fieldPlan {
	var conditions strings.Builder
	conditionsOf(op.Operation.SelectionSet, func(name string) {
		if op.Variables[name] == true {
			conditions.WriteByte('t')
		} else {
			conditions.WriteByte('f')
		}
	})
	key := planKey{op.Operation, conditions.String()}
	if plans, ok := c.plans.Get(key); ok {
		return plans
	}
	plans := map[string]*fieldPlan{}
	for _, f := range graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Query"}) {
		of := compiledType(f.Name)
		if of == nil || plans[f.Alias] != nil {
			continue
		}
		if p, err := c.compiler.Compile(op, f, of, map[string]selection.Hook{"Run.steps": appendEachStep}); err == nil {
			plans[f.Alias] = &fieldPlan{Plan: p, costlyParts: costlyPartsOf(p)}
		}
	}
	c.plans.Add(key, plans)
	return plans
}

// conditionsOf yields the variables of directives (@skip and @include) in document order.
func conditionsOf(set ast.SelectionSet, yield func(name string)) {
	for _, s := range set {
		switch s := s.(type) {
		case *ast.Field:
			variablesOfDirectives(s.Directives, yield)
			conditionsOf(s.SelectionSet, yield)
		case *ast.InlineFragment:
			variablesOfDirectives(s.Directives, yield)
			conditionsOf(s.SelectionSet, yield)
		case *ast.FragmentSpread:
			variablesOfDirectives(s.Directives, yield)
			conditionsOf(s.Definition.SelectionSet, yield)
		}
	}
}

// graphIn returns the graph from which the steps of a *model.Run are mapped, or nil for a run without steps.
func graphIn(runValue reflect.Value) *mapping.Graph {
	g, _ := runValue.Addr().Interface().(*model.Run).StepsOf.(*mapping.Graph)
	return g
}

// appendEachStep is the hook of Run.steps in queries. It maps each step into the same model.Step, so that a run with
// thousands of steps allocates no list.
func appendEachStep(element selection.Append) selection.Append {
	return func(b []byte, v reflect.Value) (_ []byte, err error) {
		g := graphIn(v)
		if g == nil {
			return append(b, "[]"...), nil
		}
		var step model.Step
		at := reflect.ValueOf(&step).Elem()
		b = append(b, '[')
		for i, s := range g.View.State.Steps {
			if i > 0 {
				b = append(b, ',')
			}
			g.WriteStep(&step, s)
			if b, err = element(b, at); err != nil {
				return b, err
			}
		}
		return append(b, ']'), nil
	}
}
