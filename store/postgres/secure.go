package postgres

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

// Exposed returns the hosts of a DSN that are not on this machine and that it reaches in plain text, or without
// checking that the certificate is that of the host: the hosts of every sslmode below verify-full. The environment of
// the process counts as it does in Open. The error shows no password.
func Exposed(dsn string) ([]string, error) {
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

// onThisMachine reports whether a host of a DSN is a socket of this machine or its loopback.
func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || strings.EqualFold(host, "localhost") ||
		ip != nil && ip.IsLoopback()
}

// credentials are what each new connection shows and trusts: the files that a DSN names are read again for each.
type credentials struct {
	dsn      string
	password func() string // nil: that of the DSN
	log      *slog.Logger

	mu      sync.Mutex
	last    *pgx.ConnConfig // of the last time that the files could be used
	trouble string
}

// refresh sets certificates and password of a connection that is about to be made. While a file cannot be used, for
// example because the certificate is replaced and its key is not yet, those of the connection before are.
func (c *credentials) refresh(ctx context.Context, to *pgx.ConnConfig) error {
	fresh, err := pgx.ParseConfig(c.dsn)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.last, c.trouble = fresh, ""
	case err.Error() != c.trouble:
		c.trouble = err.Error()
		c.log.ErrorContext(ctx, "a file of the store's connection cannot be used, what it held before stays in use",
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
