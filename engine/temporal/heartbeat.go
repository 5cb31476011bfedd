package temporal

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
)

const (
	// beatEvery is the interval of heartbeats. A heartbeat's answer tells an execution to stop, so it is also the delay of
	// a cancellation (contract T199).
	beatEvery = 2 * time.Second
	// beatTimeout bounds one heartbeat.
	beatTimeout = 5 * time.Second
)

// heartbeats is the part of a Client that sends heartbeats.
type heartbeats interface {
	RecordActivityHeartbeat(ctx context.Context, taskToken []byte, details ...any) error
}

// pulse sends the heartbeats of one execution. The heartbeats of the SDK would stop the work when Temporal does not
// answer for a second or two. With pulse only an answer of Temporal stops it; Temporal itself detects a silent worker
// by the heartbeat timeout.
type pulse struct {
	beats  heartbeats
	token  []byte
	stop   context.CancelCauseFunc // stops the work
	stepID string
	next   time.Time // of the next heartbeat
	begun  bool      // whether the last heartbeat reported that the work had started
	// beaten means that a heartbeat was sent.
	beaten bool
}

// firstBeat is the delay of the first heartbeat. A shorter execution sends none, which saves Temporal a write.
const firstBeat = 500 * time.Millisecond

// beat is the content of a heartbeat.
type beat struct {
	StartedAt     time.Time `json:"startedAt,omitzero"` // of the work; zero before it has started
	EngineAttempt int       `json:"engineAttempt"`
	// Blocked says what keeps the Journal from answering about the step StepID; see executor.Heartbeat. All these fields
	// are empty when nothing does.
	Blocked engine.WaitCause `json:"blocked,omitempty"`
	StepID  string           `json:"stepId,omitempty"`
	Status  int              `json:"status,omitempty"`
	Ended   time.Time        `json:"ended,omitzero"` // when the worker first tried to report the end
}

// beat sends a heartbeat if one is due, or if the work has just started. It stops the work if Temporal has cancelled or
// forgotten the execution. Only one goroutine may call it at a time, more often than beatEvery.
func (p *pulse) beat(ctx context.Context, b executor.Heartbeat) {
	begun := !b.StartedAt.IsZero()
	if time.Now().Before(p.next) && (begun == p.begun || !p.beaten) {
		return
	}
	p.next, p.begun, p.beaten = time.Now().Add(beatEvery-beatEvery/8), begun, true
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	out := beat{StartedAt: b.StartedAt, EngineAttempt: b.EngineAttempt}
	if by := b.Blocked; by != nil {
		out.Blocked, out.StepID, out.Status = by.Cause, p.stepID, by.Status
		if by.Ended {
			out.Ended = by.Since
		}
	}
	err := p.beats.RecordActivityHeartbeat(ctx, p.token, out)
	var cancelled *temporal.CanceledError
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &cancelled), errors.As(err, &gone):
		p.stop(err)
	case err != nil:
		p.next = time.Time{} // the next call tries again
	}
}
