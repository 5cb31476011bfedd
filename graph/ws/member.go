package ws

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

// maxMoves limits how often a viewer may be moved while it joins. After that it runs alone, which is always correct:
// each execution checks the viewer's own rights.
const maxMoves = 8

// sink receives the responses of one operation.
type sink interface {
	// offer accepts a payload without blocking. It returns false if an earlier payload is still being written, and then
	// calls the member's ready once there is room.
	offer(p *frameBuf) bool
	// take blocks until a response is written; false ends the operation.
	take(r *graphql.Response) bool
	// end is called once, as the last call, with the errors that the operation ended with, if any.
	end(errs gqlerror.List)
}

// member is one operation; it runs alone or in a group.
type member struct {
	srv     *Server
	ctx     context.Context //nolint:containedctx // the lifetime of the operation, which outlives the call that starts it
	request *graphql.OperationContext
	sink    sink

	group atomic.Pointer[group] // nil outside a group; set under the lock of that group

	// Guarded by the lock of the group.
	index   int // in group.members
	ticket  Ticket
	at      Position // position of the viewer
	atKnown bool     // at is valid
	behind  bool     // the sink refused a payload and has not called ready since
	slow    bool     // payloads were skipped while it was behind
}

// follow makes the operation a member of a group, or runs it alone to its end. moved means that another group removed
// it: its position is then ignored, because what it may see has changed.
func (m *member) follow(moved bool) {
	err := catchPanic(func() error { return m.join(moved) })
	switch {
	case err == nil:
	case errors.Is(err, ErrAlone):
		m.sink.end(m.srv.respond(m.ctx, m.request, m.sink.take))
	default:
		m.sink.end(m.present(err))
	}
}

// join makes the operation a member of a group. It returns ErrAlone when the operation must run alone.
func (m *member) join(moved bool) error {
	if m.srv.cfg.Share == nil || m.request.Operation.Operation != ast.Subscription {
		return ErrAlone
	}
	for range maxMoves {
		shared, err := m.srv.cfg.Share(graphql.WithOperationContext(m.ctx, m.request), m.request)
		switch {
		case err != nil:
			return err
		case shared == nil:
			return ErrAlone
		case moved:
			shared.Since = nil
		}
		g := m.srv.groups.enter(shared)
		err = catchPanic(func() error { return g.admit(m, shared) })
		if err == nil {
			return nil
		}
		m.srv.groups.exit(g)
		if !errors.Is(err, ErrMoved) {
			return err
		}
		moved = true
	}
	return ErrAlone
}

// leave removes the operation from its group. It reports whether this call removed it; the caller must then call
// sink.end. No other group admits an operation whose context has ended.
func (m *member) leave() bool {
	g := m.group.Load()
	return g != nil && g.detach(m)
}

// ready is called by the sink when there is room again after it refused an offer.
func (m *member) ready() {
	if g := m.group.Load(); g != nil {
		g.catchUp(m)
	}
}

func (m *member) position() *Position {
	if !m.atKnown {
		return nil
	}
	at := m.at
	return &at
}

// present returns the errors to send for err: those of the executor's presenter, or none when the viewer has left.
func (m *member) present(err error) gqlerror.List {
	if presented, ok := errors.AsType[presentedError](err); ok {
		return presented.List
	}
	switch cause := context.Cause(m.ctx); {
	case errors.Is(cause, ErrShutdown):
		err = ErrShutdown
	case cause != nil:
		return nil //nolint:nilerr // the viewer has left
	}
	return m.srv.present(m.ctx, err)
}

// presentedError is an error that the presenter has already converted. A group presents its error once for all members.
type presentedError struct{ gqlerror.List }

var errPanic = errors.New("ws: panic")

// catchPanic calls f and converts a panic into an error, because f is code of the executor, a Source or a Ticket.
func catchPanic(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, v, debug.Stack())
		}
	}()
	return f()
}
