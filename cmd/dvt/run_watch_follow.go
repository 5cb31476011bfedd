package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/run"
)

// A stream has a frame every 15 s at least: one that is silent for longer is dead.
const maxSilence = 20 * time.Second

// Waits between tries to connect, the next one twice the one before.
const (
	firstWait = 300 * time.Millisecond
	lastWait  = 10 * time.Second
)

var (
	errSilent = errors.New("no frame came for 20 s")
	errEnded  = errors.New("the stream ended without a reason")
	// errHole says that a frame does not go on where the one before ended.
	errHole = errors.New("a frame was missing")
)

// follow gives each frame of a run to see, over as many connections as it takes: the next one goes on
// from the last frame's position. It ends with the error of see, with one that another try would not
// mend, or after giveUp without a frame (0: never). Before the first frame no error is mended.
func follow(ctx context.Context, giveUp time.Duration, watch func(context.Context, client.Position, func(frame) error) error, see func(frame) error, lose func(error, time.Time)) error {
	var at client.Position
	var came bool         // a frame
	var seen error        // what see said
	var offline time.Time // since when
	var tries int
	for {
		err := once(ctx, func(ctx context.Context, alive func()) error {
			return watch(ctx, at, func(f frame) error {
				alive()
				came, tries, offline = true, 0, time.Time{}
				if f.Delta != nil && f.Delta.FromSeq > at.Seq && at.Epoch == f.StoreEpoch {
					return errHole
				}
				at = client.Position{Seq: f.RunSeq, Epoch: f.StoreEpoch}
				seen = see(f)
				return seen
			})
		})
		switch {
		case seen != nil:
			return seen
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			err = errEnded
		}
		wait, mends := mendable(err)
		if !came || !mends {
			return err
		}
		if named, ok := errors.AsType[*client.Error](client.Named(err)); ok && named.Code == string(run.CodeCursorInvalid) {
			at = client.Position{}
		}
		if offline.IsZero() {
			offline = time.Now()
		}
		if giveUp > 0 && time.Since(offline) >= giveUp {
			return fmt.Errorf("there was no connection for %s: %w", short(time.Since(offline)), err)
		}
		wait = max(wait, min(firstWait<<min(tries, 10), lastWait))
		wait += rand.N(wait / 4) // many that lost one server do not come back at once
		tries++
		lose(err, time.Now().Add(wait))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// once is one connection, which ends when it is silent for too long.
func once(ctx context.Context, watch func(ctx context.Context, alive func()) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(maxSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	err := watch(ctx, func() { silence.Reset(maxSilence) })
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

// mendable reports whether another try may help, and how long to wait for it at least.
func mendable(err error) (wait time.Duration, ok bool) {
	named, is := errors.AsType[*client.Error](client.Named(err))
	if !is {
		return 0, true // the connection
	}
	if named.Code == string(run.CodeCursorInvalid) {
		return 0, true
	}
	for _, c := range run.CodeTable() {
		if string(c.Code) == named.Code {
			return named.RetryAfter, c.Retry
		}
	}
	return 0, false
}
