package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"syscall"
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
