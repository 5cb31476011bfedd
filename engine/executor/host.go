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
	"github.com/dvt-engine/dvt/sandbox"
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
	beats      *beats
	// blocked says in heartbeats what keeps the Journal from answering.
	blocked *atomic.Pointer[engine.StepWait]
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
	err := e.send(ctx, engine.Evidence{Lines: lines})
	if errors.Is(err, errEvidenceRefused) {
		return nil
	}
	return err
}

// send makes one call of the Journal; v has what is sent. Errors: errEvidenceRefused, others of the call.
func (e *evidence) send(ctx context.Context, v engine.Evidence) error {
	if e.refused.Load() {
		return errEvidenceRefused
	}
	x := e.of
	v.RunID, v.StepID, v.LogicalAttempt, v.EngineAttempt, v.N = x.RunID, x.StepID, x.LogicalAttempt, x.EngineAttempt, x.N
	v.Hook, v.StartedSeq, v.Key = x.hook, x.startedSeq, x.key
	err := e.runner.Journal.Evidence(ctx, v)
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
	exit     atomic.Pointer[sandbox.Exit] // of the last program; nil if none has ended
	stack    string                       // of the executor that panicked
}

func (h *host) Print(stream, line string) { h.out.print(stream, line) }

func (h *host) Exited(exit sandbox.Exit) { h.exit.Store(&exit) }

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
		last = h.evidence.send(ctx, engine.Evidence{Artifact: &engine.ArtifactBody{Ref: ref, Body: body}})
		if errors.Is(last, errEvidenceRefused) {
			return nil
		}
		return last
	})
	switch {
	case err != nil:
		h.evidence.runner.log().LogAttrs(ctx, slog.LevelWarn, "artifact not kept",
			slog.String("runId", x.RunID), slog.String("stepId", x.StepID), slog.String("attemptId", x.attemptID()),
			slog.String("kind", kind), slog.Any("error", last))
		return run.ArtifactRef{}, errors.New("the journal did not store it in time")
	case last != nil:
		return run.ArtifactRef{}, last
	}
	return ref, nil
}
