package ws

import (
	"context"
	"errors"

	"github.com/99designs/gqlgen/graphql"
)

// Shared describes a subscription that may run as a group: one execution whose payloads are rendered once for all
// viewers. Viewers with equal keys join the same group.
type Shared struct {
	// Key must be equal only if the payloads are the same bytes for all admitted viewers. It therefore covers the
	// document, the operation, the variables (except the position to resume from) and the class of the viewer's rights.
	Key string
	// Ticket checks this viewer's right to the payloads.
	Ticket Ticket
	// Since is the position from which the viewer resumes; nil: it has no data yet.
	Since *Position
	// Open starts the execution of a group, once for all its members. ctx belongs to the group and carries no viewer.
	// When Open returns, First can render the current state.
	Open func(ctx context.Context) (Source, error)
}

// Ticket is the right of one viewer to the payloads of a group.
type Ticket interface {
	// Check is called before every payload, when rights may have changed, and every second. It must not do I/O, because
	// the group's lock is held. ErrMoved moves the viewer to another group and ErrAlone gives it an execution of its
	// own. Any other error ends the viewer's operation, converted by the executor's error presenter.
	Check() error
}

// ErrMoved is returned by Ticket.Check when the viewer's rights belong to another group. The server calls Config.Share
// again for the viewer.
var ErrMoved = errors.New("ws: the viewer belongs to another group")

// ErrAlone is returned by Source.First when the group cannot bring the viewer up to date. The server runs the operation
// alone.
var ErrAlone = errors.New("ws: the viewer cannot be served by a group")

// Position is the position of a viewer in the stream of a group. This package does not interpret it.
type Position struct {
	Epoch string
	Seq   int64
}

// Source produces the payloads of a group. Wait may run concurrently with First. Next and First are never called
// concurrently. A panic counts as an error of the call.
type Source interface {
	// Wait blocks until Next has a payload. An error ends the group; every member receives it, unless ctx has ended.
	Wait(ctx context.Context) error
	// Next advances by one step. It appends to b, which is not empty, the response for members that have the previous
	// payload, and returns their new position. It must not retain b. An error ends the group like one of Wait.
	Next(b []byte) (more []byte, at Position, err error)
	// First renders the response that brings a viewer from since (nil: it has no data) to the position of the last
	// Next. slow means that the viewer skipped payloads because it did not read in time. First must not change the
	// returned Data later. ErrAlone runs the viewer's operation alone and ErrMoved moves the viewer to another group;
	// any other error ends the operation.
	First(since *Position, slow bool) (Payload, error)
	// Close frees the source. It is called once, after the last call of the other methods.
	Close()
}

// Payload is one response as JSON, `{"data":…}`, and the position of a viewer that has received it.
type Payload struct {
	Data []byte
	At   Position
}

// Share decides whether and with which viewers a subscription shares one execution. ctx carries the viewer. If it
// returns nil, nil the operation runs alone; an error ends the operation. Calls may be concurrent.
type Share func(ctx context.Context, op *graphql.OperationContext) (*Shared, error)
