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

// maxMoves bounds how often a viewer is put into another group before it is let
// into one; then it gets an execution of its own, which is always right.
const maxMoves = 8

// sink is where the responses of one operation go.
type sink interface {
	// offer takes a payload without waiting, or refuses it because an earlier one is
	// still on its way. Then it calls ready of the member once there is room.
	offer(p *parcel) bool
	// take waits until a response is written; false ends the operation.
	take(r *graphql.Response) bool
	// end is told once, after everything else: the errors that the operation ended
	// with, if any.
	end(errs gqlerror.List)
}

// member is one operation: alone, or with others in a group.
type member struct {
	srv     *Server
	ctx     context.Context //nolint:containedctx // the life of the operation, which outlives the call that begins it
	request *graphql.OperationContext
	sink    sink

	group atomic.Pointer[group] // that it is a member of; set under the lock of that group

	// What the group knows of it, guarded by the lock of the group.
	index  int // among the members
	ticket Ticket
	at     Place // of the viewer
	placed bool  // at is known
	behind bool  // the sink has refused a payload and has not been ready since
	slow   bool  // payloads were dropped since it is behind
}

// follow serves the operation until it is a member of a group or has ended. moved
// says that it was one already, so that its place means nothing any more.
func (m *member) follow(moved bool) {
	err := guarded(func() error { return m.join(moved) })
	switch {
	case err == nil:
	case errors.Is(err, ErrAlone):
		m.sink.end(m.srv.respond(m.ctx, m.request, m.sink.take))
	default:
		m.sink.end(m.worded(err))
	}
}

// join makes the operation a member of a group; ErrAlone when it cannot be.
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
		err = guarded(func() error { return g.admit(m, shared) })
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

// leave takes the operation out of its group; true for the one caller who did. An
// operation whose context has ended is not let into another.
func (m *member) leave() bool {
	g := m.group.Load()
	return g != nil && g.remove(m)
}

// ready is what the sink calls when there is room again after a refusal.
func (m *member) ready() {
	if g := m.group.Load(); g != nil {
		g.catchUp(m)
	}
}

func (m *member) place() *Place {
	if !m.placed {
		return nil
	}
	at := m.at
	return &at
}

// worded is what the viewer is told about an error: nothing when it has left.
func (m *member) worded(err error) gqlerror.List {
	if told, ok := errors.AsType[worded](err); ok {
		return told.List
	}
	switch cause := context.Cause(m.ctx); {
	case errors.Is(cause, ErrShutdown):
		err = ErrShutdown
	case cause != nil:
		return nil //nolint:nilerr // nobody listens any more
	}
	return m.srv.present(m.ctx, err)
}

// worded is an error that is told to many, and was worded once for all.
type worded struct{ gqlerror.List }

var errPanic = errors.New("ws: panic")

// guarded turns a panic of what others have written into an error.
func guarded(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v\n%s", errPanic, v, debug.Stack())
		}
	}()
	return f()
}
