package ws

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/99designs/gqlgen/graphql"
	"github.com/gorilla/websocket"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// errCompleted is the cause of an operation that its client ended.
var errCompleted = errors.New("ws: completed by the client")

// handle does what a message asks for; a closure is the end of the socket.
func (c *conn) handle(data []byte) *closure {
	m, err := parseMessage(data)
	if err != nil {
		return &closure{closeBadMessage, "Invalid message"}
	}
	switch m.Type {
	case typeInit:
		return c.init(m.Payload)
	case typePing:
		c.write([]byte(`{"type":"` + typePong + `"}`))
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
	switch {
	case errors.Is(err, ErrUnauthenticated):
		return &closure{closeUnauthorized, "Unauthorized"}
	case err != nil:
		return &closure{websocket.CloseInternalServerErr, "Try again later"}
	case !c.srv.join(peer.Key):
		return &closure{websocket.CloseTryAgainLater, "Too many sockets"}
	}
	c.peer = &peer
	c.alive()
	c.write([]byte(`{"type":"` + typeAck + `"}`))
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
	op, ctx, why := c.begin(m.ID)
	switch {
	case why != nil:
		return why
	case op == nil:
		c.fail(m.ID, c.srv.present(c.ctx, ErrTooManyOperations))
		return nil
	}
	go func() {
		defer c.ended()
		defer op.cancel(nil)
		ctx := graphql.StartOperationTrace(ctx)
		errs := c.run(ctx, m.ID, params)
		c.free(m.ID, op) // before the client hears of the end, which frees the id for it
		switch cause := context.Cause(ctx); {
		case cause != nil && !errors.Is(cause, ErrShutdown): // nobody listens any more
		case len(errs) > 0:
			c.fail(m.ID, errs)
		default:
			c.write(completeMessage(m.ID))
		}
	}()
	return nil
}

// begin takes an id for an operation; without one and without a closure there
// are too many. A client that completes and subscribes faster than operations end
// is held at twice the limit.
func (c *conn) begin(id string) (*operation, context.Context, *closure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ops[id] != nil {
		return nil, nil, &closure{closeDuplicateID, "Subscriber for " + clip(id) + " already exists"}
	}
	if limit := c.srv.cfg.Operations; c.closing || len(c.ops) >= limit || c.busy >= 2*limit {
		return nil, nil, nil
	}
	ctx, cancel := context.WithCancelCause(c.ctx)
	op := &operation{cancel: cancel}
	c.ops[id] = op
	c.busy++
	c.running.Add(1)
	return op, ctx, nil
}

func (c *conn) free(id string, op *operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ops[id] == op {
		delete(c.ops, id)
	}
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
	op := c.ops[id]
	delete(c.ops, id)
	c.mu.Unlock()
	if op != nil {
		op.cancel(errCompleted)
	}
}

// run executes one operation to its end and returns the errors that it ended with.
func (c *conn) run(ctx context.Context, id string, params *graphql.RawParams) gqlerror.List {
	attached, err := c.peer.Attach(ctx)
	if err != nil {
		return c.srv.present(ctx, err)
	}
	params.ReadTime = graphql.TraceTiming{Start: graphql.GetStartTime(ctx), End: graphql.Now()}
	op, errs := c.srv.cfg.Exec.CreateOperationContext(attached, params)
	if len(errs) > 0 {
		return c.srv.cfg.Exec.DispatchError(graphql.WithOperationContext(attached, op), errs).Errors
	}
	var buf []byte
	return c.srv.respond(attached, op, func(r *graphql.Response) bool {
		buf = nextMessage(buf[:0], id, r)
		return c.write(buf)
	})
}

func (c *conn) fail(id string, errs gqlerror.List) {
	c.write(errorMessage(id, errs))
}

// clip keeps a close frame within the 125 bytes that it may have.
func clip(id string) string {
	if len(id) > 64 {
		return id[:64]
	}
	return id
}
