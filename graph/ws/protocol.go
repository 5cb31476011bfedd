package ws

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/gorilla/websocket"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// errCompleted is the cause of an operation that its client ended.
var errCompleted = errors.New("ws: completed by the client")

// handle does what a message asks for; a closure is the end of the socket.
func (c *conn) handle(kind int, data []byte) *closure {
	if kind != websocket.TextMessage {
		return &closure{closeBadMessage, "Binary messages are not part of the protocol"}
	}
	m, err := parseMessage(data)
	if err != nil {
		return &closure{closeBadMessage, "Invalid message"}
	}
	switch m.Type {
	case typeInit:
		return c.init(m.Payload)
	case typePing:
		c.write(`{"type":"` + typePong + `"}`)
	case typePong:
	case typeSubscribe:
		return c.subscribe(m)
	case typeComplete:
		c.complete(m.ID)
	default:
		return &closure{closeBadMessage, "Invalid message type"}
	}
	return nil
}

func (c *conn) init(payload json.RawMessage) *closure {
	if c.peer != nil {
		return &closure{closeSecondInit, "Too many initialisation requests"}
	}
	init, err := parseInit(payload)
	if err != nil {
		return &closure{closeBadMessage, "Invalid message"}
	}
	peer, err := c.srv.cfg.Connect(c.r, init)
	c.r = nil
	switch {
	case errors.Is(err, ErrUnauthenticated):
		return &closure{closeUnauthorized, "Unauthorized"}
	case err != nil:
		return &closure{websocket.CloseInternalServerErr, "Try again later"}
	case !c.srv.join(peer.Key):
		return &closure{websocket.CloseTryAgainLater, "Too many sockets"}
	case !c.srv.know(c.address):
		c.srv.part(peer.Key)
		return &closure{websocket.CloseTryAgainLater, "Too many sockets"}
	}
	c.peer = &peer
	c.alive()
	c.write(`{"type":"` + typeAck + `"}`)
	return nil
}

func (c *conn) subscribe(m message) *closure {
	if c.peer == nil {
		return &closure{closeUnauthorized, "Unauthorized"}
	}
	params, err := parseSubscribe(m.Payload)
	if err != nil {
		return &closure{closeBadMessage, "Invalid message"}
	}
	op, why := c.begin(m.ID)
	switch {
	case why != nil:
		return why
	case op == nil && c.srv.stopping.Err() != nil:
		c.fail(m.ID, c.srv.present(context.Background(), ErrShutdown))
		return nil
	case op == nil:
		c.fail(m.ID, c.srv.present(context.Background(), ErrTooManyOperations))
		return nil
	}
	go op.run(params)
	return nil
}

// begin takes an id for an operation; without one and without a closure there
// are too many. A client that completes and subscribes faster than operations end
// is held at twice the limit.
func (c *conn) begin(id string) (*operation, *closure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find(id) != nil {
		return nil, &closure{closeDuplicateID, "Subscriber for " + clip(id) + " already exists"}
	}
	if limit := c.srv.cfg.Operations; c.closing || len(c.ops) >= limit || c.busy >= 2*limit {
		return nil, nil
	}
	op := newOperation(c, id)
	c.ops = append(c.ops, op)
	c.busy++
	c.running.Add(1)
	return op, nil
}

// find gives the operation that has an id, or nil. The lock is held.
func (c *conn) find(id string) *operation {
	for _, op := range c.ops {
		if op.id == id {
			return op
		}
	}
	return nil
}

// free gives back the id of an operation.
func (c *conn) free(op *operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = slices.DeleteFunc(c.ops, func(o *operation) bool { return o == op })
}

func (c *conn) ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	c.running.Done()
}

// complete ends an operation on its client's wish.
func (c *conn) complete(id string) {
	c.mu.Lock()
	op := c.find(id)
	c.mu.Unlock()
	if op != nil {
		c.free(op)
		c.out.silence(op)
		op.drop(errCompleted)
	}
}

// write sends one message of the socket itself.
func (c *conn) write(message string) { c.out.send(newFrame(websocket.TextMessage, message), nil) }

func (c *conn) fail(id string, errs gqlerror.List) {
	c.srv.metrics.endedBy(errs)
	c.out.send(newFrame(websocket.TextMessage, errorMessage(id, errs)), nil)
}

// clip keeps a close frame within the 125 bytes that it may have.
func clip(id string) string {
	if len(id) <= 64 {
		return id
	}
	cut := 64
	for cut > 0 && !utf8.RuneStart(id[cut]) { // a close frame with half a letter is a protocol error of its own
		cut--
	}
	return id[:cut]
}
