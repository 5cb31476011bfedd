package ws_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/gorilla/websocket"

	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// counter is a number that grows. The payloads of its sources contain the value before and after the payload, so that a
// test can check that a viewer misses nothing.
type counter struct {
	pad   string
	alone func(since *ws.Position, slow bool) bool

	mu      sync.Mutex
	n       int64
	failure error
	moved   chan struct{}

	opened, closed, nexts, firsts, slow atomic.Int64
}

func newCounter(pad int) *counter {
	return &counter{n: 1, pad: strings.Repeat("x", pad), moved: make(chan struct{}),
		alone: func(*ws.Position, bool) bool { return false }}
}

// advance adds to the number; a failure makes Wait of its sources return it.
func (c *counter) advance(by int64, failure error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n, c.failure = c.n+by, failure
	close(c.moved)
	c.moved = make(chan struct{})
}

func (c *counter) current() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *counter) open(context.Context) (ws.Source, error) {
	c.opened.Add(1)
	s := &steps{counter: c}
	s.at.Store(c.current())
	return s, nil
}

// steps is a source that advances by one value with each Next.
type steps struct {
	*counter
	at atomic.Int64
}

func (s *steps) Wait(ctx context.Context) error {
	for {
		s.mu.Lock()
		moved, ready, failure := s.moved, s.n > s.at.Load(), s.failure
		s.mu.Unlock()
		switch {
		case failure != nil:
			return failure
		case ready:
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *steps) Next(b []byte) ([]byte, ws.Position, error) {
	s.nexts.Add(1)
	from := s.at.Load()
	s.at.Add(1)
	p := s.payload(from, "next")
	return append(b, p.Data...), p.At, nil
}

func (s *steps) First(since *ws.Position, slow bool) (ws.Payload, error) {
	s.firsts.Add(1)
	if s.alone(since, slow) {
		return ws.Payload{}, ws.ErrAlone
	}
	kind, from := "first", int64(0)
	if since != nil {
		from = since.Seq
	}
	if slow {
		s.slow.Add(1)
		kind = "slow"
	}
	return s.payload(from, kind), nil
}

func (s *steps) payload(from int64, kind string) ws.Payload {
	at := s.at.Load()
	data := fmt.Sprintf(`{"data":{"from":%d,"to":%d,"kind":%q,"pad":%q}}`, from, at, kind, s.pad)
	return ws.Payload{Data: []byte(data), At: ws.Position{Epoch: "e", Seq: at}}
}

func (s *steps) Close() { s.closed.Add(1) }

// nextMessage is a next message as a viewer reads it.
type nextMessage struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Payload struct {
		Data struct {
			From, To int64
			Kind     string
		} `json:"data"`
	} `json:"payload"`
}

// next reads the next message; ok is false when it is error or complete.
func (c *client) next() (m nextMessage, ok bool) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	_, data, err := c.ReadMessage()
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	if m, err = parse(data); err != nil {
		c.t.Fatal(err)
	}
	if m.Type != "next" {
		c.t.Logf("got %s", data)
	}
	return m, m.Type == "next"
}

// parse parses a next message; for any other message it returns the zero value.
func parse(data []byte) (m nextMessage, err error) {
	if !strings.Contains(string(data[:min(len(data), 400)]), `"type":"next"`) {
		return m, nil
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("malformed message %.300s: %w", data, err)
	}
	return m, nil
}

// continuity checks the payloads of one viewer: no value is missed, and the value never decreases.
type continuity struct{ at int64 }

func (c *continuity) accept(m nextMessage) error {
	d := m.Payload.Data
	if d.From != c.at && d.From != 0 || d.To < c.at {
		return fmt.Errorf("a viewer at %d received a payload from %d to %d (%s)", c.at, d.From, d.To, d.Kind)
	}
	c.at = d.To
	return nil
}

// fakeTicket is a Ticket that a test can revoke.
type fakeTicket struct {
	err    atomic.Pointer[error]
	checks atomic.Int64
}

func (r *fakeTicket) Check() error {
	r.checks.Add(1)
	if e := r.err.Load(); e != nil {
		return *e
	}
	return nil
}

func (r *fakeTicket) revoke(err error) { r.err.Store(&err) }

// sharing shares all subscriptions with equal text. The variable since is the position to resume from.
func sharing(open func(context.Context) (ws.Source, error)) ws.Share {
	return func(_ context.Context, op *graphql.OperationContext) (*ws.Shared, error) {
		shared := &ws.Shared{Key: op.RawQuery, Ticket: &fakeTicket{}, Open: open}
		if since, ok := op.Variables["since"]; ok {
			n, err := strconv.ParseInt(fmt.Sprint(since), 10, 64)
			if err != nil {
				return nil, err
			}
			shared.Since = &ws.Position{Epoch: "e", Seq: n}
		}
		return shared, nil
	}
}

// panicIfAlone is the dispatch function of tests in which no operation may run alone.
func panicIfAlone(context.Context, *graphql.OperationContext) graphql.ResponseHandler {
	panic("an operation runs alone, want a group")
}

func (c *client) subscribeSince(id, query string, since int64) {
	c.t.Helper()
	c.send(fmt.Sprintf(`{"id":%q,"type":"subscribe","payload":{"query":%q,"variables":{"since":%d}}}`, id, query, since))
}

func TestGroup_ThousandConcurrentViewersShareOneExecution(t *testing.T) {
	t.Parallel()
	source := newCounter(0)
	proceed := make(chan struct{})
	s := start(t, ws.Config{StreamsOfPeer: 1000, Operations: 1000,
		Share: sharing(func(ctx context.Context) (ws.Source, error) {
			<-proceed
			return source.open(ctx)
		})}, panicIfAlone)
	c := s.open(t)
	for i := range 1000 {
		c.subscribe(strconv.Itoa(i), subscription)
	}
	close(proceed)
	at := map[string]*continuity{}
	for range 1000 {
		m, ok := c.next()
		if !ok || at[m.ID] != nil || m.Payload.Data.Kind != "first" || m.Payload.Data.To != 1 {
			t.Fatalf("got %+v, want one first payload to 1 for each viewer", m)
		}
		at[m.ID] = &continuity{1}
	}
	source.advance(1, nil)
	for range 1000 {
		if m, ok := c.next(); !ok || at[m.ID].accept(m) != nil || m.Payload.Data.To != 2 {
			t.Fatalf("got %+v, want the payload from 1 to 2", m)
		}
	}
	if n := source.opened.Load(); n != 1 {
		t.Errorf("%d sources were opened, want 1", n)
	}
	if n := source.nexts.Load(); n != 1 {
		t.Errorf("the payload was rendered %d times, want once", n)
	}
	c.Close()
	eventually(t, 5*time.Second, "the source is closed after its last viewer has left",
		func() bool { return source.closed.Load() == 1 })
}

func TestGroup_ManyMembersAreServedInParallelAndRefusedOnesRemoved(t *testing.T) {
	t.Parallel()
	const sockets, each = 4, 400
	var tickets sync.Map // by Since.Seq, which is unique for each viewer
	source := newCounter(100)
	share := sharing(source.open)
	s := start(t, ws.Config{StreamsOfPeer: each, Operations: each, Share: func(ctx context.Context,
		op *graphql.OperationContext) (*ws.Shared, error) {
		shared, err := share(ctx, op)
		tickets.Store(shared.Since.Seq, shared.Ticket)
		return shared, err
	}}, panicIfAlone)
	var clients []*client
	for i := range sockets {
		c := s.open(t)
		clients = append(clients, c)
		for j := range each {
			n := i*each + j
			c.subscribeSince(strconv.Itoa(n), subscription, int64(-n))
		}
		for range each {
			if m, ok := c.next(); !ok || m.Payload.Data.Kind != "first" {
				t.Fatalf("got %+v, want a first payload", m)
			}
		}
	}
	refused := func(n int) bool { return n%3 == 0 }
	for n := range sockets * each {
		if refused(n) {
			r, _ := tickets.Load(int64(-n))
			r.(*fakeTicket).revoke(errors.New("FORBIDDEN")) //nolint:forcetypeassert // sharing returns this type
		}
	}
	for round := int64(2); round <= 4; round++ {
		source.advance(1, nil)
		for i, c := range clients {
			pending := map[int]bool{}
			for n := i * each; n < (i+1)*each; n++ {
				if !refused(n) || round == 2 {
					pending[n] = true
				}
			}
			for len(pending) > 0 {
				_ = c.SetReadDeadline(time.Now().Add(testtime.Of(10 * time.Second)))
				_, data, err := c.ReadMessage()
				var m struct{ ID string }
				if err = errors.Join(err, json.Unmarshal(data, &m)); err != nil {
					t.Fatal(err)
				}
				n, _ := strconv.Atoi(m.ID)
				want := fmt.Sprintf(`"to":%d,`, round)
				if refused(n) {
					want = "FORBIDDEN"
				}
				if !pending[n] || !strings.Contains(string(data), want) {
					t.Fatalf("round %d: viewer %d received %.200s, want one message with %s", round, n, data, want)
				}
				delete(pending, n)
			}
		}
	}
	if n := source.nexts.Load(); n != 3 {
		t.Errorf("%d payloads were rendered, want one in each of 3 rounds", n)
	}
}

func TestGroup_ViewerResumesFromItsPosition(t *testing.T) {
	t.Parallel()
	source := newCounter(0)
	s := start(t, ws.Config{Share: sharing(source.open)}, panicIfAlone)
	c := s.open(t)
	c.subscribe("1", subscription)
	c.next()
	source.advance(4, nil)
	for range 4 {
		c.next()
	}
	d := s.open(t)
	d.subscribeSince("1", subscription, 3)
	if m, _ := d.next(); m.Payload.Data.From != 3 || m.Payload.Data.To != 5 {
		t.Errorf("the viewer resumed with %+v, want a payload from 3 to 5", m)
	}
	source.advance(1, nil)
	for _, c := range []*client{c, d} {
		if m, _ := c.next(); m.Payload.Data.From != 5 || m.Payload.Data.To != 6 || m.Payload.Data.Kind != "next" {
			t.Errorf("the viewer continued with %+v, want the next payload from 5 to 6", m)
		}
	}
}

func TestGroup_ErrorOfOpenEndsAllViewers(t *testing.T) {
	t.Parallel()
	proceed := make(chan struct{})
	s := start(t, ws.Config{Operations: 100, Share: sharing(func(context.Context) (ws.Source, error) {
		<-proceed
		return nil, errors.New("cannot open")
	})}, panicIfAlone)
	c := s.open(t)
	for i := range 100 {
		c.subscribe(strconv.Itoa(i), subscription)
	}
	close(proceed)
	seen := map[string]bool{}
	for range 100 {
		_, data, err := c.ReadMessage()
		if err != nil || !strings.Contains(string(data), `"type":"error","payload":[{"message":"cannot open"`) {
			t.Fatalf("got %s, error %v; want the error of Open", data, err)
		}
		seen[string(data)] = true
	}
	if len(seen) != 100 {
		t.Errorf("%d viewers received the error of Open, want 100", len(seen))
	}
}

func TestGroup_PanicEndsOnlyItsOwnViewers(t *testing.T) {
	t.Parallel()
	source := newCounter(0)
	s := start(t, ws.Config{Share: func(_ context.Context, op *graphql.OperationContext) (*ws.Shared, error) {
		return &ws.Shared{Key: op.RawQuery, Ticket: &fakeTicket{}, Open: func(ctx context.Context) (ws.Source, error) {
			if op.RawQuery != subscription {
				panic("boom")
			}
			return source.open(ctx)
		}}, nil
	}}, panicIfAlone)
	c := s.open(t)
	c.subscribe("1", subscription)
	c.next()
	c.subscribe("2", "subscription { b }")
	if _, ok := c.next(); ok {
		t.Error("the viewer of the group that panicked received a payload, want an error")
	}
	source.advance(1, nil)
	if m, ok := c.next(); !ok || m.ID != "1" || m.Payload.Data.To != 2 {
		t.Errorf("the viewer of the other group got %+v, want the payload to 2", m)
	}
}

func TestGroup_ErrorOfWaitEndsAllViewersAndTheNextOneOpensANewSource(t *testing.T) {
	t.Parallel()
	source := newCounter(0)
	s := start(t, ws.Config{Share: sharing(source.open)}, panicIfAlone)
	c, d := s.open(t), s.open(t)
	for _, c := range []*client{c, d} {
		c.subscribe("1", subscription)
		c.next()
	}
	source.advance(0, errors.New("RESYNC_FAILED"))
	for _, c := range []*client{c, d} {
		c.expect(`{"id":"1","type":"error","payload":[{"message":"RESYNC_FAILED","extensions":{"code":"OTHER"}}]}`)
	}
	source.advance(0, nil)
	c.subscribe("1", subscription) // the id is free again
	if m, ok := c.next(); !ok || m.Payload.Data.Kind != "first" {
		t.Errorf("the next viewer got %+v, want a first payload", m)
	}
	if n := source.opened.Load(); n != 2 {
		t.Errorf("%d sources were opened, want 2", n)
	}
}

func TestGroup_ErrAloneRunsTheOperationAlone(t *testing.T) {
	t.Parallel()
	source := newCounter(0)
	source.alone = func(since *ws.Position, _ bool) bool { return since != nil }
	s := start(t, ws.Config{Share: sharing(source.open)}, respondOnce(`"alone"`))
	c := s.open(t)
	c.subscribeSince("1", subscription, 7)
	c.expect(`{"id":"1","type":"next","payload":{"data":"alone"}}`)
	c.expect(`{"id":"1","type":"complete"}`)
	eventually(t, 5*time.Second, "the group has ended", func() bool { return source.closed.Load() == 1 })
}

func TestGroup_CompleteRemovesTheViewerAndFreesItsID(t *testing.T) {
	t.Parallel()
	source := newCounter(0)
	s := start(t, ws.Config{Operations: 2, Share: sharing(source.open)}, panicIfAlone)
	c := s.open(t)
	for range 500 {
		c.subscribe("1", subscription)
		if m, ok := c.next(); !ok || m.Payload.Data.Kind != "first" {
			t.Fatalf("got %+v, want a first payload", m)
		}
		c.send(`{"id":"1","type":"complete"}`)
	}
	eventually(t, 5*time.Second, "all groups have ended",
		func() bool { return source.closed.Load() == source.opened.Load() })
	c.subscribe("1", subscription)
	c.next()
	c.subscribe("2", subscription)
	c.next()
	c.subscribe("3", subscription)
	c.expect(`{"id":"3","type":"error","payload":[{"message":"ws: too many operations on one socket","extensions":{"code":"TOO_MANY_STREAMS"}}]}`)
	c.subscribe("1", subscription)
	c.expectClose(4409)
}

func TestGroup_ShutdownEndsEveryViewerWithItsCode(t *testing.T) {
	t.Parallel()
	source := newCounter(0)
	s := start(t, ws.Config{Share: sharing(source.open)}, panicIfAlone)
	c := s.open(t)
	c.subscribe("1", subscription)
	c.next()
	events := newEventReader(t, s.events(t.Context(), t, subscription).Body)
	if kind := events.payload(); kind != "first" {
		t.Errorf("the event stream starts with a payload of kind %s, want first", kind)
	}
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(t.Context()) }()
	c.expect(`{"id":"1","type":"error","payload":[{"message":"ws: server is shutting down","extensions":{"code":"SERVER_SHUTDOWN"}}]}`)
	c.expectClose(websocket.CloseServiceRestart)
	if got := events.next(); !strings.Contains(got, "SERVER_SHUTDOWN") {
		t.Errorf("the event stream ended with %q, want SERVER_SHUTDOWN", got)
	}
	if err := <-done; err != nil || source.closed.Load() != 1 {
		t.Errorf("Shutdown returned %v and closed %d sources, want nil and 1", err, source.closed.Load())
	}
}
