package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// largeState returns the state of a run of n steps, half of them SUCCESS and half RUNNING.
func largeState(n int) run.State {
	s := failedRun().State
	s.Seq, s.RootCause, s.RetryDeadline = 1000, nil, nil
	s.Counts = run.StepCounts{Total: n, Success: n / 2, Running: n - n/2}
	s.Steps = nil
	for i := range n {
		step := &run.Step{
			StepOutline: run.StepOutline{StepID: fmt.Sprintf("step-%04d", i), Type: "COMMAND", TaskQueue: "tq-data-dev"},
			Ord:         run.Ord(i), ChangedSeq: run.Seq(i % 900), Status: run.StepRunning, LogicalAttempt: 1,
			Attempts: []run.Attempt{{LogicalAttempt: 1, EngineAttempt: 1, Status: run.StepRunning, StartedSeq: 5,
				StartedAt: after(time.Second)}},
		}
		if i > 0 {
			step.DependsOn = []string{fmt.Sprintf("step-%04d", i-1)}
		}
		if i < n/2 {
			step.Status, step.Attempts[0].Status = run.StepSuccess, run.StepSuccess
			step.Attempts[0].CompletedAt, step.Attempts[0].DurationMS = after(3*time.Second), 2000
		}
		s.Steps = append(s.Steps, step)
	}
	return s
}

// frameLoop is an endless stream that repeats prepared frames. newFrameLoop lets each change some steps.
type frameLoop struct {
	frames []live.Frame
	at     int
}

func newFrameLoop(state run.State, changed int) *frameLoop {
	m := &frameLoop{}
	for range 32 {
		from := state.Seq
		state.Seq++
		state.Steps = append([]*run.Step(nil), state.Steps...)
		for i := range changed {
			i = (i + int(state.Seq)) % len(state.Steps)
			s := *state.Steps[i]
			s.ChangedSeq = state.Seq
			state.Steps[i] = &s
		}
		m.frames = append(m.frames, live.Frame{
			Sync: live.Live, State: state, From: from, Changed: true, HeadSeq: state.Seq, Epoch: "e1", AsOf: instant,
			CommittedAt: instant,
		})
	}
	return m
}

func (m *frameLoop) Next(context.Context) (live.Frame, error) {
	f := m.frames[m.at%len(m.frames)]
	m.at++
	return f, nil
}

func (m *frameLoop) Close() {}

// All benchmarks of the repository measure this selection: 7 fields of the run and 8 of each step.
const measured = `{ runSeq sync snapshot { ` + rowFields + ` steps { ` + stepFields + ` } } delta { toSeq header { ` +
	rowFields + ` } steps { ` + stepFields + ` } } }`

func benchStream(b *testing.B, mode string, steps, changed int, selection string) {
	f := &fake{openRun: func() (graph.Stream[live.Frame], error) { return newFrameLoop(largeState(steps), changed), nil }}
	h := handlerOf(f)
	ctx, op := parse(b, h, `subscription { runUpdates(runId: "r1", mode: `+mode+`) `+selection+` }`, true)
	s, err := h.Share(ctx, op)
	if err != nil {
		b.Fatal(err)
	}
	g, err := s.Open(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	b.ReportAllocs()
	var data []byte
	for b.Loop() {
		if err := g.Wait(ctx); err != nil {
			b.Fatal(err)
		}
		if data, _, err = g.Next(data[:0]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(data)), "bytes/frame")
}

func BenchmarkFrame_20Steps_AllChanged(b *testing.B) { benchStream(b, "SNAPSHOT", 20, 20, measured) }

func BenchmarkFrame_20Steps_OneChanged(b *testing.B) { benchStream(b, "SNAPSHOT", 20, 1, measured) }

func BenchmarkFrame_1000Steps_OneChanged(b *testing.B) { benchStream(b, "SNAPSHOT", 1000, 1, measured) }

func BenchmarkFrame_Delta10Steps_OneChanged(b *testing.B) { benchStream(b, "DELTA", 10, 1, measured) }

func BenchmarkFrame_Delta1000Steps_OneChanged(b *testing.B) {
	benchStream(b, "DELTA", 1000, 1, measured)
}

const withWait = `{ runSeq delta { header { rootCause { blockedSteps } } steps { stepId wait { kind } } } }`

func BenchmarkFrame_Delta10Steps_Wait(b *testing.B) { benchStream(b, "DELTA", 10, 1, withWait) }

func BenchmarkFrame_Delta1000Steps_Wait(b *testing.B) { benchStream(b, "DELTA", 1000, 1, withWait) }

// This is the baseline of 20Steps_AllChanged: an unshared execution that gqlgen renders.
func BenchmarkFrame_20Steps_Gqlgen(b *testing.B) {
	f := &fake{watchRun: func(watch.WatchRun) (graph.Stream[live.Frame], error) {
		return newFrameLoop(largeState(20), 20), nil
	}}
	h := handlerOf(f)
	ctx, op := parse(b, h, `subscription { runUpdates(runId: "r1") `+measured+` }`, true)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next, ctx := h.Dispatch(ctx, op)
	b.ReportAllocs()
	for b.Loop() {
		r := next(ctx)
		if r == nil || len(r.Errors) > 0 {
			b.Fatal(r)
		}
		b.SetBytes(int64(len(ws.AppendResponse(nil, r))))
	}
	cancel()
	for next(ctx) != nil { // wait until the goroutine of pump has ended
	}
}

const measuredList = `{ runs(first: 50) { edges { node { ` + rowFields + ` steps { ` + stepFields + ` } } } } }`

func listHandler() *graph.Handler {
	f := &fake{runs: func(control.RunsQuery) (control.RunsPage, error) {
		p := control.RunsPage{}
		for i := range 50 {
			v := control.RunView{State: largeState(20), Epoch: "e1"}
			v.State.RunID = fmt.Sprintf("run-%04d", i)
			p.Runs, p.Cursors = append(p.Runs, v), append(p.Cursors, "c")
		}
		return p, nil
	}}
	kept, _ := f.runs(control.RunsQuery{})
	f.runs = func(control.RunsQuery) (control.RunsPage, error) { return kept, nil }
	return handlerOf(f)
}

func benchList(b *testing.B, change func(*graphql.OperationContext)) {
	h := listHandler()
	b.ReportAllocs()
	for b.Loop() {
		ctx, op := parse(b, h, measuredList, true)
		change(op)
		next, ctx := h.Dispatch(ctx, op)
		b.SetBytes(int64(len(ws.AppendResponse(nil, next(ctx)))))
	}
}

func BenchmarkList_50x20_Compiled(b *testing.B) { benchList(b, func(*graphql.OperationContext) {}) }

func BenchmarkList_50x20_Gqlgen(b *testing.B) {
	benchList(b, func(op *graphql.OperationContext) {
		op.ResolverMiddleware = func(ctx context.Context, next graphql.Resolver) (any, error) { return next(ctx) }
	})
}

// This is the lower bound: encoding/json on prepared structs, with nearly the same bytes.
func BenchmarkList_50x20_EncodingJSON(b *testing.B) {
	type step struct {
		StepID           string     `json:"stepId"`
		Status           string     `json:"status"`
		StartedAt        *time.Time `json:"startedAt"`
		CompletedAt      *time.Time `json:"completedAt"`
		DurationMS       *float64   `json:"durationMs"`
		LogicalAttemptID int        `json:"logicalAttemptId"`
		ChangedSeq       int64      `json:"changedSeq"`
		DependsOn        []string   `json:"dependsOn"`
	}
	type row struct {
		RunID       string     `json:"runId"`
		Status      string     `json:"status"`
		RunSeq      int64      `json:"runSeq"`
		CreatedAt   time.Time  `json:"createdAt"`
		StartedAt   *time.Time `json:"startedAt"`
		CompletedAt *time.Time `json:"completedAt"`
		FailedSteps int        `json:"failedSteps"`
		Steps       []step     `json:"steps"`
	}
	type edge struct {
		Node row `json:"node"`
	}
	var answer struct {
		Data struct {
			Runs struct {
				Edges []edge `json:"edges"`
			} `json:"runs"`
		} `json:"data"`
	}
	h := listHandler()
	ctx, op := parse(b, h, measuredList, true)
	next, ctx := h.Dispatch(ctx, op)
	want := ws.AppendResponse(nil, next(ctx))
	if err := json.Unmarshal(want, &answer); err != nil {
		b.Fatal(err)
	}
	got, err := json.Marshal(answer)
	if err != nil || len(got) < len(want)*9/10 || len(got) > len(want)*11/10 {
		b.Fatalf("encoding/json wrote %d bytes (%v), want within 10 %% of %d", len(got), err, len(want))
	}
	b.ReportAllocs()
	for b.Loop() {
		got, _ := json.Marshal(answer)
		b.SetBytes(int64(len(got)))
	}
}
