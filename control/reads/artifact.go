package reads

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// MaxArtifactBytes is the size of the largest artifact that is served.
const MaxArtifactBytes = 100 << 20

// Artifact is an artifact that a run reported, with its content.
type Artifact struct {
	run.ArtifactRef
	File string            // its name, without folders
	Body io.ReadSeekCloser // the caller closes it
}

// ArtifactReader opens the artifacts of runs. It is safe for concurrent use.
type ArtifactReader struct {
	rights *control.Rights
	store  StateStore
	blobs  artifact.Blobs
}

// NewArtifactReader makes an ArtifactReader.
func NewArtifactReader(rights *control.Rights, store StateStore, blobs artifact.Blobs) *ArtifactReader {
	return &ArtifactReader{rights: rights, store: store, blobs: blobs}
}

// OpenArtifact opens an artifact of a run by its path, the part of its URI that follows the run: step, logical attempt,
// engine attempt and file. It opens only what the log of this run names, under a URI of this run: a worker could report
// the artifact of another run or tenant. Errors: NOT_FOUND, also for an artifact that was removed; QUERY_TOO_COMPLEX
// for one above MaxArtifactBytes.
func (s *ArtifactReader) OpenArtifact(ctx context.Context, p authz.Principal, runID, path string) (Artifact, error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Read, runID)
	if err != nil {
		return Artifact{}, err
	}
	l, err := s.store.Load(ctx, runID)
	if err != nil {
		return Artifact{}, control.Translate(err)
	}
	ref, ok := reportedArtifact(l.State, artifact.URI(strings.Join([]string{r.TenantID, runID, path}, "/")))
	if !ok {
		return Artifact{}, noArtifact()
	}
	if ref.SizeBytes > MaxArtifactBytes {
		e := control.Refuse(run.CodeQueryTooComplex, "The artifact has %d bytes; at most %d are served.", ref.SizeBytes,
			MaxArtifactBytes)
		e.Limit = MaxArtifactBytes
		return Artifact{}, e
	}
	body, err := s.blobs.Open(ctx, ref.URI)
	if errors.Is(err, artifact.ErrNotFound) {
		return Artifact{}, noArtifact()
	}
	if err != nil {
		return Artifact{}, control.Translate(err)
	}
	return Artifact{ArtifactRef: ref, File: path[strings.LastIndexByte(path, '/')+1:],
		Body: artifact.Verify(body, ref.SHA256, ref.SizeBytes)}, nil
}

func noArtifact() error {
	return control.Refuse(run.CodeNotFound, "The run has no such artifact, or it was removed.")
}

// reportedArtifact finds an artifact in the log of a run. Those of hooks are only in the header.
func reportedArtifact(state run.State, uri string) (run.ArtifactRef, bool) {
	find := func(refs []run.ArtifactRef) int {
		return slices.IndexFunc(refs, func(ref run.ArtifactRef) bool { return ref.URI == uri })
	}
	if i := find(state.Artifacts); i >= 0 {
		return state.Artifacts[i], true
	}
	for _, step := range state.Steps {
		for _, a := range step.Attempts {
			if i := find(a.Artifacts); i >= 0 {
				return a.Artifacts[i], true
			}
		}
	}
	return run.ArtifactRef{}, false
}
