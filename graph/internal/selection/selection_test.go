package selection_test

import (
	"reflect"
	"testing"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/dvt-engine/dvt/graph/internal/selection"
)

// A field that is selected through two interfaces is written once, as by gqlgen.
func TestCompile_WritesEachNameOnce(t *testing.T) {
	t.Parallel()
	schema := gqlparser.MustLoadSchema(&ast.Source{Input: `
		interface A { id: ID! } interface B { id: ID! } type T implements A & B { id: ID! n: Int } type Query { t: T }`})
	doc, err := gqlparser.LoadQueryWithRules(schema, `{ t { ... on A { id } ... on B { id } n __typename } }`, nil)
	if err != nil {
		t.Fatal(err)
	}
	op := &graphql.OperationContext{Doc: doc, Operation: doc.Operations[0]}
	type thing struct {
		ID string `json:"id"`
		N  *int   `json:"n,omitempty"`
	}
	c := &selection.Compiler{Schema: schema, Resolved: func(string, string) bool { return false }}
	field := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Query"})[0]
	plan, compileErr := c.Compile(op, field, reflect.TypeFor[thing](), nil)
	if compileErr != nil {
		t.Fatal(compileErr)
	}
	got, appendErr := plan.Append([]byte(">"), &thing{ID: "a"})
	if want := `>{"id":"a","n":null,"__typename":"T"}`; string(got) != want || appendErr != nil {
		t.Errorf("Append wrote %s, %v; want %s", got, appendErr, want)
	}
	if _, err := plan.Append(nil, &struct{}{}); err == nil {
		t.Error("Append of a value of another type returned nil, want ErrUnknown")
	}
}
