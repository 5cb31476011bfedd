package graph_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// shared returns the Shared of a subscription, or nil when it is not shared.
func (a *api) shared(query string, variables map[string]any) *ws.Shared {
	a.t.Helper()
	ctx := graph.WithPrincipal(a.t.Context(), officeViewer())
	op, errs := a.Parse(ctx, query, variables)
	if len(errs) > 0 {
		a.t.Fatal(errs)
	}
	s, err := a.Share(ctx, op)
	if err != nil {
		a.t.Fatal(err)
	}
	return s
}

// open opens the group of a subscription.
func (a *api) open(query string) ws.Source {
	a.t.Helper()
	source, err := a.shared(query, nil).Open(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(source.Close)
	return source
}

// next waits for the next frame of a group and returns its payload.
func next(t *testing.T, s ws.Source) ws.Payload {
	t.Helper()
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, at, err := s.Next(nil)
	if err != nil {
		t.Fatal(err)
	}
	return ws.Payload{Data: data, At: at}
}

// Viewers have the same key if their payloads are the same bytes.
func TestShare_TheKeyCoversAllThatThePayloadDependsOn(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
	const doc = `subscription S($r: String!, $a: Seq, $e: String, $m: UpdateMode! = SNAPSHOT, $x: Boolean!, $s: String!) {
		runUpdates(runId: $r, after: $a, storeEpoch: $e, mode: $m) { runSeq @include(if: $x) snapshot { ...F step(stepId: $s) { stepId } } } }
		fragment F on Run { status }`
	type V = map[string]any
	with := func(change V) V {
		v := V{"r": "r1", "x": true, "s": "build"}
		for k, value := range change {
			v[k] = value
		}
		return v
	}
	key := func(v V) string { return a.shared(doc, v).Key }
	base := key(with(nil))
	for name, test := range map[string]struct {
		vars V
		same bool
	}{
		"another position":   {V{"a": json.Number("3"), "e": "e1"}, true},
		"the mode by name":   {V{"m": "SNAPSHOT"}, true},
		"another mode":       {V{"m": "DELTA"}, false},
		"another run":        {V{"r": "r2"}, false},
		"another condition":  {V{"x": false}, false},
		"another selection":  {V{"s": "test"}, false},
		"an epoch elsewhere": {V{"s": "e1", "e": "build"}, false},
	} {
		if got := key(with(test.vars)); (got == base) != test.same {
			t.Errorf("%s: same key %v, want %v", name, got == base, test.same)
		}
	}
	if other := a.shared(strings.Replace(doc, "status", "statusRaw", 1), with(nil)).Key; other == base {
		t.Error("another document has the same key")
	}
	if s := a.shared(doc, with(V{"a": json.Number("3"), "e": "e1"})); s.Since == nil ||
		*s.Since != (ws.Position{Epoch: "e1", Seq: 3}) {
		t.Errorf("Since is %v, want e1 at 3", s.Since)
	}
	for _, alone := range []string{
		`subscription { runEvents(runId: "r1") { headSeq } }`, `{ health { status } }`,
		`subscription { runUpdates(runId: "r1", after: -1) { runSeq } }`,
	} {
		if a.shared(alone, nil) != nil {
			t.Errorf("%s is shared, want unshared", alone)
		}
	}
	if strings.Contains(a.logs.String(), "request failed") {
		t.Errorf("reading arguments logged %s, want nothing", a.logs)
	}
}

func frameAt(seq, from run.Seq, change ...func(*live.Frame)) live.Frame {
	v := failedRun()
	v.State.Seq = seq
	f := live.Frame{
		Sync: live.Live, State: v.State, From: from, Changed: seq > from, HeadSeq: seq, Epoch: "e1", OpsRev: 3, AsOf: instant,
		CommittedAt: instant,
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

const seen = `runSeq reset sync reason committedAt snapshot { runSeq steps { stepId } } delta { fromSeq toSeq steps { stepId } }`

// The test covers viewers who join, resume, follow and miss frames.
// contract: T31, T187
func TestGroup_EachMemberReachesTheCurrentPosition(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	f.openRun = func() (graph.Stream[live.Frame], error) {
		return stream(nil, frameAt(7, 0), frameAt(7, 7), frameAt(8, 6),
			frameAt(3, 0, func(f *live.Frame) { f.Reset, f.Epoch, f.Sync = true, "e2", live.Resyncing }))
	}
	a := serve(t, f)
	const committed = `"committedAt":"2026-11-21T03:12:07.123Z",`
	whole := func(n, flags string) string {
		return `{"data":{"runUpdates":{"runSeq":` + n + `,` + flags + committed + `"snapshot":{"runSeq":` + n +
			`,"steps":[{"stepId":"compile"},{"stepId":"build"},{"stepId":"test"},{"stepId":"ship"}]},"delta":null}}}`
	}
	delta := func(n, flags, from, steps string) string {
		return `{"data":{"runUpdates":{"runSeq":` + n + `,` + flags + committed + `"snapshot":null,"delta":{"fromSeq":` +
			from + `,"toSeq":` + n + `,"steps":[` + steps + `]}}}}`
	}
	nothing := func(n, flags string) string {
		return `{"data":{"runUpdates":{"runSeq":` + n + `,` + flags + committed + `"snapshot":null,"delta":null}}}`
	}
	const calm, slow, build = `"reset":false,"sync":"LIVE","reason":null,`,
		`"reset":false,"sync":"LIVE","reason":"SLOW_CONSUMER",`, `{"stepId":"build"}`
	for mode, want := range map[string][]string{
		"SNAPSHOT": {
			whole("7", calm), whole("7", calm), whole("7", calm), whole("7", slow),
			nothing("7", calm), whole("8", calm), whole("3", `"reset":true,"sync":"RESYNCING","reason":null,`),
			whole("3", `"reset":false,"sync":"RESYNCING","reason":null,`),
		},
		"DELTA": {
			whole("7", calm), delta("7", calm, "6", build), delta("7", calm, "7", ""), delta("7", slow, "6", build),
			nothing("7", calm), delta("8", calm, "6", build), whole("3", `"reset":true,"sync":"RESYNCING","reason":null,`),
			whole("3", `"reset":false,"sync":"RESYNCING","reason":null,`),
		},
	} {
		g := a.open(`subscription { runUpdates(runId: "r1", mode: ` + mode + `) { ` + seen + ` } }`)
		var got []string
		first := func(since *ws.Position, slow bool) {
			p, err := g.First(since, slow)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(p.Data))
		}
		first(nil, false)
		first(&ws.Position{Epoch: "e1", Seq: 6}, false)
		first(&ws.Position{Seq: 7}, false)
		first(&ws.Position{Epoch: "e1", Seq: 6}, true)
		for range 3 {
			got = append(got, string(next(t, g).Data))
		}
		first(nil, true) // a stream that is not LIVE does not report SLOW_CONSUMER
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", mode, diff)
		}
		for _, since := range []ws.Position{{Epoch: "e1", Seq: 1}, {Epoch: "e2", Seq: 4}, {Seq: 4}} {
			if _, err := g.First(&since, false); !errors.Is(err, ws.ErrAlone) {
				t.Errorf("%s from %v: %v, want ErrAlone", mode, since, err)
			}
		}
	}
}

func TestGroup_JoinersAtOnePositionAreRenderedOnce(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	f.openRun = func() (graph.Stream[live.Frame], error) { return stream(nil, frameAt(7, 0), frameAt(8, 7)) }
	g := serve(t, f).open(`subscription { runUpdates(runId: "r1", mode: DELTA) { ` + seen + ` } }`)
	first := func(since *ws.Position) *byte {
		p, err := g.First(since, false)
		if err != nil {
			t.Fatal(err)
		}
		return &p.Data[0]
	}
	six := &ws.Position{Epoch: "e1", Seq: 6}
	whole := first(nil)
	if first(six) != first(&ws.Position{Epoch: "e1", Seq: 6}) || first(nil) != whole || first(six) == whole {
		t.Error("two viewers joined at one position and got different buffers, want one rendering")
	}
	for seq := range int64(100) { // more positions than the cache holds
		first(&ws.Position{Epoch: "e1", Seq: seq % 8})
	}
	before := first(nil)
	next(t, g)
	if first(nil) == before {
		t.Error("a viewer who joined after a frame got the payload from before it")
	}
}

func TestGroup_EndsWithItsStream(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	f := newAnsweringFake()
	f.openRun = func() (graph.Stream[live.Frame], error) {
		return &frames[live.Frame]{list: []live.Frame{frameAt(7, 0)}, err: errNotFound, closed: closed}, nil
	}
	a := serve(t, f)
	s, err := a.shared(`subscription { runUpdates(runId: "r1") { runSeq } }`, nil).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context()); !errors.Is(err, errNotFound) {
		t.Errorf("Wait returned %v, want NOT_FOUND", err)
	}
	s.Close()
	<-closed
	f.openRun = func() (graph.Stream[live.Frame], error) { return nil, errNotFound }
	if _, err := a.shared(`subscription { runUpdates(runId: "r1") { runSeq } }`, nil).Open(t.Context()); !errors.Is(err,
		errNotFound) {
		t.Errorf("Open returned %v, want NOT_FOUND", err)
	}
}

// A viewer who joins gets the whole page, newest run first. The others get the changes.
func TestGroup_JoinersOfAListGetTheWholePage(t *testing.T) {
	t.Parallel()
	row := func(id string, seq run.Seq) control.RunView {
		v := failedRun()
		v.State.RunID, v.State.Seq, v.State.Steps = id, seq, nil
		v.State.CreatedAt = instant.Add(map[string]time.Duration{"a": time.Second, "b": 2 * time.Second,
			"c": 2 * time.Second,
			"d": 3 * time.Second}[id])
		return v
	}
	f := newAnsweringFake()
	f.openRuns = func() (graph.Stream[watch.RunsFrame], error) {
		return stream(nil,
			watch.RunsFrame{Sync: live.Stale, Reason: live.StoreDown, AsOf: instant},
			watch.RunsFrame{Sync: live.Live, AsOf: instant, Reset: true, Runs: []control.RunView{row("c", 1), row("b", 1),
				row("a", 1)}},
			watch.RunsFrame{Sync: live.Live, AsOf: instant, Runs: []control.RunView{row("d", 1), row("b", 2)},
				Removed: []string{"a"}},
		)
	}
	g := serve(t, f).open(`subscription { runListUpdates { sync reason reset runs { runId runSeq } removed } }`)
	first := func(slow bool) string {
		p, err := g.First(nil, slow)
		if err != nil {
			t.Fatal(err)
		}
		return string(p.Data)
	}
	got := []string{first(false)}
	for range 2 {
		got = append(got, string(next(t, g).Data), first(true))
	}
	frame := func(rest string) string { return `{"data":{"runListUpdates":{` + rest + `}}}` }
	want := []string{
		frame(`"sync":"STALE","reason":"STORE_DOWN","reset":false,"runs":[],"removed":[]`),
		frame(`"sync":"LIVE","reason":null,"reset":true,"runs":[{"runId":"c","runSeq":1},{"runId":"b","runSeq":1},{"runId":"a","runSeq":1}],"removed":[]`),
		frame(`"sync":"LIVE","reason":"SLOW_CONSUMER","reset":true,"runs":[{"runId":"c","runSeq":1},{"runId":"b","runSeq":1},{"runId":"a","runSeq":1}],"removed":[]`),
		frame(`"sync":"LIVE","reason":null,"reset":false,"runs":[{"runId":"d","runSeq":1},{"runId":"b","runSeq":2}],"removed":["a"]`),
		frame(`"sync":"LIVE","reason":"SLOW_CONSUMER","reset":true,"runs":[{"runId":"d","runSeq":1},{"runId":"c","runSeq":1},{"runId":"b","runSeq":2}],"removed":[]`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The cache of the bytes of steps must not serve waits, which depend on other steps and on the run.
func TestGroup_WaitsFollowTheRun(t *testing.T) {
	t.Parallel()
	first := frameAt(7, 0, func(f *live.Frame) { f.State.RetryDeadline = nil })
	paused := first
	paused.From, paused.State.Seq, paused.State.Steps = 7, 8, append([]*run.Step(nil), first.State.Steps...)
	built := *first.State.Steps[1]
	built.Status, built.ChangedSeq = run.StepSuccess, 8
	paused.State.Steps[1] = &built
	paused.State.Pause = &run.PauseInfo{RequestedBy: "eva"}
	f := newAnsweringFake()
	f.openRun = func() (graph.Stream[live.Frame], error) { return stream(nil, first, paused) }
	g := serve(t, f).open(
		`subscription { runUpdates(runId: "r1") { snapshot { steps { stepId wait { kind blockingSteps who } } } } }`)
	p, err := g.First(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	frame := func(build, test string) string {
		return `{"data":{"runUpdates":{"snapshot":{"steps":[{"stepId":"compile","wait":null},{"stepId":"build","wait":` +
			build + `},{"stepId":"test","wait":` + test +
			`},{"stepId":"ship","wait":{"kind":` + map[bool]string{true: `"FAILED_STEP","blockingSteps":["build"]`,
			false: `"DEPENDENCIES","blockingSteps":["test"]`}[strings.Contains(test, "FAILED")] + `,"who":null}}]}}}}`
	}
	got := []string{string(p.Data), string(next(t, g).Data)}
	want := []string{frame(`null`, `{"kind":"FAILED_STEP","blockingSteps":["build"],"who":null}`),
		frame(`null`, `{"kind":"PAUSED","blockingSteps":[],"who":"eva"}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
