package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// RunInside is Run with the clock now. It calls ready with the directory and the authorizer before the first request.
func RunInside(ctx context.Context, cfg config.Config, log *slog.Logger, now func() time.Time,
	ready func(*authz.Directory, *authz.Authorizer)) error {
	cfg.Now = now
	p, err := assemble(ctx, cfg, cfg.Accounts, log)
	if err != nil {
		return err
	}
	defer p.close()
	ln, err := listen(ctx, cfg.Listen, "listen")
	if err != nil {
		return err
	}
	ready(p.directory, p.authz)
	return p.serve(ctx, ln, p.routes(), nil)
}

// ClientAddress returns the address of the client of a request when the network proxies is trusted. remote is the
// address of the connection, forwarded is the X-Forwarded-For header.
func ClientAddress(proxies, remote, forwarded string) string {
	r := &http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": {forwarded}}}
	return clientAddress([]netip.Prefix{netip.MustParsePrefix(proxies)})(r)
}

// ServeInside is RunInside on the open store s, which it closes at the end. ready gets the routes, the artifact store
// and the address of the listener, and returns the routes that the server uses.
func ServeInside(
	ctx context.Context, cfg config.Config, s store.Store, log *slog.Logger, now func() time.Time,
	ready func(http.Handler, *artifact.Store, net.Addr) http.Handler,
) error {
	cfg.Now, cfg.Parts.Store = now, s
	p, err := assemble(ctx, cfg, cfg.Accounts, log)
	if err != nil {
		return err
	}
	defer p.close()
	ln, err := listen(ctx, cfg.Listen, "listen")
	if err != nil {
		return err
	}
	return p.serve(ctx, ln, ready(p.routes(), p.artifacts, ln.Addr()), nil)
}

// HTTPServer returns the HTTP server of the process with a thousandth of its timeouts.
func HTTPServer(routes http.Handler) *http.Server {
	srv := httpServer(routes)
	srv.ReadTimeout, srv.WriteTimeout = srv.ReadTimeout/1000, srv.WriteTimeout/1000
	return srv
}

// ControlInside runs a control worker on the control queues of w, and the duty dispatch, in this process. journal
// wraps the Journal of the worker. It calls ready with the use cases and the directory before the worker polls.
func ControlInside(
	ctx context.Context, cfg config.Config, w temporal.WorkerConfig, log *slog.Logger,
	journal func(engine.Journal) engine.Journal, ready func(*usecases.UseCases, *authz.Directory),
) error {
	p, err := assemble(ctx, cfg, cfg.Accounts, log)
	if err != nil {
		return err
	}
	defer p.close()
	j := journal(p.journal)
	ready(p.control, p.directory)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.control.Dispatch(ctx, p.owner) })
	g.Go(func() error { return p.runControl(ctx, w, j) })
	return g.Wait()
}
