package ws_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/gorilla/websocket"

	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// gqlgen's own transport has no write deadline: a peer that stops reading blocks its goroutines for ever.
func TestSocket_PeerThatStopsReadingIsDisconnected(t *testing.T) {
	t.Parallel()
	for name, pingEvery := range map[string]time.Duration{"after a ping": 50 * time.Millisecond,
		"between pings": time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var live atomic.Int64
			s := start(t, ws.Config{PingEvery: pingEvery, WriteTimeout: 2 * time.Second},
				respondForever(&live, `"`+strings.Repeat("x", 32<<10)+`"`))
			conn := s.dialSmallWindow(t)
			d := websocket.Dialer{
				Subprotocols: []string{"graphql-transport-ws"}, ReadBufferSize: 1 << 10,
				NetDialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
			}
			sock, _, err := d.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.http.URL, "http"), nil)
			if err != nil {
				t.Fatal(err)
			}
			c := &client{t, sock}
			sendInit(c)
			c.subscribe("1", subscription)
			if _, _, err := c.ReadMessage(); err != nil { // also replies to pings that arrived before
				t.Fatal(err)
			}
			eventually(t, 5*time.Second, "the operation ended", func() bool { return live.Load() == 0 })
			eventually(t, time.Second, "nothing of the socket is left, so Shutdown returns",
				func() bool { return s.Shutdown(t.Context()) == nil })
		})
	}
}

func TestSocket_SilentPeerIsDisconnected(t *testing.T) {
	t.Parallel()
	var live atomic.Int64
	s := start(t, ws.Config{PingEvery: 50 * time.Millisecond, IdleTimeout: time.Second}, neverRespond(&live))
	c := s.open(t)
	c.SetPingHandler(func(string) error { return nil }) // reads pings but does not reply
	c.subscribe("1", subscription)
	c.expectClose(websocket.CloseGoingAway)
	eventually(t, 5*time.Second, "the operation ended", func() bool { return live.Load() == 0 })
}

func TestSocket_PeerThatAnswersPingsStays(t *testing.T) {
	t.Parallel()
	var live atomic.Int64
	idle := max(2*time.Second, testtime.Of(500*time.Millisecond))
	s := start(t, ws.Config{PingEvery: 50 * time.Millisecond, IdleTimeout: idle}, neverRespond(&live))
	c := s.open(t)
	c.subscribe("1", subscription)
	_ = c.SetReadDeadline(time.Now().Add(idle * 5 / 4))
	if _, _, err := c.ReadMessage(); err == nil || !isTimeout(err) {
		t.Fatalf("the read ended with %v, want a timeout because the socket stays open", err)
	}
	if live.Load() != 1 {
		t.Error("the operation has ended, want it to run")
	}
}

// The transport requests the next response only after it has written the previous one, so that a slow peer gets the
// newest state instead of a backlog.
func TestSocket_RequestsNoResponseAfterComplete(t *testing.T) {
	t.Parallel()
	var live atomic.Int64
	s := start(t, ws.Config{}, respondForever(&live, `"`+strings.Repeat("x", 64<<10)+`"`))
	c := s.open(t)
	c.subscribe("1", subscription)
	for range 50 {
		if _, _, err := c.ReadMessage(); err != nil {
			t.Fatal(err)
		}
	}
	c.send(`{"id":"1","type":"complete"}`)
	eventually(t, 5*time.Second, "the operation ended", func() bool {
		_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, _, _ = c.ReadMessage()
		return live.Load() == 0
	})
}

func TestEvents_PeerThatStopsReadingIsDisconnected(t *testing.T) {
	t.Parallel()
	var begun, live atomic.Int64
	run := respondForever(&live, `"`+strings.Repeat("x", 32<<10)+`"`)
	s := start(t, ws.Config{WriteTimeout: 2 * time.Second}, func(ctx context.Context,
		op *graphql.OperationContext) graphql.ResponseHandler {
		defer begun.Add(1)
		return run(ctx, op)
	})
	conn := s.dialSmallWindow(t)
	fmt.Fprintf(conn, "GET /events?query=%s HTTP/1.1\r\nHost: x\r\n\r\n", url.QueryEscape(subscription))
	if line, err := bufio.NewReaderSize(conn, 16).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("got %q, error %v; want status 200", line, err)
	}
	eventually(t, 5*time.Second, "the operation began", func() bool { return begun.Load() == 1 })
	eventually(t, 5*time.Second, "the operation ended", func() bool { return live.Load() == 0 })
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}
