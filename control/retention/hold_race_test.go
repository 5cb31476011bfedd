package retention_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// holdingBucket places a hold on a run while the first objects of the run are removed.
type holdingBucket struct {
	*artifact.Store
	runID string
	place func()
}

func (b *holdingBucket) Remove(ctx context.Context, scope artifact.Scope, limit int) (artifact.Removed, error) {
	if scope.RunID == b.runID && b.place != nil {
		b.place()
		b.place = nil
	}
	return b.Store.Remove(ctx, scope, limit)
}

// A legal hold that is placed while a pass deletes the run keeps what is left, above all its archive.
// contract: T180
func TestPass_AHoldThatComesDuringADeletionKeepsTheArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, bucket, _ := threeRuns(t, dir)
	onePass(t, s, bucket, retention.RunDays{ArchiveAfterDays: days(3)})
	holding := &holdingBucket{Store: bucket, runID: "run-003"}
	holding.place = func() {
		_, _, err := s.PlaceHold(t.Context(), store.Hold{ID: "h1", TenantID: runtest.ID.TenantID, Kind: store.HoldRun,
			Subject: holding.runID, Reason: "a case", PlacedBy: "ola"}, store.AuditRow{ID: uuid.NewString(),
			TenantID: runtest.ID.TenantID, Action: "PLACE_HOLD", Outcome: "ACCEPTED"})
		if err != nil {
			t.Error(err)
		}
	}
	w := retention.NewWorker(retention.WorkerConfig{Store: s, Archive: archive.Archive{Store: s, Objects: bucket},
		Bucket: holding, Owner: "a", Metrics: prometheus.NewRegistry(), Installed: retention.Installation{
			RunsPerMinute: 1_000_000, Share: 1, Document: retention.Document{Runs: retention.RunDays{ArchiveAfterDays: days(3),
				DeleteArchiveAfterDays: days(4)}}}})
	if err := w.PassNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := archivedFiles(t, dir)
	if len(left) != 1 || !slices.ContainsFunc(left, func(f string) bool { return strings.Contains(f, holding.runID) }) {
		t.Errorf("the archive has %q, want that of the run on hold alone", left)
	}
	events, err := archive.Reading(s, bucket).Events(t.Context(), holding.runID, 0, 10)
	if err != nil || len(events) == 0 {
		t.Errorf("the run on hold has %d events, error %v", len(events), err)
	}
}
