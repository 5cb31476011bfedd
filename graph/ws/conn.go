package ws

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"strconv"
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
	// that little of the past is on its way and a write to it fails soon.
	socketBuffer = 64 << 10
	// readBuffer is kept by every socket; larger messages are read past it.
	readBuffer = 256
	// lingerTime and lingerBytes bound how long a closed socket is still read, so
	// that its peer gets the close frame and not a reset.
	lingerTime  = time.Second
	lingerBytes = 16 << 20
)

var errTooLarge = errors.New("ws: message too large")

// conn is one socket. Its only goroutine is the reader, whose stack is kept small;
// an operation that runs alone has one more.
type conn struct {
	srv     *Server
	sock    *websocket.Conn
	out     outlet
	r       *http.Request // until connection_init
	address string        // counted while peer is nil
	peer    *Peer         // set by the reader at connection_init
	pinger  *time.Timer
	parted  sync.WaitGroup // goodbye

	mu      sync.Mutex
	ops     []*operation // whose ids are taken
	busy    int          // operations that have not ended
	closing bool
	running sync.WaitGroup // busy
	why     string         // the code of the socket's end
}

// closure is why a socket is to be closed.
type closure struct {
	code   int
	reason string
}

// upgrade answers the request and begins to serve the socket; false when there is none, and Upgrade has answered.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request, address string) bool {
	upgrader := websocket.Upgrader{
		Subprotocols: []string{subprotocol}, HandshakeTimeout: s.cfg.WriteTimeout,
		ReadBufferSize: readBuffer, WriteBufferSize: readBuffer, WriteBufferPool: &s.buffers,
		// The server refuses the Origin of foreign pages before this, and Connect asks for an own one where there is a
		// cookie.
		CheckOrigin: func(*http.Request) bool { return true },
	}
	sock, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return false
	}
	if t, ok := sock.NetConn().(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(socketBuffer)
	}
	c := &conn{srv: s, r: r, address: address, sock: sock, why: codeClient}
	c.out.open(sock.NetConn(), s.cfg.Now, s.cfg.WriteTimeout, c.abort)
	c.expect(s.cfg.InitTimeout)
	sock.SetPongHandler(func(string) error { c.alive(); return nil })
	sock.SetPingHandler(c.pong)
	sock.SetCloseHandler(func(code int, _ string) error {
		c.out.close(closeFrame(closure{code: code}))
		return nil
	})
	c.pinger = time.AfterFunc(math.MaxInt64, c.ping)
	c.pinger.Reset(s.cfg.PingEvery)
	s.keep(c)
	go c.serve() // what the HTTP server kept for the request is freed
	return true
}

// serve is the reader. What it calls while it waits for a message has little on the
// stack: the runtime gives an idle socket 4 KiB then and not 8.
func (c *conn) serve() {
	defer c.finish()
	if c.sock.Subprotocol() != subprotocol {
		c.close(closure{closeSubprotocol, "Subprotocol not acceptable"})
		return
	}
	for c.next(c.read()) {
	}
}

// next handles one message, or what came instead of it; false is the end of the socket.
func (c *conn) next(kind int, data []byte, err error) bool {
	if err == nil {
		c.alive()
		var why *closure
		if err = guarded(func() error { why = c.handle(kind, data); return nil }); err == nil && why != nil {
			c.close(*why)
		}
		if err == nil {
			return why == nil
		}
	}
	switch timeout := isTimeout(err); {
	case timeout && c.ending():
	case timeout && c.peer == nil:
		c.close(closure{closeInitTimeout, "Connection initialisation timeout"})
	case timeout:
		c.close(closure{websocket.CloseGoingAway, "No sign of life"})
	case errors.Is(err, errTooLarge):
		c.close(closure{websocket.CloseMessageTooBig, "Message too large"})
	case errors.Is(err, errPanic):
		_ = c.srv.present(context.Background(), err) // it is logged
		c.close(closure{websocket.CloseInternalServerErr, "Try again later"})
	}
	return false
}

// read is ReadMessage of gorilla with a limit of our own: gorilla would write the
// close frame itself, perhaps into the middle of another frame.
func (c *conn) read() (kind int, data []byte, err error) {
	kind, r, err := c.sock.NextReader()
	if err != nil {
		return kind, nil, err
	}
	limit := c.srv.cfg.MessageBytes
	data, err = io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = errTooLarge
	}
	return kind, data, err
}

// isTimeout sees through gorilla, which hides os.ErrDeadlineExceeded.
func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// finish ends everything that the socket had running and waits for it.
func (c *conn) finish() {
	c.drop(net.ErrClosed)
	c.pinger.Stop()
	c.srv.forget(c)
	c.parted.Wait()
	c.sock.Close()
	c.running.Wait()
	c.mu.Lock()
	why := c.why
	c.mu.Unlock()
	c.srv.metrics.end(why)
	if c.peer == nil {
		c.srv.dropUnknown(c.address)
		return
	}
	c.srv.part(c.peer.Key)
	c.srv.leave()
}

// drop ends all operations and lets none begin any more.
func (c *conn) drop(why error) {
	c.mu.Lock()
	c.closing = true
	ops := slices.Clone(c.ops)
	c.mu.Unlock()
	for _, op := range ops {
		op.drop(why)
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

func (c *conn) ending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

func (c *conn) expect(within time.Duration) {
	_ = c.sock.SetReadDeadline(c.srv.cfg.Now().Add(within))
}

func (c *conn) ping() {
	if !c.out.send(newFrame(websocket.PingMessage, ""), nil) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		c.pinger.Reset(c.srv.cfg.PingEvery)
	}
}

func (c *conn) pong(data string) error {
	c.alive()
	c.out.send(newFrame(websocket.PongMessage, data), nil)
	return nil
}

// abort drops the socket at once, for what was not written; the reader notices and finishes.
func (c *conn) abort(slow bool) {
	if slow {
		c.end(codeSlow)
		c.srv.metrics.slow.Inc()
	}
	if t, ok := c.sock.NetConn().(*net.TCPConn); ok {
		_ = t.SetLinger(0) // or the kernel goes on offering what was not read
	}
	c.sock.Close()
	c.drop(net.ErrClosed)
}

// end notes why the socket ends; the first reason counts.
func (c *conn) end(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == codeClient {
		c.why = code
	}
}

// close says why the socket ends, and lingers.
func (c *conn) close(why closure) {
	c.end(strconv.Itoa(why.code))
	c.out.close(closeFrame(why))
	c.drop(net.ErrClosed)
	c.linger()
}

func closeFrame(why closure) []byte {
	if why.code == websocket.CloseNoStatusReceived {
		return newFrame(websocket.CloseMessage, "")
	}
	return newFrame(websocket.CloseMessage, append(binary.BigEndian.AppendUint16(nil, uint16(why.code)), why.reason...))
}

// linger reads on for a moment without looking: closing with unread data resets
// the connection, and the peer would not learn why.
func (c *conn) linger() {
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
	c.drop(ErrShutdown)
	c.running.Wait()
	why := closure{websocket.CloseServiceRestart, "Server is shutting down"}
	c.end(strconv.Itoa(why.code))
	c.out.close(closeFrame(why))
	_ = c.sock.NetConn().SetReadDeadline(c.srv.cfg.Now().Add(lingerTime))
}
