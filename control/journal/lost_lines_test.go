package journal_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/journal"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

func TestEnd_LostLinesAreALineOfTheLogAndAnAlert(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Journal = w.NewJournal(func(c *journal.Config) { c.Alerts = w.Alerts })
	id := w.CreateRunning("lost", "s1")
	e := w.execute(id, "s1", 1)
	if err := w.Journal.Evidence(t.Context(), evidenceOf(e, "stored")); err != nil {
		t.Fatal(err)
	}
	e.LostLines = 42
	first := w.end(e)
	if again := w.end(e); again != first {
		t.Errorf("a repeated end is answered %+v, want %+v", again, first)
	}
	attempt := artifact.AttemptID{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1}
	controltest.Eventually(t, "the log has the line about the loss", func() bool {
		page, err := w.Artifacts.Read(t.Context(), attempt, 1, 10)
		return err == nil && len(page.Lines) == 2 && page.Lines[1].Stream == "dvt" &&
			strings.HasPrefix(page.Lines[1].Text, "42 lines are missing here")
	})
	alerts := controltest.Must[[]store.AlertState](t)(w.Store.ListOpenAlerts(t.Context(),
		[]run.Code{run.CodeLogLinesLost}, 10))
	if len(alerts) != 1 || alerts[0].RunID != id || alerts[0].StepID != "s1" || alerts[0].TenantID != "acme" {
		t.Errorf("the alerts are %+v, want one of the step", alerts)
	}
}

func TestEvidence_AStreamedArtifactWithOtherBytesIsNotStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("streamed", "s1")
	e := evidenceOf(w.execute(id, "s1", 1), "")
	e.Lines = nil
	body := bytes.Repeat([]byte("body"), 1<<20)
	ref := refOf("artifact:acme/"+id+"/s1/1/1/large.bin", body)
	for name, sent := range map[string][]byte{
		"shorter": body[1:], "longer": append(body, 'x'), "other": append(body[1:], 'x'),
	} {
		e.Artifact = &engine.ArtifactBody{Ref: ref, Open: func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(sent)), nil
		}}
		if err := w.Journal.Evidence(t.Context(), e); !errors.Is(err, run.ErrSchema) {
			t.Errorf("%s: %v, want ErrSchema", name, err)
		}
		if _, err := w.Artifacts.Open(t.Context(), ref.URI); !errors.Is(err, artifact.ErrNotFound) {
			t.Errorf("%s: the artifact opens with %v, want ErrNotFound", name, err)
		}
	}
	e.Artifact = &engine.ArtifactBody{Ref: ref, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(body)), nil
	}}
	if err := w.Journal.Evidence(t.Context(), e); err != nil {
		t.Errorf("the bytes of the reference: %v, want nil", err)
	}
}

// endedMeanwhile is a body that ends the attempt before its last byte.
type endedMeanwhile struct {
	io.Reader
	end func()
}

func (b *endedMeanwhile) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) && b.end != nil {
		b.end()
		b.end = nil
	}
	return n, err
}

// An upload may take half an hour. If the attempt has ended when its last byte arrives, nothing is stored: the run may
// be in the archive or erased by then, and nobody would remove the object again.
// contract: Z03
func TestEvidence_AnUploadThatOutlivesItsAttemptIsNotStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("slow", "s1<")
	end := w.execute(id, "s1", 1)
	e := evidenceOf(end, "")
	e.Lines = nil
	body := bytes.Repeat([]byte("body"), 1<<18)
	ref := refOf("artifact:acme/"+id+"/s1/1/1/slow.bin", body)
	elsewhere := w.NewJournal()
	e.Artifact = &engine.ArtifactBody{Ref: ref, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(&endedMeanwhile{bytes.NewReader(body), func() {
			controltest.Must[engine.Receipt](t)(elsewhere.End(t.Context(), end))
			w.Clock.Advance(1100 * time.Millisecond)
		}}), nil
	}}
	refusedFor(t, "an upload that ends after the attempt", w.Journal.Evidence(t.Context(), e), "evidence after the end")
	if _, err := w.Artifacts.Open(t.Context(), ref.URI); !errors.Is(err, artifact.ErrNotFound) {
		t.Errorf("the artifact opens with %v, want ErrNotFound because nothing was stored", err)
	}
}

func TestEnd_NamesKindsOfTheVocabularyOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("kinds", "s1")
	e := w.execute(id, "s1", 1)
	e.Completed.ArtifactRefs = []run.ArtifactRef{{URI: "artifact:a", Kind: "anything"},
		{URI: "artifact:b", Kind: run.KindDatasetSample}}
	w.end(e)
	got := w.StateOf(id).Steps[0].Attempts[0].Artifacts
	if len(got) != 2 || got[0].Kind != run.KindCustom || got[1].Kind != run.KindDatasetSample {
		t.Errorf("the log has the artifacts %+v, want the kinds custom and dataset-sample", got)
	}
}
