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

// Close codes of graphql-transport-ws; gorilla has no names for them. The package comment explains them.
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
	// socketBuffer limits the kernel's send buffer. With a larger one a slow peer would receive old payloads for long,
	// and a write to a peer that stopped reading would block late.
	socketBuffer = 64 << 10
	// readBuffer is small because every socket keeps one; gorilla reads larger messages in several steps.
	readBuffer = 256
	// lingerTime and lingerBytes limit how long a closed socket is still read. Without reading, the kernel would reset
	// the connection and the peer could lose the close frame.
	lingerTime  = time.Second
	lingerBytes = 16 << 20
)

var errTooLarge = errors.New("ws: message too large")

// conn is one socket. The reader is its only permanent goroutine, and serve keeps its stack small. Each operation that
// runs alone adds one goroutine.
type conn struct {
	srv     *Server
	sock    *websocket.Conn
	out     frameWriter
	r       *http.Request // nil after connection_init
	address string        // counted as unauthenticated while peer is nil
	peer    *Peer         // set by the reader at connection_init
	pinger  *time.Timer
	done    sync.WaitGroup // shutdown, if the server started it

	mu      sync.Mutex
	ops     []*operation // operations whose ids are in use
	busy    int          // operations that have not ended
	closing bool
	running sync.WaitGroup // counts busy
	endCode string         // label of the metric that counts how sockets end
}

// closeReason is the code and the text of a close frame.
type closeReason struct {
	code   int
	reason string
}

// upgrade does the handshake and starts to serve the socket. If the handshake fails, gorilla has answered with the HTTP
// error and upgrade returns false.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request, address string) bool {
	upgrader := websocket.Upgrader{
		Subprotocols: []string{subprotocol}, HandshakeTimeout: s.cfg.WriteTimeout,
		ReadBufferSize: readBuffer, WriteBufferSize: readBuffer, WriteBufferPool: &s.buffers,
		// The HTTP server has already refused foreign origins. Connect also demands the server's own origin where a
		// cookie authenticates.
		CheckOrigin: func(*http.Request) bool { return true },
	}
	sock, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return false
	}
	if t, ok := sock.NetConn().(*net.TCPConn); ok {
		_ = t.SetWriteBuffer(socketBuffer)
	}
	c := &conn{srv: s, r: r, address: address, sock: sock, endCode: codeClient}
	c.out.open(sock.NetConn(), s.cfg.Now, s.cfg.WriteTimeout, c.abort)
	c.setReadDeadline(s.cfg.InitTimeout)
	sock.SetPongHandler(func(string) error { c.extendDeadline(); return nil })
	sock.SetPingHandler(c.pong)
	sock.SetCloseHandler(func(code int, _ string) error {
		c.out.close(closeFrame(closeReason{code: code}))
		return nil
	})
	c.pinger = time.AfterFunc(math.MaxInt64, c.ping)
	c.pinger.Reset(s.cfg.PingEvery)
	s.keep(c)
	go c.serve() // and return, so that the HTTP server frees the buffers of the request
	return true
}

// serve is the reader goroutine. read and handling are separate calls, so that the stack is shallow while it waits for
// a message: an idle socket then has a stack of 4 KiB instead of 8.
func (c *conn) serve() {
	defer c.finish()
	if c.sock.Subprotocol() != subprotocol {
		c.close(closeReason{closeSubprotocol, "Subprotocol not acceptable"})
		return
	}
	for c.next(c.read()) {
	}
}

// next handles the result of read, a message or an error. It returns false when the socket ends.
func (c *conn) next(kind int, data []byte, err error) bool {
	if err == nil {
		c.extendDeadline()
		var why *closeReason
		if err = catchPanic(func() error { why = c.handle(kind, data); return nil }); err == nil && why != nil {
			c.close(*why)
		}
		if err == nil {
			return why == nil
		}
	}
	switch timeout := isTimeout(err); {
	case timeout && c.isClosing():
	case timeout && c.peer == nil:
		c.close(closeReason{closeInitTimeout, "Connection initialisation timeout"})
	case timeout:
		c.close(closeReason{websocket.CloseGoingAway, "No sign of life"})
	case errors.Is(err, errTooLarge):
		c.close(closeReason{websocket.CloseMessageTooBig, "Message too large"})
	case errors.Is(err, errPanic):
		_ = c.srv.present(context.Background(), err) // the presenter logs it
		c.close(closeReason{websocket.CloseInternalServerErr, "Try again later"})
	}
	return false
}

// read is gorilla's ReadMessage with an own limit. gorilla's limit writes a close frame, and would write it into the
// middle of a frame that this package is writing.
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

// isTimeout reports whether a read timed out. errors.Is(err, os.ErrDeadlineExceeded) does not work: gorilla wraps the
// error and hides it.
func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

// finish ends all operations of the socket, waits for them and releases what the server counts.
func (c *conn) finish() {
	c.drop(net.ErrClosed)
	c.pinger.Stop()
	c.srv.forget(c)
	c.done.Wait()
	c.sock.Close()
	c.running.Wait()
	c.mu.Lock()
	why := c.endCode
	c.mu.Unlock()
	c.srv.metrics.end(why)
	if c.peer == nil {
		c.srv.dropUnknown(c.address)
		return
	}
	c.srv.release(c.peer.Key)
	c.srv.leave()
}

// drop ends all operations with the cause why and refuses new ones.
func (c *conn) drop(why error) {
	c.mu.Lock()
	c.closing = true
	ops := slices.Clone(c.ops)
	c.mu.Unlock()
	for _, op := range ops {
		op.drop(why)
	}
}

// extendDeadline extends the read deadline after a message or pong. It does nothing before connection_init: pings must
// not extend Config.InitTimeout.
func (c *conn) extendDeadline() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peer != nil && !c.closing {
		c.setReadDeadline(c.srv.cfg.IdleTimeout)
	}
}

func (c *conn) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

func (c *conn) setReadDeadline(within time.Duration) {
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
	c.extendDeadline()
	c.out.send(newFrame(websocket.PongMessage, data), nil)
	return nil
}

// abort closes the socket without a close frame after a failed write. The reader's read then fails, and it calls
// finish.
func (c *conn) abort(slow bool) {
	if slow {
		c.end(codeSlow)
		c.srv.metrics.slow.Inc()
	}
	if t, ok := c.sock.NetConn().(*net.TCPConn); ok {
		_ = t.SetLinger(0) // otherwise the kernel keeps sending the unread data
	}
	c.sock.Close()
	c.drop(net.ErrClosed)
}

// end records the code that the socket ends with; the first call wins.
func (c *conn) end(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endCode == codeClient {
		c.endCode = code
	}
}

// close sends the close frame, ends all operations and lingers.
func (c *conn) close(why closeReason) {
	c.end(strconv.Itoa(why.code))
	c.out.close(closeFrame(why))
	c.drop(net.ErrClosed)
	c.linger()
}

func closeFrame(why closeReason) []byte {
	if why.code == websocket.CloseNoStatusReceived {
		return newFrame(websocket.CloseMessage, "")
	}
	return newFrame(websocket.CloseMessage, append(binary.BigEndian.AppendUint16(nil, uint16(why.code)), why.reason...))
}

// linger discards what the peer still sends. Closing a socket with unread data resets the connection, and the peer
// would not receive the close frame.
func (c *conn) linger() {
	raw := c.sock.NetConn()
	if half, ok := raw.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_ = raw.SetReadDeadline(c.srv.cfg.Now().Add(lingerTime))
	_, _ = io.CopyN(io.Discard, raw, lingerBytes)
}

// shutdown ends every operation with ErrShutdown, waits for them and sends the close frame. The reader ends when the
// peer answers or lingerTime has passed.
func (c *conn) shutdown() {
	c.drop(ErrShutdown)
	c.running.Wait()
	why := closeReason{websocket.CloseServiceRestart, "Server is shutting down"}
	c.end(strconv.Itoa(why.code))
	c.out.close(closeFrame(why))
	_ = c.sock.NetConn().SetReadDeadline(c.srv.cfg.Now().Add(lingerTime))
}
