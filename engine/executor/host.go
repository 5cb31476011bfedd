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
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
)

const (
	// MaxArtifactBytes is the maximum size of a file for Host.Keep, which sends it in one Evidence.
	MaxArtifactBytes = 32 << 20

	keepTimeout = time.Minute
)

// execution is an execution of an attempt or of a hook that the Journal has permitted to work.
type execution struct {
	Dispatch
	identity   run.Identity
	startedSeq run.Seq // position of its StepStarted; 0 for a hook
	key        string  // for Evidence and End
	hook       bool
}

// storedAttempt returns the engine attempt under which the execution's evidence is stored.
func (x execution) storedAttempt() int {
	return engine.StoredAttempt(x.EngineAttempt, x.hook)
}

// errEvidenceRefused means that the Journal accepts no more evidence of the execution.
var errEvidenceRefused = errors.New("the journal refused it")

// evidence sends the evidence of one execution to the Journal. After a refusal it sends nothing more, because the
// Journal would refuse each call again and write another audit row. Safe for concurrent use.
type evidence struct {
	runner  *Runner
	of      execution
	refused atomic.Bool
}

// lines sends lines. It drops them without an error when the Journal refuses them.
func (e *evidence) lines(ctx context.Context, lines []engine.LogLine) error {
	err := e.send(ctx, lines, nil)
	if errors.Is(err, errEvidenceRefused) {
		return nil
	}
	return err
}

// send makes one call of the Journal. Errors: errEvidenceRefused, others of the call.
func (e *evidence) send(ctx context.Context, lines []engine.LogLine, body *engine.ArtifactBody) error {
	if e.refused.Load() {
		return errEvidenceRefused
	}
	x := e.of
	err := e.runner.Journal.Evidence(ctx, engine.Evidence{
		RunID: x.RunID, StepID: x.StepID, LogicalAttempt: x.LogicalAttempt, EngineAttempt: x.EngineAttempt, N: x.N,
		Hook: x.hook, StartedSeq: x.startedSeq, Key: x.key, Lines: lines, Artifact: body,
	})
	if !errors.Is(err, engine.ErrRefused) {
		return err
	}
	if !e.refused.Swap(true) {
		e.runner.warn(ctx, x.Dispatch, "evidence refused", err)
	}
	return errEvidenceRefused
}

// host implements Host for one execution.
type host struct {
	evidence *evidence
	out      *output
}

func (h *host) Print(stream, line string) { h.out.print(stream, line) }

// Keep sends a file to the Journal as artifact:<tenant>/<run>/<step>/<logical attempt>/<engine attempt>/<name>. It
// repeats the call for at most keepTimeout, unless the Journal refuses the file.
func (h *host) Keep(ctx context.Context, kind, name string, body []byte) (run.ArtifactRef, error) {
	if len(body) > MaxArtifactBytes {
		return run.ArtifactRef{}, fmt.Errorf("it has %d bytes, more than %d", len(body), MaxArtifactBytes)
	}
	if filepath.Ext(name) == ".json" { // people can read these artifacts
		body = redactJSON(h.out.redact, body)
	}
	sum := sha256.Sum256(body)
	x := h.evidence.of
	segments := []string{x.identity.TenantID, x.RunID, x.StepID,
		strconv.Itoa(x.LogicalAttempt), strconv.Itoa(x.storedAttempt()), filepath.Base(name)}
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	ref := run.ArtifactRef{
		URI: "artifact:" + strings.Join(segments, "/"), Kind: kind,
		SHA256: hex.EncodeToString(sum[:]), SizeBytes: int64(len(body)),
		ContentType: mime.TypeByExtension(filepath.Ext(name)),
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	var last error
	err := persist(ctx, shipRetryFirst, shipRetryMost, func() error {
		last = h.evidence.send(ctx, nil, &engine.ArtifactBody{Ref: ref, Body: body})
		if errors.Is(last, errEvidenceRefused) {
			return nil
		}
		return last
	})
	switch {
	case err != nil:
		h.evidence.runner.log().LogAttrs(ctx, slog.LevelWarn, "artifact not kept",
			slog.String("runId", x.RunID), slog.String("stepId", x.StepID), slog.String("kind", kind), slog.Any("error", last))
		return run.ArtifactRef{}, errors.New("the journal did not store it in time")
	case last != nil:
		return run.ArtifactRef{}, last
	}
	return ref, nil
}
