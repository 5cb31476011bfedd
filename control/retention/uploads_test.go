package retention_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Records of tries, and uploads whose attempt died before an event named them, end with the step logs of their run.
func TestPass_RemovesUploadsThatNoEventNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.Principal("dev-admin")
	for _, id := range []string{"old-1", "old-2"} {
		oldRun(t, w, id)
	}
	if _, err := w.PlaceHold(t.Context(), admin, retention.PlaceHold{RequestID: "h", Kind: store.HoldRun,
		Subject: "old-2", Reason: "a case"}); err != nil {
		t.Fatal(err)
	}
	named := runWithArtifact(t, w, "old-3")
	put := func(name string) string {
		uri, _, _, err := w.Artifacts.Put(t.Context(), name, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		return uri
	}
	gone := []string{put("acme/old-1/s1/1/1/" + engine.TryFile), put("acme/old-1/s1/1/2/lost.bin"),
		put("acme/old-3/s1/1/1/" + engine.TryFile)}
	kept := []string{put("acme/old-2/s1/1/1/" + engine.TryFile), put("acme/old-9/s1/1/1/of-a-run-that-goes-on"), named}
	out := passWith(t, w, retention.Document{StepLogs: days(14)})
	for _, uri := range slices.Concat(gone, kept) {
		r, err := w.Artifacts.Open(t.Context(), uri)
		if err == nil {
			_ = r.Close()
		}
		if want := slices.Contains(kept, uri); (err == nil) != want {
			t.Errorf("%s is kept: %t, want %t", uri, err == nil, want)
		}
	}
	if out.Failed != 0 || out.Objects != 3 {
		t.Errorf("the pass failed %d times and removed %d objects, want 0 and 3", out.Failed, out.Objects)
	}
}

// runWithArtifact imports an old run with one artifact that its log names, and returns the URI.
func runWithArtifact(t *testing.T, w *controltest.World, runID string) string {
	t.Helper()
	uri, sum, size, err := w.Artifacts.Put(t.Context(), artifact.Name(artifact.AttemptID{TenantID: "acme", RunID: runID,
		StepID: "s1", LogicalAttempt: 1}, 1, "report.json"), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	importOld(t, w, runID, run.ArtifactRef{URI: uri, SHA256: sum, SizeBytes: size, Kind: run.KindDBTManifest})
	return uri
}
