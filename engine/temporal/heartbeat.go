package temporal

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/dvt-engine/dvt/engine/executor"
)

const (
	// beatEvery is how often an execution is reported alive, which is how soon it
	// sees that it should stop (contract T199).
	beatEvery = 2 * time.Second
	// beatTimeout bounds one report.
	beatTimeout = 5 * time.Second
)

// heartbeats is the part of a client that reports executions.
type heartbeats interface {
	RecordActivityHeartbeat(ctx context.Context, taskToken []byte, details ...any) error
}

// pulse reports one execution alive. The SDK's own heartbeats would end the
// work when the service does not answer for a second or two; here only the
// service's word ends it, and silence is for the service to judge by its
// heartbeat timeout.
type pulse struct {
	beats heartbeats
	token []byte
	stop  context.CancelCauseFunc // of the work
	next  time.Time
	begun bool // the last report said that the work began
	// beaten says that there was a report.
	beaten bool
}

// firstBeat is when an execution is first reported: one that is over by then costs the service nothing.
const firstBeat = 500 * time.Millisecond

// beat is what a heartbeat carries.
type beat struct {
	StartedAt     time.Time `json:"startedAt,omitzero"` // of the work; zero before
	EngineAttempt int       `json:"engineAttempt"`
}

// beat is called from one goroutine at a time, more often than beatEvery.
func (p *pulse) beat(ctx context.Context, b executor.Beat) {
	begun := !b.StartedAt.IsZero()
	if time.Now().Before(p.next) && (begun == p.begun || !p.beaten) {
		return
	}
	p.next, p.begun, p.beaten = time.Now().Add(beatEvery-beatEvery/8), begun, true
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	err := p.beats.RecordActivityHeartbeat(ctx, p.token, beat{StartedAt: b.StartedAt, EngineAttempt: b.EngineAttempt})
	var cancelled *temporal.CanceledError
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &cancelled), errors.As(err, &gone):
		p.stop(err)
	case err != nil:
		p.next = time.Time{} // again as soon as possible
	}
}
