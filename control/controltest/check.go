package controltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// Must returns a function that returns a value, and ends the test when it comes with an error.
func Must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Refusal returns err as the *control.Error with the code that it must have.
func Refusal(t testing.TB, err error, code run.Code) *control.Error {
	t.Helper()
	var e *control.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error %v, want %s", err, code)
	}
	return e
}

// CodeOf returns the code of a refusal, "" of no error.
func CodeOf(err error) run.Code {
	if e := (*control.Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// ErrorOf returns the error of a call.
func ErrorOf[T any](_ T, err error) error { return err }

// Eventually polls until ok returns true, for at most a minute on an idle machine.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); {
		if time.Since(began) > testtime.Of(time.Minute) {
			t.Fatalf("this did not happen in time: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// OpenStream returns a stream that is closed at the end of the test.
func OpenStream[T any](t *testing.T) func(control.Stream[T], error) control.Stream[T] {
	return func(s control.Stream[T], err error) control.Stream[T] {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
}

// TakeFrame reads frames until want accepts one.
func TakeFrame[T any](t testing.TB, s control.Stream[T], what string, want func(T) bool) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testtime.Of(time.Minute))
	defer cancel()
	for {
		f, err := s.Next(ctx)
		if err != nil {
			t.Fatalf("the stream ended while the test waited for %s: %v", what, err)
		}
		if want(f) {
			return f
		}
	}
}

// RunIDs returns the runs of a frame in its order.
func RunIDs(f watch.RunsFrame) (out []string) {
	for _, r := range f.Runs {
		out = append(out, r.State.RunID)
	}
	return out
}

// LogLines returns log lines that are numbered from from to to.
func LogLines(from, to int) (out []artifact.Line) {
	for i := from; i <= to; i++ {
		out = append(out, artifact.Line{At: runtest.Epoch, Stream: "stdout", Text: fmt.Sprintf("line %d", i)})
	}
	return out
}

// ParseJSON parses a JSON document.
func ParseJSON(t *testing.T, doc string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(doc), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// MetricValues reads counters, gauges, and the counts of histograms.
func MetricValues(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		out[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue() +
			float64(m.GetHistogram().GetSampleCount())
	}
	return out
}
