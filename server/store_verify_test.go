package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/sqlite"
)

// One artifact of the run is as its step reported it, one has other bytes, one is missing, and one is missing because
// it was kept only for a day.
func TestStoreVerify_ReadsArtifactsFromTheBucket(t *testing.T) {
	dir := t.TempDir()
	dsn, objects := "sqlite:"+filepath.Join(dir, "dvt.db"), filepath.Join(dir, "bucket")
	must(t, os.Mkdir(objects, 0o700))
	bucket, err := artifact.Open(t.Context(), "file://"+objects)
	must(t, err)
	put := func(name, text string) run.ArtifactRef {
		uri, sum, size, err := bucket.Put(t.Context(), "acme/run-1/a/1/1/"+name, strings.NewReader(text))
		must(t, err)
		return run.ArtifactRef{URI: uri, Kind: "custom", SHA256: sum, SizeBytes: size}
	}
	whole, torn, lost, old := put("whole.txt", "rows"), put("torn.txt", "rows"), put("lost.txt", "rows"),
		put("old.txt", "rows")
	put("torn.txt", "cols")
	must(t, errors.Join(bucket.RemoveArtifact(t.Context(), lost.URI), bucket.RemoveArtifact(t.Context(), old.URI),
		bucket.Close()))
	old.ExpiresAt = new(time.Now().Add(-time.Hour))
	s, err := sqlite.Open(t.Context(), filepath.Join(dir, "dvt.db"), sqlite.Options{})
	must(t, err)
	done := runtest.Draft(run.StepCompletedEvent, "a", 1)
	done.Payload = runtest.JSON(map[string]any{"durationMs": 1, "artifactRefs": []run.ArtifactRef{whole, torn, lost, old}})
	id := runtest.ID
	id.RunID = "run-1"
	_, _, err = s.CreateRun(t.Context(), store.NewRun{
		Run: store.Run{Identity: id, RequestKey: run.Key(strings.Repeat("1", 64))},
		Events: []run.Draft{runtest.Draft(run.RunApproved, "", 1), runtest.Start("a"),
			runtest.Draft(run.StepStartedEvent, "a", 1), done}})
	must(t, errors.Join(err, s.Close()))

	settings := filepath.Join(dir, "dvt.yaml")
	must(t, os.WriteFile(settings, []byte("store: "+dsn+"\nartifacts: file://"+objects+"\n"), 0o600))
	on := func(args ...string) []string {
		return append([]string{"store", "verify", "--config", settings}, args...)
	}
	expectCommand(t, 0, on(), "1 runs, 4 events: 0 differences")
	expectCommand(t, 1, on("--artifacts"), "1 runs, 4 events, 4 artifacts: 2 differences",
		"DIFFERENT run-1 event 4: artifact["+torn.URI+"]: stored artifact: the stored object is torn",
		"DIFFERENT run-1 event 4: artifact["+lost.URI+"]: stored missing, expected the content that the step reported",
		"AFFECTED  run-1 of tenant "+id.TenantID, "2 differences")
	expectCommand(t, 0, on("--artifacts", "--from", "2100-01-01T00:00:00Z"), "0 runs, 0 events, 0 artifacts")
	expectCommand(t, 0, on("--artifacts", "--to", "2020-01-01T00:00:00Z"), "0 runs, 0 events, 0 artifacts")
	expectCommand(t, 2, on("--from", "yesterday"), "--from yesterday is not a time in RFC 3339")
	expectCommand(t, 2, on("--from", "2026-01-02T00:00:00Z", "--to", "2026-01-01T00:00:00Z"), "is not before --to")
	must(t, os.RemoveAll(objects))
	expectCommand(t, 4, on("--artifacts"), "there is no bucket at file://", "DVT_ARTIFACTS")
}
