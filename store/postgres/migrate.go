package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/dvt-engine/dvt/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// A process that finds the migration lock taken looks again every lockProbe,
// lockProbes times.
const (
	lockProbe  = 250 * time.Millisecond
	lockProbes = 1200
)

// The schema versions that this program can work on.
const (
	minSchema = 2
	maxSchema = 2
)

// Migrate brings the schema of the database that dsn names up to date. It may
// be called by any number of processes at once: a lease in a table lets one work
// while the others wait (up to five minutes), without a feature of the session.
// It needs the right to create tables; a newer schema is left alone.
func Migrate(ctx context.Context, dsn string) error {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return fmt.Errorf("postgres: parse dsn: %w", err)
	}
	configure(cfg)
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("postgres: migrations: %w", err)
	}
	locker, err := lock.NewPostgresTableLocker(
		lock.WithTableLockTimeout(lockProbe, lockProbes),
		lock.WithTableLogger(slog.New(slog.DiscardHandler)),
	)
	if err != nil {
		return fmt.Errorf("postgres: migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithLocker(locker))
	if err != nil {
		return fmt.Errorf("postgres: migrations: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("postgres: migrate: %w", translate(ctx, err))
	}
	return nil
}

// checkSchema also warns of a server that acknowledges what it may still lose:
// the promise that effects are durable is then not kept.
func (s *Store) checkSchema(ctx context.Context) error {
	var version int64
	var commits string
	err := s.do(ctx, "read schema version", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT coalesce(max(version_id), 0), current_setting('synchronous_commit')
			FROM goose_db_version WHERE is_applied`).Scan(&version, &commits)
	})
	switch {
	case errors.Is(err, store.ErrSchema):
		return fmt.Errorf("%w: the database is empty, run dvt migrate", store.ErrSchema)
	case err != nil:
		return err
	case version < minSchema || version > maxSchema:
		return fmt.Errorf("%w: it is %d, this program works on %d to %d", store.ErrSchema, version, minSchema, maxSchema)
	}
	if commits == "off" {
		s.log.WarnContext(ctx, "synchronous_commit is off: a crash of the server may lose acknowledged events")
	}
	return nil
}
