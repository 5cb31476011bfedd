// Package postgres is the StateStore on PostgreSQL 13 or later, for many
// processes. Besides what package store promises:
//
// Every write to the log of a run holds the row lock of its head from before
// the decision until the commit, so that the order of commits is the order of
// runSeq (T27, T190). It needs no feature of a session (no advisory locks, no
// LISTEN, no SET outside a transaction), so any transaction-level pooler may stand
// in between (T203): statements are prepared, and when a pooler loses them, which
// shows before anything is done, the store goes on without. Locks are taken in one
// order: head, queue, signal and delivery, state (T207); a deadlock or
// serialisation failure is repeated a few times before it is ErrUnavailable.
// The epoch is the manual epoch and the WAL timeline, so a failover shows as a
// change (T194); it is read on the primary.
package postgres

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Limits that are not worth an option.
const (
	// DefaultMaxConns is the size of the pool; callers beyond it wait.
	DefaultMaxConns = 16
	// acquireTimeout is how long a caller waits for a connection before ErrUnavailable.
	acquireTimeout = 5 * time.Second
	// callTimeout ends one call, and on the server one statement of it.
	callTimeout = 30 * time.Second
	// idleTimeout frees the locks of a process that vanished inside a transaction.
	idleTimeout = 10 * time.Second
	// overloadRetry is when a refused caller may come back.
	overloadRetry = 250 * time.Millisecond
	// cancelGrace is how long a cancelled statement may take to end before its
	// connection is closed.
	cancelGrace = time.Second
	// maxIdentities is how many runs' immutable facts are kept in memory.
	maxIdentities = 10000
	// DefaultMaxWaiting is how many callers wait for a connection; further ones are
	// refused with a *store.OverloadedError.
	DefaultMaxWaiting = 1024
	// maxTries bounds the repetition of a deadlock or serialisation failure.
	maxTries = 5
)

// Options configure Open; the zero value is ready to use.
type Options struct {
	MaxConns   int          // DefaultMaxConns when 0
	MaxWaiting int          // DefaultMaxWaiting when 0
	Logger     *slog.Logger // discards when nil
	Migrate    bool         // bring the schema up to date first
	// Password returns the password of the next connection; nil: that of the DSN.
	Password func() string
}

// Store is a StateStore on one PostgreSQL database.
type Store struct {
	pool       atomic.Pointer[pgxpool.Pool]
	unprepared sync.Once // the change to statements that are not prepared
	most       int64     // callers between asking for a connection and having it
	waiting    atomic.Int64
	log        *slog.Logger
	identities *lru.Cache[string, run.Identity]
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Batcher = (*Store)(nil)
	_ store.Grouper = (*Store)(nil)
	_ store.Creator = (*Store)(nil)
)

// Open connects to the database that dsn names (a URL or key=value string) and
// checks its schema: store.ErrSchema when it is outside this program's range,
// store.ErrUnavailable when the server cannot be reached. application_name is
// "dvt" unless dsn gives one. The certificates and password files that dsn names are
// read again for each connection.
func Open(ctx context.Context, dsn string, o Options) (*Store, error) {
	if o.Migrate {
		if err := (Migration{Password: o.Password}).Run(ctx, dsn); err != nil {
			return nil, err
		}
	}
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("postgres: parse dsn: %w", err)
	}
	configure(cfg.ConnConfig)
	cfg.MaxConns = DefaultMaxConns
	if o.MaxConns > 0 {
		cfg.MaxConns = int32(min(o.MaxConns, 1<<15))
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.BeforeConnect = (&credentials{dsn: dsn, password: o.Password, log: o.Logger}).refresh
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: open pool: %w", err)
	}
	identities, err := lru.New[string, run.Identity](maxIdentities)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s := &Store{log: o.Logger, identities: identities, most: int64(cfg.MaxConns) +
		int64(cmp.Or(o.MaxWaiting, DefaultMaxWaiting))}
	s.pool.Store(pool)
	if err := s.checkSchema(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func configure(cfg *pgx.ConnConfig) {
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "dvt"
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = acquireTimeout
	}
	cfg.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.CancelRequestContextWatcherHandler{Conn: c, DeadlineDelay: cancelGrace}
	}
}

// Close waits for calls in flight and closes every connection.
func (s *Store) Close() error {
	s.pool.Load().Close()
	return nil
}

// Ping reports whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	return s.do(ctx, "ping", func(ctx context.Context, c *pgx.Conn) error { return c.Ping(ctx) })
}

// Writable reports whether the database takes writes: a standby does not, nor one that was set to read alone.
func (s *Store) Writable(ctx context.Context) error {
	return s.do(ctx, "try to write", func(ctx context.Context, c *pgx.Conn) error {
		var not bool
		err := c.QueryRow(ctx, `SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool`).Scan(&not)
		if err == nil && not {
			return fmt.Errorf("%w: the database takes no writes", store.ErrUnavailable)
		}
		return err
	})
}

// epochSQL is the epoch of T194 as an expression. The name of the current WAL
// file begins with the timeline; a standby refuses it, for the primary is to be asked.
const epochSQL = `((SELECT value FROM meta WHERE name = 'epoch')::text || '.' ||
  substring(pg_walfile_name(pg_current_wal_lsn()) for 8))`

// Epoch reads the storeEpoch.
func (s *Store) Epoch(ctx context.Context) (epoch string, err error) {
	err = s.do(ctx, "epoch", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT `+epochSQL).Scan(&epoch)
	})
	return epoch, err
}

// BumpEpoch raises the manual epoch, after a restore. What a dump says was changed
// by transactions that this server has not reached was changed by this one.
func (s *Store) BumpEpoch(ctx context.Context) error {
	return s.do(ctx, "bump epoch", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `WITH restored AS (
			UPDATE run_state SET xid = pg_current_xact_id() WHERE xid > pg_current_xact_id())
			UPDATE meta SET value = value + 1 WHERE name = 'epoch'`)
		return err
	})
}

// do lends f a connection for one call: one statement, one batch or one
// transaction. It bounds the wait for the connection and the call, ends a
// transaction that f left open, repeats what a deadlock undid, and translates
// the error.
func (s *Store) do(ctx context.Context, what string, f func(context.Context, *pgx.Conn) error) error {
	var err error
	for try := 1; ; try++ {
		err = s.once(ctx, f)
		if forgotten(err) {
			s.unprepare(ctx)
		} else if !repeatable(err) {
			break
		}
		if try == maxTries {
			break
		}
		s.log.DebugContext(ctx, "transaction repeated", slog.String("call", what), slog.Int("try", try),
			slog.Any("error", err))
	}
	if err = translate(ctx, err); err != nil {
		return fmt.Errorf("postgres: %s: %w", what, err)
	}
	return nil
}

// collect reads the rows of one statement.
func collect[T any](ctx context.Context, s *Store, what string, scan pgx.RowToFunc[T], sql string,
	args ...any) (out []T, err error) {
	err = s.do(ctx, what, func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, scan)
		return err
	})
	return out, err
}

func (s *Store) once(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	conn, err := s.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = f(call, conn.Conn())
	if err != nil && conn.Conn().IsClosed() {
		return &lostError{err}
	}
	if conn.Conn().PgConn().TxStatus() != 'I' {
		s.rollback(ctx, conn.Conn())
	}
	return err
}

// acquire waits for a connection unless too many do.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if s.waiting.Add(1) > s.most {
		s.waiting.Add(-1)
		return nil, &store.OverloadedError{RetryAfter: overloadRetry}
	}
	defer s.waiting.Add(-1)
	ctx, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	conn, err := s.pool.Load().Acquire(ctx)
	if err != nil {
		return nil, &lostError{err}
	}
	return conn, nil
}

// unprepare goes on without prepared statements: a pooler in between keeps none.
// Calls in flight end on the connections that they have.
func (s *Store) unprepare(ctx context.Context) {
	s.unprepared.Do(func() {
		old := s.pool.Load()
		cfg := old.Config()
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg)
		if err != nil {
			s.log.WarnContext(ctx, "prepared statements are lost in between, and the store cannot do without",
				slog.Any("error", err))
			return
		}
		s.log.InfoContext(ctx, "a pooler in between keeps no prepared statements: going on without")
		s.pool.Store(pool)
		go old.Close() // it waits for the calls in flight
	})
}

// rollback ends the open transaction even when ctx is over; a connection that
// refuses is closed by the pool.
func (s *Store) rollback(ctx context.Context, c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer cancel()
	if _, err := c.Exec(ctx, `rollback`); err != nil {
		s.log.DebugContext(ctx, "rollback", slog.Any("error", err))
	}
}

// Connections is how many connections to the database are open.
func (s *Store) Connections() int { return int(s.pool.Load().Stat().TotalConns()) }
