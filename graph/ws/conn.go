package ws

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// Close codes of the table in the package comment that gorilla does not name.
const (
	closeBadMessage   = 4400
	closeUnauthorized = 4401
	closeSubprotocol  = 4406
	closeInitTimeout  = 4408
	closeDuplicateID  = 4409
	closeSecondInit   = 4429
)

const (
	subprotocol = "graphql-transport-ws"
	// socketBuffer bounds what the kernel holds for a peer that does not read, so
	// that a write to it fails soon.
	socketBuffer = 256 << 10
	// lingerTime and lingerBytes bound how long a closed socket is still read, so
	// that its peer gets the close frame and not a reset.
	lingerTime  = time.Second
	lingerBytes = 16 << 20
)

// conn is one socket. Its reader is the goroutine of the HTTP handler; each
// operation has one more.
type conn struct {
	srv  *Server
	r    *http.Request
	sock *websocket.Conn
	peer *Peer // set by the reader at connection_init

	ctx    context.Context //nolint:containedctx // the life of the socket
	cancel context.CancelCauseFunc

	writing sync.Mutex

	pinger *time.Timer

	mu      sync.Mutex
	ops     map[string]*operation // by the ids that are taken
	busy    int                   // operations whose goroutine has not ended
	closing bool
	running sync.WaitGroup
}

// operation is one that runs on a socket.
type operation struct{ cancel context.CancelCauseFunc }

// closure is why a socket is to be closed.
type closure struct {
	code   int
	reason string
}

// ServeWebSocket upgrades the request and serves the socket until it is closed.
func (s *Server) ServeWebSocket(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		http.Error(w, "This server takes no more streams now. Connect again.", http.StatusServiceUnavailable)
		return
	}
	defer s.leave()
	upgrader := websocket.Upgrader{
		Subprotocols: []string{subprotocol}, HandshakeTimeout: s.cfg.WriteTimeout,
		ReadBufferSize: 4 << 10, WriteBufferSize: 4 << 10, WriteBufferPool: &s.buffers,
		// A foreign page may open a socket but not with the cookie of its visitor: Connect sees the Origin.
		CheckOrigin: func(*http.Request) bool { return true },
	}
	sock, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered
	}
	if t, ok := sock.NetConn().(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(socketBuffer)
	}
	c := &conn{srv: s, r: r, sock: sock, ops: map[string]*operation{}}
	c.ctx, c.cancel = context.WithCancelCause(context.WithoutCancel(r.Context()))
	c.serve()
}

func (c *conn) serve() {
	defer c.finish()
	if c.sock.Subprotocol() != subprotocol {
		c.close(closure{closeSubprotocol, "Subprotocol not acceptable"})
		return
	}
	parted := make(chan struct{})
	stay := context.AfterFunc(c.srv.stopping, func() { defer close(parted); c.goodbye() })
	defer func() {
		if !stay() {
			<-parted
		}
	}()
	c.pinger = time.AfterFunc(math.MaxInt64, c.ping)
	c.pinger.Reset(c.srv.cfg.PingEvery)
	defer c.pinger.Stop()

	c.sock.SetReadLimit(c.srv.cfg.MessageBytes)
	c.expect(c.srv.cfg.InitTimeout)
	c.sock.SetPongHandler(func(string) error { c.alive(); return nil })
	for {
		kind, data, err := c.sock.ReadMessage()
		switch {
		case isTimeout(err) && c.peer == nil:
			c.close(closure{closeInitTimeout, "Connection initialisation timeout"})
			return
		case isTimeout(err):
			c.close(closure{websocket.CloseGoingAway, "No sign of life"})
			return
		case errors.Is(err, websocket.ErrReadLimit): // gorilla has sent 1009
			c.linger()
			return
		case err != nil:
			return
		}
		c.alive()
		why := &closure{closeBadMessage, "Binary messages are not part of the protocol"}
		if kind == websocket.TextMessage {
			why = c.handle(data)
		}
		if why != nil {
			c.close(*why)
			c.linger()
			return
		}
	}
}

// isTimeout sees through gorilla, which hides os.ErrDeadlineExceeded.
func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// finish ends everything that the socket had running and waits for it.
func (c *conn) finish() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.cancel(net.ErrClosed)
	c.sock.Close()
	c.running.Wait()
	if c.peer != nil {
		c.srv.part(c.peer.Key)
	}
}

// alive moves the read deadline after a sign of life. Before connection_init
// there is one deadline, which nothing moves.
func (c *conn) alive() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peer != nil && !c.closing {
		c.expect(c.srv.cfg.IdleTimeout)
	}
}

func (c *conn) expect(within time.Duration) {
	_ = c.sock.SetReadDeadline(c.srv.cfg.Now().Add(within))
}

func (c *conn) ping() {
	if c.sock.WriteControl(websocket.PingMessage, nil, c.deadline()) != nil {
		c.abort()
		return
	}
	if c.ctx.Err() == nil {
		c.pinger.Reset(c.srv.cfg.PingEvery)
	}
}

func (c *conn) deadline() time.Time { return c.srv.cfg.Now().Add(c.srv.cfg.WriteTimeout) }

// write sends one message; a peer that does not take it in time is dropped with
// all that runs for it.
func (c *conn) write(data []byte) bool {
	c.writing.Lock()
	defer c.writing.Unlock()
	_ = c.sock.SetWriteDeadline(c.deadline())
	if err := c.sock.WriteMessage(websocket.TextMessage, data); err != nil {
		c.abort()
		return false
	}
	return true
}

// abort drops the socket at once; the reader notices and finishes.
func (c *conn) abort() {
	c.cancel(net.ErrClosed)
	c.sock.Close()
}

// close says why the socket ends.
func (c *conn) close(why closure) {
	frame := websocket.FormatCloseMessage(why.code, why.reason)
	_ = c.sock.WriteControl(websocket.CloseMessage, frame, c.deadline())
}

// linger reads on for a moment without looking: closing with unread data resets
// the connection, and the peer would not learn why.
func (c *conn) linger() {
	c.cancel(net.ErrClosed)
	raw := c.sock.NetConn()
	if half, ok := raw.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = raw.SetReadDeadline(c.srv.cfg.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, raw, lingerBytes)
}

// goodbye ends every operation with ErrShutdown and then the socket; the reader
// ends with the peer's answer, or a moment later.
func (c *conn) goodbye() {
	c.mu.Lock()
	c.closing = true
	for _, op := range c.ops {
		op.cancel(ErrShutdown)
	}
	c.mu.Unlock()
	c.running.Wait()
	c.close(closure{websocket.CloseServiceRestart, "Server is shutting down"})
	_ = c.sock.NetConn().SetReadDeadline(c.srv.cfg.Now().Add(lingerTime))
}
