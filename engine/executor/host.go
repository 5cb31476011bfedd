package executor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/url"
	"os"
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
	// MaxArtifactBytes is the maximum size of an artifact.
	MaxArtifactBytes = 2 << 30

	// maxInlineBytes is the size up to which an artifact is a part of its Evidence; the bytes of a larger one are a
	// stream.
	maxInlineBytes = 1 << 20
	// keepTimeout is the longest time for which an attempt without a timeout tries to store an artifact.
	keepTimeout = 10 * time.Minute
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
	nodes    *nodeReports
	exit     atomic.Pointer[sandbox.Exit] // of the last program; nil if none has ended
	stack    string                       // of the executor that panicked
}

func (h *host) Print(stream, line string) { h.out.print(stream, line) }

// ReportNode implements Host. It hides secrets in the texts.
func (h *host) ReportNode(n run.StepNode, total int) {
	n.Error, n.Relation = h.out.redact.Replace(n.Error), h.out.redact.Replace(n.Relation)
	h.nodes.add(n, total)
}

// ReportWarehouse implements Host. It reports no namespace that contains a secret.
func (h *host) ReportWarehouse(namespace string) {
	if h.out.redact.Replace(namespace) == namespace {
		h.nodes.setWarehouse(namespace)
	}
}

func (h *host) Exited(exit sandbox.Exit) { h.exit.Store(&exit) }

// Keep sends a file to the Journal as artifact:<tenant>/<run>/<step>/<logical attempt>/<engine attempt>/<name>.
func (h *host) Keep(ctx context.Context, kind run.ArtifactKind, name string, body []byte) (run.ArtifactRef, error) {
	if filepath.Ext(name) == ".json" { // people can read these artifacts
		body = redactJSON(h.out.redact, body)
	}
	sum := sha256.Sum256(body)
	a := engine.ArtifactBody{Ref: h.refOf(kind, name, sum[:], int64(len(body))), Body: body}
	if len(body) > maxInlineBytes {
		a.Body, a.Open = nil, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	return a.Ref, h.keep(ctx, a)
}

// KeepJSON implements Host. It writes the redacted document into a file that has no name, so that nothing is left when
// the worker is killed.
func (h *host) KeepJSON(ctx context.Context, kind run.ArtifactKind, name string, body io.Reader) (run.ArtifactRef,
	error) {
	spool, err := os.CreateTemp(h.evidence.runner.WorkspaceRoot, ".artifact-*")
	if err != nil {
		return run.ArtifactRef{}, fmt.Errorf("executor: keep %s: %s", name, reason(err))
	}
	defer spool.Close()
	if err := os.Remove(spool.Name()); err != nil {
		return run.ArtifactRef{}, fmt.Errorf("executor: keep %s: %s", name, reason(err))
	}
	hash := sha256.New()
	out := bufio.NewWriter(io.MultiWriter(spool, hash))
	err = errors.Join(redactJSONStream(h.out.redact, out, io.LimitReader(body, MaxArtifactBytes)), out.Flush())
	if err != nil {
		return run.ArtifactRef{}, err
	}
	size, err := spool.Seek(0, io.SeekCurrent)
	if err != nil {
		return run.ArtifactRef{}, fmt.Errorf("executor: keep %s: %s", name, reason(err))
	}
	ref := h.refOf(kind, name, hash.Sum(nil), size)
	return ref, h.keep(ctx, engine.ArtifactBody{Ref: ref, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(spool, 0, size)), nil
	}})
}

// refOf returns the reference of an artifact of the execution.
func (h *host) refOf(kind run.ArtifactKind, name string, sum []byte, size int64) run.ArtifactRef {
	x := h.evidence.of
	segments := []string{x.identity.TenantID, x.RunID, x.StepID,
		strconv.Itoa(x.LogicalAttempt), strconv.Itoa(x.storedAttempt()), filepath.Base(name)}
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return run.ArtifactRef{
		URI: "artifact:" + strings.Join(segments, "/"), Kind: kind, SHA256: hex.EncodeToString(sum), SizeBytes: size,
		ContentType: mime.TypeByExtension(filepath.Ext(name)),
	}
}

// keep sends an artifact to the Journal until it is stored. It gives up when the time of the attempt ends, after
// keepTimeout, and when the Journal refuses the artifact.
func (h *host) keep(ctx context.Context, a engine.ArtifactBody) error {
	x := h.evidence.of
	trying, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	var last error
	err := persist(trying, shipRetryFirst, shipRetryMost, func() error {
		last = h.evidence.send(trying, engine.Evidence{Artifact: &a})
		if errors.Is(last, errEvidenceRefused) || errors.Is(last, run.ErrSchema) {
			return nil
		}
		return last
	})
	switch {
	case err == nil && last == nil:
		return nil
	case errors.Is(last, errEvidenceRefused):
		return last
	case err != nil && ctx.Err() != nil && !isTimeUp(ctx): // somebody asked the execution to stop
		return context.Cause(ctx)
	}
	h.evidence.runner.log().LogAttrs(ctx, slog.LevelWarn, "artifact not kept",
		slog.String("runId", x.RunID), slog.String("stepId", x.StepID), slog.String("attemptId", x.attemptID()),
		slog.String("kind", string(a.Ref.Kind)), slog.Any("error", last))
	f := &Failure{Code: string(run.CodeArtifactWrite), Category: run.CategorySystem, Retryable: err != nil,
		Message: fmt.Sprintf("the artifact %s of %d bytes was not stored in time: the bucket of artifacts, or the server "+
			"before it, accepts nothing", filepath.Base(a.Ref.URI), a.Ref.SizeBytes)}
	if err == nil {
		f.Message = fmt.Sprintf("the artifact %s of %d bytes was refused: %s", filepath.Base(a.Ref.URI), a.Ref.SizeBytes,
			last)
	}
	return f
}

// isTimeUp reports whether ctx ended because the attempt has no time left.
func isTimeUp(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return errors.Is(cause, errStepTimeout) || errors.Is(cause, context.DeadlineExceeded)
}
