package interp_test

import (
	"fmt"
	"testing"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// BenchmarkStep runs whole plans in layers of ten steps and reports the cost of one step. The cost must not depend on
// the size of the plan, so compare the two sizes.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{50, 5000} {
		b.Run(fmt.Sprintf("steps=%d", n), func(b *testing.B) {
			sk := layers(n)
			cfg := interp.Config{Identity: testIdentity, Policy: basePolicy}
			b.ReportAllocs()
			for b.Loop() {
				m := interp.New(sk, cfg)
				if got := runThrough(m, sk, interp.Init{At: epoch}); got != run.Completed {
					b.Fatalf("the run ended as %q, want COMPLETED", got)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/step")
		})
	}
}

// layers returns a plan of n steps in layers of ten. Each step depends on two steps of the layer before.
func layers(n int) plan.Skeleton {
	sk := plan.Skeleton{Steps: make([]plan.SkeletonStep, n)}
	for i := range sk.Steps {
		sk.Steps[i] = plan.SkeletonStep{StepID: fmt.Sprintf("s%05d", i), Type: plan.Noop}
		if above := i/10*10 - 10; above >= 0 {
			a, b := above+i%10, above+(i+1)%10
			sk.Steps[i].Deps = []int{min(a, b), max(a, b)}
		}
	}
	return sk
}

// runThrough answers every effect at once, each Execute with a success, and returns the status with which the run ends.
func runThrough(m *interp.Machine, sk plan.Skeleton, first interp.Input) run.Status {
	todo := []interp.Input{first}
	seq := run.Seq(0)
	for len(todo) > 0 {
		in := todo[0]
		todo = todo[1:]
		for _, e := range m.Step(in) {
			switch e := e.(type) {
			case interp.Append:
				r := interp.Recorded{At: epoch, Batch: e.Batch}
				for range e.Events {
					seq++
					r.Ends = append(r.Ends, interp.RecordedEvent{Seq: seq})
				}
				r.Head = seq
				todo = append(todo, r)
			case interp.Execute:
				id := sk.Steps[e.Ord].StepID
				t := engine.Tail{Seq: seq + 2, Head: store.Head{LastSeq: seq + 2}, Events: []engine.LogEvent{
					{Seq: seq + 1, Type: run.StepStartedEvent, StepID: id, LogicalAttempt: e.LogicalAttempt, EngineAttempt: 1,
						At: epoch},
					{Seq: seq + 2, Type: run.StepCompletedEvent, StepID: id, LogicalAttempt: e.LogicalAttempt, EngineAttempt: 1,
						At: epoch},
				}}
				seq += 2
				todo = append(todo, interp.Observed{At: epoch, Tail: t})
				todo = append(todo, interp.Returned{At: epoch, Return: engine.Return{StepID: id,
					LogicalAttempt: e.LogicalAttempt, N: e.N,
					EngineAttempt: 1, Kind: engine.ReturnEnded}})
			case interp.ReadLog:
				todo = append(todo, interp.Observed{At: epoch, Tail: engine.Tail{Seq: seq, Head: store.Head{LastSeq: seq}}})
			case interp.Finish:
				return e.Status
			}
		}
	}
	return ""
}
