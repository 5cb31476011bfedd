// Package postgres implements store.Store on PostgreSQL 13 or later, for many processes. In addition to the promises of
// package store:
//
// Every write to the log of a run locks the row of its head before the decision and until the commit, so the order of
// commits is the order of runSeq (contracts T27, T190).
//
// The store uses no session state: no advisory locks, no LISTEN and no SET outside a transaction. So it works behind
// any transaction-level pooler (contract T203). If the pooler loses prepared statements, the statement fails without
// effect and the store continues without them.
//
// Transactions take locks in one order: head, queue, signal and delivery, state (contract T207). A deadlock or
// serialization failure is retried a few times before it becomes store.ErrUnavailable.
//
// The epoch consists of the manual epoch and the WAL timeline, so that a failover changes it (contract T194). A
// connection belongs to the epoch in which it was opened. The store refuses connections of an epoch older than the
// newest one that it has seen, so that a former primary that comes back gets no call.
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
	"github.com/dvt-engine/dvt/store/epoch"
)

// Limits that need no option.
const (
	// DefaultMaxConns is the size of the connection pool. Further callers wait.
	DefaultMaxConns = 16
	// acquireTimeout is how long a caller waits for a connection before ErrUnavailable.
	acquireTimeout = 5 * time.Second
	// callTimeout limits one call, and on the server each of its statements.
	callTimeout = 30 * time.Second
	// idleTimeout ends a transaction whose process has vanished, so that its locks are released.
	idleTimeout = 10 * time.Second
	// overloadRetry is the RetryAfter of a refused call.
	overloadRetry = 250 * time.Millisecond
	// cancelGrace is how long a cancelled statement may take to end before its connection is closed.
	cancelGrace = time.Second
	// maxIdentities is the number of run identities in the cache.
	maxIdentities = 10000
	// DefaultMaxWaiting is how many callers may wait for a connection. Further calls fail with a
	// *store.OverloadedError.
	DefaultMaxWaiting = 1024
	// maxTries bounds the attempts of a call that deadlocks or fails to serialize.
	maxTries = 5
)

// Options configures Open. The zero value is ready to use.
type Options struct {
	MaxConns   int          // DefaultMaxConns when 0
	MaxWaiting int          // DefaultMaxWaiting when 0
	Logger     *slog.Logger // discards when nil
	Migrate    bool         // migrate the schema first
	// Password returns the password of the next connection; nil: that of the DSN.
	Password func() string
	// ReadOnly has the database refuse every write, with store.ErrReadOnly.
	ReadOnly bool
}

// Store implements store.Store on one PostgreSQL database. Open returns one. It is safe for concurrent use.
type Store struct {
	pool       atomic.Pointer[pgxpool.Pool]
	unprepared sync.Once // guards the switch to unprepared statements
	maxWaiting int64     // the most callers in acquire
	waiting    atomic.Int64
	log        *slog.Logger
	identities *lru.Cache[string, run.Identity]
	alertRoom  store.AlertRoom
	fence      epoch.Fence
}

var (
	_ store.Store   = (*Store)(nil)
	_ store.Batcher = (*Store)(nil)
	_ store.Grouper = (*Store)(nil)
	_ store.Creator = (*Store)(nil)
)

// Open connects to the database that dsn names (a URL or a key=value string) and checks its schema. It returns
// store.ErrSchema if the schema does not fit this program, and store.ErrUnavailable if the server cannot be reached.
//
// application_name is "dvt" unless dsn sets it. The store reads the certificates and password files that dsn names
// again for each new connection.
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
	if o.ReadOnly {
		cfg.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on"
	}
	s := &Store{log: o.Logger}
	s.fenceConnections(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("postgres: open pool: %w", err)
	}
	identities, err := lru.New[string, run.Identity](maxIdentities)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("postgres: %w", err)
	}
	s.identities = identities
	s.maxWaiting = int64(cfg.MaxConns) + int64(cmp.Or(o.MaxWaiting, DefaultMaxWaiting))
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

// Close waits for running calls and closes all connections.
func (s *Store) Close() error {
	s.pool.Load().Close()
	return nil
}

// Ping implements store.Ops.
func (s *Store) Ping(ctx context.Context) error {
	return s.do(ctx, "ping", func(ctx context.Context, c *pgx.Conn) error { return c.Ping(ctx) })
}

// CheckWritable implements store.Ops. It returns store.ErrUnavailable if the database accepts no writes, because it is
// a standby or set to read-only.
func (s *Store) CheckWritable(ctx context.Context) error {
	return s.do(ctx, "try to write", func(ctx context.Context, c *pgx.Conn) error {
		var not bool
		err := c.QueryRow(ctx, `SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool`).Scan(&not)
		if err == nil && not {
			return fmt.Errorf("%w: %w: the database accepts no writes", store.ErrUnavailable, store.ErrReadOnly)
		}
		return err
	})
}

// epochSQL is the epoch as an expression: the manual epoch and the timeline, with which the name of the current WAL
// file begins (contract T194). A standby has that of its last restart point; see package epoch for the "~".
const epochSQL = `((SELECT value FROM meta WHERE name = 'epoch')::text || '.' || CASE WHEN pg_is_in_recovery()
  THEN lpad(upper(to_hex((SELECT timeline_id FROM pg_control_checkpoint()))), 8, '0') || '~'
  ELSE substring(pg_walfile_name(pg_current_wal_lsn()) for 8) END)`

// Epoch implements store.Ops.
func (s *Store) Epoch(ctx context.Context) (at string, err error) {
	err = s.do(ctx, "epoch", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT `+epochSQL).Scan(&at)
	})
	if err == nil {
		s.fence.Admit(at)
	}
	return at, err
}

// bumpEpochSQL raises the manual epoch to the time in seconds, so that the epoch of a restored backup is newer than
// each one that was lost with the database. A restored dump may contain rows with transaction ids that this server has
// not reached; the statement gives them its own id, so that feeds can read them.
const bumpEpochSQL = `WITH restored AS (
  UPDATE run_state SET xid = pg_current_xact_id() WHERE xid > pg_current_xact_id())
  UPDATE meta SET value = greatest(value + 1, extract(epoch FROM clock_timestamp())::bigint) WHERE name = 'epoch'`

// BumpEpoch implements store.Ops. It raises the manual epoch after a restore.
func (s *Store) BumpEpoch(ctx context.Context) error {
	return s.do(ctx, "bump epoch", func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, bumpEpochSQL)
		return err
	})
}

// BumpEpochOnce writes the audit row and raises the manual epoch in one transaction, unless the store has a row of this
// id. It reports whether it did.
func (s *Store) BumpEpochOnce(ctx context.Context, row store.AuditRow) (bumped bool, err error) {
	err = s.inTx(ctx, "bump epoch once", func(ctx context.Context, c *pgx.Conn, last *pgx.Batch) error {
		var known bool
		if _, err := c.Exec(ctx, `SELECT 1 FROM meta WHERE name = 'epoch' FOR UPDATE`); err != nil {
			return err
		}
		err := c.QueryRow(ctx, `SELECT EXISTS (SELECT FROM audit WHERE id = $1::uuid)`, row.ID).Scan(&known)
		if bumped = !known; known || err != nil {
			return err
		}
		queueAudit(last, []store.AuditRow{row})
		last.Queue(bumpEpochSQL)
		return nil
	})
	return bumped && err == nil, err
}

// fenceKey is the key of the epoch in the custom data of a connection.
const fenceKey = "dvt.epoch"

// fenceConnections has the pool of cfg open no connection to a database whose epoch is older than the newest one seen,
// and drop those that were opened in an older epoch. A DSN with several hosts then leads to the next host.
func (s *Store) fenceConnections(cfg *pgxpool.Config) {
	accepts := cfg.ConnConfig.ValidateConnect // target_session_attrs
	cfg.ConnConfig.ValidateConnect = func(ctx context.Context, c *pgconn.PgConn) error {
		if accepts != nil {
			if err := accepts(ctx, c); err != nil {
				return err
			}
		}
		results, err := c.Exec(ctx, `SELECT `+epochSQL).ReadAll()
		if sqlState(err) != "" || len(results) != 1 || len(results[0].Rows) != 1 {
			return nil // an empty database, or one without rights for this role: checkSchema says so
		}
		if err != nil {
			return err
		}
		at := string(results[0].Rows[0][0])
		c.CustomData()[fenceKey] = at
		if !s.fence.Admit(at) {
			return fmt.Errorf("%w: it is in epoch %s, and this process has seen epoch %s: stop the database of the former "+
				"primary", store.ErrFenced, at, s.fence.Newest())
		}
		return nil
	}
	cfg.PrepareConn = func(_ context.Context, c *pgx.Conn) (bool, error) {
		at, _ := c.PgConn().CustomData()[fenceKey].(string)
		return !epoch.IsOlder(at, s.fence.Newest()), nil
	}
}

// do runs f on a connection. f is one call: one statement, one batch or one transaction. do bounds the wait for the
// connection and the duration of the call, rolls back a transaction that f left open, retries after a deadlock, and
// translates the error. f may run several times.
func (s *Store) do(ctx context.Context, what string, f func(context.Context, *pgx.Conn) error) error {
	var err error
	for try := 1; ; try++ {
		err = s.runOnce(ctx, f)
		if isNotPrepared(err) {
			s.unprepare(ctx)
		} else if !isRetryable(err) {
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

// collect reads all rows of one statement.
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

func (s *Store) runOnce(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
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

// acquire waits for a connection. It returns a *store.OverloadedError if too many callers wait.
func (s *Store) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	if s.waiting.Add(1) > s.maxWaiting {
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

// unprepare replaces the pool by one that uses no prepared statements, because a pooler in between loses them. Running
// calls end on their connections.
func (s *Store) unprepare(ctx context.Context) {
	s.unprepared.Do(func() {
		old := s.pool.Load()
		cfg := old.Config()
		cfg.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
		pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg)
		if err != nil {
			s.log.WarnContext(ctx, "a pooler loses prepared statements, and switching to unprepared ones failed",
				slog.Any("error", err))
			return
		}
		s.log.InfoContext(ctx, "a pooler loses prepared statements; continuing without them")
		s.pool.Store(pool)
		go old.Close() // waits for running calls
	})
}

// rollback ends the open transaction, even if ctx has ended. If the rollback fails, the pool closes the connection.
func (s *Store) rollback(ctx context.Context, c *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer cancel()
	if _, err := c.Exec(ctx, `rollback`); err != nil {
		s.log.DebugContext(ctx, "rollback", slog.Any("error", err))
	}
}

// Connections returns the number of open connections to the database.
func (s *Store) Connections() int { return int(s.pool.Load().Stat().TotalConns()) }
