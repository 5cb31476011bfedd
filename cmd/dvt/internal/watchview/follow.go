package watchview

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/run"
)

// MaxSilence is how long a stream may be silent. It has a frame every 15 s, so a longer silence means a dead
// connection.
const MaxSilence = 20 * time.Second

// Bounds of the wait between two attempts to connect. Each wait is twice the one before.
const (
	firstWait = 300 * time.Millisecond
	lastWait  = 10 * time.Second
)

var (
	errSilent = errors.New("no frame came for 20 s")
	errEnded  = errors.New("the stream ended without a reason")
	// ErrHole means that a frame does not continue where the previous frame ended.
	ErrHole = errors.New("a frame was missing")
)

// Stop is the error that the stream function returns to end Follow. Follow returns its cause.
//
//nolint:errname // it is a request, not a fault
type Stop struct{ Cause error }

func (s Stop) Error() string { return s.Cause.Error() }

func (s Stop) Unwrap() error { return s.Cause }

// Follow keeps a stream open over as many connections as it needs. stream reads one connection from the position that
// it is given, calls took with the position of each frame, and returns Stop to end the whole; Follow then returns the
// cause of the Stop. Follow also returns an error that another attempt cannot repair, ctx's error, and an error after
// giveUp without a frame (0: never). An error before the first frame is returned at once. Follow calls lose for each
// lost connection with its error and the time of the next attempt.
func Follow(ctx context.Context, giveUp time.Duration, at client.Position, stream func(ctx context.Context,
	at client.Position, took func(client.Position)) error, lose func(error, time.Time)) error {
	var came bool         // whether any frame arrived
	var offline time.Time // when the connection was lost; zero while connected
	var tries int
	for {
		err := once(ctx, func(ctx context.Context, alive func()) error {
			return stream(ctx, at, func(p client.Position) {
				alive()
				at, came, tries, offline = p, true, 0, time.Time{}
			})
		})
		var enough Stop
		switch {
		case errors.As(err, &enough):
			return enough.Cause
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			err = errEnded
		}
		wait, mends := mendable(err)
		if !came || !mends {
			return err
		}
		if named, ok := errors.AsType[*client.Error](client.AsAPIError(err)); ok &&
			named.Code == string(run.CodeCursorInvalid) {
			at = client.Position{}
		}
		if offline.IsZero() {
			offline = time.Now()
		}
		if giveUp > 0 && time.Since(offline) >= giveUp {
			return fmt.Errorf("there was no connection for %s: %w", ShortDuration(time.Since(offline)), err)
		}
		wait = max(wait, min(firstWait<<min(tries, 10), lastWait))
		wait += rand.N(wait / 4) // spreads the clients that lost the same server
		tries++
		lose(err, time.Now().Add(wait))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// once reads one connection and ends it after MaxSilence without a frame.
func once(ctx context.Context, watch func(ctx context.Context, alive func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(MaxSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	err := watch(ctx, func() { silence.Reset(MaxSilence) })
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

// mendable reports whether another attempt may help, and the shortest time to wait before it.
func mendable(err error) (wait time.Duration, ok bool) {
	named, is := errors.AsType[*client.Error](client.AsAPIError(err))
	if !is {
		return 0, true // an error of the connection
	}
	if named.Code == string(run.CodeCursorInvalid) {
		return 0, true
	}
	info, known := run.Code(named.Code).Info()
	if !known {
		return 0, false
	}
	return named.RetryAfter, info.Retry
}
