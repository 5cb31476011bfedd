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

// rightsFixture shares subscriptions under the current key and records the tickets of the viewers.
type rightsFixture struct {
	source  *counter
	mu      sync.Mutex
	tickets []*fakeTicket
	changed chan struct{}
	key     atomic.Pointer[string]
}

func newRightsFixture() *rightsFixture {
	c := &rightsFixture{source: newCounter(0), changed: make(chan struct{})}
	c.move("a")
	return c
}

func (c *rightsFixture) move(key string) { c.key.Store(&key) }

func (c *rightsFixture) share(_ context.Context, op *graphql.OperationContext) (*ws.Shared, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tickets = append(c.tickets, &fakeTicket{})
	shared := &ws.Shared{Key: *c.key.Load(), Ticket: c.tickets[len(c.tickets)-1], Open: c.source.open}
	if len(c.tickets) > 2 { // a moved viewer starts without data, so the server must ignore Since
		shared.Since = &ws.Position{Epoch: "e", Seq: 1}
	}
	return shared, nil
}

func (c *rightsFixture) ticket(i int) *fakeTicket {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tickets[i]
}

func (c *rightsFixture) rightsChanged() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// change revokes ticket i and signals a change of rights.
func (c *rightsFixture) change(i int, err error) {
	c.ticket(i).revoke(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.changed)
	c.changed = make(chan struct{})
}

// viewer subscribes and reads the first payload.
func (c *rightsFixture) viewer(t *testing.T, s *server) *client {
	t.Helper()
	v := s.open(t)
	v.subscribe("1", subscription)
	if m, ok := v.next(); !ok || m.Payload.Data.Kind != "first" {
		t.Fatalf("got %+v, want a first payload", m)
	}
	return v
}

const forbidden = `{"id":"1","type":"error","payload":[{"message":"FORBIDDEN","extensions":{"code":"OTHER"}}]}`

// contract: T202
func TestRights_RefusedViewerGetsNoPayloadAndOthersContinue(t *testing.T) {
	t.Parallel()
	c := newRightsFixture()
	s := start(t, ws.Config{Share: c.share}, panicIfAlone)
	revoked, other := c.viewer(t, s), c.viewer(t, s)
	c.ticket(0).revoke(errors.New("FORBIDDEN"))
	c.source.advance(3, nil)
	revoked.expect(forbidden)
	for to := int64(2); to <= 4; to++ {
		if m, ok := other.next(); !ok || m.Payload.Data.To != to {
			t.Fatalf("the other viewer got %+v, want the payload to %d", m, to)
		}
	}
	revoked.send(`{"type":"ping"}`)
	revoked.expect(`{"type":"pong"}`)
	revoked.subscribe("1", subscription) // socket and id remain usable
	if m, ok := revoked.next(); !ok || m.Payload.Data.To != 4 {
		t.Errorf("the new subscription got %+v, want the payload to 4", m)
	}
}

// expiringTicket permits a number of checks and refuses all later ones.
type expiringTicket struct{ left atomic.Int64 }

func (e *expiringTicket) Check() error {
	if e.left.Add(-1) < 0 {
		return errors.New("FORBIDDEN")
	}
	return nil
}

// contract: T178
func TestRights_AreCheckedBeforeEveryPayload(t *testing.T) {
	t.Parallel()
	for allowed := range int64(6) {
		source := newCounter(0)
		ticket := &expiringTicket{}
		ticket.left.Store(allowed)
		s := start(t, ws.Config{Share: func(context.Context, *graphql.OperationContext) (*ws.Shared, error) {
			return &ws.Shared{Key: "a", Ticket: ticket, Open: source.open}, nil
		}}, panicIfAlone)
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
			t.Errorf("the viewer received %d payloads, want at most %d, one per permitted check", seen, allowed)
		}
	}
}

// contract: T178
func TestRights_ChangeEndsTheViewerAtOnceWithoutAPayload(t *testing.T) {
	t.Parallel()
	c := newRightsFixture()
	s := start(t, ws.Config{Share: c.share, RightsChanged: c.rightsChanged}, panicIfAlone)
	v := c.viewer(t, s)
	eventually(t, 5*time.Second, "the check of every second has just run",
		func() bool { return c.ticket(0).checks.Load() >= 3 })
	began := time.Now()
	c.change(0, errors.New("FORBIDDEN"))
	v.expect(forbidden)
	if took := time.Since(began); took > testtime.Of(700*time.Millisecond) {
		t.Errorf("the viewer was refused after %v, want before the check of every second", took)
	}
}

// contract: T178
func TestRights_AreCheckedEverySecond(t *testing.T) {
	t.Parallel()
	c := newRightsFixture()
	s := start(t, ws.Config{Share: c.share}, panicIfAlone)
	v := c.viewer(t, s)
	began := time.Now()
	c.ticket(0).revoke(errors.New("FORBIDDEN"))
	v.expect(forbidden)
	if took := time.Since(began); took > testtime.Of(2*time.Second) {
		t.Errorf("the viewer was refused after %v, want about 1s", took)
	}
}

// contract: T202
func TestRights_MovedViewerJoinsAnotherGroup(t *testing.T) {
	t.Parallel()
	c := newRightsFixture()
	s := start(t, ws.Config{Share: c.share}, panicIfAlone)
	v, other := c.viewer(t, s), c.viewer(t, s)
	c.move("b")
	c.ticket(0).revoke(ws.ErrMoved)
	c.source.advance(1, nil)
	if m, ok := other.next(); !ok || m.Payload.Data.Kind != "next" {
		t.Fatalf("the other viewer got %+v, want a next payload", m)
	}
	if m, ok := v.next(); !ok || m.ID != "1" || m.Payload.Data.Kind != "first" || m.Payload.Data.From != 0 ||
		m.Payload.Data.To != 2 {
		t.Fatalf("the moved viewer got %+v, want a first payload from 0 to 2", m)
	}
	if n := c.source.opened.Load(); n != 2 {
		t.Errorf("%d groups were opened, want 2", n)
	}
	v.send(`{"id":"1","type":"complete"}`)
	eventually(t, 5*time.Second, "the second group has ended", func() bool { return c.source.closed.Load() == 1 })
}

func TestRights_ViewerThatAlwaysMovesRunsAlone(t *testing.T) {
	t.Parallel()
	source := newCounter(0)
	s := start(t, ws.Config{Share: func(context.Context, *graphql.OperationContext) (*ws.Shared, error) {
		ticket := &fakeTicket{}
		ticket.revoke(ws.ErrMoved)
		return &ws.Shared{Key: "a", Ticket: ticket, Open: source.open}, nil
	}}, respondOnce(`"alone"`))
	c := s.open(t)
	c.subscribe("1", subscription)
	c.expect(`{"id":"1","type":"next","payload":{"data":"alone"}}`)
}

func TestRights_ErrorOfShareEndsTheOperation(t *testing.T) {
	t.Parallel()
	s := start(t, ws.Config{Share: func(context.Context, *graphql.OperationContext) (*ws.Shared, error) {
		return nil, errors.New("FORBIDDEN")
	}}, panicIfAlone)
	c := s.open(t)
	c.subscribe("1", subscription)
	c.expect(forbidden)
	if got := readAll(t, s.events(t.Context(), t, subscription).Body); !strings.Contains(got, "FORBIDDEN") {
		t.Errorf("the event stream got %q, want FORBIDDEN", got)
	}
}
