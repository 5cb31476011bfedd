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

// Each document exceeds one limit. It must get the code of the limit quickly and a short answer.
// contract: Z01
func TestLimits_HostileDocumentsAreRejected(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake(), func(c *graph.Config) { c.Introspection = true })
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(format, "%d", strconv.Itoa(i)))
		}
		return b.String()
	}
	bomb := func(n int) string { // fragments that expand to 2^n fields
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
		"three effects of a policy": {
			`{` + many(3, ` a%d: previewPolicy(document: {grants: [], approvals: []}) { changed }`) + `}`, "QUERY_TOO_COMPLEX"},
		"introspection": {
			`{ __schema { types { fields { type { fields { type { fields { type { fields { type { name } } } } } } } } } }`,
			"BAD_USER_INPUT"},
		"empty":    {``, "BAD_USER_INPUT"},
		"no field": {`{ nothing }`, "BAD_USER_INPUT"},
	} {
		began := time.Now()
		got := a.do(http.MethodPost, "/", request(test.query, nil), "Accept", "application/graphql-response+json")
		if code(t, got.body) != test.code || got.status != http.StatusBadRequest {
			t.Errorf("%s: answered %d %.300s, want 400 with %s", name, got.status, got.body, test.code)
		}
		if took := time.Since(began); took > testtime.Of(3*time.Second) {
			t.Errorf("%s: took %v, want at most 3 s", name, took)
		}
		if len(got.body) > 16<<10 {
			t.Errorf("%s: answered %d bytes, want at most 16 KiB", name, len(got.body))
		}
	}
}

// These are the fields of runs and steps that the benchmarks measure.
const (
	rowFields  = `runId status runSeq createdAt startedAt completedAt failedSteps`
	stepFields = `stepId status startedAt completedAt durationMs logicalAttemptId changedSeq dependsOn`
)

// The limits must not reject the operations of the UI and of API explorers.
func TestLimits_OrdinaryOperationsPass(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake(), func(c *graph.Config) { c.Introspection = true })
	schema, err := gqlparser.LoadSchema(&ast.Source{Input: dvt.Schema})
	if err != nil || schema.Query == nil {
		t.Fatal(err)
	}
	list := costly("Run.steps")
	for name, query := range map[string]string{
		"a full run with 200 full events": `{ run(runId: "r1") { ... on Run ` + selectAll(t, "Run", "Run.events") +
			` events(last: 200) ` + selectAll(t, "EventConnection") + ` } }`,
		"200 full rows": `{ runs(first: 200) ` + selectAll(t, "RunConnection", list...) + ` }`,
		"50 full rows with 8 fields of their steps": `{ runs(first: 50) { edges { node { ` + rowFields + ` steps { ` +
			stepFields + ` } } } } }`,
		"1000 lines": `{ stepLog(runId: "r1", stepId: "s", first: 1000) ` +
			selectAll(t, "StepLog") + ` }`,
		"introspection of an explorer": `{ __schema { queryType { name } types { kind name fields(includeDeprecated: true) { name args { name type { ...T } } type { ...T } } } } }
			fragment T on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } } }`,
	} {
		if got := a.query(query, nil); code(t, got) != "" {
			t.Errorf("%s: answered %.300s, want no errors", name, got)
		}
	}
}

// The cost of each field with the argument `first` is proportional to it. A field without a weight would be unlimited.
func TestLimits_EveryPageCostsByItsSize(t *testing.T) {
	t.Parallel()
	schema := graph.Schema(newAnsweringFake(), graph.Config{})
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
				switch in := schema.Schema().Types[a.Type.Name()]; {
				case a.Type.NonNull && in.Kind == ast.InputObject:
					args[a.Name] = map[string]any{in.Fields[0].Name: "x"}
				case a.Type.NonNull:
					args[a.Name] = "x"
				}
			}
			cost := func(first int) int {
				args["first"] = first
				n, _ := schema.Complexity(t.Context(), def.Name, field.Name, 10, args)
				return n
			}
			if one, many := cost(1), cost(200); many-one != 199*10 {
				t.Errorf("%s.%s: 1 row costs %d and 200 rows cost %d, want a difference of 1990", def.Name, field.Name, one, many)
			}
		}
	}
}

func TestLimits_IntrospectionIsOffByDefault(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
	if got := a.query(`{ __schema { queryType { name } } }`, nil); strings.Contains(got, `"Query"`) ||
		!strings.Contains(got, "errors") {
		t.Errorf("answered %s, want errors without the schema", got)
	}
}

func TestLimits_ALongBodyIsRejected(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake(), func(c *graph.Config) { c.Limits.BodyBytes = 1000 })
	got := a.do(http.MethodPost, "/", request(`{ __typename }`, map[string]string{"x": strings.Repeat("x", 2000)}))
	if got.status != http.StatusRequestEntityTooLarge || code(t, got.body) != "PLAN_TOO_LARGE" ||
		!strings.Contains(got.body, `"limit":1000`) {
		t.Errorf("answered %d %s, want 413 with PLAN_TOO_LARGE and the limit", got.status, got.body)
	}
}

// Fields that need I/O for each frame or row, or that depend on the viewer, are rejected in subscriptions and lists.
// The error names the field where a client can select them.
// contract: T155
func TestFieldPlacement_CostlyFieldsAreRejectedInListsAndStreams(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
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
			t.Errorf("%s: answered %d %s, want BAD_USER_INPUT that names run(runId:)", operation, got.status, got.body)
		}
	}
	if got := a.query(`{ runs { edges { node { actions { action } } } } }`, nil); !strings.Contains(got, "PAUSE") {
		t.Errorf("actions of rows answered %s, want PAUSE among them", got)
	}
}
