package retention_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/control/retention"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

const day = 24 * time.Hour

// reportSample makes a running run whose step s1 stored a sample; the worker claims that it never expires.
func reportSample(t *testing.T, w *controltest.World, j *journal.Journal) (runID string, end engine.End) {
	t.Helper()
	runID = w.CreateRunning("sample", "s1")
	name := artifact.Name(artifact.AttemptID{TenantID: "acme", RunID: runID, StepID: "s1", LogicalAttempt: 1}, 1,
		"rows.csv")
	uri, sum, size, err := w.Artifacts.Put(t.Context(), name, strings.NewReader("a,b"))
	if err != nil {
		t.Fatal(err)
	}
	b := w.BeginOf(runID, "s1", 1, 1)
	begun := controltest.Must[engine.AttemptStarted](t)(j.StartAttempt(t.Context(), b))
	late := w.Clock.Now().AddDate(10, 0, 0)
	end = engine.End{RunID: runID, StepID: "s1", LogicalAttempt: 1, N: b.N, EngineAttempt: 1, StartedSeq: begun.StartedSeq,
		Key: begun.Key, Completed: &run.StepCompletedPayload{ArtifactRefs: []run.ArtifactRef{{URI: uri, SHA256: sum,
			SizeBytes: size, Kind: run.KindDatasetSample, ExpiresAt: &late}}}}
	if _, err := j.End(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	return runID, end
}

// shownEnd returns the expiry that the list of a run's artifacts shows, after checking that a read of the artifact
// agrees with it.
func shownEnd(t *testing.T, w *controltest.World, runID string) *time.Time {
	t.Helper()
	page := controltest.Must[reads.ArtifactsPage](t)(w.ListArtifacts(t.Context(), w.Engineer(),
		reads.ArtifactsQuery{RunID: runID}))
	if len(page.Artifacts) != 1 {
		t.Fatalf("the run has %d artifacts, want 1", len(page.Artifacts))
	}
	at := page.Artifacts[0].ExpiresAt
	a := controltest.Must[reads.Artifact](t)(w.FindArtifact(t.Context(), w.Engineer(), runID, "s1/1/1/rows.csv"))
	body, err := a.Open(t.Context())
	switch expired := at != nil && !w.Clock.Now().Before(*at); {
	case err == nil && expired:
		t.Errorf("an artifact that expired at %s was opened", at)
	case err != nil && !expired:
		t.Errorf("an artifact that expires at %v does not open: %v", at, err)
	case err != nil:
		var refused *control.Error
		if !errors.As(err, &refused) || refused.Code != run.CodeArtifactRemoved || refused.Artifact == nil ||
			!refused.Artifact.ExpiresAt.Equal(*at) {
			t.Errorf("the refusal is %v, want ARTIFACT_REMOVED with the reference and its end %s", err, at)
		}
	default:
		_ = body.Close()
	}
	return at
}

func wantEnd(t *testing.T, what string, got *time.Time, want time.Time) {
	t.Helper()
	if got == nil || !got.Equal(want) {
		t.Errorf("%s: the artifact expires at %v, want %s", what, got, want)
	}
}

func keepSamples(t *testing.T, w *controltest.World, version int64, n int) {
	t.Helper()
	doc := retention.Document{Artifacts: map[string]int{"dataset-sample": n}}
	if _, _, err := w.SetRetention(t.Context(), w.Principal("dev-admin"), set(version, doc)); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(11 * time.Second) // Expiries follow a policy after ten seconds
}

func counterOf(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// contract: T180
func TestArtifact_ExpiresByThePolicyOfItsTimeOrEarlier(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Clock.Hold()
	registry := prometheus.NewRegistry()
	j := w.NewJournal(func(c *journal.Config) { c.Metrics = registry })
	runID, end := reportSample(t, w, j)
	written := w.Clock.Now()
	wantEnd(t, "of a policy of 7 days", shownEnd(t, w, runID), written.Add(7*day))

	w.Clock.Advance(time.Hour)
	if _, err := j.End(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	if n := counterOf(t, registry, "append_payload_mismatch_total"); n != 0 {
		t.Errorf("a repeated report counts as %v others, want 0: the time of the expiry is the Journal's", n)
	}

	keepSamples(t, w, 0, 30)
	wantEnd(t, "after a longer policy", shownEnd(t, w, runID), written.Add(7*day))
	keepSamples(t, w, 1, 0)
	wantEnd(t, "after a policy without an end", shownEnd(t, w, runID), written.Add(7*day))

	w.AppendEvents(runID, runtest.Draft(run.RunCompleted, "", 1))
	ended := *w.StateOf(runID).CompletedAt
	keepSamples(t, w, 2, 30)
	wantEnd(t, "of an ended run after a longer policy", shownEnd(t, w, runID), written.Add(7*day))
	keepSamples(t, w, 3, 2)
	wantEnd(t, "after a shorter policy", shownEnd(t, w, runID), ended.Add(2*day))

	w.Clock.Advance(3 * day)
	wantEnd(t, "after its end", shownEnd(t, w, runID), ended.Add(2*day))

	hold := retention.PlaceHold{RequestID: "h", Kind: store.HoldRun, Subject: runID, Reason: "a case"}
	if _, err := w.PlaceHold(t.Context(), w.Principal("dev-admin"), hold); err != nil {
		t.Fatal(err)
	}
	if at := shownEnd(t, w, runID); at != nil {
		t.Errorf("an artifact on hold expires at %s, want no end", at)
	}
}
