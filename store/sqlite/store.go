// Package sqlite implements store.Store in one file, without a server. It keeps every promise of package store for one
// process. Several processes may safely share one file, but writes are slower then (contract T227).
//
// One call at a time writes, in WAL mode with synchronous=FULL. So the write lock of the database serves as the head
// lock, and the order of commits is the order of sequence numbers (contracts T27, T190).
//
// Waiting calls share one transaction and one commit. The appends and starts among them are written together by
// statements with many rows. Every other call works in its own savepoint. Each call fails alone, and each is answered
// after the commit is durable.
//
// Statements are prepared once. Every statement of an append is a probe of an index, so its cost does not grow with the
// run or the log. Every read is one statement, for any number of steps and runs; only a list with a text needs two.
//
// All waiting is bounded. If Options.Waiting calls already wait, another call fails with a *store.OverloadedError and
// has no effect. The store's clock is the clock of the machine, which is the same for all processes that share the
// file.
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

// Options configures Open. The zero value is ready to use.
type Options struct {
	Logger *slog.Logger
	// BusyTimeout is how long a write waits for another process before it returns store.ErrUnavailable. 0 means 10 s.
	BusyTimeout time.Duration
	// Readers is the maximum number of concurrent reads. 0 means 4.
	Readers int
	// Waiting is the maximum number of writes, and of reads, that wait for their turn. A further call fails with
	// store.ErrOverloaded. 0 means 1,024.
	Waiting int
	// Now replaces the store's clock in tests.
	Now func() time.Time
	// Trace is called with each statement before it runs and with the context of its call. It must not block. nil means
	// no tracing.
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

// Store implements store.Store on one file. Open returns one. It is safe for concurrent use.
type Store struct {
	driver     driver.Driver
	writer     *writer
	readers    *readers
	identities identities
	clock      func() time.Time
	trace      func(ctx context.Context, statement string)
	closed     atomic.Bool
	statements atomic.Int64 // counts the executed statements of all connections
}

var _ store.Store = (*Store)(nil)

// Open opens the file at path, creates it if it is missing, and migrates it. It returns store.ErrSchema if a newer
// program wrote the file and this program no longer works on it.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	o = o.withDefaults()
	s := &Store{clock: o.Now, trace: o.Trace}
	if err := makePrivate(path); err != nil {
		return nil, err
	}
	if err := setPageSize(ctx, path, o); err != nil {
		return nil, s.translate("open", err)
	}
	db, err := sql.Open("sqlite", dsn(path, o))
	if err != nil {
		return nil, s.translate("open", err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := migrate(ctx, db); err != nil {
		return nil, s.translate("open", err)
	}
	s.driver = db.Driver()
	s.writer = s.newWriter(o, func() (*conn, error) { return s.connect(dsn(path, o)+writerSettings, true) })
	s.readers = newReaders(o.Readers, o.Waiting, func() (*conn, error) {
		return s.connect(dsn(path, o)+readerSettings, false)
	})
	return s, nil
}

// makePrivate creates a missing file that only its owner can read, because plans may contain secrets. SQLite gives the
// files beside it the same mode. It does not change the mode of an existing file, because that is the owner's choice.
func makePrivate(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%w: sqlite: open the database %s: %w", store.ErrUnavailable, path, err)
	}
	return f.Close()
}

// pageSize is the size of the pages of a new file in bytes. A row of a table without rowids may take about a quarter of
// a page. The header of a run has 1.0 to 1.6 kB and does not fit into a quarter of the usual 4 KiB: each row would then
// have an overflow page, and a page of a list would read several times as much of the file.
const pageSize = 8 << 10

// setPageSize gives an empty file its page size. A file with content keeps its own. It needs a connection of its own,
// because the driver sorts the settings of a connection by name, and the switch to WAL fixes the size.
func setPageSize(ctx context.Context, path string, o Options) error {
	if info, err := os.Stat(path); err != nil || info.Size() > 0 {
		return err
	}
	db, err := sql.Open("sqlite", fileURL(path, url.Values{"_pragma": {busyTimeout(o)}}))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, `PRAGMA page_size = `+strconv.Itoa(pageSize)+`; PRAGMA journal_mode = WAL`)
	return errors.Join(err, db.Close())
}

// writerSettings are settings of the writer's connection. Its cache holds the pages that appends need again: keys are
// hashes, so they touch random leaves of their index. Between checkpoints the WAL may grow to 32 MiB, or to 16 MiB
// where pages have 4 KiB, so that a page that many commits change is written to the file once.
const writerSettings = "&_pragma=cache_size(-32768)&_pragma=wal_autocheckpoint(4000)" // KiB, pages

// readerSettings are settings of the readers' connections. They map as much of the file into memory as SQLite allows,
// because a page of a list needs about one page of the file per row.
const readerSettings = "&_pragma=query_only(1)&_pragma=mmap_size(2147418112)"

func dsn(path string, o Options) string {
	q := url.Values{}
	q.Set("_txlock", "immediate") // for migrations, because two processes may create the same file
	// The timeout comes first, because the switch to WAL already needs it.
	for _, p := range []string{
		busyTimeout(o),
		"journal_mode(WAL)", "synchronous(FULL)",
		"recursive_triggers(1)", // otherwise triggers miss the rows that a REPLACE deletes (contract T208)
	} {
		q.Add("_pragma", p)
	}
	return fileURL(path, q)
}

func busyTimeout(o Options) string {
	return "busy_timeout(" + strconv.FormatInt(o.BusyTimeout.Milliseconds(), 10) + ")"
}

func fileURL(path string, q url.Values) string {
	return (&url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath(), RawQuery: q.Encode()}).String()
}

// now returns the store's clock, truncated to the precision that columns store.
func (s *Store) now() time.Time { return s.clock().Truncate(time.Microsecond).UTC() }

// Close closes the store. Waiting calls fail with store.ErrUnavailable. Close waits for running calls.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if err := errors.Join(s.readers.close(), s.writer.close()); err != nil {
		return fmt.Errorf("sqlite: close: %w", err)
	}
	return nil
}

// write runs f in a write transaction that it may share with other calls. It returns errors of f unchanged.
func (s *Store) write(ctx context.Context, f func(*conn) error) error {
	return s.writer.do(ctx, f)
}

// read runs f, which executes one statement, on a connection of the reader.
func (s *Store) read(ctx context.Context, f func(*conn) error) error {
	return s.readers.do(ctx, f)
}

// Ping implements store.Ops.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.Epoch(ctx)
	return err
}

// writableProof is the maximum age of a commit that still shows that the file can be written.
const writableProof = 5 * time.Second

// CheckWritable implements store.Ops. If no commit of the last seconds shows that the file can be written, it commits a
// transaction itself.
func (s *Store) CheckWritable(ctx context.Context) error {
	if time.Now().UnixNano()-s.writer.committed.Load() < int64(writableProof) {
		return nil
	}
	return s.write(ctx, func(c *conn) error {
		_, err := c.exec(ctx, "try to write", `UPDATE meta SET value = value WHERE name = 'epoch'`)
		return err
	})
}

// Epoch implements store.Ops. The epoch of a file consists of the manual epoch only.
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
