package ws_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/gorilla/websocket"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/parser"
	"go.uber.org/goleak"

	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/internal/testtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// executor parses documents without a schema and executes them with the dispatch function of the test.
type executor struct {
	dispatch func(ctx context.Context, op *graphql.OperationContext) graphql.ResponseHandler
}

func (executor) CreateOperationContext(_ context.Context, p *graphql.RawParams) (*graphql.OperationContext,
	gqlerror.List) {
	op := &graphql.OperationContext{RawQuery: p.Query, Variables: p.Variables}
	doc, err := parser.ParseQuery(&ast.Source{Input: p.Query})
	if err != nil {
		return op, gqlerror.List{gqlerror.Errorf("INVALID")}
	}
	op.Doc, op.Operation = doc, doc.Operations[0]
	return op, nil
}

func (e executor) DispatchOperation(ctx context.Context, op *graphql.OperationContext) (graphql.ResponseHandler,
	context.Context) {
	return e.dispatch(ctx, op), ctx
}

func (executor) DispatchError(_ context.Context, errs gqlerror.List) *graphql.Response {
	out := make(gqlerror.List, len(errs))
	for i, e := range errs {
		out[i] = &gqlerror.Error{Message: e.Message, Extensions: map[string]any{"code": code(e)}}
	}
	return &graphql.Response{Errors: out}
}

// code is the error code that the executor presents for err.
func code(err error) string {
	for sentinel, code := range map[error]string{
		ws.ErrTooManyOperations: "TOO_MANY_STREAMS", ws.ErrTooManyStreams: "TOO_MANY_STREAMS",
		ws.ErrShutdown: "SERVER_SHUTDOWN",
	} {
		if errors.Is(err, sentinel) {
			return code
		}
	}
	return "OTHER"
}

// server serves sockets at / and event streams at /events.
type server struct {
	*ws.Server
	http *httptest.Server
	exec executor
}

// start starts a server; the test shuts it down at its end.
func start(t *testing.T, cfg ws.Config, dispatch func(context.Context,
	*graphql.OperationContext) graphql.ResponseHandler) *server {
	t.Helper()
	s := &server{exec: executor{dispatch}}
	cfg.Exec = s.exec
	if cfg.Connect == nil {
		cfg.Connect = func(_ *http.Request, init map[string]any) (ws.Peer, error) {
			if init["Authorization"] != "Bearer good" {
				return ws.Peer{}, ws.ErrUnauthenticated
			}
			return ws.Peer{Key: "me", Attach: func(ctx context.Context) (context.Context, error) { return ctx, nil }}, nil
		}
	}
	s.Server = ws.New(cfg)
	mux := http.NewServeMux()
	mux.HandleFunc("/", s.ServeWebSocket)
	mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(graphql.StartOperationTrace(r.Context()))
		op, _ := s.exec.CreateOperationContext(r.Context(), &graphql.RawParams{Query: r.URL.Query().Get("query")})
		if errs := s.ServeEvents(w, r, "me", op); len(errs) > 0 {
			http.Error(w, errs[0].Extensions["code"].(string), http.StatusServiceUnavailable)
		}
	})
	s.http = httptest.NewServer(mux)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v, want nil", err)
		}
		s.http.Close()
	})
	return s
}

// respondOnce dispatches to one response.
func respondOnce(data string) func(context.Context, *graphql.OperationContext) graphql.ResponseHandler {
	return func(context.Context, *graphql.OperationContext) graphql.ResponseHandler {
		return graphql.OneShot(&graphql.Response{Data: json.RawMessage(data)})
	}
}

// neverRespond dispatches to no response until the operation ends. live counts the operations whose context has not
// ended.
func neverRespond(live *atomic.Int64) func(context.Context, *graphql.OperationContext) graphql.ResponseHandler {
	return func(ctx context.Context, _ *graphql.OperationContext) graphql.ResponseHandler {
		live.Add(1)
		context.AfterFunc(ctx, func() { live.Add(-1) })
		return func(ctx context.Context) *graphql.Response {
			<-ctx.Done()
			return nil
		}
	}
}

// respondForever dispatches to endless responses. live counts the operations whose context has not ended.
func respondForever(live *atomic.Int64, data string) func(context.Context,
	*graphql.OperationContext) graphql.ResponseHandler {
	return func(ctx context.Context, _ *graphql.OperationContext) graphql.ResponseHandler {
		live.Add(1)
		context.AfterFunc(ctx, func() { live.Add(-1) })
		return func(ctx context.Context) *graphql.Response {
			if ctx.Err() != nil {
				return nil
			}
			return &graphql.Response{Data: json.RawMessage(data)}
		}
	}
}

// client is a websocket peer; the test sends each message itself.
type client struct {
	t *testing.T
	*websocket.Conn
}

// dial connects with the given subprotocols, by default graphql-transport-ws.
func (s *server) dial(t *testing.T, protocols ...string) *client {
	t.Helper()
	if protocols == nil {
		protocols = []string{"graphql-transport-ws"}
	}
	d := websocket.Dialer{Subprotocols: protocols}
	conn, resp, err := d.DialContext(t.Context(), "ws"+strings.TrimPrefix(s.http.URL, "http"), nil)
	if err != nil {
		t.Fatalf("dial: %v (%v)", err, resp)
	}
	t.Cleanup(func() { conn.Close() })
	return &client{t, conn}
}

// open dials and authenticates.
func (s *server) open(t *testing.T) *client {
	t.Helper()
	c := s.dial(t)
	c.send(`{"type":"connection_init","payload":{"Authorization":"Bearer good"}}`)
	c.expect(`{"type":"connection_ack"}`)
	return c
}

func (c *client) send(text string) {
	c.t.Helper()
	if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

func (c *client) subscribe(id, query string) {
	c.t.Helper()
	payload, _ := json.Marshal(map[string]string{"query": query})
	c.send(`{"id":"` + id + `","type":"subscribe","payload":` + string(payload) + `}`)
}

// expect fails the test unless the next message is want.
func (c *client) expect(want string) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(testtime.Of(10 * time.Second)))
	_, got, err := c.ReadMessage()
	if err != nil || string(got) != want {
		c.t.Fatalf("got message %s, error %v; want message %s", got, err, want)
	}
}

// expectClose fails the test unless the server closes the socket with code. Messages before it are logged.
func (c *client) expectClose(code int) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(testtime.Of(10 * time.Second)))
	for {
		_, data, err := c.ReadMessage()
		if err == nil {
			c.t.Logf("message before the close frame: %s", data)
			continue
		}
		if closed, ok := errors.AsType[*websocket.CloseError](err); !ok || closed.Code != code {
			c.t.Fatalf("the socket ended with %v, want close code %d", err, code)
		}
		return
	}
}

// eventually polls ok and fails the test when it does not return true in time.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testtime.Of(within)); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not true within %v: %s", within, what)
		}
	}
}

// dialSmallWindow opens a TCP connection with a small receive window, so that the server's writes block soon when the
// test does not read.
func (s *server) dialSmallWindow(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.http.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	t.Cleanup(func() { conn.Close() })
	return conn
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
