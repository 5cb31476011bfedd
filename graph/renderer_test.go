package graph

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/graph/limit"

	"github.com/99designs/gqlgen/graphql"

	"github.com/dvt-engine/dvt/graph/internal/model"
	"github.com/dvt-engine/dvt/graph/internal/selection"
)

func quietConfig() Config {
	return Config{
		Limits: limit.Limits{}.WithDefaults(), Logger: slog.New(slog.DiscardHandler),
		RequestID: func(context.Context) string { return "req-1" },
	}
}

// renderersOf returns two renderers of a subscription: one of its compiled selection, and one of gqlgen.
func renderersOf(t *testing.T, query string) (renderer[model.RunUpdate], renderer[model.RunUpdate]) {
	t.Helper()
	e, compiler := newExecutor(nil, quietConfig(), newOperationLimit(20, 1_000_000))
	ctx := graphql.StartOperationTrace(context.Background())
	op, errs := e.CreateOperationContext(ctx, &graphql.RawParams{Query: query})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	field := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Subscription"})[0]
	quick, _ := newRenderer[model.RunUpdate](ctx, sharer{exec: e, compiler: compiler}, op, field)
	if _, ok := quick.(*compiledRenderer[model.RunUpdate]); !ok {
		t.Fatalf("%s is not compiled", query)
	}
	slow := startExecution[model.RunUpdate](ctx, e, op)
	t.Cleanup(quick.close)
	t.Cleanup(slow.close)
	return quick, slow
}

// gqlgen renders a value with a null that the schema does not allow, or with a number that JSON cannot express. The
// compiled selection renders the next value again.
func TestRender_GqlgenRendersInvalidValues(t *testing.T) {
	t.Parallel()
	quick, slow := renderersOf(
		t, `subscription { runUpdates(runId: "r1") { runSeq snapshot { plan { planId } artifacts { sizeBytes } } } }`)
	good := &model.RunUpdate{RunSeq: 7, Snapshot: &model.Run{Plan: &model.PlanRef{PlanID: "p"}}}
	for name, u := range map[string]*model.RunUpdate{
		"good": good, "no plan": {Snapshot: &model.Run{}}, "nothing": {}, "null": nil,
		"infinite": {Snapshot: &model.Run{Plan: good.Snapshot.Plan,
			Artifacts: []model.Artifact{{SizeBytes: new(math.Inf(1))}}}},
	} {
		for _, u := range []*model.RunUpdate{u, good} {
			got, err := quick.render(nil, u)
			want, wantErr := slow.render(nil, u)
			if string(got) != string(want) || (err == nil) != (wantErr == nil) {
				t.Errorf("%s: rendered %s, %v; want as gqlgen %s, %v", name, got, err, want, wantErr)
			}
		}
	}
}

// Fields with a resolver or with arguments, and @defer, are not compiled.
func TestCompile_RejectsUnsupportedSelections(t *testing.T) {
	t.Parallel()
	e, compiler := newExecutor(nil, quietConfig(), newOperationLimit(20, 1_000_000))
	for query, known := range map[string]bool{
		`{ run(runId: "r") { runId steps { stepId wait { kind } } artifacts { uri } } }`: true,
		`{ run(runId: "r") { ... on Node { id } ...F } } fragment F on Node { id }`:      true,
		`{ run(runId: "r") { actions { action } } }`:                                     false,
		`{ run(runId: "r") { steps { actions { action } } } }`:                           false,
		`{ run(runId: "r") { step(stepId: "s") { stepId } } }`:                           false,
		`{ run(runId: "r") { signals { pageInfo { hasNextPage } } } }`:                   false,
		`{ run(runId: "r") { runId ... @defer { runSeq } } }`:                            false,
	} {
		op, errs := e.CreateOperationContext(graphql.StartOperationTrace(context.Background()),
			&graphql.RawParams{Query: query})
		if len(errs) > 0 {
			t.Fatalf("%s: %v", query, errs)
		}
		field := graphql.CollectFields(op, op.Operation.SelectionSet, []string{"Query"})[0]
		_, err := compiler.Compile(op, field, compiledType("run"), map[string]selection.Hook{"Run.steps": appendEachStep})
		if (err == nil) != known || err != nil && !errors.Is(err, selection.ErrUnknown) {
			t.Errorf("compiling %s returned %v, want compiled %t or ErrUnknown", query, err, known)
		}
	}
}

// AppendTime must write the same bytes as time.Time.Format, which is slower.
func FuzzAppendTime(f *testing.F) {
	for _, t := range []time.Time{{}, time.Unix(0, 1e6), time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC),
		time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		f.Add(t.Unix(), int64(t.Nanosecond()))
	}
	f.Fuzz(func(t *testing.T, s, ns int64) {
		at := time.Unix(s%400e9, ns).In(time.FixedZone("", 3600))
		layout := "2006-01-02T15:04:05.000Z"
		if at.Nanosecond()%1e6 != 0 {
			layout = time.RFC3339Nano
		}
		if got, want := string(model.AppendTime(nil, at)), `"`+at.UTC().Format(layout)+`"`; got != want {
			t.Errorf("AppendTime wrote %s, want %s", got, want)
		}
	})
}
