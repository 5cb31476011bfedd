// Package sqlite is the embedded StateStore: one file, no server. It keeps every
// promise of package store for one process and is safe, if slower, for several
// processes on one file (T227).
//
// One call at a time writes, in WAL mode with synchronous=FULL, so the database's
// write lock is the head lock and commit order is sequence order (T27, T190).
// Calls that wait share one transaction and one commit. Appends and begins among
// them are made together by statements of many rows, any other call works under a
// savepoint; each fails alone and is answered when all of them are durable.
// Statements are prepared once, and every statement of an append is a probe of an
// index, so that its price does not grow with the run or the log. Every read is
// one statement, whatever the number of steps and of runs; a list by text is two.
//
// Nothing is unbounded: a call that finds Options.Waiting others waiting is
// refused with a *store.OverloadedError before anything was tried. The store's
// clock is that of the machine, the same for every process on the file.
package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/store"
)

// Options of Open; the zero value is good.
type Options struct {
	Logger *slog.Logger
	// BusyTimeout is how long a write waits for another process before it answers
	// store.ErrUnavailable. 0 means 10 s.
	BusyTimeout time.Duration
	// Readers is the most concurrent reads. 0 means 4.
	Readers int
	// Waiting is the most writes, and the most reads, that wait for their turn;
	// one more is refused with store.ErrOverloaded. 0 means 1,024.
	Waiting int
	// Now replaces the store's clock in tests.
	Now func() time.Time
	// Trace is told each statement before it runs, with the context of the call that it is
	// for; nil: nobody is. It must not block.
	Trace func(ctx context.Context, statement string)
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = 10 * time.Second
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.Waiting <= 0 {
		o.Waiting = 1024
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Trace == nil {
		o.Trace = func(context.Context, string) {}
	}
	return o
}

// Store implements store.Store on one file. Make one with Open.
type Store struct {
	driver     driver.Driver
	writer     *writer
	readers    *readers
	identities identities
	clock      func() time.Time
	trace      func(ctx context.Context, statement string)
	closed     atomic.Bool
	statements atomic.Int64 // run on any connection
}

var _ store.Store = (*Store)(nil)

// Open opens the file at path, creates it when it is missing and migrates it
// forward. store.ErrSchema says that a newer program wrote it, with which this one
// no longer works.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	o = o.withDefaults()
	s := &Store{clock: o.Now, trace: o.Trace}
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dsn(path, o))
	if err != nil {
		return nil, s.failed("open", err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db); err != nil {
		return nil, s.failed("open", err)
	}
	s.driver = db.Driver()
	s.writer = s.newWriter(o, func() (*conn, error) { return s.connect(dsn(path, o)+ofWriter, true) })
	s.readers = newReaders(o.Readers, o.Waiting, func() (*conn, error) { return s.connect(dsn(path, o)+ofReader, false) })
	return s, nil
}

// makePrivate creates a missing file for its owner alone, because plans may hold secrets. SQLite gives the files beside
// it the same mode. The mode of an existing file is the choice of its owner.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%w: sqlite: open the database %s: %w", store.ErrUnavailable, path, err)
	}
	return f.Close()
}

// ofWriter are settings of the writer alone. Its cache holds the pages that appends
// come back to: keys are hashes, so the leaves of their index are touched at
// random. Between checkpoints the WAL grows to 32 MiB, so that a page that many
// commits wrote goes to the file once.
const ofWriter = "&_pragma=cache_size(-32768)&_pragma=wal_autocheckpoint(8000)" // KiB, pages

// ofReader are settings of readers alone. They see the file through memory, as far as
// SQLite maps one: a page of a list is as many places of the file as it has rows.
const ofReader = "&_pragma=query_only(1)&_pragma=mmap_size(2147418112)"

func dsn(path string, o Options) string {
	q := url.Values{}
	q.Set("_txlock", "immediate") // of migrations; two processes may race for a new file
	// The timeout comes first: switching to WAL already needs it.
	for _, p := range []string{
		"busy_timeout(" + strconv.FormatInt(o.BusyTimeout.Milliseconds(), 10) + ")",
		"journal_mode(WAL)", "synchronous(FULL)",
		"recursive_triggers(1)", // else the triggers do not see the rows that a REPLACE deletes (T208)
	} {
		q.Add("_pragma", p)
	}
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String()
}

// now is the store's clock at the precision that it keeps.
func (s *Store) now() time.Time { return s.clock().Truncate(time.Microsecond).UTC() }

// Close ends the store. Calls that wait are refused with store.ErrUnavailable;
// those that have begun end first.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if err := errors.Join(s.readers.close(), s.writer.close()); err != nil {
		return fmt.Errorf("sqlite: close: %w", err)
	}
	return nil
}

// write runs f in a write transaction that it may share with others; errors of f
// come back as they are.
func (s *Store) write(ctx context.Context, f func(*conn) error) error {
	return s.writer.do(ctx, f)
}

// read runs one statement on a snapshot of its own.
func (s *Store) read(ctx context.Context, f func(*conn) error) error {
	return s.readers.do(ctx, f)
}

// Ping implements store.Ops.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.Epoch(ctx)
	return err
}

// proof is how old the last commit may be to show that the file can be written.
const proof = 5 * time.Second

// Writable implements store.Ops: where no commit of the last seconds shows it, one of its own does.
func (s *Store) Writable(ctx context.Context) error {
	if time.Now().UnixNano()-s.writer.committed.Load() < int64(proof) {
		return nil
	}
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "try to write", `UPDATE meta SET value = value WHERE name = 'epoch'`)
		return err
	})
}

// Epoch implements store.Ops. For one file it is the manual part alone.
func (s *Store) Epoch(ctx context.Context) (string, error) {
	return readOne(ctx, s, "epoch", value[string], epochSQL)
}

const epochSQL = `SELECT value FROM meta WHERE name = 'epoch'`

// BumpEpoch implements store.Ops.
func (s *Store) BumpEpoch(ctx context.Context) error {
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "bump epoch", `UPDATE meta SET value = lower(hex(randomblob(8))) WHERE name = 'epoch'`)
		return err
	})
}
