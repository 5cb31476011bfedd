package ws

import (
	"context"
	"errors"

	"github.com/99designs/gqlgen/graphql"
	"github.com/gorilla/websocket"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// operation is one that runs on a socket.
type operation struct {
	member
	conn   *conn
	id     string
	head   string // of its next messages
	cancel context.CancelCauseFunc
	buf    []byte // of take
	over   bool   // its client has completed it; guarded by the lock of the outlet
}

func newOperation(c *conn, id string) *operation {
	op := &operation{conn: c, id: id, head: nextHead(id)}
	op.srv, op.sink = c.srv, op
	op.ctx, op.cancel = context.WithCancelCause(context.Background())
	return op
}

// run begins the operation and serves it, at most until it is a member of a group.
func (op *operation) run(params *graphql.RawParams) {
	var invalid gqlerror.List
	err := guarded(func() (err error) { invalid, err = op.prepare(params); return err })
	switch {
	case err != nil:
		op.end(op.worded(err))
	case len(invalid) > 0:
		op.end(invalid)
	default:
		op.follow(false)
	}
}

// prepare identifies the caller anew, reads and validates the request.
func (op *operation) prepare(params *graphql.RawParams) (gqlerror.List, error) {
	began := graphql.Now()
	ctx, err := op.conn.peer.Attach(op.ctx)
	if err != nil {
		return nil, err
	}
	params.ReadTime = graphql.TraceTiming{Start: began, End: graphql.Now()}
	// The trace is of this call; the operation does not keep it.
	request, errs := op.srv.cfg.Exec.CreateOperationContext(graphql.StartOperationTrace(ctx), params)
	if len(errs) > 0 {
		return op.srv.cfg.Exec.DispatchError(graphql.WithOperationContext(ctx, request), errs).Errors, nil
	}
	op.ctx, op.request = ctx, request
	return nil, nil
}

func (op *operation) offer(p *parcel) bool { return op.conn.out.offer(p.frame(op.head), op) }

func (op *operation) take(r *graphql.Response) bool {
	b := append(append(op.buf[:0], make([]byte, frameRoom)...), op.head...)
	op.buf = append(AppendResponse(b, r), '}')
	return op.conn.out.send(frame(op.buf, frameRoom, websocket.TextMessage), op)
}

// end tells the client, unless that has gone or completed the operation.
func (op *operation) end(errs gqlerror.List) {
	defer op.conn.ended()
	defer op.cancel(nil)
	op.conn.free(op) // before the client hears of the end, which frees the id for it
	message := completeMessage(op.id)
	if len(errs) > 0 {
		message = errorMessage(op.id, errs)
	}
	if cause := context.Cause(op.ctx); cause != nil && !errors.Is(cause, ErrShutdown) {
		return // nobody listens any more
	}
	op.srv.metrics.endedBy(errs)
	op.conn.out.send(newFrame(websocket.TextMessage, message), op)
}

// drop ends the operation from outside. Whoever serves it notices; nobody does for
// a member of a group, which ends here.
func (op *operation) drop(why error) {
	op.cancel(why)
	if op.leave() {
		op.end(op.worded(why))
	}
}
