package journal_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// slow is a store whose appends take time on the clock of a synctest bubble.
type slow struct {
	store.Store // any other call panics
	takes       time.Duration
	err         error
	out         store.Appended
}

func (s *slow) Append(ctx context.Context, _ store.Append) (store.Appended, error) {
	select {
	case <-time.After(s.takes):
		return s.out, s.err
	case <-ctx.Done():
		return store.Appended{}, fmt.Errorf("slow: %w", ctx.Err())
	}
}

func (s *slow) Get(ctx context.Context, _ string) (store.Run, error) {
	_, err := s.Append(ctx, store.Append{})
	return store.Run{}, err
}

func appendOf(t run.EventType) store.Append {
	return store.Append{RunID: "r", Events: []run.Draft{{Type: run.StepStartedEvent, StepID: "s"},
		{Type: t, StepID: "s"}}}
}

// The store stalls for 4 s. Only writes that complete or start a step are given up after the budget. An error of the
// store is an answer and not a stall.
// contract: T120
func TestAppend_OnlyStartsAndCompletionsHaveABudget(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		do         func(context.Context, *journal.Journal) error
		takes      time.Duration
		err        error
		unanswered bool
		took       time.Duration
		timeouts   float64
	}{
		"a stall within the budget": {appends(run.StepCompletedEvent), 2 * time.Second, nil, false,
			2 * time.Second, 0},
		"a completion": {appends(run.StepCompletedEvent), 4 * time.Second, nil, true,
			3 * time.Second, 1},
		"a failure waits": {appends(run.StepFailedEvent), 4 * time.Second, nil, false, 4 * time.Second,
			1},
		"a begin": {begins, 4 * time.Second, nil, true, 3 * time.Second, 1},
		"a store that is down has answered": {appends(run.StepCompletedEvent), time.Second, store.ErrUnavailable, false,
			time.Second, 0},
		"a full store has answered": {appends(run.StepCompletedEvent), time.Second,
			&store.OverloadedError{RetryAfter: time.Second}, false, time.Second, 0},
		"a refusal of the content has answered": {appends(run.StepCompletedEvent), time.Second, &run.SchemaError{}, false,
			time.Second, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				j := journal.New(journal.Config{Store: journal.On(&slow{takes: tt.takes, err: tt.err}), Metrics: registry})
				began := time.Now()
				err := tt.do(t.Context(), j)
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %s, want %s", took, tt.took)
				}
				if errors.Is(err, engine.ErrUnanswered) != tt.unanswered || tt.err != nil && !errors.Is(err, tt.err) {
					t.Errorf("the error is %v, want that of the case", err)
				}
				if got := controltest.MetricValues(t, registry); got["state_store_write_timeouts_total"] != tt.timeouts ||
					got["state_store_write_latency_ms"] != 1 {
					t.Errorf("the metrics are %v, want those of the case", got)
				}
			})
		})
	}
}

func appends(t run.EventType) func(context.Context, *journal.Journal) error {
	return func(ctx context.Context, j *journal.Journal) error {
		_, err := j.Append(ctx, appendOf(t))
		return err
	}
}

func begins(ctx context.Context, j *journal.Journal) error {
	_, err := j.StartAttempt(ctx, engine.StartAttempt{RunID: "r", StepID: "s", LogicalAttempt: 1})
	if errors.Is(err, store.ErrNotFound) {
		return nil // the fake store knows no run
	}
	return err
}

// A caller with a deadline of its own does not exceed the budget.
// contract: T120
func TestAppend_ACallersOwnDeadlineIsNotTheBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := journal.New(journal.Config{Store: journal.On(&slow{takes: time.Minute})})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := appends(run.StepCompletedEvent)(ctx, j); errors.Is(err, engine.ErrUnanswered) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// The gauge counts events whose confirmation is outstanding for longer than the budget.
// contract: R378
func TestMetrics_CountEventsThatWaitForConfirmation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		s := &slow{takes: time.Hour}
		j := journal.New(journal.Config{Store: journal.On(s), Metrics: registry})
		buffered := func(want float64, when string) {
			t.Helper()
			if got := controltest.MetricValues(t, registry)["state_store_buffered_events_total"]; got != want {
				t.Errorf("%s: %v events, want %v", when, got, want)
			}
		}
		_ = appends(run.StepCompletedEvent)(t.Context(), j)
		buffered(0, "as long as the budget")
		time.Sleep(time.Second)
		buffered(2, "between two tries")
		s.takes, s.err = 0, store.ErrUnavailable
		_ = appends(run.StepCompletedEvent)(t.Context(), j)
		buffered(2, "while the store is down")
		s.err = nil
		_ = appends(run.StepCompletedEvent)(t.Context(), j)
		buffered(0, "confirmed")
		s.takes = time.Hour
		_ = begins(t.Context(), j)
		time.Sleep(time.Second)
		buffered(1, "a begin")
		time.Sleep(2 * time.Minute)
		buffered(0, "carried on elsewhere")
	})
}

// More than ten timeouts in a minute raise the alert, at most once a minute.
// contract: B06
func TestMetrics_ElevenTimeoutsInAMinuteRaiseOneAlert(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		j := journal.New(journal.Config{
			Store: journal.On(&slow{takes: time.Hour}), WriteBudget: 2 * time.Second,
			Logger: slog.New(slog.NewTextHandler(&out, nil)),
		})
		alerts := func(tries int, pause time.Duration) (n int) {
			out.Reset()
			for range tries {
				_ = appends(run.StepCompletedEvent)(t.Context(), j)
				time.Sleep(pause)
			}
			return strings.Count(out.String(), "level=ERROR msg=alert alert=STATE_STORE_WRITE_TIMEOUTS")
		}
		if n := alerts(10, time.Second); n != 0 {
			t.Errorf("ten timeouts raised %d alerts, want none", n)
		}
		if n := alerts(1, 0); n != 1 {
			t.Errorf("the eleventh timeout raised %d alerts, want 1", n)
		}
		if n := alerts(40, 0); n != 1 {
			t.Errorf("80 s of timeouts raised %d alerts, want 1", n)
		}
		time.Sleep(2 * time.Minute)
		if n := alerts(30, 5*time.Second); n != 0 {
			t.Errorf("8 timeouts a minute raised %d alerts, want none", n)
		}
	})
}

// Events that are repeated with another payload are counted and logged.
// contract: T15, A04
func TestAppend_ARepetitionWithAnotherPayloadIsCounted(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	registry := prometheus.NewRegistry()
	j := journal.New(journal.Config{
		Store: journal.On(&slow{out: store.Appended{Outcomes: []store.EventOutcome{
			{Seq: 3, Deduplicated: true}, {Seq: 4, Deduplicated: true, PayloadMismatch: true},
		}}}), Metrics: registry, Logger: slog.New(slog.NewTextHandler(&out, nil)),
	})
	if err := appends(run.StepCompletedEvent)(t.Context(), j); err != nil {
		t.Fatal(err)
	}
	if got := controltest.MetricValues(t, registry)["append_payload_mismatch_total"]; got != 1 ||
		!strings.Contains(out.String(),
			"runSeq=4 eventType=StepCompleted stepId=s") {
		t.Errorf("%v mismatches are counted, want 1 and a log line; the log is %s", got, out.String())
	}
	want := []string{"append_payload_mismatch_total", "engine_event_clock_skew_seconds", "engine_signal_latency_seconds",
		"state_store_buffered_events", "state_store_buffered_events_total", "state_store_queue_depth",
		"state_store_write_duration_seconds", "state_store_write_latency_ms", "state_store_write_timeouts_total"}
	var names []string
	families, _ := registry.Gather()
	for _, f := range families {
		names = append(names, f.GetName())
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
}
