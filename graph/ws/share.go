package ws

import (
	"context"
	"errors"

	"github.com/99designs/gqlgen/graphql"
)

// Shared is a subscription that several viewers may have as one execution with one
// rendered payload: a group. Viewers with equal keys make a group.
type Shared struct {
	// Key is equal for operations whose payloads are the same bytes for everybody who
	// is admitted: document, operation, variables but for the place to resume from,
	// and the class of the viewer's rights.
	Key string
	// Ticket is this viewer's right to the payloads.
	Ticket Ticket
	// Since is the place that the viewer asks to resume from; nil: it has nothing.
	Since *Place
	// Open begins the execution of a group, once for all who join it; ctx is the
	// group's and knows no viewer. The Source has a current payload when Open returns.
	Open func(ctx context.Context) (Source, error)
}

// Ticket is the right of one viewer to what a group shows.
type Ticket interface {
	// Check is asked before every payload, when rights may have changed, and every
	// second. It does no I/O. ErrMoved puts the viewer into another group; any other
	// error ends its stream, worded by the executor's presenter.
	Check() error
}

// ErrMoved says that a viewer's rights put it into another group: it is shared anew.
var ErrMoved = errors.New("ws: the viewer belongs to another group")

// ErrAlone is what Source.First returns for a viewer that the group cannot bring up
// to date: it gets an execution of its own.
var ErrAlone = errors.New("ws: the viewer cannot be served by a group")

// Place is where a viewer of a group is; opaque here, and comparable.
type Place struct {
	Epoch string
	Seq   int64
}

// Source yields the payloads of a group. Wait may run beside the others; Next and
// First are never called at once.
type Source interface {
	// Wait blocks until there is something that Next would show. Its error ends the
	// group: that of ctx, or one that every member is told.
	Wait(ctx context.Context) error
	// Next moves on by one step and appends to b, which has a length, the response that
	// brings a member that was shown the one before to the new place. It keeps nothing of b.
	Next(b []byte) (more []byte, at Place, err error)
	// First renders what brings a viewer from since (nil: from nothing) to where the
	// last Next was. slow says that the viewer missed payloads because it did not read.
	// Data is never written to again.
	First(since *Place, slow bool) (Payload, error)
	// Close frees the source; Wait returns.
	Close()
}

// Payload is one response as JSON, `{"data":…}`, and the place of who was shown it.
type Payload struct {
	Data []byte
	At   Place
}

// Share says whether a subscription may be shared, and with whom. ctx is the
// viewer's. Without a Shared the operation runs alone; an error ends it.
type Share func(ctx context.Context, op *graphql.OperationContext) (*Shared, error)
