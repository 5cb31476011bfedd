// Package ws carries GraphQL operations over graphql-transport-ws on
// gorilla/websocket and over Server-Sent Events. It promises that a peer which
// stops reading is gone within the write timeout, with every goroutine that
// served it, and that nobody else notices; that at most one response of an
// operation waits while the former one is written; that an operation which ends
// by an error says so with its code; and that limits close or refuse what is too
// much, by name. It knows nothing of what the operations mean.
//
// Subscriptions that Config.Share finds equal are one execution, a group, whose
// payloads are rendered once and written to every viewer's socket without waiting
// for any. A viewer that is still busy with an earlier payload is not sent the
// next ones, but one that brings it to the newest once it can take it (S14). Its
// Ticket is asked before every payload, every second and when rights change: no
// payload is begun after it said no (T178, T202).
//
// How a socket closes, and whether a client should connect again:
//
//	1001  no sign of life for the idle timeout            yes
//	1002  a frame that breaks the rules of websockets     no
//	1009  a message is larger than Config.MessageBytes    no
//	1011  the caller could not be identified just now     yes, later
//	1012  the server is shutting down                     yes, at once
//	1013  the caller has too many sockets                 yes, later
//	4400  a message that the protocol does not know       no
//	4401  no or a wrong token, or a subscribe before init no, get a token
//	4406  another subprotocol than graphql-transport-ws   no
//	4408  no connection_init within the init timeout      yes
//	4409  the id of an operation that still runs          no
//	4429  a second connection_init                        no
//
// A peer that does not read in time is cut off without a close frame.
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

// Errors that the executor's error presenter is asked to word; the causes of
// operations that end because of the transport.
var (
	ErrTooManyOperations = errors.New("ws: too many operations on one socket")
	ErrTooManyStreams    = errors.New("ws: too many streams of one caller")
	ErrShutdown          = errors.New("ws: server is shutting down")
)

// ErrUnauthenticated is what Config.Connect wraps to close a socket with 4401.
var ErrUnauthenticated = errors.New("ws: unauthenticated")

// Config says how to serve. Exec and Connect are required; zero limits mean their defaults.
type Config struct {
	Exec graphql.GraphExecutor
	// Connect identifies who opened a socket, from the upgrade request and the
	// payload of connection_init. ErrUnauthenticated closes with 4401, any other
	// error with 1011.
	Connect func(r *http.Request, init map[string]any) (Peer, error)
	// Share finds subscriptions that may be shared; nil shares none.
	Share Share
	// RightsChanged gives a channel that is closed when tickets are to be checked; nil:
	// they are checked every second only.
	RightsChanged func() <-chan struct{}
	// Now is the clock of deadlines; default time.Now.
	Now func() time.Time
	// Metrics gets the collectors of the server; nil: none.
	Metrics prometheus.Registerer

	MessageBytes int64 // largest message from a client; 1 MiB
	Operations   int   // at once on one socket; 20
	// Address is where a request comes from; nil counts no sockets by address.
	Address          func(*http.Request) string
	Unknown          int // sockets before connection_init was answered; 8,000
	UnknownOfAddress int // the same, of one address, which may be a proxy with many viewers; 4,000

	StreamsOfPeer int           // sockets and event streams of one peer; 200
	Streams       int           // sockets and event streams in all; 10,000
	InitTimeout   time.Duration // for connection_init; 10 s
	WriteTimeout  time.Duration // for each write; 5 s
	PingEvery     time.Duration // of sockets; 15 s
	IdleTimeout   time.Duration // without a pong or message; 30 s
	CommentEvery  time.Duration // keep-alive of event streams; 12 s
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
	setDefault(&c.PingEvery, 15*time.Second)
	setDefault(&c.IdleTimeout, 30*time.Second)
	setDefault(&c.CommentEvery, 12*time.Second)
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

// Peer is who is at the other end.
type Peer struct {
	// Key names the caller for the limit on streams.
	Key string
	// Attach gives the context of one operation, or the error that refuses it;
	// it is asked anew for each, for a socket outlives tokens and rights.
	Attach func(ctx context.Context) (context.Context, error)
}

// Server serves sockets and event streams. Its methods are safe for concurrent use.
type Server struct {
	cfg      Config
	stopping context.Context //nolint:containedctx // done when Shutdown begins; nobody's request
	stop     context.CancelCauseFunc
	buffers  sync.Pool // of gorilla, which writes nothing
	groups   groups
	parcels  parcels
	metrics  *metrics

	mu      sync.Mutex
	total   int // sockets and event streams
	running int // and what else is to end before Shutdown returns
	byPeer  map[string]int
	unknown unknownSockets
	sockets map[*conn]struct{} // until they part
	idle    chan struct{}      // closed when stopping and nothing is left
}

// New makes a Server. It panics when Config.Metrics has its collectors already.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg.withDefaults(), metrics: newMetrics(), byPeer: map[string]int{},
		unknown: unknownSockets{byAddress: map[string]int{}}, sockets: map[*conn]struct{}{}, idle: make(chan struct{})}
	s.groups.srv, s.groups.byKey = s, map[string]*group{}
	s.stopping, s.stop = context.WithCancelCause(context.Background())
	s.metrics.register(s, cfg.Metrics)
	return s
}

// Shutdown ends every operation with ErrShutdown, closes the sockets with 1012
// and waits until all are gone or ctx ends. New ones are refused with 503.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if s.stopping.Err() == nil && s.running == 0 {
		close(s.idle)
	}
	s.stop(ErrShutdown)
	for c := range s.sockets {
		s.dismiss(c)
	}
	s.mu.Unlock()
	select {
	case <-s.idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enter counts a stream; false when there are too many or the server stops.
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
	s.ended()
}

// spawn runs f in a goroutine that Shutdown waits for. The caller is such a one, or
// a stream.
func (s *Server) spawn(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running++
	go func() {
		f()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended()
	}()
}

func (s *Server) ended() {
	if s.running--; s.running == 0 && s.stopping.Err() != nil {
		close(s.idle)
	}
}

func (s *Server) streams() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return float64(s.total)
}

// keep has Shutdown say goodbye to a socket.
func (s *Server) keep(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sockets[c] = struct{}{}
	if s.stopping.Err() != nil {
		s.dismiss(c)
	}
}

// forget ends keep. Who was dismissed is waited for with parted.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sockets, c)
}

func (s *Server) dismiss(c *conn) {
	delete(s.sockets, c)
	c.parted.Go(c.goodbye)
}

// join counts a stream for a peer; false when it has too many.
func (s *Server) join(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byPeer[key] >= s.cfg.StreamsOfPeer {
		return false
	}
	s.byPeer[key]++
	return true
}

func (s *Server) part(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byPeer[key]--; s.byPeer[key] <= 0 {
		delete(s.byPeer, key)
	}
}

// IsUpgrade reports whether a request asks for a websocket.
func IsUpgrade(r *http.Request) bool { return websocket.IsWebSocketUpgrade(r) }

// present words an error as the executor does.
func (s *Server) present(ctx context.Context, err error) gqlerror.List {
	return s.cfg.Exec.DispatchError(ctx, gqlerror.List{gqlerror.WrapPath(nil, err)}).Errors
}
