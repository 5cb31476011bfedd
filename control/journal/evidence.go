package journal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/run"
)

// evidenceAge is the age up to which cached facts of a log decide about evidence. A step sends evidence several times a
// second, and a read for each would cost too much. So an attempt that another process ended may leave evidence for at
// most this long after its end.
const evidenceAge = time.Second

// Evidence implements engine.AttemptJournal. It stores an artifact only under a URI of the attempt, and only when size
// and digest of the bytes match the reference.
func (a *attempts) Evidence(ctx context.Context, e engine.Evidence) error {
	err := a.evidence(ctx, e)
	call := refusedCall{call: "evidence", actor: a.worker.ID, runID: e.RunID, stepID: e.StepID,
		attemptID: fmt.Sprintf("%d.%d", e.LogicalAttempt, e.EngineAttempt)}
	return a.journal.refusals.record(ctx, call, err)
}

func (a *attempts) evidence(ctx context.Context, e engine.Evidence) error {
	j := a.journal
	if err := a.checkKey(ctx, e.Key, ticket.Execution{
		RunID: e.RunID, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt, N: e.N, EngineAttempt: e.EngineAttempt,
		Hook:       e.Hook,
		StartedSeq: e.StartedSeq,
	}); err != nil {
		return err
	}
	f, _, err := j.openAttempt(ctx, e.RunID, e.StepID, e.LogicalAttempt, e.Hook)
	if err != nil {
		return err
	}
	id := artifact.AttemptID{TenantID: f.run.TenantID, RunID: e.RunID, StepID: e.StepID, LogicalAttempt: e.LogicalAttempt}
	stored := engine.StoredAttempt(e.EngineAttempt, e.Hook)
	if len(e.Lines) > 0 {
		lines := make([]artifact.Line, len(e.Lines))
		for i, l := range e.Lines {
			lines[i] = artifact.Line{At: l.At, Stream: l.Stream, EngineAttempt: stored, Text: l.Text}
		}
		if err := j.cfg.Logs.Append(ctx, id, stored, e.Lines[0].No, lines); err != nil {
			return err
		}
	}
	if e.Artifact != nil {
		open := func() error {
			_, _, err := j.openAttempt(ctx, e.RunID, e.StepID, e.LogicalAttempt, e.Hook)
			return err
		}
		if err := j.storeArtifact(ctx, id, stored, *e.Artifact, open); err != nil {
			return err
		}
	}
	if e.Nodes != nil {
		if err := j.appendNodes(ctx, f, e); err != nil {
			return err
		}
	}
	if e.Try != nil {
		return j.storeTry(ctx, artifact.Name(id, stored, engine.TryFile), a.worker.ID, *e.Try)
	}
	return nil
}

// Bounds of the texts of a record, in characters.
const (
	maxTryText  = 200
	maxTryStack = 8 << 10
)

// storeTry stores the record of an engine attempt with the account of the worker that sent it.
func (j *Journal) storeTry(ctx context.Context, name, account string, t engine.TryRecord) error {
	for _, text := range []*string{&t.Worker, &t.ErrorCode, &t.ErrorClass, &t.Signal} {
		*text = run.Text(*text, maxTryText)
	}
	t.Outcome, t.Stack = engine.TryOutcome(run.Text(string(t.Outcome), maxTryText)), run.Text(t.Stack, maxTryStack)
	body, err := json.Marshal(engine.StoredTry{Account: account, TryRecord: t})
	if err != nil {
		return fmt.Errorf("%w: the record of a try: %w", run.ErrSchema, err)
	}
	_, _, _, err = j.cfg.Blobs.Put(ctx, name, bytes.NewReader(body))
	return err
}

// storeArtifact stores the bytes of an artifact under the URI of its reference, if open returns nil when they have
// arrived: an upload may take half an hour, and the attempt may have ended or its run may be erased since it began.
func (j *Journal) storeArtifact(ctx context.Context, id artifact.AttemptID, engineAttempt int, a engine.ArtifactBody,
	open func() error) error {
	file, err := url.PathUnescape(a.Ref.URI[strings.LastIndexByte(a.Ref.URI, '/')+1:])
	name := artifact.Name(id, engineAttempt, file)
	if err != nil || a.Ref.URI != artifact.URI(name) || file == engine.TryFile {
		return fmt.Errorf("%w: the artifact URI %q does not belong to the attempt of step %s", run.ErrSchema, a.Ref.URI,
			id.StepID)
	}
	var body io.Reader = bytes.NewReader(a.Body)
	if a.Open != nil {
		stream, err := a.Open()
		if err != nil {
			return err
		}
		defer stream.Close()
		body = stream
	}
	_, _, _, err = j.cfg.Blobs.Put(ctx, name, &referenced{from: body, ref: a.Ref, hash: sha256.New(), open: open})
	if errors.Is(err, artifact.ErrTooLarge) {
		return fmt.Errorf("%w: artifact %s: %w", run.ErrSchema, a.Ref.URI, err)
	}
	return err
}

// referenced reads the bytes of an artifact. It ends with an error, so that nothing is stored, when they are not those
// of the reference, or when the attempt is no longer open at their end.
type referenced struct {
	from io.Reader
	ref  run.ArtifactRef
	hash hash.Hash
	size int64
	open func() error
}

func (r *referenced) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	_, _ = r.hash.Write(p[:n])
	r.size += int64(n)
	ended := errors.Is(err, io.EOF)
	if r.size > r.ref.SizeBytes || ended &&
		(r.size < r.ref.SizeBytes || hex.EncodeToString(r.hash.Sum(nil)) != r.ref.SHA256) {
		return 0, fmt.Errorf("%w: the size or the digest of artifact %s differs from its reference", run.ErrSchema, r.ref.URI)
	}
	if ended {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	return n, err
}
