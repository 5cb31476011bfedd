package graph_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"github.com/dvt-engine/dvt"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// Each crosses one limit, and is answered with its code before it costs anything.
// contract: Z01
func TestLimits_HostileDocuments(t *testing.T) {
	t.Parallel()
	a := serve(t, answering(), func(c *graph.Config) { c.Introspection = true })
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(format, "%d", strconv.Itoa(i)))
		}
		return b.String()
	}
	bomb := func(n int) string { // 2^n fields
		b := "fragment F0 on Query { health { status } }"
		for i := 1; i < n; i++ {
			b += fmt.Sprintf(" fragment F%d on Query { ...F%d ...F%d }", i, i-1, i-1)
		}
		return b
	}
	deep := func(n int) string {
		return strings.Repeat("{ node(id: 1) ", n) + "{ id }" + strings.Repeat("}", n)
	}
	for name, test := range map[string]struct{ query, code string }{
		"deep":      {deep(20), "QUERY_TOO_DEEP"},
		"very deep": {deep(4000), "QUERY_TOO_COMPLEX"},
		"deep by fragments": {
			`{ ...A } fragment A on Run { a { a { a { a { ...B } } } } } fragment B on Run { a { a { a { a { a { a { a { a { a { a { a { a } } } } } } } } } } } }`, "QUERY_TOO_DEEP"},
		"aliases":     {`{` + many(51, ` a%d: __typename`) + `}`, "TOO_MANY_ALIASES"},
		"wide":        {`{` + many(2500, ` __typename`) + `}`, "QUERY_TOO_COMPLEX"},
		"very wide":   {`{` + many(100_000, ` __typename`) + `}`, "QUERY_TOO_COMPLEX"},
		"bomb":        {`{ ...F39 } ` + bomb(40), "QUERY_TOO_COMPLEX"},
		"unused bomb": {`{ __typename } ` + bomb(40), "QUERY_TOO_COMPLEX"},
		"operations":  {many(2500, `query Q%d { __typename } `), "QUERY_TOO_COMPLEX"},
		"directives":  {`{ __typename` + many(3000, ` @include(if: true)`) + `}`, "QUERY_TOO_COMPLEX"},
		"long":        {`{ __typename } #` + strings.Repeat("x", 2<<20), "QUERY_TOO_COMPLEX"},
		"cycle":       {`{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }`, "BAD_USER_INPUT"},
		"costly": {`{ runs(first: 200) { edges { node { artifacts { uri kind sha256 sizeBytes } } } } ` +
			many(25, ` a%d: runs(first: 200) { edges { node { artifacts { uri kind sha256 sizeBytes } } } }`) + `}`,
			"QUERY_TOO_COMPLEX"},
		"introspection": {
			`{ __schema { types { fields { type { fields { type { fields { type { fields { type { name } } } } } } } } } }`,
			"BAD_USER_INPUT"},
		"empty":    {``, "BAD_USER_INPUT"},
		"no field": {`{ nothing }`, "BAD_USER_INPUT"},
	} {
		began := time.Now()
		got := a.do(http.MethodPost, "/", request(test.query, nil), "Accept", "application/graphql-response+json")
		if code(t, got.body) != test.code || got.status != http.StatusBadRequest {
			t.Errorf("%s: %d %.300s, want %s", name, got.status, got.body, test.code)
		}
		if took := time.Since(began); took > testtime.Of(3*time.Second) {
			t.Errorf("%s took %v", name, took)
		}
		if len(got.body) > 16<<10 {
			t.Errorf("%s: an answer of %d bytes", name, len(got.body))
		}
	}
}

// The row and steps of the measured list.
const (
	rowFields  = `runId status runSeq createdAt startedAt completedAt failedSteps`
	stepFields = `stepId status startedAt completedAt durationMs logicalAttemptId changedSeq dependsOn`
)

// What people ask for stays well within.
func TestLimits_OrdinaryOperationsPass(t *testing.T) {
	t.Parallel()
	a := serve(t, answering(), func(c *graph.Config) { c.Introspection = true })
	schema, err := gqlparser.LoadSchema(&ast.Source{Input: dvt.Schema})
	if err != nil || schema.Query == nil {
		t.Fatal(err)
	}
	list := costly("Run.steps")
	for name, query := range map[string]string{
		"a full run with 200 full events": `{ run(runId: "r1") { ... on Run ` + everything(t, "Run", "Run.events") +
			` events(last: 200) ` + everything(t, "EventConnection") + ` } }`,
		"200 full rows": `{ runs(first: 200) ` + everything(t, "RunConnection", list...) + ` }`,
		"50 full rows with 8 fields of their steps": `{ runs(first: 50) { edges { node { ` + rowFields + ` steps { ` +
			stepFields + ` } } } } }`,
		"1000 lines": `{ stepLog(runId: "r1", stepId: "s", first: 1000) ` +
			everything(t, "StepLog") + ` }`,
		"the explorer": `{ __schema { queryType { name } types { kind name fields(includeDeprecated: true) { name args { name type { ...T } } type { ...T } } } } }
			fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } } }`,
	} {
		if got := a.query(query, nil); code(t, got) != "" {
			t.Errorf("%s: %.300s", name, got)
		}
	}
}

// A page of more rows costs more, wherever it is asked for.
func TestLimits_EveryPageIsWeighed(t *testing.T) {
	t.Parallel()
	schema := graph.Schema(graph.UseCasesOf(answering()), graph.Config{})
	for _, def := range schema.Schema().Types {
		if def.Kind != ast.Object || def.Name == "Subscription" {
			continue
		}
		for _, field := range def.Fields {
			if field.Arguments.ForName("first") == nil {
				continue
			}
			args := map[string]any{}
			for _, a := range field.Arguments {
				if a.Type.NonNull {
					args[a.Name] = "x"
				}
			}
			cost := func(first int) int {
				args["first"] = first
				n, _ := schema.Complexity(t.Context(), def.Name, field.Name, 10, args)
				return n
			}
			if one, many := cost(1), cost(200); many-one != 199*10 {
				t.Errorf("%s.%s: one row costs %d, 200 cost %d", def.Name, field.Name, one, many)
			}
		}
	}
}

func TestLimits_IntrospectionIsAChoice(t *testing.T) {
	t.Parallel()
	a := serve(t, answering())
	if got := a.query(`{ __schema { queryType { name } } }`, nil); strings.Contains(got, `"Query"`) ||
		!strings.Contains(got, "errors") {
		t.Errorf("got %s", got)
	}
}

func TestLimits_BodyIsBounded(t *testing.T) {
	t.Parallel()
	a := serve(t, answering(), func(c *graph.Config) { c.Limits.BodyBytes = 1000 })
	got := a.do(http.MethodPost, "/", request(`{ __typename }`, map[string]string{"x": strings.Repeat("x", 2000)}))
	if got.status != http.StatusRequestEntityTooLarge || code(t, got.body) != "PLAN_TOO_LARGE" ||
		!strings.Contains(got.body, `"limit":1000`) {
		t.Errorf("%d %s", got.status, got.body)
	}
}

// Fields that need I/O for each frame or row, or that are the viewer's own, are
// refused where they stand, with the place to ask for them (T155).
// contract: T155
func TestPlacement_FieldsThatCannotBeAnswered(t *testing.T) {
	t.Parallel()
	a := serve(t, answering())
	for _, operation := range []string{
		`subscription { runUpdates(runId: "r1") { snapshot { actions { action } } } }`,
		`subscription { runUpdates(runId: "r1") { snapshot { ...F } } } fragment F on Run { steps { ... on Step { actions { action } } } }`,
		`subscription { runUpdates(runId: "r1") { snapshot { events { pageInfo { hasNextPage } } } } }`,
		`subscription { runUpdates(runId: "r1") { delta { header { signals { pageInfo { hasNextPage } } } } } }`,
		`subscription { runListUpdates { runs { actions { action } } } }`,
		`subscription { runListUpdates { runs { steps { stepId } } } }`,
		`{ runs { edges { node { step(stepId: "a") { stepId } } } } }`,
		`{ runs { edges { node { events { pageInfo { hasNextPage } } } } } }`,
		`{ runs { edges { node { signals { pageInfo { hasNextPage } } } } } }`,
	} {
		got := a.do(http.MethodPost, "/", request(operation, nil), "Accept", "application/json, text/event-stream")
		if got.status != http.StatusBadRequest || code(t, got.body) != "BAD_USER_INPUT" ||
			!strings.Contains(got.body, "run(runId:)") {
			t.Errorf("%s: %d %s", operation, got.status, got.body)
		}
	}
	if got := a.query(`{ runs { edges { node { actions { action } } } } }`, nil); !strings.Contains(got, "PAUSE") {
		t.Errorf("actions of rows: %s", got)
	}
}
