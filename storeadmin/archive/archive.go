// Package archive keeps the logs of ended runs outside of the store. The archive of a run is one object, the export of
// the run as gzip: the plan, the facts, every event byte for byte and the receipts. So `dvt store import` and any
// program that reads JSON lines can read it. Beside it are tables of its events and of the run as Parquet, for
// programs that analyse many runs, and a manifest with the hashes of all. Write verifies an object by reading it back,
// before anything is deleted; Reading makes a store that answers from the archive as if nothing had been deleted.
package archive

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/dvt-engine/dvt/internal/dutycycle"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/storeadmin"
)

// Objects stores archived runs. Names are relative and contain slashes. It is safe for concurrent use.
type Objects interface {
	// PutArchived stores an object, and replaces one of the same name.
	PutArchived(ctx context.Context, name string, body io.Reader) error
	// OpenArchived opens an object; fs.ErrNotExist.
	OpenArchived(ctx context.Context, name string) (io.ReadCloser, error)
	// RemoveArchived removes an object, and before it those whose names differ from its name only in the hash and the
	// ending. An object that does not exist is no error.
	RemoveArchived(ctx context.Context, name string) error
}

// ErrTorn says that an object does not have the content that was archived. It is a store.ErrArchiveDamaged.
var ErrTorn = fmt.Errorf("archive: the archived log of the run is damaged: %w", store.ErrArchiveDamaged)

// maxUnpacked bounds what is unpacked from one object, so that a forged object cannot fill the memory.
const maxUnpacked = 4 << 30

// Write writes the log of an ended run into the archive, reads it back, and compares it with the log in the store. It
// changes nothing in the store: the caller marks the run. It returns an error of the store or of the objects, or
// ErrTorn when what was read back differs. It works in short pieces and rests between them, see dutycycle.
func Write(ctx context.Context, from store.Store, to Objects, runID string) (store.ArchivedRun, error) {
	s := resting{from}
	r, err := s.Get(ctx, runID)
	if err != nil {
		return store.ArchivedRun{}, err
	}
	heads, err := s.Heads(ctx, []string{runID})
	if err != nil {
		return store.ArchivedRun{}, err
	}
	head := heads.ByRun[runID]
	if !head.Terminal {
		return store.ArchivedRun{}, &store.ObstacleError{RunID: runID, Obstacle: store.ObstacleOpen}
	}
	seal, err := store.LogHash(ctx, s, runID, store.LogSeal{}, head.LastSeq)
	if err != nil {
		return store.ArchivedRun{}, err
	}
	spool, err := os.CreateTemp("", "dvt-archive-*")
	if err != nil {
		return store.ArchivedRun{}, fmt.Errorf("archive: %w", err)
	}
	defer func() { _, _ = spool.Close(), os.Remove(spool.Name()) }()
	a := store.ArchivedRun{RunID: runID, TenantID: r.TenantID, Head: head.LastSeq, Events: int64(head.LastSeq)}
	if err := pack(ctx, s, spool, &a); err != nil {
		return store.ArchivedRun{}, err
	}
	a.Location = location(r, head.LastAt, a.SHA256)
	if err := put(ctx, to, a.Location, spool); err != nil {
		return store.ArchivedRun{}, err
	}
	if err := writeTables(ctx, s, to, r, a); err != nil {
		return store.ArchivedRun{}, err
	}
	return a, verify(ctx, to, a, seal)
}

// resting is a store whose reads of a log are small, and end a piece of work each.
type resting struct{ store.Store }

// restEvents is the largest page of a log: larger ones would keep a core busy for long.
const restEvents = 200

// Events is that of the store, with smaller pages.
func (s resting) Events(ctx context.Context, runID string, after run.Seq, limit int) ([]run.Event, error) {
	if err := dutycycle.Rest(ctx); err != nil {
		return nil, err
	}
	return s.Store.Events(ctx, runID, after, min(limit, restEvents))
}

// put stores an object between two rests.
func put(ctx context.Context, to Objects, name string, body io.Reader) error {
	if err := dutycycle.Rest(ctx); err != nil {
		return err
	}
	if err := to.PutArchived(ctx, name, body); err != nil {
		return err
	}
	return dutycycle.Waited(ctx)
}

// restBytes is how much of an object is read in one piece of work.
const restBytes = 16 << 10

// restingReader rests after each restBytes.
type restingReader struct {
	ctx  context.Context //nolint:containedctx // of the one read for which it is made
	from io.Reader
	n    int
}

func (r *restingReader) Read(p []byte) (int, error) {
	if r.n >= restBytes {
		r.n = 0
		if err := dutycycle.Rest(r.ctx); err != nil {
			return 0, err
		}
	}
	n, err := r.from.Read(p[:min(len(p), restBytes)])
	r.n += n
	return n, err
}

// compressors keeps the memory of a compression, about a megabyte, for the next run.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(io.Discard) }} //nolint:gochecknoglobals // a pool

// pack writes the export of the run to a file, rewinds it, and sets the size and the hash.
func pack(ctx context.Context, s store.Store, file *os.File, a *store.ArchivedRun) error {
	sum := sha256.New()
	size := &sizer{}
	z, _ := compressors.Get().(*gzip.Writer)
	defer compressors.Put(z)
	z.Reset(io.MultiWriter(file, sum, size))
	if _, err := storeadmin.Export(ctx, s, []string{a.RunID}, z, nil); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	a.SHA256, a.Bytes = hex.EncodeToString(sum.Sum(nil)), size.n
	return nil
}

// sizer counts the bytes that are written.
type sizer struct{ n int64 }

func (s *sizer) Write(p []byte) (int, error) {
	s.n += int64(len(p))
	return len(p), nil
}

// location is the name of an object. It contains the hash, so that two processes that archive the same run do not
// replace what the other one has verified.
func location(r store.Run, ended time.Time, sum string) string {
	return fmt.Sprintf("%s/%s/%s-%s"+logEnding, r.TenantID, ended.UTC().Format("2006/01"), r.RunID, sum[:16])
}

// verify reads an object and compares its events with the hash of the log in the store.
func verify(ctx context.Context, from Objects, a store.ArchivedRun, want store.LogSeal) error {
	file, err := Read(ctx, from, a)
	if err != nil {
		return err
	}
	got := store.LogSeal{}
	for _, e := range file.Events {
		if e.Seq != got.Seq+1 {
			return ErrTorn
		}
		got = store.LogSeal{Seq: e.Seq, Hash: store.NextLogHash(got, e)}
	}
	if got != want {
		return ErrTorn
	}
	return nil
}

// Read reads the archived log of a run and checks its hash. Errors: ErrTorn for an object that differs, fs.ErrNotExist
// for one that is missing, and the error of the bucket that broke off, which may be repeated.
func Read(ctx context.Context, from Objects, a store.ArchivedRun) (storeadmin.RunFile, error) {
	in, err := from.OpenArchived(ctx, a.Location)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(err, store.ErrArchiveDamaged)
	}
	if err != nil {
		return storeadmin.RunFile{}, fmt.Errorf("archive: the log of run %s: %w", a.RunID, err)
	}
	defer func() { _ = in.Close() }() // everything was read
	if err := dutycycle.Waited(ctx); err != nil {
		return storeadmin.RunFile{}, err
	}
	sum := sha256.New()
	limited := io.LimitReader(in, cmp.Or(a.Bytes, maxUnpacked)+1) // a longer one has another hash
	stored := &source{from: &restingReader{ctx: ctx, from: limited}}
	hashed := io.TeeReader(stored, sum)
	var file storeadmin.RunFile
	z, err := gzip.NewReader(hashed)
	if err == nil {
		file, err = storeadmin.ReadRun(ctx, io.LimitReader(z, maxUnpacked))
	}
	if err == nil {
		_, err = io.Copy(io.Discard, hashed)
	}
	switch {
	case stored.err != nil:
		return storeadmin.RunFile{}, fmt.Errorf("archive: the log of run %s: %w", a.RunID, stored.err)
	case ctx.Err() != nil:
		return storeadmin.RunFile{}, ctx.Err()
	case err != nil:
		return storeadmin.RunFile{}, errors.Join(ErrTorn, err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != a.SHA256 || file.Run.RunID != a.RunID || file.Run.TenantID != a.TenantID {
		return storeadmin.RunFile{}, ErrTorn
	}
	for i := range file.Events {
		file.Events[i].Identity = file.Run.Identity
	}
	return file, nil
}

// source remembers the error with which the bucket broke off, because readers of gzip and JSON report it as damage.
type source struct {
	from io.Reader
	err  error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// Archive is the archive of a store in a bucket. It is safe for concurrent use.
type Archive struct {
	Store   store.Store
	Objects Objects
}

// WriteRun is Write.
func (a Archive) WriteRun(ctx context.Context, runID string) (store.ArchivedRun, error) {
	return Write(ctx, a.Store, a.Objects, runID)
}

// CheckRun reads the object of a run and compares its hash with that of the mark. ErrTorn when it differs;
// fs.ErrNotExist when it is missing.
func (a Archive) CheckRun(ctx context.Context, r store.ArchivedRun) error {
	_, err := Read(ctx, a.Objects, r)
	return err
}

// RemoveRun removes the objects of a run, its log last, and copies that were written but never marked. An object that
// does not exist is no error.
func (a Archive) RemoveRun(ctx context.Context, r store.ArchivedRun) error {
	if err := a.Objects.RemoveArchived(ctx, r.Location); err != nil {
		return err
	}
	return dutycycle.Waited(ctx)
}

// Copies removes copies of archived runs.
type Copies interface {
	Objects
	// RemoveCopies removes the objects whose names differ from a name only in the hash, and keeps the one of that name.
	RemoveCopies(ctx context.Context, name string) error
	// Copies lists those objects.
	Copies(ctx context.Context, name string) ([]string, error)
}

// FindCopy returns the archive of a run whose object no longer exists, when the bucket has one copy of it: an erasure
// has rewritten the archive since the store that is being restored was saved. found is false without a copy.
func FindCopy(ctx context.Context, from Copies, r store.ArchivedRun) (_ store.ArchivedRun, found bool, err error) {
	names, err := from.Copies(ctx, r.Location)
	if err != nil || len(names) != 1 {
		return r, false, err
	}
	in, err := from.OpenArchived(ctx, names[0])
	if err != nil {
		return r, false, err
	}
	defer func() { _ = in.Close() }() // everything was read
	sum := sha256.New()
	n, err := io.Copy(sum, in)
	if err != nil {
		return r, false, fmt.Errorf("archive: %w", err)
	}
	r.Location, r.SHA256, r.Bytes = names[0], hex.EncodeToString(sum.Sum(nil)), n
	_, err = Read(ctx, from, r)
	return r, err == nil, err
}

// RemoveCopies removes every archive of a run but r, with the tables and manifests beside it.
func RemoveCopies(ctx context.Context, from Copies, r store.ArchivedRun) error {
	for _, name := range append(besides(r.Location), r.Location) {
		if err := from.RemoveCopies(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// eventsAfter returns the events after a seq, up to limit.
func eventsAfter(events []run.Event, after run.Seq, limit int) []run.Event {
	for i, e := range events {
		if e.Seq > after {
			return cloneEvents(events[i:min(len(events), i+limit)])
		}
	}
	return nil
}

// cloneEvents copies events, so that callers cannot change what the cache keeps.
func cloneEvents(events []run.Event) []run.Event {
	out := make([]run.Event, len(events))
	copy(out, events)
	for i := range out {
		out[i].Payload = bytes.Clone(out[i].Payload)
	}
	return out
}
