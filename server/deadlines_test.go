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

// sendAndStall sends a request to routes and then nothing more. It fails the test when the handler does not return.
// read gets the connection afterwards.
func sendAndStall(t *testing.T, routes http.HandlerFunc, request string, read func(io.Reader)) {
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
		t.Fatal("the handler has not returned within 10 s")
	}
	_ = peer.SetReadDeadline(time.Now().Add(testtime.Of(10 * time.Second)))
	read(peer)
}

func expectClosed(t *testing.T) func(io.Reader) {
	return func(peer io.Reader) {
		if _, err := io.Copy(io.Discard, peer); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("the server has not closed the connection within 10 s")
		}
	}
}

func TestHTTP_APeerThatStopsSendingIsDisconnected(t *testing.T) {
	t.Parallel()
	const half = "POST /graphql HTTP/1.1\r\nHost: dvt\r\nContent-Length: 100\r\n\r\n{"
	sendAndStall(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.ReadAll(r.Body) }, half, expectClosed(t))
	refuse := func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no token", http.StatusUnauthorized) }
	sendAndStall(t, refuse, half, expectClosed(t))
}

func TestHTTP_APeerThatStopsReadingIsDisconnected(t *testing.T) {
	t.Parallel()
	page := strings.Repeat("x", 64<<20) // more than the kernel buffers for a peer
	sendAndStall(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) },
		"GET / HTTP/1.1\r\nHost: dvt\r\n\r\n", expectClosed(t))
}
