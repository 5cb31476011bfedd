package journal_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

// slimPlan returns a plan whose only step is a slim one of dbt.
func slimPlan(t *testing.T) []byte {
	t.Helper()
	var doc controltest.M
	if err := json.Unmarshal(controltest.Document(nil, "s1"), &doc); err != nil {
		t.Fatal(err)
	}
	step := doc["steps"].([]any)[0].(controltest.M)
	step["type"] = "DBT_RUN"
	step["inputs"] = controltest.M{"projectDir": "shop", "state": controltest.M{"against": "LAST_GREEN"}}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// endWith ends s1 of a run well, with a manifest of the attempt if there is one, and then the run.
func (w *world) endWith(id string, e engine.End, manifest string, last run.EventType) run.ArtifactRef {
	w.T.Helper()
	var ref run.ArtifactRef
	if manifest != "" {
		sum := sha256.Sum256([]byte(manifest))
		ref = run.ArtifactRef{Kind: run.KindDBTManifest, SHA256: hex.EncodeToString(sum[:]), SizeBytes: int64(len(manifest)),
			URI: artifact.URI(artifact.Name(artifact.AttemptID{TenantID: w.Engineer().TenantID, RunID: id, StepID: "s1",
				LogicalAttempt: 1}, 1, "manifest.json"))}
		evidence := evidenceOf(e, "")
		evidence.Lines, evidence.Artifact = nil, &engine.ArtifactBody{Ref: ref, Body: []byte(manifest)}
		if err := w.Journal.Evidence(w.T.Context(), evidence); err != nil {
			w.T.Fatal(err)
		}
		e.Completed.ArtifactRefs = []run.ArtifactRef{ref}
	}
	w.end(e)
	w.AppendEvents(id, runtest.Draft(last, "", 1))
	return ref
}

// A slim step compares with the newest completed run of its plan whose step stored a manifest; the StepStarted names
// it. Each try gets the same, also when another run has ended meanwhile. Only the attempt reads it, until it ends.
func TestStartAttempt_ChoosesTheManifestOfTheLastGreenRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.CreateRunningPlan("first", slimPlan(t))
	ref := w.endWith(first, w.execute(first, "s1", 1), `{"nodes":{}}`, run.RunCompleted)
	started := func(id string) *run.StateBase {
		t.Helper()
		for _, e := range controltest.Must[[]run.Event](t)(w.Raw.Events(t.Context(), id, 0, store.MaxPage)) {
			if e.Type == run.StepStartedEvent {
				return controltest.Must[run.StepStartedPayload](t)(run.PayloadOf[run.StepStartedPayload](e.Payload)).State
			}
		}
		return nil
	}
	if s := started(first); s == nil || s.RunID != "" {
		t.Errorf("the first run compares with %+v, want that it found none", s)
	}
	bare := w.CreateRunningPlan("bare", slimPlan(t)) // completes without a manifest
	w.endWith(bare, w.execute(bare, "s1", 1), "", run.RunCompleted)
	open := w.CreateRunningPlan("open", slimPlan(t)) // is not green yet
	pending := w.execute(open, "s1", 1)

	id := w.CreateRunningPlan("slim", slimPlan(t))
	begun := w.BeginAttempt(id, "s1", 1, 1)
	for _, s := range []*run.StateBase{begun.State, started(id)} {
		if s == nil || s.RunID != first || s.LogicalAttempt != 1 || s.Manifest.SHA256 != ref.SHA256 {
			t.Errorf("the step compares with %+v, want the manifest of %s", s, first)
		}
	}
	w.endWith(open, pending, `{"nodes":{},"newer":1}`, run.RunCompleted)
	if again := w.BeginAttempt(id, "s1", 1, 2).State; again == nil || again.RunID != first {
		t.Errorf("the second try compares with %+v, want the same manifest", again)
	}

	reader, ok := engine.AttemptJournal(w.Journal).(engine.StateReader)
	if !ok {
		t.Fatal("the Journal reads no manifests")
	}
	b := w.BeginOf(id, "s1", 1, 1)
	read := engine.StateRead{RunID: id, StepID: "s1", LogicalAttempt: 1, N: b.N, EngineAttempt: 1,
		StartedSeq: begun.StartedSeq, Key: begun.Key}
	packed := controltest.Must[[]byte](t)(reader.ReadState(t.Context(), read))
	unpacked := controltest.Must[*gzip.Reader](t)(gzip.NewReader(bytes.NewReader(packed)))
	if doc := controltest.Must[[]byte](t)(io.ReadAll(unpacked)); string(doc) != `{"nodes":{}}` {
		t.Errorf("the manifest is %s, want that of the first run", doc)
	}
	other := read
	other.StepID = "s2"
	if _, err := reader.ReadState(t.Context(), other); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("the key of another step: %v, want ErrRefused", err)
	}
	w.end(engine.End{RunID: id, StepID: "s1", LogicalAttempt: 1, N: b.N, EngineAttempt: 1, StartedSeq: begun.StartedSeq,
		Key: begun.Key, Completed: &run.StepCompletedPayload{}})
	_, err := reader.ReadState(t.Context(), read)
	refusedFor(t, "a read after the end", err, "after the end")
}
