package graph_test

import (
	"context"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/graph/limit"

	"github.com/99designs/gqlgen/graphql"
	"pgregory.net/rapid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// parse creates an operation as the transports do.
func parse(t interface {
	Fatalf(format string, args ...any)
}, h *graph.Handler, query string, given bool) (context.Context, *graphql.OperationContext) {
	ctx := graph.WithPrincipal(context.Background(), officeViewer())
	op, errs := h.Parse(ctx, query, map[string]any{"given": given})
	if len(errs) > 0 {
		t.Fatalf("%v in\n%s", errs, query)
	}
	return ctx, op
}

// gqlgenResponses returns the responses that gqlgen renders without compiled selections.
func gqlgenResponses(h *graph.Handler, ctx context.Context, op *graphql.OperationContext) []string {
	op.ResolverMiddleware = func(ctx context.Context, next graphql.Resolver) (any, error) { return next(ctx) }
	return responses(h, ctx, op)
}

func responses(h *graph.Handler, ctx context.Context, op *graphql.OperationContext) (out []string) {
	next, ctx := h.Dispatch(ctx, op)
	for r := next(ctx); r != nil; r = next(ctx) {
		out = append(out, string(ws.AppendResponse(nil, r)))
		if op.Operation.Operation != "subscription" {
			break
		}
	}
	return out
}

var quietLimits = limit.Limits{Aliases: 1 << 20, Fields: 1 << 20, Complexity: 1 << 30, Depth: 100, Tokens: 1 << 20}

func handlerOf(f *fake) *graph.Handler {
	return graph.NewHandler(f, graph.Config{Limits: quietLimits})
}

// compiledStream compares each frame of a compiled stream with gqlgen's, for a generated selection and run.
func compiledStream(t *rapid.T) {
	d := newDraws(t, notInStreams()...)
	if !d.yes(10) { // Run.step has a resolver, so gqlgen renders groups that select it
		d.without["Run.step"] = true
	}
	list, mode := d.frames(), pick(d, "SNAPSHOT", "DELTA")
	query := d.document(`subscription S(` + conditions + `) { ` + pick(d, "", "top: ") +
		`runUpdates(runId: "r1", mode: ` +
		mode + `) ` + "{" + conditioned + d.selection("RunUpdate", 5)[1:] + ` }`)
	f := &fake{
		watchRun: func(watch.WatchRun) (graph.Stream[live.Frame], error) {
			return stream[live.Frame](errNotFound, list...)
		},
		openRun: func() (graph.Stream[live.Frame], error) { return stream[live.Frame](errNotFound, list...) },
	}
	h, given := handlerOf(f), d.yes(2)
	ctx, op := parse(t, h, query, given)
	want := gqlgenResponses(h, ctx, op)

	ctx, op = parse(t, h, query, given)
	if err := h.Compiles(op); err != nil && !strings.Contains(query, "step(") {
		t.Fatalf("%v: not compiled:\n%s", err, query)
	}
	shared, err := h.Share(ctx, op)
	if err != nil {
		t.Fatal(err)
	}
	compareFrames(t, d, shared, query, want)
}

// compareFrames opens a group and compares its payloads with want.
func compareFrames(t *rapid.T, d *draws, shared *ws.Shared, query string, want []string) {
	ctx := t.Context()
	source, err := shared.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	const room = "room"
	b := []byte(room)
	for i := range want {
		var p ws.Payload
		var err error
		if i == 0 {
			p, err = source.First(nil, false)
			b = append(b, p.Data...)
		} else if err = source.Wait(ctx); err == nil {
			b, _, err = source.Next(b)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := string(b); got != room+want[i] {
			t.Fatalf("frame %d of\n%s\ngot  %s\nwant %s", i, query, got, want[i])
		}
		clear(b[len(room):]) // fails if the source keeps b
		b = b[:len(room)]
		if i > 0 && d.yes(3) { // a joining viewer must not change the next frame
			if _, err := source.First(nil, false); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// compiledRows compares each frame of a compiled stream of a list with gqlgen's.
func compiledRows(t *rapid.T) {
	d := newDraws(t, notInStreams("Run.steps", "Run.step")...)
	list := d.rows()
	query := d.document(`subscription S(` + conditions + `) { runListUpdates {` + conditioned +
		d.selection("RunListUpdate", 5)[1:] + ` }`)
	f := &fake{watchRuns: func(control.RunsQuery) (graph.Stream[watch.RunsFrame], error) {
		return stream[watch.RunsFrame](errNotFound, list...)
	}}
	h := handlerOf(f)
	ctx, op := parse(t, h, query, true)
	want := gqlgenResponses(h, ctx, op)
	ctx, op = parse(t, h, query, true)
	if err := h.Compiles(op); err != nil {
		t.Fatal(err)
	}
	shared, err := h.Share(ctx, op)
	if err != nil {
		t.Fatal(err)
	}
	source, err := shared.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for i := range want[1:] {
		if err := source.Wait(ctx); err != nil {
			t.Fatal(err)
		}
		if data, _, err := source.Next(nil); err != nil || string(data) != want[i+1] {
			t.Fatalf("frame %d of\n%s\ngot  %s, %v\nwant %s", i+1, query, data, err, want[i+1])
		}
	}
}

// Most viewers of an installation watch the streams of the UI, so they must not fall back on gqlgen's slower rendering.
func TestCompiled_StreamsOfTheUIAreCompiled(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../web/src/api/operations.graphql")
	if err != nil {
		t.Fatal(err)
	}
	h := handlerOf(&fake{})
	for name, variables := range map[string]map[string]any{
		"RunUpdates": {"runId": "r1"}, "RunList": {"first": 50},
	} {
		op, errs := h.ParseNamed(graph.WithPrincipal(t.Context(), officeViewer()), string(document), name, variables)
		if len(errs) > 0 {
			t.Fatalf("the operation %s of the UI is invalid: %v", name, errs)
		}
		if err := h.Compiles(op); err != nil {
			t.Errorf("the stream %s of the UI is not compiled: %v", name, err)
		}
	}
}

// compiledQuery compares compiled queries of a run and of a page with gqlgen's.
func compiledQuery(t *rapid.T) {
	d := newDraws(t)
	var views []control.RunView
	f := &fake{
		run: func(authz.Principal, string, *run.Seq) (control.RunView, error) {
			if len(views) == 0 {
				return control.RunView{}, errNotFound
			}
			return views[0], nil
		},
		events: func(string, reads.EventPage) (reads.EventsPage, error) {
			return reads.EventsPage{Events: []run.Event{event(1)}}, nil
		},
		receipts: func(string, string, int) (runs.ReceiptsPage, error) {
			return runs.ReceiptsPage{Receipts: []runs.SignalReceipt{receipt(run.Pause)}}, nil
		},
		stepLog: func(reads.StepLogQuery) (reads.StepLog, error) { return reads.StepLog{ErrorLine: 4}, nil },
	}
	if d.yes(2) { // without fields with resolvers
		d.leaveOut(costly("Run.actions", "Step.actions", "Run.step")...)
	}
	one := d.selection("Run", 4)
	d.leaveOut(costly("Run.step")...)
	page := d.page(true)
	if d.yes(2) {
		views = page.Runs
	}
	f.runs = func(q control.RunsQuery) (control.RunsPage, error) {
		if q.Filter.Steps {
			return page, nil
		}
		bare := page
		bare.Runs = nil
		for _, v := range page.Runs {
			v.State.Steps = nil
			bare.Runs = append(bare.Runs, v)
		}
		return bare, nil
	}
	query := d.document(`query Q(` + conditions + `) {` + conditioned + `run(runId: "r1") ` + one +
		` again: run(runId: "r1", at: 3) ` + d.selection("Run", 2) +
		` runs(first: 5) ` + d.selection("RunConnection", 5) + ` capabilities { name } }`)
	h, given := handlerOf(f), d.yes(2)
	ctx, op := parse(t, h, query, given)
	want := gqlgenResponses(h, ctx, op)
	for range 2 { // the second time with the cached plan
		ctx, op := parse(t, h, query, given)
		if got := responses(h, ctx, op); got[0] != want[0] {
			t.Fatalf("%s\ngot  %s\nwant %s", query, got[0], want[0])
		}
	}
}

func TestCompiled_StreamsHaveTheBytesOfGqlgen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, compiledStream)
}

func TestCompiled_ListStreamsHaveTheBytesOfGqlgen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, compiledRows)
}

func TestCompiled_QueriesHaveTheBytesOfGqlgen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, compiledQuery)
}

func FuzzCompiled(f *testing.F) {
	// The seed is not a file of testdata/fuzz: it is half a MiB that this loop makes, and a file of fewer bytes would be
	// skipped.
	var seed []byte
	for i := range uint64(1 << 16) { // enough bytes for all draws; rapid skips a shorter seed
		seed = binary.LittleEndian.AppendUint64(seed, i*0x9e3779b97f4a7c15)
	}
	f.Add(seed)
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		compiledStream(t)
		compiledRows(t)
		compiledQuery(t)
	}))
}
