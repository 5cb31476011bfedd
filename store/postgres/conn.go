package postgres

import (
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
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
