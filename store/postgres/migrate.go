package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/dvt-engine/dvt/store"
)

//go:embed migrations
var migrations embed.FS

// baseline is the first version of the schema. Versions below it belong to programs that were never released; such a
// database is refused and left alone, because nothing migrates it.
const baseline = 20

// schema is the version that this program works on: the number of its newest migration.
const schema = 37

// A process that finds the migration lock taken tries again every lockProbe, at most lockProbes times. If the holder
// died, the lock expires after lockLease.
const (
	lockProbe  = 250 * time.Millisecond
	lockProbes = 1200
	lockLease  = 10 * time.Second
	lockBeat   = 2 * time.Second
)

// A migration is tried again after busyPause, for busyFor in total, if it does not get the lock of a table within the
// lock_timeout of its file, or if it was the victim of a deadlock with a server.
const (
	busyPause = time.Second
	busyFor   = 5 * time.Minute
)

// Migration migrates the schema of a database to the version of this program. The zero value is ready to use.
type Migration struct {
	// AppRole is the role that servers connect as. If it is not empty, Run grants the role the rights that a server
	// needs and revokes all others (contract T208). The role must exist.
	AppRole  string
	Logger   *slog.Logger  // discards when nil
	Password func() string // as in Options

	files fs.FS   // for tests: replaces the migrations of the program
	ahead []ahead // for tests: the work ahead of these migrations
}

// Migrate runs a Migration without AppRole.
func Migrate(ctx context.Context, dsn string) error { return Migration{}.Run(ctx, dsn) }

// Run migrates the database that dsn names. It needs the rights of the database's owner.
//
// Any number of processes may call it concurrently. A lease in a table lets one process work while the others wait, up
// to five minutes. It needs no session state, so a pooler may be in between.
//
// Each migration is one transaction. If the process dies, the schema stays at the previous version and the lock expires
// after ten seconds. Work ahead of a migration (filling old rows and building indexes while servers write) is kept. Run
// waits for a busy table in short slices, so that servers can continue.
//
// Run does not change a newer schema. If AppRole is set, a newer schema is store.ErrSchema.
func (m Migration) Run(ctx context.Context, dsn string) error {
	if m.Logger == nil {
		m.Logger = slog.New(slog.DiscardHandler)
	}
	db, user, err := m.open(dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	if m.files == nil {
		if m.files, err = fs.Sub(migrations, "migrations"); err != nil {
			return fmt.Errorf("postgres: migrations: %w", err)
		}
		m.ahead = allAhead
	}
	err = m.run(ctx, db)
	if sqlState(err) == codeInsufficientPrivilege {
		return fmt.Errorf("postgres: migrate: the role %q does not own this database: migrate as its owner (%w)", user,
			err)
	}
	if err = translate(ctx, err); err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	return nil
}

// open returns a pool for the database that dsn names, and the role that it connects as. Logger must be set.
func (m Migration) open(dsn string) (db *sql.DB, user string, err error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, "", fmt.Errorf("postgres: parse dsn: %w", err)
	}
	configure(cfg)
	return stdlib.OpenDB(*cfg, stdlib.OptionBeforeConnect((&credentials{dsn: dsn, password: m.Password,
		log: m.Logger}).refresh)), cfg.User, nil
}

// Schema compares the migrations of the database that dsn names with those of this program. It changes nothing, and any
// role that may read the table of the migrations may call it.
func (m Migration) Schema(ctx context.Context, dsn string) (out store.Schema, err error) {
	if m.Logger == nil {
		m.Logger = slog.New(slog.DiscardHandler)
	}
	db, _, err := m.open(dsn)
	if err != nil {
		return out, err
	}
	defer db.Close()
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return out, fmt.Errorf("postgres: migrations: %w", err)
	}
	applied, err := appliedMigrations(ctx, db)
	if err != nil {
		return out, fmt.Errorf("postgres: read the schema: %w", translate(ctx, err))
	}
	return store.CompareSchema(files, applied)
}

// appliedMigrations returns when each migration was applied, by version. It returns none for an empty database.
func appliedMigrations(ctx context.Context, db *sql.DB) (map[int64]time.Time, error) {
	var exists bool
	err := db.QueryRowContext(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&exists)
	if err != nil || !exists {
		return nil, err
	}
	rows, err := db.QueryContext(ctx,
		`SELECT version_id, tstamp::timestamptz FROM goose_db_version WHERE is_applied AND version_id > 0`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[int64]time.Time{}
	for rows.Next() {
		var version int64
		var at time.Time
		if err := rows.Scan(&version, &at); err != nil {
			return nil, err
		}
		out[version] = at.UTC()
	}
	return out, rows.Err()
}

func (m Migration) run(ctx context.Context, db *sql.DB) error {
	if m.AppRole != "" { // report a bad role before anything is changed
		if err := checkRole(ctx, db, m.AppRole); err != nil {
			return err
		}
	}
	end := time.Now().Add(busyFor)
	for try := 1; ; try++ {
		err := m.up(ctx, db)
		if err == nil {
			break
		}
		if sqlState(err) != codeLockNotAvailable && !isRetryable(err) || time.Now().After(end) {
			return err
		}
		m.Logger.InfoContext(ctx, "a table that the migration changes is in use; it is tried again", slog.Int("try", try),
			slog.Any("error", err))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(busyPause):
		}
	}
	if m.AppRole == "" {
		return nil
	}
	l, err := m.locker() // concurrent GRANTs on one table fail
	if err != nil {
		return err
	}
	if err := l.Lock(ctx, db); err != nil {
		return err
	}
	return errors.Join(grant(ctx, db, m.AppRole), l.Unlock(ctx, db))
}

func (m Migration) up(ctx context.Context, db *sql.DB) error {
	l, err := m.locker()
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, m.files, goose.WithLocker(l),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return err
	}
	have, err := p.GetDBVersion(ctx)
	if err != nil {
		return err
	}
	if have > 0 && have < baseline {
		return store.BeforeBaseline(have, baseline)
	}
	if err := m.workAhead(ctx, db, p, l); err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

func (m Migration) locker() (lock.Locker, error) {
	l, err := lock.NewPostgresTableLocker(
		lock.WithTableLockTimeout(lockProbe, lockProbes),
		lock.WithTableLeaseDuration(lockLease),
		lock.WithTableHeartbeatInterval(lockBeat),
		lock.WithTableRetryPolicy(isLockRetryable),
		lock.WithTableLogger(slog.New(slog.DiscardHandler)),
	)
	return loggingLocker{l, m.Logger}, err
}

// isLockRetryable returns false for errors that the server would return again, such as missing rights.
func isLockRetryable(err error) bool {
	return sqlState(err) == "" || isRetryable(err) || errors.Is(translate(context.Background(), err), store.ErrUnavailable)
}

// loggingLocker logs which process holds the lock that it waits for.
type loggingLocker struct {
	lock.Locker
	log *slog.Logger
}

// Lock implements lock.Locker.
func (l loggingLocker) Lock(ctx context.Context, db *sql.DB) error {
	won := make(chan struct{})
	var logging sync.WaitGroup
	logging.Go(func() {
		select {
		case <-won:
		case <-time.After(4 * lockProbe):
			var by string
			var since, until time.Time
			if err := db.QueryRowContext(ctx, `SELECT locked_by, locked_at, lease_expires_at FROM goose_lock WHERE locked`).
				Scan(&by, &since, &until); err != nil {
				return // the lock is free now
			}
			l.log.InfoContext(ctx, "waiting for another migration, or for the end of its lease if its process died",
				slog.String("holder", by), slog.Time("since", since), slog.Time("leaseUntil", until))
		}
	})
	defer logging.Wait()
	defer close(won)
	return l.Locker.Lock(ctx, db)
}

// checkSchema refuses a database whose schema does not fit this program. A program works on its own schema and on each
// later one that is compatible: every migration records the oldest program that still works. checkSchema also logs a
// warning if the settings of the server or the rights of the role break a promise of the store.
func (s *Store) checkSchema(ctx context.Context) error {
	var version int64
	var compatible *int64
	var commits string
	var mayChange bool
	err := s.do(ctx, "read schema version", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT (SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied),
			(SELECT value FROM meta WHERE name = 'compatible_from'), current_setting('synchronous_commit'),
			`+mayChangeSQL+` FROM pg_roles r WHERE r.rolname = current_user`).Scan(&version, &compatible, &commits, &mayChange)
	})
	role := s.pool.Load().Config().ConnConfig.User
	switch {
	case errors.Is(err, store.ErrSchema):
		return fmt.Errorf("%w: the database is empty, run dvt migrate", store.ErrSchema)
	case sqlState(err) == codeInsufficientPrivilege:
		return fmt.Errorf("the role that dvt connects as lacks rights: run dvt migrate with --app-role %s, as the owner (%w)",
			role, err)
	case err != nil:
		return err
	}
	if err := checkVersion(version, compatible, schema); err != nil {
		return err
	}
	if commits == "off" {
		s.log.WarnContext(ctx, "synchronous_commit is off: a crash of the server may lose acknowledged events")
	}
	if mayChange {
		s.log.WarnContext(
			ctx, "the role that dvt connects as may change events and the audit: give servers a role of their own with dvt "+
				"migrate --app-role",
			slog.String("role", role))
	}
	return nil
}

// checkVersion returns an error if a program with schema program cannot work on a database of schema version.
// compatible is the oldest program that works on the database, or nil if the database does not say.
func checkVersion(version int64, compatible *int64, program int64) error {
	switch {
	case version == 0:
		return fmt.Errorf("%w: the database is empty, run dvt migrate", store.ErrSchema)
	case version < baseline:
		return store.BeforeBaseline(version, baseline)
	case version < program:
		return fmt.Errorf("%w: it is %d, this program needs %d: run dvt migrate of this version", store.ErrSchema, version,
			program)
	case version > program && (compatible == nil || *compatible > program):
		return fmt.Errorf("%w: it is %d and no longer works with programs of schema %d: start a newer dvt", store.ErrSchema,
			version, program)
	}
	return nil
}
