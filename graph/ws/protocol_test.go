package ws_test

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/gorilla/websocket"

	"github.com/dvt-engine/dvt/graph/ws"
)

const (
	query        = "{ a }"
	subscription = "subscription { a }"
)

// contract: Z01
func TestSocket_AnswersQueriesAndSubscriptions(t *testing.T) {
	t.Parallel()
	s := start(t, ws.Config{}, respondOnce(`{"a":1}`))
	c := s.open(t)
	for i := range 200 {
		c.subscribe("1", []string{query, subscription}[i%2]) // the id is free again at once
		c.expect(`{"id":"1","type":"next","payload":{"data":{"a":1}}}`)
		c.expect(`{"id":"1","type":"complete"}`)
	}
	c.send(`{"type":"ping","payload":{"x":1}}`)
	c.expect(`{"type":"pong"}`)
	c.send(`{"type":"pong"}`)
	c.subscribe("2", "{")
	c.expect(`{"id":"2","type":"error","payload":[{"message":"INVALID","extensions":{"code":"OTHER"}}]}`)
}

// contract: Z01
func TestSocket_ClosesWithTheCodeOfTheViolation(t *testing.T) {
	t.Parallel()
	var live atomic.Int64
	s := start(t, ws.Config{MessageBytes: 1 << 10}, neverRespond(&live))
	hasty := start(t, ws.Config{InitTimeout: time.Second}, neverRespond(&live)) // for the cases without init
	for name, test := range map[string]struct {
		code int
		do   func(c *client)
	}{
		"no init":                {4408, func(*client) {}},
		"a ping instead of init": {4408, func(c *client) { c.send(`{"type":"ping"}`) }},
		"wrong token": {
			4401, func(c *client) { c.send(`{"type":"connection_init","payload":{"Authorization":"Bearer bad"}}`) }},
		"no token":                {4401, func(c *client) { c.send(`{"type":"connection_init"}`) }},
		"subscribe before init":   {4401, func(c *client) { c.subscribe("1", query) }},
		"not JSON":                {4400, func(c *client) { c.send(`hello`) }},
		"two values in a message": {4400, func(c *client) { c.send(`{"type":"ping"}{"type":"ping"}`) }},
		"unknown message type":    {4400, func(c *client) { c.send(`{"type":"start"}`) }},
		"invalid payload of init": {4400, func(c *client) { c.send(`{"type":"connection_init","payload":[1]}`) }},
		"binary message": {
			4400, func(c *client) { _ = c.WriteMessage(websocket.BinaryMessage, []byte(`{"type":"ping"}`)) }},
		// A message of this size fits the kernel's buffers, so that the write does not block.
		"too large a message": {
			1009, func(c *client) { c.send(`{"type":"ping","payload":"` + strings.Repeat("x", 64<<10) + `"}`) }},
		"second init": {4429, func(c *client) { sendInit(c); c.send(`{"type":"connection_init"}`) }},
		"subscribe without an id": {4400, func(c *client) {
			sendInit(c)
			c.send(`{"type":"subscribe","payload":{"query":"{a}"}}`)
		}},
		"subscribe without a payload": {4400, func(c *client) { sendInit(c); c.send(`{"type":"subscribe","id":"1"}`) }},
		"a long duplicate id": {4409, func(c *client) { // gorilla's client rejects a close reason that is not UTF-8
			sendInit(c)
			id := strings.Repeat("a", 63) + "éé"
			c.subscribe(id, subscription)
			c.subscribe(id, subscription)
		}},
		"duplicate id": {4409, func(c *client) {
			sendInit(c)
			c.subscribe("1", subscription)
			c.subscribe("1", subscription)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := s
			if test.code == 4408 {
				to = hasty
			}
			c := to.dial(t)
			test.do(c)
			c.expectClose(test.code)
		})
	}
	t.Run("other subprotocol", func(t *testing.T) {
		t.Parallel()
		s.dial(t, "graphql-ws").expectClose(4406)
	})
}

// sendInit authenticates.
func sendInit(c *client) {
	c.send(`{"type":"connection_init","payload":{"Authorization":"Bearer good"}}`)
	c.expect(`{"type":"connection_ack"}`)
}

func TestSocket_OperationBeyondTheLimitIsRefusedAndOthersContinue(t *testing.T) {
	t.Parallel()
	var live atomic.Int64
	s := start(t, ws.Config{Operations: 2}, neverRespond(&live))
	c := s.open(t)
	c.subscribe("1", subscription)
	c.subscribe("2", subscription)
	c.subscribe("3", subscription)
	c.expect(`{"id":"3","type":"error","payload":[{"message":"ws: too many operations on one socket","extensions":{"code":"TOO_MANY_STREAMS"}}]}`)
	eventually(t, 5*time.Second, "two operations run", func() bool { return live.Load() == 2 })
	c.send(`{"id":"1","type":"complete"}`)
	eventually(t, 5*time.Second, "one operation runs", func() bool { return live.Load() == 1 })
	c.subscribe("1", subscription)
	eventually(t, 5*time.Second, "two operations run again", func() bool { return live.Load() == 2 })
}

func TestSocket_BeyondThePeersLimitIsClosed(t *testing.T) {
	t.Parallel()
	s := start(t, ws.Config{StreamsOfPeer: 1}, respondOnce(`{}`))
	first := s.open(t)
	second := s.dial(t)
	second.send(`{"type":"connection_init","payload":{"Authorization":"Bearer good"}}`)
	second.expectClose(websocket.CloseTryAgainLater)
	first.Close()
	eventually(t, 5*time.Second, "the slot of the closed socket is free", func() bool {
		c := s.dial(t)
		c.send(`{"type":"connection_init","payload":{"Authorization":"Bearer good"}}`)
		_, _, err := c.ReadMessage()
		c.Close()
		return err == nil
	})
}

func TestSocket_BeyondTheTotalLimitIsRefusedWith503(t *testing.T) {
	t.Parallel()
	s := start(t, ws.Config{Streams: 1}, respondOnce(`{}`))
	s.open(t)
	_, resp, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.http.URL, "http"), nil)
	if err == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the upgrade returned %v, want status 503", resp)
	}
}

func TestSocket_AttachIsCalledForEachOperation(t *testing.T) {
	t.Parallel()
	var gone atomic.Bool
	s := start(t, ws.Config{Connect: func(*http.Request, map[string]any) (ws.Peer, error) {
		return ws.Peer{Attach: func(ctx context.Context) (context.Context, error) {
			if gone.Load() {
				return nil, errors.New("gone")
			}
			return ctx, nil
		}}, nil
	}}, respondOnce(`{}`))
	c := s.open(t)
	c.subscribe("1", query)
	c.expect(`{"id":"1","type":"next","payload":{"data":{}}}`)
	c.expect(`{"id":"1","type":"complete"}`)
	gone.Store(true)
	c.subscribe("2", query)
	c.expect(`{"id":"2","type":"error","payload":[{"message":"gone","extensions":{"code":"OTHER"}}]}`)
}

func TestSocket_ErrorOfConnectClosesWith1011(t *testing.T) {
	t.Parallel()
	s := start(t, ws.Config{Connect: func(*http.Request, map[string]any) (ws.Peer, error) {
		return ws.Peer{}, errors.New("down")
	}}, respondOnce(`{}`))
	c := s.dial(t)
	c.send(`{"type":"connection_init"}`)
	c.expectClose(websocket.CloseInternalServerErr)
}

func TestSocket_SubscriptionEndsWithTheErrorOfFail(t *testing.T) {
	t.Parallel()
	s := start(t, ws.Config{}, func(ctx context.Context, _ *graphql.OperationContext) graphql.ResponseHandler {
		ws.Fail(ctx, errors.New("RESYNC_FAILED"))
		ws.Fail(ctx, errors.New("only the first counts"))
		return func(context.Context) *graphql.Response { return nil }
	})
	c := s.open(t)
	c.subscribe("1", subscription)
	c.expect(`{"id":"1","type":"error","payload":[{"message":"RESYNC_FAILED","extensions":{"code":"OTHER"}}]}`)
}

func TestSocket_PanicEndsOnlyItsOperation(t *testing.T) {
	t.Parallel()
	s := start(t, ws.Config{}, func(_ context.Context, op *graphql.OperationContext) graphql.ResponseHandler {
		if op.RawQuery == subscription {
			panic("boom")
		}
		return graphql.OneShot(&graphql.Response{Data: []byte(`{}`)})
	})
	c := s.open(t)
	c.subscribe("1", subscription)
	if _, data, err := c.ReadMessage(); err != nil || !strings.Contains(string(data), `"id":"1","type":"error"`) {
		t.Fatalf("got %s, error %v; want an error message for operation 1", data, err)
	}
	c.subscribe("2", query)
	c.expect(`{"id":"2","type":"next","payload":{"data":{}}}`)
}

func TestSocket_ShutdownEndsOperationsAndClosesWith1012(t *testing.T) {
	t.Parallel()
	var live atomic.Int64
	s := start(t, ws.Config{}, neverRespond(&live))
	c := s.open(t)
	c.subscribe("1", subscription)
	eventually(t, 5*time.Second, "the operation runs", func() bool { return live.Load() == 1 })
	done := make(chan error)
	go func() { done <- s.Shutdown(t.Context()) }()
	c.expect(`{"id":"1","type":"error","payload":[{"message":"ws: server is shutting down","extensions":{"code":"SERVER_SHUTDOWN"}}]}`)
	c.expectClose(websocket.CloseServiceRestart)
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v, want nil", err)
	}
	_, resp, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.http.URL, "http"), nil)
	if err == nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("the upgrade after Shutdown returned %v, want status 503", resp)
	}
}

// A client may reuse an id after complete. Payloads of the completed operation would then appear to belong to the new
// one.
func TestSocket_SendsNothingForACompletedOperation(t *testing.T) {
	t.Parallel()
	var live atomic.Int64
	s := start(t, ws.Config{Operations: 1000}, respondForever(&live, `{}`))
	c := s.open(t)
	for i := range 200 {
		id := strconv.Itoa(i)
		c.subscribe(id, subscription)
		if m, ok := c.next(); !ok || m.ID != id {
			t.Fatalf("got %+v, want a payload of operation %s", m, id)
		}
		c.send(`{"id":"` + id + `","type":"complete"}`)
		c.send(`{"type":"ping"}`)
		for pong := false; !pong; {
			_, data, err := c.ReadMessage()
			if err != nil {
				t.Fatal(err)
			}
			pong = string(data) == `{"type":"pong"}`
		}
	}
}

// Any client that reaches the port may open sockets, so unauthenticated sockets must not use up the slots of callers.
func TestSocket_UnauthenticatedSocketsHaveTheirOwnLimits(t *testing.T) {
	t.Parallel()
	var address atomic.Value
	address.Store("stranger")
	s := start(t, ws.Config{
		Unknown: 3, UnknownOfAddress: 2, Streams: 2, Address: func(*http.Request) string { return address.Load().(string) },
	}, respondOnce(`{}`))
	refused := func(from, what string) {
		t.Helper()
		address.Store(from)
		conn, resp, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.http.URL, "http"), nil)
		if err == nil {
			conn.Close()
			t.Errorf("%s was upgraded, want status 503", what)
		} else if resp == nil || resp.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: response %v, error %v, want status 503", what, resp, err)
		}
	}
	s.dial(t)
	s.dial(t)
	refused("stranger", "the third socket of an address")
	address.Store("caller")
	s.open(t)
	s.open(t)
	refused("caller", "a socket of a server whose slots are all used by callers")
}
