package notifier_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// The clock of a server may differ from the store's by hours. What happened before a destination was there is decided
// by the store's clock alone, because it stamps events and alerts.
func TestNotifier_AWrongClockLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run("the server is an hour "+name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureAt(t, func() time.Time { return time.Now().Add(-ahead) },
				destination.Config{Name: "a", Kind: destination.Webhook})
			f.timing.RepeatAlerts = 30 * time.Minute
			f.startRun("before", "acme", 0)
			f.start(f.store, "p")
			f.startRun("after", "acme", 0)
			if _, err := f.store.RaiseAlert(t.Context(), store.Alert{Level: store.AlertHigh, Code: "RUN_STUCK",
				TenantID: "acme", Subject: "x"}); err != nil {
				t.Fatal(err)
			}
			f.waitFor("the alert", func() bool { return len(f.receivers["a"].typesOf(destination.Alerts)) > 0 })
			f.waitFor("the events of the new run", func() bool { return len(f.receivers["a"].seqsOf("after")) > 0 })
			time.Sleep(100 * time.Millisecond)
			if seqs := f.receivers["a"].seqsOf("before"); len(seqs) > 0 {
				t.Errorf("events %v of a run from before the destination were sent, want none", seqs)
			}
			if got := f.receivers["a"].typesOf(destination.Alerts); !slices.Equal(got, []string{"AlertOpened"}) {
				t.Errorf("messages about the alert: %v, want one AlertOpened", got)
			}
		})
	}
}

// A destination that fails is told about after the time that the settings say, also when another process with another
// clock takes over.
func TestNotifier_AWrongClockTellsOfAFailureInTime(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run("the server is an hour "+name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureAt(t, func() time.Time { return time.Now().Add(-ahead) },
				destination.Config{Name: "a", Kind: destination.Webhook})
			f.registry = prometheus.NewRegistry()
			f.receivers["a"].answer = func(context.Context, destination.Message) error { return errors.New("no") }
			since := time.Now().Add(-ahead).UTC() // another process saw the first failure now, by the store's clock
			if err := f.store.ReportDestination(t.Context(), store.DestinationReport{Name: "a", Entry: []byte("{}"),
				FailingSince: &since}); err != nil {
				t.Fatal(err)
			}
			f.timing.FailingAfter = 2 * time.Second
			began := time.Now()
			f.start(f.store, "p")
			f.startRun("r", "acme", 0)
			f.waitFor("the alert about the destination", func() bool {
				open, err := f.store.ListOpenAlerts(t.Context(), []run.Code{run.CodeDestinationFailing}, 10)
				return err == nil && len(open) == 1
			})
			if took := time.Since(began); took < 1900*time.Millisecond {
				t.Errorf("the alert came after %s, want 2s", took)
			}
			families, err := f.registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range families {
				if m.GetName() != "dvt_destination_oldest_waiting_seconds" {
					continue
				}
				if age := m.GetMetric()[0].GetGauge().GetValue(); age <= 0 || age > 60 {
					t.Errorf("the oldest message waits for %.0f s, want some seconds", age)
				}
				return
			}
			t.Error("no metric tells how long the oldest message waits")
		})
	}
}
