package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/dvt-engine/dvt/store"
)

// translate returns the sentinel error of package store for an error of the driver, with the name of the operation. The
// methods of conn call it once for each error.
func (s *Store) translate(what string, err error) error {
	if err == nil {
		return nil
	}
	if s.closed.Load() {
		return fmt.Errorf("sqlite: %s: %w: closed", what, store.ErrUnavailable)
	}
	if kind := classify(err); kind != nil {
		return fmt.Errorf("sqlite: %s: %w: %w", what, kind, err)
	}
	return fmt.Errorf("sqlite: %s: %w", what, err)
}

// notFound returns store.ErrNotFound with the name of the missing row.
func notFound(what string) error { return fmt.Errorf("sqlite: %s: %w", what, store.ErrNotFound) }

// classify returns the sentinel of a driver error, or nil if it has none.
func classify(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return nil
	case errors.Is(err, driver.ErrBadConn):
		return store.ErrUnavailable
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Code() { // extended codes
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY, lib.SQLITE_CONSTRAINT_ROWID:
		return store.ErrConflict
	case lib.SQLITE_INTERRUPT:
		return context.Canceled
	}
	switch e.Code() & 0xff { // primary codes
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_IOERR, lib.SQLITE_FULL, lib.SQLITE_CANTOPEN,
		lib.SQLITE_READONLY, lib.SQLITE_PROTOCOL, lib.SQLITE_NOMEM, lib.SQLITE_PERM, lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return store.ErrUnavailable
	}
	return nil
}
