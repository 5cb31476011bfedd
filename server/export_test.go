package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/store"
)

// RunInside is Run in this process, by the clock now. ready gets what decides about
// rights before the first request.
func RunInside(ctx context.Context, cfg Config, log *slog.Logger, now func() time.Time, ready func(*authz.Directory, *authz.Authorizer)) error {
	cfg.now = now
	p, err := assemble(ctx, cfg, cfg.Accounts, log)
	if err != nil {
		return err
	}
	defer p.close()
	ln, err := listen(ctx, cfg.Listen)
	if err != nil {
		return err
	}
	ready(p.directory, p.authz)
	return p.serve(ctx, ln, p.routes(nil), nil)
}

// ClientAddress is where a request comes from when the proxies of a network are trusted.
func ClientAddress(proxies, remote, forwarded string) string {
	r := &http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": {forwarded}}}
	return clientAddress([]netip.Prefix{netip.MustParsePrefix(proxies)})(r)
}

// ServeInside is RunInside on a store that is open, which it closes. ready gets what else the
// process holds and its routes, and gives the routes that are served.
func ServeInside(
	ctx context.Context, cfg Config, s store.Store, log *slog.Logger, now func() time.Time, ready func(http.Handler, *artifact.Store, net.Addr) http.Handler,
) error {
	cfg.now, cfg.opened = now, s
	p, err := assemble(ctx, cfg, cfg.Accounts, log)
	if err != nil {
		return err
	}
	defer p.close()
	ln, err := listen(ctx, cfg.Listen)
	if err != nil {
		return err
	}
	return p.serve(ctx, ln, ready(p.routes(nil), p.artifacts, ln.Addr()), nil)
}

// HTTPServer is what listens, with times that are a thousandth.
func HTTPServer(routes http.Handler) *http.Server {
	srv := httpServer(routes)
	srv.ReadTimeout, srv.WriteTimeout = srv.ReadTimeout/1000, srv.WriteTimeout/1000
	return srv
}
