package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/control/nodes"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/lineage"
)

// readManifest reads the manifest of dbt that a run stored, for the datasets of lineage. It returns nil for one that no
// longer exists or cannot be understood, and for the reference of a worker to something else than an artifact of the
// run.
func readManifest(ctx context.Context, blobs artifact.Blobs, id run.Identity, ref run.ArtifactRef) (*lineage.Manifest,
	error) {
	if !strings.HasPrefix(ref.URI, artifact.URI(id.TenantID+"/"+id.RunID+"/")) || ref.SizeBytes > nodes.MaxManifest {
		return nil, nil //nolint:nilnil // nothing is known of datasets
	}
	body, err := blobs.Open(ctx, ref.URI)
	if errors.Is(err, artifact.ErrNotFound) {
		return nil, nil //nolint:nilnil // retention removed it
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	content, digest := &failing{from: io.LimitReader(body, nodes.MaxManifest)}, sha256.New()
	both := io.TeeReader(content, digest)
	m, err := lineage.ReadManifest(both)
	if err == nil {
		_, err = io.Copy(io.Discard, both)
	}
	switch {
	case content.err != nil && !errors.Is(content.err, artifact.ErrTorn):
		return nil, content.err
	case err != nil, ref.SHA256 != "" && hex.EncodeToString(digest.Sum(nil)) != ref.SHA256:
		return nil, nil //nolint:nilnil // the document is no manifest, now and later
	}
	return m, nil
}

// failing remembers the error of a reader, so that an error of the bucket is not taken for one of the document.
type failing struct {
	from io.Reader
	err  error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = err
	}
	return n, err
}
