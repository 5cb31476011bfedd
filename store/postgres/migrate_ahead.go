package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// ahead is the part of a migration of a large table that runs before the migration's transaction, while servers write.
// It has three parts. First, the statements of its file, which are safe to repeat and add columns and functions. Then
// fill, which sets the values of old rows in small transactions. Last, the indexes of the migration that say IF NOT
// EXISTS, which are built concurrently.
//
// Nothing reads the results before the migration is done. If the process dies, the next process continues with what is
// done.
type ahead struct {
	version int64
	file    string // the migration's name; the statements are in ahead/ beside the migrations
	// fill sets the missing values in the next rows after the key $1. It skips rows that other transactions have
	// locked, so it never waits. It returns the last key ("" at the end), the number of rows that it set and the number
	// that it skipped.
	fill string
}

// allAhead is the work ahead of the program's own migrations. The baseline needs none, because it runs in an empty
// database.
var allAhead = []ahead{ //nolint:gochecknoglobals // a table
	{version: 24, file: "0024_run_order.sql", fill: fillRunOrderSQL},
}

// fillRunOrderSQL sets the end and the duration of runs that ended before migration 24.
const fillRunOrderSQL = `WITH slice AS MATERIALIZED (
  SELECT run_id, ended_at, status FROM run_status WHERE run_id > $1 ORDER BY run_id LIMIT 1000
), missing AS MATERIALIZED (
  SELECT run_id, st.header FROM slice JOIN run_state st USING (run_id)
  WHERE slice.ended_at IS NULL AND slice.status IN ('COMPLETED', 'FAILED', 'CANCELLED')
    AND st.header ->> 'completedAt' IS NOT NULL
), free AS MATERIALIZED (
  SELECT m.* FROM missing m JOIN run_status s USING (run_id) FOR NO KEY UPDATE OF s SKIP LOCKED
), filled AS (
  UPDATE run_status s SET ended_at = (f.header ->> 'completedAt')::timestamptz, took = dvt_took(f.header)
  FROM free f WHERE s.run_id = f.run_id RETURNING 1
)
SELECT coalesce(max(run_id), ''), (SELECT count(*) FROM filled),
  (SELECT count(*) FROM missing) - (SELECT count(*) FROM free) FROM slice`

// workAhead does the work ahead of the migrations that the database lacks, under the lock of the migrations.
func (m Migration) workAhead(ctx context.Context, db *sql.DB, p *goose.Provider, l lock.Locker) error {
	for _, a := range m.ahead {
		have, last, err := p.GetVersions(ctx)
		if err != nil {
			return err
		}
		if have >= a.version || last < a.version {
			continue
		}
		if _, err := p.UpTo(ctx, a.version-1); err != nil {
			return err
		}
		if err := l.Lock(ctx, db); err != nil {
			return err
		}
		if err := errors.Join(m.workAheadOf(ctx, db, p, a), l.Unlock(context.WithoutCancel(ctx), db)); err != nil {
			return fmt.Errorf("ahead of migration %d: %w", a.version, err)
		}
	}
	return nil
}

func (m Migration) workAheadOf(ctx context.Context, db *sql.DB, p *goose.Provider, a ahead) error {
	if have, _, err := p.GetVersions(ctx); err != nil || have >= a.version {
		return err // another process has done it
	}
	text, err := fs.ReadFile(m.files, "ahead/"+a.file)
	if err != nil {
		return err
	}
	if err := runInTx(ctx, db, string(text)); err != nil {
		return err
	}
	var runs bool
	if err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM run)`).Scan(&runs); err != nil || !runs {
		return err // nothing to fill; the migration builds the indexes of an empty table at once
	}
	if err := m.fill(ctx, db, a); err != nil {
		return err
	}
	if text, err = fs.ReadFile(m.files, a.file); err != nil {
		return err
	}
	for _, index := range indexAhead.FindAllStringSubmatch(string(text), -1) {
		if err := m.build(ctx, db, index[1], index[2]); err != nil {
			return err
		}
	}
	return nil
}

// indexAhead matches an index that may be built before its migration: the name, and the table with the columns.
var indexAhead = regexp.MustCompile(`(?m)^CREATE INDEX IF NOT EXISTS (\w+)\s+(ON [^;]+);`)

// runInTx runs statements in a new transaction.
func runInTx(ctx context.Context, db *sql.DB, statements string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, statements, pgx.QueryExecModeSimpleProtocol); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// fill passes over the table until no row is left to fill.
func (m Migration) fill(ctx context.Context, db *sql.DB, a ahead) error {
	from, rows, left := time.Now(), 0, 1
	for left > 0 {
		left = 0
		for after, end := "", false; !end; {
			var n, held int
			if err := db.QueryRowContext(ctx, a.fill, after).Scan(&after, &n, &held); err != nil {
				return err
			}
			end, rows, left = after == "", rows+n, left+held
		}
		if left > 0 {
			m.Logger.InfoContext(ctx, "some rows to fill are locked; trying again", slog.Int("rows", left))
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(lockProbe):
			}
		}
	}
	m.Logger.InfoContext(ctx, "old rows are filled", slog.Int64("migration", a.version), slog.Int("rows", rows),
		slog.Duration("took", time.Since(from)))
	return nil
}

// build builds an index concurrently. It drops an invalid index first, which a process that died leaves behind.
func (m Migration) build(ctx context.Context, db *sql.DB, name, on string) error {
	var valid *bool
	if err := db.QueryRowContext(ctx, `SELECT (SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1))`,
		name).Scan(&valid); err != nil {
		return err
	}
	if valid != nil && *valid {
		return nil
	}
	from := time.Now()
	for _, statement := range []string{`DROP INDEX CONCURRENTLY IF EXISTS ` + name, `CREATE INDEX CONCURRENTLY ` + name +
		` ` + on} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	m.Logger.InfoContext(ctx, "an index is built", slog.String("index", name), slog.Duration("took", time.Since(from)))
	return nil
}
