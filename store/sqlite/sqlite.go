// Package sqlite is the embedded StateStore: one file, no server. It keeps every
// promise of package store for one process and is safe, if slower, for several
// processes on one file (T227). Every write is one BEGIN IMMEDIATE transaction
// in WAL mode with synchronous=FULL, so the database's write lock is the head
// lock and commit order is sequence order (T27, T190). The store's clock is that
// of the machine, the same for every process on the file.
package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
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
	// Now replaces the store's clock in tests.
	Now func() time.Time
}

// Store implements store.Store on one file. Make one with Open.
type Store struct {
	writer, reader *sql.DB
	log            *slog.Logger
	clock          func() time.Time
	closed         atomic.Bool
}

var _ store.Store = (*Store)(nil)

// Open opens the file at path, creates it when it is missing and migrates it
// forward. store.ErrSchema says that a newer program wrote it, with which this one
// no longer works.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.BusyTimeout <= 0 {
		o.BusyTimeout = 10 * time.Second
	}
	if o.Readers <= 0 {
		o.Readers = 4
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{log: o.Logger, clock: o.Now}
	var err error
	if s.writer, err = sql.Open("sqlite", dsn(path, o, "immediate")); err != nil {
		return nil, s.failed("open", err)
	}
	s.writer.SetMaxOpenConns(1)
	if err := migrate(ctx, s.writer); err != nil {
		_ = s.writer.Close()
		return nil, s.failed("open", err)
	}
	if s.reader, err = sql.Open("sqlite", dsn(path, o, "deferred")+"&_pragma=query_only(1)"); err != nil {
		_ = s.writer.Close()
		return nil, s.failed("open", err)
	}
	s.reader.SetMaxOpenConns(o.Readers)
	s.reader.SetMaxIdleConns(o.Readers)
	return s, nil
}

func dsn(path string, o Options, lock string) string {
	q := url.Values{}
	q.Set("_txlock", lock)
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

// Close ends the store; calls in flight may fail with store.ErrUnavailable.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	rerr := s.reader.Close()
	if err := s.writer.Close(); err != nil {
		return fmt.Errorf("sqlite: close: %w", err)
	}
	if rerr != nil {
		return fmt.Errorf("sqlite: close: %w", rerr)
	}
	return nil
}

// write runs f in one write transaction; errors of f come back as they are.
func (s *Store) write(ctx context.Context, what string, f func(*sql.Tx) error) error {
	return s.transact(ctx, s.writer, what, f)
}

// read runs f on one snapshot.
func (s *Store) read(ctx context.Context, what string, f func(*sql.Tx) error) error {
	return s.transact(ctx, s.reader, what, f)
}

func (s *Store) transact(ctx context.Context, db *sql.DB, what string, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return s.failed(what, err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return s.failed(what, err)
	}
	return nil
}
