package reads_test

import (
	"io"
	"strings"
	"testing"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/reads"
	"github.com/dvt-engine/dvt/run"
)

// artifactPath is the path of the artifact of dbtStep.
const artifactPath = "s1/1/1/run_results.json"

func TestOpenArtifact_OfTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.dbtStep("artifact", []byte(`{"results":[]}`), "")
	a := controltest.Must[reads.Artifact](t)(w.OpenArtifact(t.Context(), w.Principal("dev-viewer"), id, artifactPath))
	defer func() { _ = a.Body.Close() }()
	if body := controltest.Must[[]byte](t)(io.ReadAll(a.Body)); string(body) != `{"results":[]}` ||
		a.Kind != run.KindDBTRunResults ||
		a.File != "run_results.json" {
		t.Errorf("opened %s %s with %q, want the reported file", a.Kind, a.File, body)
	}
	if at, err := a.Body.Seek(2, io.SeekStart); err != nil || at != 2 {
		t.Errorf("Seek: %d, %v; want 2", at, err)
	}
	if rest := controltest.Must[[]byte](t)(io.ReadAll(a.Body)); string(rest) != `results":[]}` {
		t.Errorf("after Seek it reads %q", rest)
	}
	for _, path := range []string{"", "s1", "s1/1/1/", "s1/1/1/other.json", "s2/1/1/run_results.json",
		"../" + id + "/" + artifactPath, "s1/1/1/../1/run_results.json", "s1%2F1/1/run_results.json"} {
		_, err := w.OpenArtifact(t.Context(), w.Engineer(), id, path)
		controltest.Refusal(t, err, run.CodeNotFound)
	}
	_, err := w.OpenArtifact(t.Context(), w.ForeignPrincipal(), id, artifactPath)
	controltest.Refusal(t, err, run.CodeNotFound)
	_, err = w.OpenArtifact(t.Context(), w.Principal("nobody"), id, artifactPath)
	controltest.Refusal(t, err, run.CodeNotFound)
}

// Only what the run's log names under the run's own prefix is opened: neither a file that no step reported, nor the
// file of another tenant that a worker reported.
func TestOpenArtifact_RefusesFilesOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	theirs := artifact.Name(artifact.AttemptID{TenantID: "globex", RunID: "r9", StepID: "s1", LogicalAttempt: 1}, 1,
		"run_results.json")
	uri, _, _, err := w.Artifacts.Put(t.Context(), theirs, strings.NewReader("secret"))
	if err != nil {
		t.Fatal(err)
	}
	id := w.dbtStep("artifact-theft", []byte(`{}`), uri)
	for _, path := range []string{artifactPath, "../../globex/r9/" + artifactPath} {
		_, err := w.OpenArtifact(t.Context(), w.Engineer(), id, path)
		controltest.Refusal(t, err, run.CodeNotFound)
	}
	// The address that a worker would have to report for a traversal does not open either.
	up := w.dbtStep("artifact-up", []byte(`{}`), "artifact:acme/../globex/r9/"+artifactPath)
	_, err = w.OpenArtifact(t.Context(), w.Engineer(), up, "../../globex/r9/"+artifactPath)
	controltest.Refusal(t, err, run.CodeNotFound)
}

func TestOpenArtifact_RefusesALargeOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("artifact-large", "s1")
	name := artifact.Name(artifact.AttemptID{TenantID: "acme", RunID: id, StepID: "s1", LogicalAttempt: 1}, 1, "big.bin")
	w.FinishStep(id, "s1", 1, run.StepFailedEvent, controltest.M{
		"artifactRefs": []controltest.M{{"uri": artifact.URI(name), "kind": "big", "sizeBytes": reads.MaxArtifactBytes + 1}}})
	_, err := w.OpenArtifact(t.Context(), w.Engineer(), id, "s1/1/1/big.bin")
	controltest.Refusal(t, err, run.CodeQueryTooComplex)
}
