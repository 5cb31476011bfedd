package server

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/dvt-engine/dvt/authz"
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
