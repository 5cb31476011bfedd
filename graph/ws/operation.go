package ws

import (
	"context"
	"errors"

	"github.com/99designs/gqlgen/graphql"
	"github.com/gorilla/websocket"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// operation is a GraphQL operation on a socket.
type operation struct {
	member
	conn   *conn
	id     string
	head   string // start of its next messages
	cancel context.CancelCauseFunc
	buf    []byte // reused by take
	// completed is set when the client has completed the operation; guarded by the lock of the frameWriter.
	completed bool
}

func newOperation(c *conn, id string) *operation {
	op := &operation{conn: c, id: id, head: nextHead(id)}
	op.srv, op.sink = c.srv, op
	op.ctx, op.cancel = context.WithCancelCause(context.Background())
	return op
}

// run prepares the operation and serves it. It returns when the operation has ended or a group has taken over.
func (op *operation) run(params *graphql.RawParams) {
	var invalid gqlerror.List
	err := catchPanic(func() (err error) { invalid, err = op.prepare(params); return err })
	switch {
	case err != nil:
		op.end(op.present(err))
	case len(invalid) > 0:
		op.end(invalid)
	default:
		op.follow(false)
	}
}

// prepare asks Peer.Attach for the caller's present context, then parses and validates the request.
func (op *operation) prepare(params *graphql.RawParams) (gqlerror.List, error) {
	began := graphql.Now()
	ctx, err := op.conn.peer.Attach(op.ctx)
	if err != nil {
		return nil, err
	}
	params.ReadTime = graphql.TraceTiming{Start: began, End: graphql.Now()}
	// The trace goes only into this call: a subscription must not keep it in memory.
	request, errs := op.srv.cfg.Exec.CreateOperationContext(graphql.StartOperationTrace(ctx), params)
	if len(errs) > 0 {
		return op.srv.cfg.Exec.DispatchError(graphql.WithOperationContext(ctx, request), errs).Errors, nil
	}
	op.ctx, op.request = ctx, request
	return nil, nil
}

func (op *operation) offer(p *frameBuf) bool { return op.conn.out.offer(p.frame(op.head), op) }

func (op *operation) take(r *graphql.Response) bool {
	b := append(append(op.buf[:0], make([]byte, frameRoom)...), op.head...)
	op.buf = append(AppendResponse(b, r), '}')
	return op.conn.out.send(frame(op.buf, frameRoom, websocket.TextMessage), op)
}

// end sends error or complete, unless the client has left or completed the operation.
func (op *operation) end(errs gqlerror.List) {
	defer op.conn.endOperation()
	defer op.cancel(nil)
	op.conn.free(op) // before the message, because the client may reuse the id as soon as it has the message
	message := completeMessage(op.id)
	if len(errs) > 0 {
		message = errorMessage(op.id, errs)
	}
	if cause := context.Cause(op.ctx); cause != nil && !errors.Is(cause, ErrShutdown) {
		return // the client has left or completed the operation
	}
	op.srv.metrics.endedBy(errs)
	op.conn.out.send(newFrame(websocket.TextMessage, message), op)
}

// drop ends the operation with the cause why. The goroutine of an operation that runs alone sees the cancelled context
// and calls end. A member of a group has no goroutine, so drop calls end for it.
func (op *operation) drop(why error) {
	op.cancel(why)
	if op.leave() {
		op.end(op.present(why))
	}
}
