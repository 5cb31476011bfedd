package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// SQLSTATE codes and classes that this package handles.
const (
	codeNotText           = "22021" // broken UTF-8, or a NUL
	codeNotJSON           = "22P02"
	codeUniqueViolation   = "23505"
	codeReadOnly          = "25006"
	codeIdleInTransaction = "25P03"
	codeNotPrepared       = "26000" // the prepared statement belongs to another session
	codePreparedTwice     = "42P05"
	codeSerialization     = "40001"
	codeDeadlock          = "40P01"
	codeUndefinedTable    = "42P01"
	codeUndefinedColumn   = "42703"
	codeLockNotAvailable  = "55P03"
	codeNotInRecovery     = "55000" // WAL position of a standby
	codeQueryCancelled    = "57014"
	classConnection       = "08"
	classResources        = "53"
	classOperator         = "57" // shutdown, crash, not yet ready
)

// lostError marks a failure of the connection itself.
type lostError struct{ err error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// isRetryable reports whether err rolled back the whole transaction and a retry may succeed.
func isRetryable(err error) bool {
	code := sqlState(err)
	return code == codeSerialization || code == codeDeadlock
}

// isNotPrepared reports whether the session did not know the prepared statement, so that it had no effect. This happens
// behind a pooler that shares sessions.
func isNotPrepared(err error) bool {
	code := sqlState(err)
	return code == codeNotPrepared || code == codePreparedTwice
}

func sqlState(err error) string {
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// translate returns the sentinel error of package store for an error of the driver. Errors of ctx, sentinels and errors
// of the caller are returned unchanged.
func translate(ctx context.Context, err error) error {
	if err == nil || errors.As(err, new(*ownError)) || errors.Is(err, store.ErrOverloaded) {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", context.Cause(ctx), err)
	}
	code := sqlState(err)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return store.ErrNotFound
	case code == codeNotText, code == codeNotJSON:
		return fmt.Errorf("%w (%w)", &run.SchemaError{Violations: []plan.Violation{
			{Path: "payload", Code: string(run.CodeSchemaValidation), Message: "the database cannot keep this text"}}}, err)
	case code == codeUniqueViolation:
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	case code == codeUndefinedTable, code == codeUndefinedColumn:
		return fmt.Errorf("%w: %w", store.ErrSchema, err)
	case code == codeReadOnly:
		return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, store.ErrReadOnly, err)
	case code == codeIdleInTransaction, code == codeSerialization, code == codeDeadlock,
		code == codeLockNotAvailable, code == codeNotInRecovery, code == codeQueryCancelled,
		strings.HasPrefix(code, classConnection), strings.HasPrefix(code, classResources),
		strings.HasPrefix(code, classOperator),
		code == "" && isConnectionLost(err):
		return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	return err
}

func isConnectionLost(err error) bool {
	var network net.Error
	return errors.As(err, new(*lostError)) || errors.As(err, new(*pgconn.ConnectError)) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded)
}
