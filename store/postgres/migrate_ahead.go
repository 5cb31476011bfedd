package postgres

import (
	"context"
	"database/sql"
	"embed"
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

//go:embed ahead/*.sql
var aheads embed.FS

// ahead is what a migration of a large table does before its own transaction, beside servers that write: the columns
// and functions of its file in ahead, which are safe to repeat, then the values of old rows, some in each transaction,
// then the indexes of the migration that say IF NOT EXISTS, concurrently. Nothing reads any of it before the migration
// is done, and one that died on the way is gone on with: what is filled and built stays so.
type ahead struct {
	version int64
	file    string
	fill    string // see fillStartersSQL
}

//nolint:gochecknoglobals // a constant
var allAhead = []ahead{{version: 8, file: "0008_bulk.sql", fill: fillStartersSQL}}

// fillStartersSQL fills what is empty in the next rows after $1. It waits for no row: those that somebody holds are
// left. It answers the last key, "" behind the end, and how many were filled and left.
const fillStartersSQL = `WITH slice AS MATERIALIZED (
  SELECT run_id, triggered_by FROM run_status WHERE run_id > $1 ORDER BY run_id LIMIT 1000
), missing AS MATERIALIZED (
  SELECT r.run_id, r.triggered_by FROM slice JOIN run r USING (run_id) WHERE slice.triggered_by = '' AND r.triggered_by <> ''
), free AS MATERIALIZED (
  SELECT m.* FROM missing m JOIN run_status s USING (run_id) FOR NO KEY UPDATE OF s SKIP LOCKED
), filled AS (
  UPDATE run_status s SET triggered_by = f.triggered_by FROM free f WHERE s.run_id = f.run_id RETURNING 1
)
SELECT coalesce(max(run_id), ''), (SELECT count(*) FROM filled), (SELECT count(*) FROM missing) - (SELECT count(*) FROM free) FROM slice`

// goAhead does what is ahead of the migrations that the database lacks, under their lock.
func (m Migration) goAhead(ctx context.Context, db *sql.DB, p *goose.Provider, l lock.Locker) error {
	for _, a := range allAhead {
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
		if err := errors.Join(m.goAheadOf(ctx, db, p, a), l.Unlock(context.WithoutCancel(ctx), db)); err != nil {
			return fmt.Errorf("ahead of migration %d: %w", a.version, err)
		}
	}
	return nil
}

func (m Migration) goAheadOf(ctx context.Context, db *sql.DB, p *goose.Provider, a ahead) error {
	if have, _, err := p.GetVersions(ctx); err != nil || have >= a.version {
		return err // another process was quicker
	}
	text, err := fs.ReadFile(aheads, "ahead/"+a.file)
	if err != nil {
		return err
	}
	if err := inTx(ctx, db, string(text)); err != nil {
		return err
	}
	var filled bool
	if err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT FROM run)`).Scan(&filled); err != nil || !filled {
		return err // nothing to fill, and indexes cost nothing
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

// indexAhead is an index that may be built before its migration: its name, and what it is on.
var indexAhead = regexp.MustCompile(`(?m)^CREATE INDEX IF NOT EXISTS (\w+) (ON [^;]+);`)

// inTx runs statements in a transaction of their own.
func inTx(ctx context.Context, db *sql.DB, statements string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, statements, pgx.QueryExecModeSimpleProtocol); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// fill passes over the table until nothing is left.
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
			m.Logger.InfoContext(ctx, "rows to fill were in use; they are looked at again", slog.Int("rows", left))
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

// build builds an index concurrently. One that a process which died left unfinished is built anew.
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
