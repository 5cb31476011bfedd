package run_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// wideLog returns the log of a run of n steps that have all started.
func wideLog(n int) []run.Event {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("s%05d", i)
	}
	drafts := []run.Draft{runtest.Start(ids...)}
	for _, id := range ids {
		drafts = append(drafts, stepStarted(id, 1))
	}
	return runtest.Log(drafts...)
}

// BenchmarkFold_OneEvent measures the fold of one event. The sub-benchmark floor measures the copy of the slice of
// steps, which is the minimum cost of a fold.
func BenchmarkFold_OneEvent(b *testing.B) {
	for _, n := range []int{10, 1000, 5000} {
		s := run.Project(runtest.ID, wideLog(n))
		next := []run.Event{runtest.Event(s.Seq+1, stepCompleted("s00007", 1))}
		b.Run(fmt.Sprintf("steps=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run.Fold(s, next)
			}
		})
		b.Run(fmt.Sprintf("floor=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = slices.Clone(s.Steps)
			}
		})
	}
}

// BenchmarkProject folds a whole log and reports the time per event.
func BenchmarkProject(b *testing.B) {
	evs := wideLog(5000)
	for b.Loop() {
		run.Project(runtest.ID, evs)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(evs)), "ns/event")
}
