package ws_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/99designs/gqlgen/graphql"

	"github.com/dvt-engine/dvt/graph/ws"
	"github.com/dvt-engine/dvt/internal/testtime"
)

// class is who may see what: the tickets that were given, and the key of each viewer.
type class struct {
	source  *counter
	mu      sync.Mutex
	tickets []*right
	changed chan struct{}
	key     atomic.Pointer[string]
}

func newClass() *class {
	c := &class{source: newCounter(0), changed: make(chan struct{})}
	c.move("a")
	return c
}

func (c *class) move(key string) { c.key.Store(&key) }

func (c *class) share(_ context.Context, op *graphql.OperationContext) (*ws.Shared, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tickets = append(c.tickets, &right{})
	shared := &ws.Shared{Key: *c.key.Load(), Ticket: c.tickets[len(c.tickets)-1], Open: c.source.open}
	if len(c.tickets) > 2 { // who is shared anew begins anew, whatever it once asked for
		shared.Since = &ws.Position{Epoch: "e", Seq: 1}
	}
	return shared, nil
}

func (c *class) ticket(i int) *right {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tickets[i]
}

func (c *class) rightsChanged() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// change revokes and says so.
func (c *class) change(i int, err error) {
	c.ticket(i).revoke(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *class) viewer(t *testing.T, s *server) *client {
	t.Helper()
	v := s.open(t)
	v.subscribe("1", subscription)
	if m, ok := v.next(); !ok || m.Payload.Data.Kind != "first" {
		t.Fatalf("got %+v", m)
	}
	return v
}

const forbidden = `{"id":"1","type":"error","payload":[{"message":"FORBIDDEN","extensions":{"code":"OTHER"}}]}`

// contract: T202
func TestRights_NoPayloadAfterARefusalAndOthersGoOn(t *testing.T) {
	t.Parallel()
	c := newClass()
	s := start(t, ws.Config{Share: c.share}, nobody)
	revoked, other := c.viewer(t, s), c.viewer(t, s)
	c.ticket(0).revoke(errors.New("FORBIDDEN"))
	c.source.advance(3, nil)
	revoked.expect(forbidden)
	for to := int64(2); to <= 4; to++ {
		if m, ok := other.next(); !ok || m.Payload.Data.To != to {
			t.Fatalf("the other got %+v", m)
		}
	}
	revoked.send(`{"type":"ping"}`)
	revoked.expect(`{"type":"pong"}`)
	revoked.subscribe("1", subscription) // the socket and the id go on
	if m, ok := revoked.next(); !ok || m.Payload.Data.To != 4 {
		t.Errorf("got %+v", m)
	}
}

// expiring refuses from the nth time on that it is asked.
type expiring struct{ left atomic.Int64 }

func (e *expiring) Check() error {
	if e.left.Add(-1) < 0 {
		return errors.New("FORBIDDEN")
	}
	return nil
}

// contract: T178
func TestRights_EveryPayloadIsAskedFor(t *testing.T) {
	t.Parallel()
	for allowed := range int64(6) {
		source := newCounter(0)
		ticket := &expiring{}
		ticket.left.Store(allowed)
		s := start(t, ws.Config{Share: func(context.Context, *graphql.OperationContext) (*ws.Shared, error) {
			return &ws.Shared{Key: "a", Ticket: ticket, Open: source.open}, nil
		}}, nobody)
		c := s.open(t)
		c.subscribe("1", subscription)
		seen := int64(0)
		for {
			if _, ok := c.next(); !ok {
				break
			}
			if seen++; seen == 1 {
				source.advance(100, nil)
			}
		}
		c.Close()
		if seen > allowed {
			t.Errorf("allowed %d times, and %d payloads were shown", allowed, seen)
		}
	}
}

// contract: T178
func TestRights_ChangeIsSeenAtOnceWithoutAPayload(t *testing.T) {
	t.Parallel()
	c := newClass()
	s := start(t, ws.Config{Share: c.share, RightsChanged: c.rightsChanged}, nobody)
	v := c.viewer(t, s)
	eventually(t, 5*time.Second, "a second of the warden begins", func() bool { return c.ticket(0).asked.Load() >= 3 })
	began := time.Now()
	c.change(0, errors.New("FORBIDDEN"))
	v.expect(forbidden)
	if took := time.Since(began); took > testtime.Of(700*time.Millisecond) {
		t.Errorf("took %v", took)
	}
}

// contract: T178
func TestRights_EverySecondWithoutAnyNews(t *testing.T) {
	t.Parallel()
	c := newClass()
	s := start(t, ws.Config{Share: c.share}, nobody)
	v := c.viewer(t, s)
	began := time.Now()
	c.ticket(0).revoke(errors.New("FORBIDDEN"))
	v.expect(forbidden)
	if took := time.Since(began); took > testtime.Of(2*time.Second) {
		t.Errorf("took %v", took)
	}
}

// contract: T202
func TestRights_MovedViewerIsSharedAnew(t *testing.T) {
	t.Parallel()
	c := newClass()
	s := start(t, ws.Config{Share: c.share}, nobody)
	v, other := c.viewer(t, s), c.viewer(t, s)
	c.move("b")
	c.ticket(0).revoke(ws.ErrMoved)
	c.source.advance(1, nil)
	if m, ok := other.next(); !ok || m.Payload.Data.Kind != "next" {
		t.Fatalf("the other got %+v", m)
	}
	if m, ok := v.next(); !ok || m.ID != "1" || m.Payload.Data.Kind != "first" || m.Payload.Data.From != 0 ||
		m.Payload.Data.To != 2 {
		t.Fatalf("the moved got %+v", m)
	}
	if n := c.source.opened.Load(); n != 2 {
		t.Errorf("opened %d groups", n)
	}
	v.send(`{"id":"1","type":"complete"}`)
	eventually(t, 5*time.Second, "the second group has ended", func() bool { return c.source.closed.Load() == 1 })
}

func TestRights_ViewerThatAlwaysMovesRunsAlone(t *testing.T) {
	t.Parallel()
	source := newCounter(0)
	s := start(t, ws.Config{Share: func(context.Context, *graphql.OperationContext) (*ws.Shared, error) {
		ticket := &right{}
		ticket.revoke(ws.ErrMoved)
		return &ws.Shared{Key: "a", Ticket: ticket, Open: source.open}, nil
	}}, once(`"alone"`))
	c := s.open(t)
	c.subscribe("1", subscription)
	c.expect(`{"id":"1","type":"next","payload":{"data":"alone"}}`)
}

func TestRights_ErrorOfShareEndsTheOperation(t *testing.T) {
	t.Parallel()
	s := start(t, ws.Config{Share: func(context.Context, *graphql.OperationContext) (*ws.Shared, error) {
		return nil, errors.New("FORBIDDEN")
	}}, nobody)
	c := s.open(t)
	c.subscribe("1", subscription)
	c.expect(forbidden)
	if got := readAll(t, s.events(t.Context(), t, subscription).Body); !strings.Contains(got, "FORBIDDEN") {
		t.Errorf("an event stream got %q", got)
	}
}
