package sqlite

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// cpu returns the CPU time of this process, which other load on the machine hardly affects.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAppend measures appends: by one caller, by 32 callers on 32 runs, and in batches of 16. Its results are
// ns/event and cpu-ns/event.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct {
		name             string
		appenders, batch int
	}{{"lone", 1, 1}, {"32appenders", 32, 1}, {"batch16", 1, 16}, {"32appendersBatch16", 32, 16}} {
		b.Run(c.name, func(b *testing.B) {
			s, err := Open(b.Context(), filepath.Join(b.TempDir(), "dvt.db"), Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			ids := make([]string, c.appenders)
			for i := range ids {
				id := runtest.ID
				id.RunID = fmt.Sprintf("run-%03d", i)
				ids[i] = id.RunID
				if _, _, err := s.CreateRun(b.Context(), store.NewRun{Run: store.Run{Identity: id}}); err != nil {
					b.Fatal(err)
				}
			}
			before, commits := cpu(b), s.writer.commits.Load()
			b.ResetTimer()
			b.ReportAllocs()
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			for _, id := range ids {
				wg.Go(func() {
					for step := 0; left.Add(-1) >= 0; step++ {
						events := make([]run.Draft, c.batch)
						for i := range events {
							events[i] = runtest.Draft(run.StepStartedEvent, fmt.Sprintf("s%d-%d", step, i), 1)
						}
						if _, err := s.Append(b.Context(), store.Append{RunID: id, Events: events}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N*c.batch), "cpu-ns/event")
			b.ReportMetric(float64(b.N)/float64(s.writer.commits.Load()-commits), "appends/commit")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.batch), "ns/event")
		})
	}
}
