package reads

import (
	"context"
	"errors"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/run"
)

// signedFor is how long an address that the bucket signed works. A download that has begun may take longer.
const signedFor = time.Minute

// Sealer makes and verifies proofs that this installation wrote a text.
type Sealer interface {
	// Seal returns the proof, or "" when there is no key.
	Seal(purpose, text string) string
	VerifySeal(seal, purpose, text string) bool
}

// signer signs addresses of the bucket, at which a client reads an artifact without dvt.
type signer interface {
	// Sign returns artifact.ErrCannotSign for an artifact that has no such address.
	Sign(ctx context.Context, uri string, d artifact.Download) (string, error)
}

// describer describes stored objects without reading them.
type describer interface {
	Stat(ctx context.Context, uri string) (artifact.Info, error)
}

// artifactExpiry tells when artifacts expire.
type artifactExpiry interface {
	// Effective returns the artifacts of a run with the times at which they expire now.
	Effective(ctx context.Context, state *run.State, refs []run.ArtifactRef) ([]run.ArtifactRef, error)
}

// ArtifactReader finds, opens and links the artifacts of runs. It is safe for concurrent use.
type ArtifactReader struct {
	rights *control.Rights
	store  StateStore
	blobs  artifact.Blobs
	seals  Sealer
	expiry artifactExpiry
	linked *control.PerMinuteLimiter // links by principal
}

// NewArtifactReader makes an ArtifactReader. Without seals it makes no links.
func NewArtifactReader(rights *control.Rights, store StateStore, blobs artifact.Blobs, seals Sealer,
	expiry artifactExpiry) *ArtifactReader {
	return &ArtifactReader{rights: rights, store: store, blobs: blobs, seals: seals, expiry: expiry,
		linked: control.NewPerMinuteLimiter(rights.Now)}
}

// ArtifactPlace is the position of an artifact within its run, as its URI names it.
type ArtifactPlace struct {
	Path           string // the part of the URI behind the run, not escaped
	StepID         string
	LogicalAttempt int
	EngineAttempt  int
	File           string // its name, without folders
}

// PlaceOf returns the place of an artifact. It returns false for a URI of another run or of a place outside of dvt,
// which dvt does not serve.
func PlaceOf(tenantID, runID, uri string) (ArtifactPlace, bool) {
	escaped, ok := strings.CutPrefix(uri, artifact.Scheme+":")
	name, err := url.PathUnescape(escaped)
	path, own := strings.CutPrefix(name, tenantID+"/"+runID+"/")
	parts := strings.Split(path, "/")
	if !ok || err != nil || !own || len(parts) != 4 || artifact.URI(name) != uri {
		return ArtifactPlace{}, false
	}
	logical, logicalErr := strconv.Atoi(parts[1])
	engine, engineErr := strconv.Atoi(parts[2])
	if logicalErr != nil || engineErr != nil || parts[3] == "" || parts[3] == "." || parts[3] == ".." {
		return ArtifactPlace{}, false
	}
	return ArtifactPlace{Path: path, StepID: parts[0], LogicalAttempt: logical, EngineAttempt: engine, File: parts[3]},
		true
}

// DownloadPath returns the path at which servers serve an artifact of a run.
func (a ArtifactPlace) DownloadPath(runID string) string {
	parts := strings.Split(a.Path, "/")
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return "/artifacts/" + url.PathEscape(runID) + "/" + strings.Join(parts, "/")
}

// Artifact is an artifact that a run reported. Its content may have been removed.
type Artifact struct {
	run.ArtifactRef
	ArtifactPlace
	reader *ArtifactReader
}

// FindArtifact finds an artifact of a run by its path, the part of its URI that follows the run: step, logical attempt,
// engine attempt and file. It finds only what the log of this run names, under a URI of this run: a worker could report
// the artifact of another run or tenant. Errors: NOT_FOUND.
func (s *ArtifactReader) FindArtifact(ctx context.Context, p authz.Principal, runID, path string) (Artifact, error) {
	r, err := s.rights.GetVisible(ctx, p, authz.Read, runID)
	if err != nil {
		return Artifact{}, err
	}
	l, err := s.store.Load(ctx, runID)
	if err != nil {
		return Artifact{}, control.Translate(err)
	}
	ref, reported := reportedArtifact(l.State, artifact.URI(strings.Join([]string{r.TenantID, runID, path}, "/")))
	place, own := PlaceOf(r.TenantID, runID, ref.URI)
	if !reported || !own {
		return Artifact{}, control.Refuse(run.CodeNotFound, "The run has no such artifact.")
	}
	now, err := s.expiry.Effective(ctx, &l.State, []run.ArtifactRef{ref})
	if err != nil {
		return Artifact{}, control.Translate(err)
	}
	return Artifact{ArtifactRef: now[0], ArtifactPlace: place, reader: s}, nil
}

// Open opens the content; the caller closes it. A read that finds other bytes than those that the step reported ends
// with artifact.ErrTorn instead of the last bytes; see artifact.Check. Errors: ARTIFACT_REMOVED for content that has
// expired or that the bucket no longer has; artifact.ErrTorn for content of another size.
func (a Artifact) Open(ctx context.Context) (io.ReadSeekCloser, error) {
	if err := a.checkExpiry(); err != nil {
		return nil, err
	}
	body, err := a.reader.blobs.Open(ctx, a.URI)
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, a.removed()
	}
	if err != nil {
		return nil, control.Translate(err)
	}
	checked, err := artifact.Check(body, a.SizeBytes, a.SHA256)
	if err != nil {
		_ = body.Close()
		return nil, err
	}
	return checked, nil
}

// Sign returns an address at the bucket that gives the content for a minute without dvt. Errors: ARTIFACT_REMOVED for
// an expired artifact and for one that is gone; artifact.ErrCannotSign when only dvt can serve it, because the bucket
// does not decompress its objects.
func (a Artifact) Sign(ctx context.Context) (string, error) {
	bucket, ok := a.reader.blobs.(signer)
	if !ok {
		return "", artifact.ErrCannotSign
	}
	if err := a.checkExpiry(); err != nil {
		return "", err
	}
	if d, ok := a.reader.blobs.(describer); ok {
		switch info, err := d.Stat(ctx, a.URI); {
		case errors.Is(err, artifact.ErrNotFound):
			return "", a.removed()
		case err != nil:
			return "", control.Translate(err)
		case info.Encoding != "":
			return "", artifact.ErrCannotSign
		}
	}
	at, err := bucket.Sign(ctx, a.URI, artifact.Download{FileName: a.File, ContentType: "application/octet-stream",
		For: signedFor})
	switch {
	case errors.Is(err, artifact.ErrNotFound):
		return "", a.removed()
	case err == nil || errors.Is(err, artifact.ErrCannotSign):
		return at, err
	}
	return "", control.Translate(err)
}

func (a Artifact) checkExpiry() error {
	if a.ExpiresAt != nil && !a.reader.rights.Now().Before(*a.ExpiresAt) {
		return a.removed()
	}
	return nil
}

// removed returns ARTIFACT_REMOVED with the reference, so that people still see what there was.
func (a Artifact) removed() error {
	e := control.Refuse(run.CodeArtifactRemoved, "The content of the artifact was removed.")
	if a.ExpiresAt != nil {
		e.Message = "The content of the artifact was kept until " + a.ExpiresAt.UTC().Format("2006-01-02 15:04 UTC") + "."
	}
	e.Artifact = &a.ArtifactRef
	return e
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
