package tracer_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/run/trace"
)

// Events have the time of the store. An exporter whose own clock is wrong must neither skip runs that end from now on
// nor say that spans wait for an hour.
func TestExporter_AWrongClockLosesNothing(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run("the server is an hour "+name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureAt(t, func() time.Time { return time.Now().Add(-ahead) })
			f.startRun("before", done()...)
			f.sink.answer = func(spans []trace.Span) error {
				if len(spans) > 0 {
					return errors.New("busy")
				}
				return nil
			}
			stop := f.export("a", 1)
			defer stop()
			f.startRun("after", done()...)
			lag := func() float64 {
				families, err := f.reg.Gather()
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range families {
					if m.GetName() == "dvt_trace_lag_seconds" {
						return m.GetMetric()[0].GetGauge().GetValue()
					}
				}
				return 0
			}
			f.await("the metric of what waits", func() bool { return lag() > 0 })
			if age := lag(); age > 60 {
				t.Errorf("the metric says that spans wait for %.0f s, want some seconds", age)
			}
			f.sink.mu.Lock()
			f.sink.answer = nil
			f.sink.mu.Unlock()
			f.await("the root of the run", func() bool { return f.sink.has(trace.RootSpan("after")) })
			if f.sink.has(trace.RootSpan("before")) {
				t.Error("a run that ended before anybody asked for traces was exported")
			}
		})
	}
}
