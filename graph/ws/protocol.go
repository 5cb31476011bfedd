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

// errCompleted is the cancel cause of an operation that its client completed.
var errCompleted = errors.New("ws: completed by the client")

// handle processes one message. If it returns a closeReason, the socket must be closed with it.
func (c *conn) handle(kind int, data []byte) *closeReason {
	if kind != websocket.TextMessage {
		return &closeReason{closeBadMessage, "Binary messages are not part of the protocol"}
	}
	m, err := parseMessage(data)
	if err != nil {
		return &closeReason{closeBadMessage, "Invalid message"}
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
		return &closeReason{closeBadMessage, "Invalid message type"}
	}
	return nil
}

func (c *conn) init(payload json.RawMessage) *closeReason {
	if c.peer != nil {
		return &closeReason{closeSecondInit, "Too many initialisation requests"}
	}
	init, err := parseInit(payload)
	if err != nil {
		return &closeReason{closeBadMessage, "Invalid message"}
	}
	peer, err := c.srv.cfg.Connect(c.r, init)
	c.r = nil
	switch {
	case errors.Is(err, ErrUnauthenticated):
		return &closeReason{closeUnauthorized, "Unauthorized"}
	case err != nil:
		return &closeReason{websocket.CloseInternalServerErr, "Try again later"}
	case !c.srv.join(peer.Key):
		return &closeReason{websocket.CloseTryAgainLater, "Too many sockets"}
	case !c.srv.know(c.address):
		c.srv.release(peer.Key)
		return &closeReason{websocket.CloseTryAgainLater, "Too many sockets"}
	}
	c.peer = &peer
	c.extendDeadline()
	c.write(`{"type":"` + typeAck + `"}`)
	return nil
}

func (c *conn) subscribe(m message) *closeReason {
	if c.peer == nil {
		return &closeReason{closeUnauthorized, "Unauthorized"}
	}
	params, err := parseSubscribe(m.Payload)
	if err != nil {
		return &closeReason{closeBadMessage, "Invalid message"}
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

// begin registers an operation under its id. It returns nil, nil when the socket is closing or has too many operations.
// A completed operation frees its id before it has ended. A client could pile up such operations by completing and
// subscribing quickly, so operations that have not ended are limited too, to twice Config.Operations.
func (c *conn) begin(id string) (*operation, *closeReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.find(id) != nil {
		return nil, &closeReason{closeDuplicateID, "Subscriber for " + clip(id) + " already exists"}
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

// find returns the operation with an id, or nil. The caller holds c.mu.
func (c *conn) find(id string) *operation {
	for _, op := range c.ops {
		if op.id == id {
			return op
		}
	}
	return nil
}

// free makes the id of an operation available again.
func (c *conn) free(op *operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ops = slices.DeleteFunc(c.ops, func(o *operation) bool { return o == op })
}

func (c *conn) endOperation() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
	c.running.Done()
}

// complete ends an operation that the client has completed; an unknown id is ignored, as the protocol demands.
func (c *conn) complete(id string) {
	c.mu.Lock()
	op := c.find(id)
	c.mu.Unlock()
	if op != nil {
		c.free(op)
		c.out.mute(op)
		op.drop(errCompleted)
	}
}

// write sends a message that belongs to no operation.
func (c *conn) write(message string) { c.out.send(newFrame(websocket.TextMessage, message), nil) }

func (c *conn) fail(id string, errs gqlerror.List) {
	c.srv.metrics.endedBy(errs)
	c.out.send(newFrame(websocket.TextMessage, errorMessage(id, errs)), nil)
}

// clip shortens an id, because the payload of a close frame is limited to 125 bytes.
func clip(id string) string {
	if len(id) <= 64 {
		return id
	}
	cut := 64
	for cut > 0 && !utf8.RuneStart(id[cut]) { // the reason of a close frame must be valid UTF-8
		cut--
	}
	return id[:cut]
}
