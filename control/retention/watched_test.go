package retention_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// Somebody watches a run that the retention works on. When its events move into the archive the stream goes on with the
// same state; when the archive is deleted too, the stream ends with ErrNotFound, so that no page shows a run that is
// gone.
// contract: T180
func TestPass_AViewerOfARunIsToldThatItIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	oldRun(t, w, "watched")
	const heads = 100 * time.Millisecond
	hub := live.New(archive.Reading(w.Raw, w.Artifacts), w.Bus, live.Config{HeadInterval: heads, KeepAlive: heads,
		ReadTimeout: time.Minute})
	w.Spawn(hub.Run)
	s := controltest.Must[*live.Stream](t)(hub.Watch(t.Context(), "watched", nil, ""))
	t.Cleanup(s.Close)
	first := controltest.Must[live.Frame](t)(s.Next(t.Context()))
	pass := func(days retention.RunDays) {
		t.Helper()
		worker := retention.NewWorker(retention.WorkerConfig{Store: w.Raw, Archive: archive.Archive{Store: w.Raw,
			Objects: w.Artifacts}, Bucket: w.Artifacts, Owner: "a", Now: w.Clock.Now, Metrics: prometheus.NewRegistry(),
			Installed: retention.Installation{RunsPerMinute: 1_000_000, Share: 1, Document: retention.Document{Runs: days}}})
		if err := worker.PassNow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pass(retention.RunDays{ArchiveAfterDays: days(3)})
	if events, _ := w.Raw.Events(t.Context(), "watched", 0, 10); len(events) != 0 {
		t.Errorf("the store still has %d events of the run, want none", len(events))
	}
	for end := time.Now().Add(10 * heads); time.Now().Before(end); {
		f, err := s.Next(t.Context())
		if err != nil {
			t.Fatalf("the stream of a run that was archived ended: %v", err)
		}
		if f.State.Seq != first.State.Seq || f.State.Status != first.State.Status {
			t.Errorf("the archived run is shown %s at %d, want %s at %d", f.State.Status, f.State.Seq, first.State.Status,
				first.State.Seq)
		}
	}
	pass(retention.RunDays{ArchiveAfterDays: days(3), DeleteArchiveAfterDays: days(4)})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		if _, err := s.Next(ctx); err != nil {
			if !errors.Is(err, live.ErrNotFound) {
				t.Errorf("the stream of a run that was deleted ended with %v, want ErrNotFound", err)
			}
			return
		}
	}
}
