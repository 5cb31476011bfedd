package postgres

import (
	"net"
	"path/filepath"
	"strconv"

	"github.com/jackc/pgx/v5"
)

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
