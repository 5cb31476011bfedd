package server_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/server"
)

// stall sends a request to routes and nothing more, and says whether the server let go of it.
func stall(t *testing.T, routes http.HandlerFunc, request string, read func(io.Reader)) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	handled := make(chan struct{})
	srv := server.HTTPServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(handled)
		routes(w, r)
	}))
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() { _ = srv.Close() })
	peer, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if _, err := io.WriteString(peer, request); err != nil {
		t.Fatal(err)
	}
	select {
	case <-handled:
	case <-time.After(testtime.Of(10 * time.Second)):
		t.Fatal("the handler is held for ever")
	}
	_ = peer.SetReadDeadline(time.Now().Add(testtime.Of(10 * time.Second)))
	read(peer)
}

func closed(t *testing.T) func(io.Reader) {
	return func(peer io.Reader) {
		if _, err := io.Copy(io.Discard, peer); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the connection is held for ever")
		}
	}
}

func TestHTTP_APeerThatStopsSendingIsGone(t *testing.T) {
	t.Parallel()
	const half = "POST /graphql HTTP/1.1\r\nHost: dvt\r\nContent-Length: 100\r\n\r\n{"
	stall(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) }, half, closed(t))
	stall(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no token", http.StatusUnauthorized) }, half,
		closed(t))
}

func TestHTTP_APeerThatStopsReadingIsGone(t *testing.T) {
	t.Parallel()
	page := strings.Repeat("x", 64<<20) // more than the kernel takes for a peer
	stall(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) },
		"GET / HTTP/1.1\r\nHost: dvt\r\n\r\n", closed(t))
}
