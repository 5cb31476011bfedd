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

// compiled renders `run` and `runs` by compiled selections. Everything else of an
// operation, and whatever a selection has that is not known, stays with gqlgen: it
// reads the arguments, calls the resolvers, collects errors and writes nulls.
type compiled struct {
	compiler *selection.Compiler
	plans    *lru.Cache[planKey, map[string]*planned]
}

var _ graphql.OperationContextMutator = compiled{}

func (compiled) ExtensionName() string                   { return "Compiled" }
func (compiled) Validate(graphql.ExecutableSchema) error { return nil }

// planKey is an operation of a document that is kept parsed, and what its @skip and
// @include were told.
type planKey struct {
	op         *ast.OperationDefinition
	conditions string
}

// planned is the plan of one field of Query.
type planned struct {
	*selection.Plan
	wants mapping.Wants
	size  atomic.Int64 // of the last answer
}

func newCompiled(schema *ast.Schema, keep int) compiled {
	plans, err := lru.New[planKey, map[string]*planned](keep)
	if err != nil {
		panic(err) // keep is positive
	}
	return compiled{plans: plans, compiler: &selection.Compiler{Schema: schema,
		Resolved: resolved(reflect.TypeFor[exec.ResolverRoot]())}}
}

// resolved reads from the resolvers' interfaces which fields have one.
func resolved(root reflect.Type) func(object, field string) bool {
	return func(object, field string) bool {
		of, ok := root.MethodByName(object)
		if !ok {
			return false
		}
		_, ok = of.Type.Out(0).MethodByName(field)
		return ok
	}
}

// compilable are the fields of Query that are compiled, and what they give.
func compilable(field string) reflect.Type {
	switch field {
	case "run":
		return reflect.TypeFor[model.Run]()
	case "runs":
		return reflect.TypeFor[model.RunConnection]()
	}
	return nil
}

// MutateOperationContext puts the rendering between a resolver and gqlgen's marshalling.
func (c compiled) MutateOperationContext(_ context.Context, op *graphql.OperationContext) *gqlerror.Error {
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
		result, err := around(context.WithValue(ctx, wantsKey{}, p.wants), resolve)
		if err != nil {
			return result, err
		}
		data, err := p.Append(make([]byte, 0, p.size.Load()*9/8), result)
		if err != nil {
			return result, nil //nolint:nilerr // gqlgen says what is wrong with it
		}
		p.size.Store(int64(len(data)))
		return rendered(data), nil
	}
	return nil
}

// rendered is a value that is JSON already.
type rendered []byte

func (r rendered) MarshalGQL(w io.Writer) { _, _ = w.Write(r) }

// plansOf are those of the fields of Query, by response key, that are compiled.
func (c compiled) plansOf(op *graphql.OperationContext) map[string]*planned {
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
	plans := map[string]*planned{}
	for _, f := range graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Query"}) {
		of := compilable(f.Name)
		if of == nil || plans[f.Alias] != nil {
			continue
		}
		if p, err := c.compiler.Compile(op, f, of, map[string]selection.Hook{"Run.steps": eachStep}); err == nil {
			plans[f.Alias] = &planned{Plan: p, wants: wantsOf(p)}
		}
	}
	c.plans.Add(key, plans)
	return plans
}

// conditionsOf yields the variables of @skip and @include in the order they stand.
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

// graphIn is the graph that the steps of a run are made from, nil when it shows none.
func graphIn(runValue reflect.Value) *mapping.Graph {
	g, _ := runValue.Addr().Interface().(*model.Run).StepsOf.(*mapping.Graph)
	return g
}

// eachStep makes the steps of a run one after the other in one place.
func eachStep(element selection.Append) selection.Append {
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
