package postgres

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/dvt-engine/dvt/store"
)

// OpenOwner connects to the database that dsn names with the rights of its owner, for package owner. It refuses another
// schema than that of this program with store.ErrSchema. password is as in Options.
func OpenOwner(ctx context.Context, dsn string, password func() string) (*sql.DB, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("postgres: parse dsn: %w", err)
	}
	configure(cfg)
	db := stdlib.OpenDB(*cfg, stdlib.OptionBeforeConnect((&credentials{dsn: dsn, password: password,
		log: slog.New(slog.DiscardHandler)}).refresh))
	var version int64
	err = db.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&version)
	if err == nil {
		err = checkVersion(version, nil, schema)
	}
	if err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("postgres: open: %w", translate(ctx, err))
	}
	return db, nil
}

// PlaintextHosts returns the hosts of a DSN that are on other machines and whose connections are in plain text or do
// not verify the host's certificate. These are all sslmodes below verify-full. Environment variables such as PGSSLMODE
// count as in Open. The error contains no password.
func PlaintextHosts(dsn string) ([]string, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("postgres: parse dsn: %w", err)
	}
	var out []string
	seen := map[string]bool{}
	look := func(host string, c *tls.Config) {
		if (c == nil || c.InsecureSkipVerify) && !onThisMachine(host) && !seen[host] {
			seen[host] = true
			out = append(out, host)
		}
	}
	look(cfg.Host, cfg.TLSConfig)
	for _, f := range cfg.Fallbacks {
		look(f.Host, f.TLSConfig)
	}
	return out, nil
}

// onThisMachine reports whether a host of a DSN is a Unix socket or loopback.
func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || strings.EqualFold(host, "localhost") ||
		ip != nil && ip.IsLoopback()
}

// credentials provides the certificates and the password of each new connection. It reads the files of the DSN again
// for each one. It is safe for concurrent use.
type credentials struct {
	dsn      string
	password func() string // nil: the password of the DSN
	log      *slog.Logger

	mu      sync.Mutex
	last    *pgx.ConnConfig // from the last successful read of the files
	trouble string
}

// refresh sets the certificates and the password of a new connection. While a file is unusable, it keeps the previous
// credentials, because a certificate may be replaced shortly before its key. It always returns nil.
func (c *credentials) refresh(ctx context.Context, to *pgx.ConnConfig) error {
	fresh, err := pgx.ParseConfig(c.dsn)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.last, c.trouble = fresh, ""
	case err.Error() != c.trouble:
		c.trouble = err.Error()
		c.log.ErrorContext(ctx, "a file of the store's connection cannot be used; its previous content stays in use",
			slog.Any("error", err))
	}
	if c.last != nil {
		to.TLSConfig, to.Fallbacks, to.Password = c.last.TLSConfig, c.last.Fallbacks, c.last.Password
	}
	if c.password != nil {
		to.Password = c.password()
	}
	return nil
}

// Addresses returns the host:port of each server in a connection string, without Unix sockets. It returns nil for a
// string that cannot be parsed.
func Addresses(dsn string) (out []string) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil
	}
	add := func(host string, port uint16) {
		if !filepath.IsAbs(host) {
			out = append(out, net.JoinHostPort(host, strconv.Itoa(int(port))))
		}
	}
	add(cfg.Host, cfg.Port)
	for _, f := range cfg.Fallbacks {
		add(f.Host, f.Port)
	}
	return out
}

// Facts is what Inspect learned about a database and the role that it connected as.
type Facts struct {
	Version                  string // such as 16.4
	Number                   int    // such as 160004
	TLS                      bool
	Role                     string
	ReadOnly                 bool // a standby, or set to read-only
	Isolation, Commits       string
	Encoding                 string
	MaxConns, Reserved, Used int // connections of the server
	RoleConns                int // limit of the role; -1: none
	PLpgSQL                  bool
	Schema                   string // that tables are made in; empty: none
	Creates                  bool   // the role may create tables there
	Superuser                bool
	MayChange                bool          // the role could change events and the audit
	Missing                  []string      // rights of a server that the role lacks, such as "INSERT on event"
	Skew                     time.Duration // time of the database minus that of this machine
	AppRole                  string        // what is wrong with the role of servers; empty: nothing, or not asked
}

// Inspect reads what a process needs of the database that dsn names, as the role that dsn names, and changes nothing.
// With a role of servers it also says what is wrong with that role. It returns store.ErrUnavailable if the server
// cannot be reached. password is as in Options.
func Inspect(ctx context.Context, dsn string, password func() string, appRole string) (f Facts, err error) {
	db, user, err := Migration{Password: password, Logger: slog.New(slog.DiscardHandler)}.open(dsn)
	if err != nil {
		return f, err
	}
	defer db.Close()
	f.Role = user
	conn, err := db.Conn(ctx)
	if err != nil {
		return f, fmt.Errorf("postgres: connect: %w", translate(ctx, err))
	}
	defer conn.Close()
	err = conn.Raw(func(driver any) error {
		c := driver.(*stdlib.Conn).Conn()
		_, f.TLS = c.PgConn().Conn().(*tls.Conn)
		return f.read(ctx, c)
	})
	if err != nil {
		return f, fmt.Errorf("postgres: inspect: %w", translate(ctx, err))
	}
	if appRole != "" {
		if err := checkRole(ctx, db, appRole); err != nil {
			f.AppRole = err.Error()
		}
	}
	return f, nil
}

func (f *Facts) read(ctx context.Context, c *pgx.Conn) error {
	var now time.Time
	asked := time.Now()
	if err := c.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now); err != nil {
		return err
	}
	f.Skew = now.Sub(asked.Add(time.Since(asked) / 2))
	err := c.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('server_version_num')::int,
		pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,
		current_setting('default_transaction_isolation'), current_setting('synchronous_commit'),
		(SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = current_database()),
		current_setting('max_connections')::int, current_setting('superuser_reserved_connections')::int,
		(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), r.rolconnlimit,
		EXISTS (SELECT FROM pg_language WHERE lanname = 'plpgsql'), coalesce(current_schema(), ''),
		coalesce(has_schema_privilege(current_schema(), 'CREATE'), false), r.rolsuper, `+mayChangeSQL+`
		FROM pg_roles r WHERE r.rolname = current_user`).Scan(&f.Version, &f.Number, &f.ReadOnly, &f.Isolation, &f.Commits,
		&f.Encoding, &f.MaxConns, &f.Reserved, &f.Used, &f.RoleConns, &f.PLpgSQL, &f.Schema, &f.Creates, &f.Superuser,
		&f.MayChange)
	if err != nil || f.Schema == "" {
		return err
	}
	f.Missing, err = missingRights(ctx, c)
	return err
}

// Site is the state of a database as that of one site of an installation.
type Site struct {
	Standby bool // it replicates a primary and takes no writes
	Epoch   string
	Now     time.Time // by the clock of the database

	// Position is the place in the log up to which a primary has written, or a standby has replayed.
	Position string

	// The fields below are those of a standby.

	Receiving bool          // it is connected to the primary
	Waiting   int64         // bytes that it has received and not replayed
	Behind    *int64        // bytes to the end of the log that the primary named last; nil: the role may not see it
	Age       time.Duration // of its newest transaction, 0 while it has replayed all that the primary sent

	Replicas []Replica // of a primary; empty for a role without the right to see them
}

// Replica is a standby as its primary sees it.
type Replica struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Behind int64  `json:"behindBytes"` // bytes of the log that it has not replayed
}

const siteSQL = `SELECT s.standby, ` + epochSQL + `, clock_timestamp(),
  CASE WHEN s.standby THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END::text,
  r.pid IS NOT NULL, CASE WHEN s.standby THEN greatest(0, coalesce(pg_last_wal_receive_lsn() - pg_last_wal_replay_lsn(), 0))
    ELSE 0 END::bigint,
  CASE WHEN s.standby THEN greatest(0, r.latest_end_lsn - pg_last_wal_replay_lsn()) END::bigint,
  CASE WHEN s.standby THEN pg_last_xact_replay_timestamp() END
FROM (SELECT pg_is_in_recovery() AS standby) s LEFT JOIN pg_stat_wal_receiver r ON true`

// Site reads the state of the database as a site.
func (s *Store) Site(ctx context.Context) (out Site, err error) {
	err = s.do(ctx, "site", func(ctx context.Context, c *pgx.Conn) error {
		var replayed *time.Time
		out = Site{}
		if err := c.QueryRow(ctx, siteSQL).Scan(&out.Standby, &out.Epoch, &out.Now, &out.Position, &out.Receiving,
			&out.Waiting, &out.Behind, &replayed); err != nil {
			return err
		}
		behind := out.Waiting > 0 || out.Behind != nil && *out.Behind > 0
		if replayed != nil && (behind || !out.Receiving) {
			out.Age = max(0, out.Now.Sub(*replayed))
		}
		if out.Standby {
			return nil
		}
		rows, err := c.Query(ctx, `SELECT application_name, coalesce(state, ''), (pg_current_wal_lsn() - replay_lsn)::bigint
			FROM pg_stat_replication WHERE replay_lsn IS NOT NULL ORDER BY 1, 3 LIMIT 100`)
		if err != nil {
			return err
		}
		out.Replicas, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Replica])
		return err
	})
	if err == nil {
		s.fence.Admit(out.Epoch)
	}
	return out, err
}

// NewestHeads lists the heads of runs with an event after since, the newest event first, at most limit. It reads the
// head of every run, so it is for commands.
func (s *Store) NewestHeads(ctx context.Context, since time.Time, limit int) ([]store.Head, error) {
	return collect(ctx, s, "newest heads", func(row pgx.CollectableRow) (h store.Head, err error) {
		err = row.Scan(&h.RunID, &h.LastSeq, utc{&h.LastAt})
		return h, err
	}, `SELECT run_id, last_seq, last_at FROM run_head WHERE last_at > $1 ORDER BY last_at DESC, run_id LIMIT $2`, since, limit)
}

// HasAudit reports whether the store has an audit row of this id.
func (s *Store) HasAudit(ctx context.Context, id string) (found bool, err error) {
	err = s.do(ctx, "has audit", func(ctx context.Context, c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT EXISTS (SELECT FROM audit WHERE id = $1::uuid)`, id).Scan(&found)
	})
	return found, err
}

// Promote makes a standby a primary and waits up to 20 s for it. It returns ErrMayNotPromote when the role lacks
// the right, and nil for a primary.
func (s *Store) Promote(ctx context.Context) error {
	for {
		site, err := s.Site(ctx)
		if err != nil || !site.Standby {
			return err
		}
		var done bool
		err = s.do(ctx, "promote", func(ctx context.Context, c *pgx.Conn) error {
			return c.QueryRow(ctx, `SELECT pg_promote(true, 20)`).Scan(&done)
		})
		if sqlState(err) == codeInsufficientPrivilege {
			return fmt.Errorf("%w: %w", ErrMayNotPromote, err)
		}
		if err != nil {
			return err
		}
		if !done {
			return fmt.Errorf("%w: the standby was told to become a primary and has not within 20 s: look at its log, then "+
				"repeat the command", store.ErrUnavailable)
		}
	}
}

// ErrMayNotPromote says that the role of the connection has no right to execute pg_promote.
var ErrMayNotPromote = errors.New("postgres: the role may not promote the standby")
