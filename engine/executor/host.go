package executor

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

const (
	// MaxArtifactBytes is the largest file that Host.Keep takes: it travels in one Evidence.
	MaxArtifactBytes = 32 << 20

	keepTimeout = time.Minute
)

// host is the runner's side of one execution.
type host struct {
	runner   *Runner
	dispatch Dispatch
	identity run.Identity
	out      *output
}

func (h *host) Print(stream, line string) { h.out.print(stream, line) }

// Keep hands a file to the Journal, again and again for at most a minute. The
// file goes under its base name to
// artifact:<tenant>/<run>/<step>/<la>/<ea>/<name>.
func (h *host) Keep(ctx context.Context, kind, path string) (run.ArtifactRef, error) {
	info, err := os.Stat(path)
	if err != nil {
		return run.ArtifactRef{}, errors.New(reason(err))
	}
	if info.Size() > MaxArtifactBytes {
		return run.ArtifactRef{}, fmt.Errorf("it has %d bytes, more than %d", info.Size(), MaxArtifactBytes)
	}
	body, err := os.ReadFile(path)
	if err != nil {
		return run.ArtifactRef{}, errors.New(reason(err))
	}
	if filepath.Ext(path) == ".json" { // what people are shown of it
		body = hidden(h.out.redact, body)
	}
	sum := sha256.Sum256(body)
	d := h.dispatch
	segments := []string{h.identity.TenantID, d.RunID, d.StepID,
		strconv.Itoa(d.LogicalAttempt), strconv.Itoa(d.EngineAttempt), filepath.Base(path)}
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	ref := run.ArtifactRef{
		URI: "artifact:" + strings.Join(segments, "/"), Kind: kind,
		SHA256: hex.EncodeToString(sum[:]), SizeBytes: int64(len(body)),
		ContentType: mime.TypeByExtension(filepath.Ext(path)),
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	var last error
	err = persist(ctx, shipRetryFirst, shipRetryMost, func() error {
		last = h.runner.Journal.Evidence(ctx, engine.Evidence{
			RunID: d.RunID, StepID: d.StepID, LogicalAttempt: d.LogicalAttempt, EngineAttempt: d.EngineAttempt,
			Artifact: &engine.ArtifactBody{Ref: ref, Body: body},
		})
		return last
	})
	if err != nil {
		h.runner.log().LogAttrs(ctx, slog.LevelWarn, "artifact not kept",
			slog.String("run", d.RunID), slog.String("step", d.StepID), slog.String("kind", kind), slog.Any("err", last))
		return run.ArtifactRef{}, errors.New("the journal did not take it in time")
	}
	return ref, nil
}
