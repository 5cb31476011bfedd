package retention_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
	"github.com/dvt-engine/dvt/storeadmin/archive"
)

// unsure is a store that commits a mark and loses the answer, as a connection that breaks after the commit.
type unsure struct{ store.Store }

func (s unsure) MarkArchived(ctx context.Context, a store.ArchivedRun) error {
	return errors.Join(s.Store.MarkArchived(ctx, a), errors.New("the connection was lost"))
}

// onePass makes a pass on a store and a bucket, and returns what the store keeps of it.
func onePass(t *testing.T, s store.Store, bucket *artifact.Store, runs retention.RunDays) retention.Pass {
	t.Helper()
	w := retention.NewWorker(retention.WorkerConfig{Store: s, Archive: archive.Archive{Store: s, Objects: bucket},
		Bucket: bucket, Owner: "a", Metrics: prometheus.NewRegistry(), Installed: retention.Installation{
			RunsPerMinute: 1_000_000, Share: 1, Document: retention.Document{Runs: runs}}})
	if err := w.PassNow(t.Context()); err != nil {
		t.Fatal(err)
	}
	doc, err := s.RetentionPass(t.Context(), runtest.ID.TenantID)
	if err != nil {
		t.Fatal(err)
	}
	var out retention.Pass
	if err := json.Unmarshal(doc, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func archivedFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "bucket", "archive", "*", "*", "*", "*.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// threeRuns opens a store with three runs and a bucket in a directory, and returns the export of the store.
func threeRuns(t *testing.T, dir string) (*sqlite.Store, *artifact.Store, string) {
	t.Helper()
	s, bucket, err := openParts(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = s.Close(), bucket.Close() })
	importRandom(t, s, 3)
	return s, bucket, exported(t, s)
}

// contract: T180
func TestPass_KeepsTheArchiveWhenTheAnswerToTheMarkIsLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, bucket, before := threeRuns(t, dir)
	first := onePass(t, unsure{s}, bucket, retention.RunDays{ArchiveAfterDays: days(3)})
	if first.Failed == 0 {
		t.Errorf("the pass whose answers were lost failed 0 times, want each run")
	}
	onePass(t, s, bucket, retention.RunDays{ArchiveAfterDays: days(3)})
	if after := exported(t, archive.Reading(s, bucket)); after != before {
		t.Error("the export after a lost answer differs from the one before: events were lost")
	}
	// Copies without a mark end with their runs.
	onePass(t, s, bucket, retention.RunDays{ArchiveAfterDays: days(3), DeleteArchiveAfterDays: days(4)})
	if left := archivedFiles(t, dir); len(left) > 0 {
		t.Errorf("after the deletion of all runs the archive has %q, want nothing", left)
	}
}

// contract: T180
func TestPass_DeletesNoEventsOfAnArchiveThatTheBucketLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, bucket, before := threeRuns(t, dir)
	a, err := archive.Write(t.Context(), s, bucket, "run-003")
	if err == nil {
		err = s.MarkArchived(t.Context(), a)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range archivedFiles(t, dir) {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	pass := onePass(t, s, bucket, retention.RunDays{ArchiveAfterDays: days(3)})
	if pass.Failed != 1 || pass.Events != 0 {
		t.Errorf("the pass failed %d times and deleted %d events, want one failure and no deletion", pass.Failed, pass.Events)
	}
	if !strings.HasPrefix(pass.Error, "run run-003: its archive is missing in the bucket") {
		t.Errorf("the pass says %q, want that the archive is missing", pass.Error)
	}
	if exported(t, s) != before {
		t.Error("the pass deleted events whose archive is gone")
	}
}

// contract: T180
func TestPass_DeletesNothingYoungWhenTheClockOfTheServerIsAhead(t *testing.T) {
	t.Parallel()
	m := sqliteMonth(t)
	m.day = monthDays - 1
	m.run()
	m.day = monthDays
	size := m.bucketSize()
	ahead := m.worker("a")
	m.day += 365
	m.ok(ahead.PassNow(m.Context()))
	if now := m.bucketSize(); now != size {
		t.Errorf("a pass on a server whose clock is a year ahead left %d of %d bytes in the bucket, want all", now, size)
	}
	m.day -= 365 // the clock is right again
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.worker("b").Run(ctx) }()
	waitForPass(t, m)
	cancel()
	m.ok(<-ended)
}

// waitForPass waits until a pass ended after a pass of a clock that was ahead.
func waitForPass(t *testing.T, m *month) {
	t.Helper()
	for deadline := time.Now().Add(testtime.Of(10 * time.Second)); ; time.Sleep(20 * time.Millisecond) {
		doc, err := m.store.RetentionPass(m.Context(), runtest.ID.TenantID)
		var out retention.Pass
		if err == nil && json.Unmarshal(doc, &out) == nil && out.EndedAt != nil &&
			out.EndedAt.Before(m.now().AddDate(0, 0, 1)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no pass began after the clock was corrected")
		}
	}
}

// closedBucket does not answer. Its errors name the address with the signature of its access.
type closedBucket struct{ artifact.Remover }

func (closedBucket) Remove(context.Context, artifact.Scope, int) (artifact.Removed, error) {
	return artifact.Removed{}, errors.New("get https://bucket.internal/c?sig=secret-signature: connection refused")
}

func TestPass_TellsATenantNoAddress(t *testing.T) {
	t.Parallel()
	m := sqliteMonth(t)
	m.run()
	m.day = monthDays
	w := retention.NewWorker(retention.WorkerConfig{Store: m.store, Archive: archive.Archive{Store: m.store,
		Objects: m.bucket}, Bucket: closedBucket{m.bucket}, Owner: "a", Metrics: prometheus.NewRegistry(),
		Installed: retention.Installation{RunsPerMinute: 1_000_000, Share: 1,
			Document: retention.Document{StepLogs: days(1)}}})
	m.ok(w.PassNow(m.Context()))
	doc, err := m.store.RetentionPass(m.Context(), runtest.ID.TenantID)
	m.ok(err)
	if text := string(doc); !strings.Contains(text, `"failed":1`) || strings.Contains(text, "bucket.internal") ||
		strings.Contains(text, "signature") {
		t.Errorf("the pass is %s, want one failure without the address of the bucket", text)
	}
}
