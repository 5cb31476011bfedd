package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"syscall"

	"github.com/dvt-engine/dvt/internal/secretfile"
	"github.com/dvt-engine/dvt/server/config"
)

// listen opens a TCP listener on the address of a setting. Its error names the remedy when the address is taken or
// forbidden.
func listen(ctx context.Context, address, setting string) (net.Listener, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("the address %s is taken: stop what listens there, or choose another with --%s",
			address, setting)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("this user may not listen on %s: choose a port above 1023 with --%s", address, setting)
	case err != nil:
		return nil, fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return ln, nil
}

// listenSecured opens the listener of the API, with TLS when a certificate is set. It warns when it serves plain text
// to other machines.
func listenSecured(ctx context.Context, c *config.Config, log *slog.Logger) (net.Listener, error) {
	var secured *tls.Config
	if c.ListenTLSCert != "" {
		var err error
		files := secretfile.Files{CA: c.ListenTLSClientCA, Cert: c.ListenTLSCert, Key: c.ListenTLSKey}
		if secured, err = files.Server(log); err != nil {
			return nil, fmt.Errorf("listen-tls: %w", err)
		}
	}
	ln, err := listen(ctx, c.Listen, "listen")
	if err != nil {
		return nil, err
	}
	if secured != nil {
		return tls.NewListener(ln, secured), nil
	}
	if reason := c.PlaintextWarning(ln.Addr()); reason != "" {
		log.WarnContext(ctx, "this listener serves plain text", slog.String("reason", reason))
	}
	return ln, nil
}

// httpErrors returns the error log of Go's HTTP server. It logs failed TLS handshakes at the level debug, because
// strangers can cause any number of them.
func httpErrors(to *slog.Logger) *log.Logger { return log.New(httpErrorLog{to}, "", 0) }

type httpErrorLog struct{ to *slog.Logger }

func (l httpErrorLog) Write(line []byte) (int, error) {
	level := slog.LevelWarn
	if bytes.HasPrefix(line, []byte("http: TLS handshake error")) {
		level = slog.LevelDebug
	}
	l.to.Log(context.Background(), level, "the HTTP server reported an error",
		slog.String("error", string(bytes.TrimSpace(line))))
	return len(line), nil
}
