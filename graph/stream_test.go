package graph_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/control/watch"
	"github.com/dvt-engine/dvt/graph"
	"github.com/dvt-engine/dvt/live"
	"github.com/dvt-engine/dvt/run"
)

// socket is a client of graphql-transport-ws.
type socket struct {
	t *testing.T
	*websocket.Conn
}

func (a *api) dial(init string, headers ...string) *socket {
	a.t.Helper()
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	d := websocket.Dialer{Subprotocols: []string{"graphql-transport-ws"}}
	conn, _, err := d.DialContext(a.t.Context(), "ws"+strings.TrimPrefix(a.url, "http"), h)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { conn.Close() })
	s := &socket{a.t, conn}
	s.send(`{"type":"connection_init"` + init + `}`)
	return s
}

const goodInit = `,"payload":{"Authorization":"Bearer good"}`

func (s *socket) send(text string) {
	s.t.Helper()
	if err := s.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		s.t.Fatal(err)
	}
}

func (s *socket) subscribe(id, query string) {
	s.t.Helper()
	s.send(`{"type":"subscribe","id":"` + id + `","payload":` + request(query, nil) + `}`)
}

func (s *socket) next() string {
	s.t.Helper()
	_ = s.SetReadDeadline(time.Now().Add(time.Minute))
	_, data, err := s.ReadMessage()
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

func (s *socket) expect(parts ...string) {
	s.t.Helper()
	got := s.next()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			s.t.Fatalf("got %s, want %s in it", got, p)
		}
	}
}

// contract: Z01
func TestSocket_OpensOnlyForAuthenticatedCallers(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
	for name, test := range map[string]struct {
		init    string
		headers []string
		ok      bool
	}{
		"init":                       {goodInit, nil, true},
		"init, lower case":           {`,"payload":{"authorization":"bearer good"}`, nil, true},
		"header":                     {"", []string{"Authorization", "Bearer good"}, true},
		"session of our page":        {"", []string{"Cookie", "session=good", "Origin", a.url}, true},
		"session of an allowed page": {"", []string{"Cookie", "session=good", "Origin", "https://ui.example"}, true},
		"session of a foreign page":  {"", []string{"Cookie", "session=good", "Origin", "https://evil.example"}, false},
		"session of no page":         {"", []string{"Cookie", "session=good"}, false},
		"token of a foreign page": {goodInit, []string{"Cookie", "session=bad", "Origin", "https://evil.example"},
			true},
		"wrong token, good session": {`,"payload":{"Authorization":"Bearer bad"}`,
			[]string{"Cookie", "session=good", "Origin", a.url}, false},
		"nothing":                       {"", nil, false},
		"expired":                       {`,"payload":{"Authorization":"Bearer old"}`, nil, false},
		"a token without its scheme":    {`,"payload":{"Authorization":"good"}`, nil, false},
		"a wrong session of our page":   {"", []string{"Cookie", "session=bad", "Origin", a.url}, false},
		"a payload that says nothing":   {`,"payload":{}`, nil, false},
		"an Authorization of no string": {`,"payload":{"Authorization":1}`, nil, false},
	} {
		s := a.dial(test.init, test.headers...)
		_ = s.SetReadDeadline(time.Now().Add(time.Minute))
		_, data, err := s.ReadMessage()
		closed, _ := errors.AsType[*websocket.CloseError](err)
		if ok := string(data) == `{"type":"connection_ack"}`; ok != test.ok || !ok &&
			(closed == nil || closed.Code != 4401) {
			t.Errorf("%s: got %s, %v; want connection_ack %t, else close code 4401", name, data, err, test.ok)
		}
		s.Close()
	}
}

func TestSocket_ServesEveryKindOfOperation(t *testing.T) {
	t.Parallel()
	a := serve(t, newAnsweringFake())
	a.Unshare()
	s := a.dial(goodInit)
	s.expect("connection_ack")
	s.subscribe("q", queryHealth)
	s.expect(`{"id":"q","type":"next","payload":` + healthy)
	s.expect(`{"id":"q","type":"complete"}`)
	s.subscribe("m", started)
	s.expect(`"type":"next"`, `"signalId":"s1"`)
	s.expect(`{"id":"m","type":"complete"}`)
	s.subscribe("s", `subscription { runUpdates(runId: "r1") { runSeq sync } }`)
	s.expect(`{"id":"s","type":"next","payload":{"data":{"runUpdates":{"runSeq":7,"sync":"LIVE"}}}}`)
	s.expect(`"sync":"STALE"`)
	s.expect(`"sync":"LIVE"`)
	s.expect(`{"id":"s","type":"error","payload":[{"message":"No longer.","extensions":{"code":"FORBIDDEN"`)
	s.subscribe("bad", `subscription { runUpdates(runId: "r1") { nothing } }`)
	s.expect(`"id":"bad","type":"error"`, `"code":"BAD_USER_INPUT"`)
	s.subscribe("deep", strings.Repeat("{a", 20)+strings.Repeat("}", 20))
	s.expect(`"id":"deep","type":"error"`, `"code":"QUERY_TOO_DEEP"`)
}

// Each operation on an open socket authenticates again, so that lost rights and expired tokens take effect.
// contract: T178
func TestSocket_EachOperationAuthenticatesAgain(t *testing.T) {
	t.Parallel()
	var seen []string
	f := newAnsweringFake()
	f.signalRun = func(p authz.Principal, _ runs.SignalRun) (runs.SignalReceipt, error) {
		seen = append(seen, p.ID)
		return receipt(run.Pause), nil
	}
	answers := make(chan string, 4)
	for _, who := range []string{"connect", "first", "second"} {
		answers <- who
	}
	close(answers)
	a := serve(t, f, func(c *graph.Config) {
		c.Authenticate = func(string) (authz.Principal, error) {
			who, ok := <-answers
			if !ok {
				return authz.Principal{}, authz.ErrExpired
			}
			return authz.Principal{ID: who}, nil
		}
	})
	s := a.dial(goodInit)
	s.expect("connection_ack")
	for range 2 {
		s.subscribe("m", started)
		s.expect(`"type":"next"`)
		s.expect(`"type":"complete"`)
	}
	s.subscribe("m", started)
	s.expect(`"type":"error"`, `"code":"TOKEN_EXPIRED"`)
	if strings.Join(seen, " ") != "first second" {
		t.Errorf("control got the principals %v, want first and second", seen)
	}
}

// contract: T222
func TestStreams_NotFoundIsAnError(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	f.watchRun = func(watch.WatchRun) (graph.Stream[live.Frame], error) { return nil, errNotFound }
	a := serve(t, f)
	s := a.dial(goodInit)
	s.expect("connection_ack")
	watch := `subscription { runUpdates(runId: "r2") { runSeq } }`
	s.subscribe("1", watch)
	s.expect(`{"id":"1","type":"error"`, `"code":"NOT_FOUND"`)
	got := a.do(http.MethodPost, "/", request(watch, nil), "Accept", "text/event-stream")
	if !strings.Contains(got.body, `"code":"NOT_FOUND"`) || !strings.HasSuffix(got.body, "event: complete\ndata:") {
		t.Errorf("the event stream was %s, want NOT_FOUND and complete", got.body)
	}
}

func TestStreams_LimitsAndShutdownHaveCodes(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	f.watchRun = func(watch.WatchRun) (graph.Stream[live.Frame], error) { return stream[live.Frame](nil) }
	a := serve(t, f, func(c *graph.Config) { c.Streams.Operations = 1 })
	s := a.dial(goodInit)
	s.expect("connection_ack")
	s.subscribe("1", `subscription { runUpdates(runId: "r1") { runSeq } }`)
	s.subscribe("2", `subscription { runUpdates(runId: "r1") { runSeq } }`)
	s.expect(`"id":"2","type":"error"`, `"code":"TOO_MANY_STREAMS"`)
	done := make(chan error)
	go func() { done <- a.Shutdown(t.Context()) }()
	s.expect(`"id":"1","type":"error"`, `"code":"SERVER_SHUTDOWN"`)
	if _, _, err := s.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseServiceRestart) {
		t.Errorf("the socket ended with %v, want close code 1012", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown returned %v, want nil", err)
	}
}

func TestStreams_AreFreedWhenTheViewerLeaves(t *testing.T) {
	t.Parallel()
	opened, closed := make(chan struct{}), make(chan struct{})
	f := newAnsweringFake()
	f.watchRun = func(watch.WatchRun) (graph.Stream[live.Frame], error) {
		close(opened)
		return &frames[live.Frame]{closed: closed}, nil
	}
	a := serve(t, f)
	s := a.dial(goodInit)
	s.expect("connection_ack")
	s.subscribe("1", `subscription { runUpdates(runId: "r1") { runSeq } }`)
	<-opened
	s.send(`{"type":"complete","id":"1"}`)
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("the stream is still open a minute after complete, want it closed")
	}
}

func TestStreams_PanicIsInternal(t *testing.T) {
	t.Parallel()
	f := newAnsweringFake()
	f.watchRun = func(watch.WatchRun) (graph.Stream[live.Frame], error) { return panics{}, nil }
	a := serve(t, f)
	s := a.dial(goodInit)
	s.expect("connection_ack")
	s.subscribe("1", `subscription { runUpdates(runId: "r1") { runSeq } }`)
	s.expect(`"type":"error"`, `"code":"INTERNAL"`, `"requestId":"req-1"`)
}

type panics struct{ graph.Stream[live.Frame] }

func (panics) Close() {}

// The mode and the argument after decide which frames carry the whole run and which a delta.
func TestRunUpdates_TheModeDecidesOnSnapshotOrDelta(t *testing.T) {
	t.Parallel()
	frame := func(seq, from run.Seq, changed, reset bool) live.Frame {
		v := failedRun()
		v.State.Seq = seq
		return live.Frame{Sync: live.Live, State: v.State, From: from, Changed: changed, Reset: reset, HeadSeq: seq,
			AsOf: instant}
	}
	f := newAnsweringFake()
	f.watchRun = func(in watch.WatchRun) (graph.Stream[live.Frame], error) {
		from := run.Seq(0)
		if in.After != nil {
			from = *in.After
		}
		return stream(error(errNotFound), frame(7, from, true, false), frame(7, 7, false, false), frame(8, 6, true, false),
			frame(3, 0, true, true))
	}
	a := serve(t, f)
	a.Unshare()
	const fields = `{ runSeq reset snapshot { runSeq steps { stepId } } delta { fromSeq toSeq header { runSeq steps { stepId } } steps { stepId } } }`
	whole := func(n string) string {
		return `"snapshot":{"runSeq":` + n +
			`,"steps":[{"stepId":"compile"},{"stepId":"build"},{"stepId":"test"},{"stepId":"ship"}]},"delta":null`
	}
	delta := func(from, to, steps string) string {
		return `"snapshot":null,"delta":{"fromSeq":` + from + `,"toSeq":` + to + `,"header":{"runSeq":` + to +
			`,"steps":[]},"steps":[` + steps + `]}`
	}
	const none, build = `"snapshot":null,"delta":null`, `{"stepId":"build"}`
	for args, want := range map[string][]string{
		``:                          {whole("7"), none, whole("8"), whole("3")},
		`, after: 6`:                {whole("7"), none, whole("8"), whole("3")},
		`, mode: DELTA`:             {whole("7"), none, delta("6", "8", build), whole("3")},
		`, mode: DELTA, after: "6"`: {delta("6", "7", build), none, delta("6", "8", build), whole("3")},
		`, after: 6, storeEpoch: "e1", mode: SNAPSHOT`: {whole("7"), none, whole("8"), whole("3")},
	} {
		got := a.do(http.MethodPost, "/", request(`subscription { runUpdates(runId: "r1"`+args+`) `+fields+` }`, nil),
			"Accept", "text/event-stream")
		var frames []string
		for line := range strings.Lines(got.body) {
			if data, ok := strings.CutPrefix(line, "data: {"); ok && json.Valid([]byte("{"+data)) &&
				strings.Contains(data, "runUpdates") {
				frames = append(frames, data)
			}
		}
		if len(frames) != len(want) {
			t.Fatalf("arguments %q: %d frames, want %d, in %s", args, len(frames), len(want), got.body)
		}
		for i, w := range want {
			if !strings.Contains(frames[i], w) {
				t.Errorf("arguments %q: frame %d is %s, want %s in it", args, i, frames[i], w)
			}
		}
	}
}
