// Package ws serves GraphQL operations over graphql-transport-ws (on gorilla/websocket) and over Server-Sent Events. It
// does not interpret the operations. It guarantees:
//
//   - A peer that stops reading is disconnected within the write timeout. All goroutines that served it end, and other
//     peers are not delayed.
//   - At most one response of an operation waits while the previous one is written.
//   - An operation that ends with an error sends the error's code.
//   - An operation or socket beyond a limit of Config is refused or closed with a code that names the reason.
//
// Subscriptions for which Config.Share returns equal keys run as one execution, a group. The group renders each payload
// once and writes it to every viewer's socket without blocking. A viewer that is still receiving an earlier payload
// skips the next ones; once it can receive again it gets one payload that brings it to the newest state (contract S14).
// The group checks a viewer's Ticket before every payload, every second and when rights change. It starts no payload
// after the Ticket refused (contract T178, T202).
//
// Close codes, and whether a client should reconnect:
//
//	1001  no pong and no message within the idle timeout  yes
//	1002  a frame violates the websocket protocol         no
//	1009  a message is larger than Config.MessageBytes    no
//	1011  the server cannot identify callers at present   yes, later
//	1012  the server is shutting down                     yes, at once
//	1013  the caller has too many sockets                 yes, later
//	4400  a message violates graphql-transport-ws         no
//	4401  no valid token, or a subscribe before init      no, get a token
//	4406  a subprotocol other than graphql-transport-ws   no
//	4408  no connection_init within the init timeout      yes
//	4409  the id belongs to an operation that still runs  no
//	4429  a second connection_init                        no
//
// A peer that does not read in time is disconnected without a close frame, because it would not read that either.
package ws

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// Errors that end operations because of the transport. The executor's error presenter turns them into messages and
// codes.
var (
	ErrTooManyOperations = errors.New("ws: too many operations on one socket")
	ErrTooManyStreams    = errors.New("ws: too many streams of one caller")
	ErrShutdown          = errors.New("ws: server is shutting down")
)

// ErrUnauthenticated closes the socket with 4401 when Config.Connect returns or wraps it.
var ErrUnauthenticated = errors.New("ws: unauthenticated")

// Config configures a Server. Exec and Connect are required; a zero limit or duration means the default in its comment.
type Config struct {
	Exec graphql.GraphExecutor
	// Connect identifies the caller of a socket from the upgrade request and the payload of connection_init.
	// ErrUnauthenticated closes the socket with 4401, any other error with 1011.
	Connect func(r *http.Request, init map[string]any) (Peer, error)
	// Share decides which subscriptions run as a group; nil: each runs alone.
	Share Share
	// RightsChanged returns a channel that closes at the next change of rights; then all tickets are checked.
	// nil: tickets are checked before payloads and every second only.
	RightsChanged func() <-chan struct{}
	// Now is the clock for deadlines; default time.Now.
	Now func() time.Time
	// Metrics registers the server's collectors; nil: none are registered.
	Metrics prometheus.Registerer

	MessageBytes int64 // largest message from a client, in bytes; default 1 MiB
	Operations   int   // concurrent operations of one socket; default 20
	// Address returns the client address of a request; nil: UnknownOfAddress does not apply.
	Address          func(*http.Request) string
	Unknown          int // sockets that are not authenticated yet; default 8,000
	UnknownOfAddress int // the same per address, which may be a proxy with many viewers; default 4,000

	StreamsOfPeer int           // sockets and event streams of one peer; default 200
	Streams       int           // sockets and event streams of all peers; default 10,000
	InitTimeout   time.Duration // from the upgrade to connection_init; default 10 s
	WriteTimeout  time.Duration // of each write; default 5 s
	PingEvery     time.Duration // interval of pings on sockets; default 10 s
	IdleTimeout   time.Duration // longest time without a pong or message; default 30 s
	// CommentEvery is the interval of keep-alive comments on event streams; default 5 s. It is below the patience of the
	// clients of dvt, so that they notice a server that is frozen.
	CommentEvery time.Duration
}

func (c Config) withDefaults() Config {
	setDefault(&c.MessageBytes, 1<<20)
	setDefault(&c.Operations, 20)
	setDefault(&c.Unknown, 8000)
	setDefault(&c.UnknownOfAddress, 4000)
	setDefault(&c.StreamsOfPeer, 200)
	setDefault(&c.Streams, 10_000)
	setDefault(&c.InitTimeout, 10*time.Second)
	setDefault(&c.WriteTimeout, 5*time.Second)
	setDefault(&c.PingEvery, 10*time.Second)
	setDefault(&c.IdleTimeout, 30*time.Second)
	setDefault(&c.CommentEvery, 5*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Address == nil {
		c.Address = func(*http.Request) string { return "" }
		c.UnknownOfAddress = c.Unknown
	}
	return c
}

func setDefault[N ~int | ~int64](v *N, def N) {
	if *v == 0 {
		*v = def
	}
}

// Peer is the authenticated caller of a socket.
type Peer struct {
	// Key identifies the caller for Config.StreamsOfPeer.
	Key string
	// Attach returns the context of one operation, or an error that refuses the operation. The server calls it for
	// every operation, because a socket outlives tokens and rights. Calls may be concurrent.
	Attach func(ctx context.Context) (context.Context, error)
}

// Server serves sockets and event streams. Create it with New. Its methods are safe for concurrent use.
type Server struct {
	cfg       Config
	stopping  context.Context //nolint:containedctx // done when Shutdown begins; it belongs to no request
	stop      context.CancelCauseFunc
	buffers   sync.Pool // gorilla's write buffers; pooled because this package writes the frames itself
	groups    groups
	frameBufs frameBufs
	metrics   *metrics

	mu      sync.Mutex
	total   int // sockets and event streams
	running int // streams, unauthenticated sockets and goroutines that Shutdown waits for
	byPeer  map[string]int
	unknown unknownSockets
	sockets map[*conn]struct{} // sockets that Shutdown must still close
	idle    chan struct{}      // closed when the server is stopping and running is 0
}

// New returns a Server. It panics when Config.Metrics already has collectors of these names, because two servers on one
// registry are a programming error.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg.withDefaults(), metrics: newMetrics(), byPeer: map[string]int{},
		unknown: unknownSockets{byAddress: map[string]int{}}, sockets: map[*conn]struct{}{}, idle: make(chan struct{})}
	s.groups.srv, s.groups.byKey = s, map[string]*group{}
	s.stopping, s.stop = context.WithCancelCause(context.Background())
	s.metrics.register(s, cfg.Metrics)
	return s
}

// Shutdown ends every operation with ErrShutdown, closes the sockets with 1012 and waits until everything has ended. It
// returns the error of ctx when ctx ends first. From its first call on the server refuses new sockets with 503. It may
// be called again.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.stopping.Err() == nil && s.running == 0 {
		close(s.idle)
	}
	s.stop(ErrShutdown)
	for c := range s.sockets {
		s.startShutdown(c)
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter counts an event stream; false when there are too many streams or the server is stopping.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping.Err() != nil || s.total >= s.cfg.Streams {
		return false
	}
	s.total++
	s.running++
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total--
	s.decRunning()
}

// spawn runs f in a goroutine that Shutdown waits for. Only a stream or a spawned goroutine may call it: otherwise
// running could rise again after idle was closed.
func (s *Server) spawn(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	go func() {
		f()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.decRunning()
	}()
}

func (s *Server) decRunning() {
	if s.running--; s.running == 0 && s.stopping.Err() != nil {
		close(s.idle)
	}
}

func (s *Server) streams() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.total)
}

// keep registers a socket that Shutdown must close. If Shutdown has begun, it closes the socket now.
func (s *Server) keep(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sockets[c] = struct{}{}
	if s.stopping.Err() != nil {
		s.startShutdown(c)
	}
}

// forget reverts keep. A shutdown of the socket may still run; c.done waits for it.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sockets, c)
}

func (s *Server) startShutdown(c *conn) {
	delete(s.sockets, c)
	c.done.Go(c.shutdown)
}

// join counts a stream of a peer; false when the peer has too many. release reverts it.
func (s *Server) join(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byPeer[key] >= s.cfg.StreamsOfPeer {
		return false
	}
	s.byPeer[key]++
	return true
}

func (s *Server) release(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byPeer[key]--; s.byPeer[key] <= 0 {
		delete(s.byPeer, key)
	}
}

// IsUpgrade reports whether a request is a websocket handshake.
func IsUpgrade(r *http.Request) bool { return websocket.IsWebSocketUpgrade(r) }

// present converts an error with the executor's error presenter.
func (s *Server) present(ctx context.Context, err error) gqlerror.List {
	return s.cfg.Exec.DispatchError(ctx, gqlerror.List{gqlerror.WrapPath(nil, err)}).Errors
}
