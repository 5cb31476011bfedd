package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/dvt-engine/dvt/store"
)

//go:embed migrations
var migrations embed.FS

// baseline is the first version of the schema. Versions below it belong to programs that were never released; such a
// file is refused and left alone, because nothing migrates it.
const baseline = 20

// migrate migrates the schema to the newest version that this program knows. It does not change a file of a later
// version. It returns nil for such a file if the file declares that programs of this version still work on it.
func migrate(ctx context.Context, db *sql.DB) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return migrateWith(ctx, db, dir)
}

// Schema compares the migrations of the file at path with those of this program. It changes nothing. A file that does
// not exist has no migrations.
func Schema(ctx context.Context, path string) (out store.Schema, err error) {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return out, err
	}
	applied, err := appliedMigrations(ctx, path)
	if err != nil {
		return out, fmt.Errorf("sqlite: read the schema: %w", err)
	}
	return store.CompareSchema(dir, applied)
}

// appliedMigrations returns when each migration was applied, by version.
func appliedMigrations(ctx context.Context, path string) (map[int64]time.Time, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	db, err := sql.Open("sqlite", dsn(path, Options{}.withDefaults())+"&_pragma=query_only(1)")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var tables int
	if err := db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema WHERE name = 'goose_db_version'`).Scan(
		&tables); err != nil || tables == 0 {
		return nil, err
	}
	rows, err := db.QueryContext(ctx,
		`SELECT version_id, unixepoch(tstamp) FROM goose_db_version WHERE is_applied AND version_id > 0`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[int64]time.Time{}
	for rows.Next() {
		var version, at int64
		if err := rows.Scan(&version, &at); err != nil {
			return nil, err
		}
		out[version] = time.Unix(at, 0).UTC()
	}
	return out, rows.Err()
}

// migrateWith applies the migrations in dir, each in one write transaction. If the process dies, the schema stays at
// the previous version. If two processes migrate the same file, the second one finds the tables of the first one and
// tries again.
func migrateWith(ctx context.Context, db *sql.DB, dir fs.FS) error {
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	const tries = 20
	for try := 1; ; try++ {
		err := migrateOnce(ctx, db, p)
		if err == nil || try == tries || errors.Is(err, store.ErrSchema) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func migrateOnce(ctx context.Context, db *sql.DB, p *goose.Provider) error {
	have, known, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > known {
		var compatible int64
		err := db.QueryRowContext(ctx, `SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'compatible_from'`).Scan(
			&compatible)
		if errors.Is(err, sql.ErrNoRows) || err == nil && compatible > known {
			return fmt.Errorf("%w: it is %d and no longer works with programs of schema %d: start a newer dvt", store.ErrSchema,
				have, known)
		}
		return err
	}
	if have == known {
		return nil
	}
	if have > 0 && have < baseline {
		return store.BeforeBaseline(have, baseline)
	}
	_, err = p.Up(ctx)
	return err
}
