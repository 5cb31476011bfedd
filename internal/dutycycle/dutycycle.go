// Package dutycycle bounds the share of the time in which background work runs. The work says between which pieces it
// may pause, and rests there in proportion to the time that the piece took. So callers of the same store and machine
// meet short pieces of work and long rests, also when everything is slow.
//
// A Cycle travels in the context, because the pieces lie deep in code that other callers use without one.
package dutycycle

import (
	"context"
	"time"
)

const (
	// longest bounds one rest.
	longest = 5 * time.Second
	// least is the shortest rest: shorter ones add up, because timers are no more exact.
	least = time.Millisecond
	// waitCounts is how much of the wait for another service counts as work, see Waited.
	waitCounts = 10 * time.Millisecond
)

// Cycle is the rhythm of one background job. It is not safe for concurrent use: one goroutine works at a time.
type Cycle struct {
	share float64
	alive func(context.Context) error
	began time.Time // of the piece of work
	owed  time.Duration
	sleep func(context.Context, time.Duration) error
}

// New returns a Cycle for work that takes at most a share of the time, above 0 and at most 1. alive is called at each
// rest, for example to extend a lease; its error ends the work. It may be nil.
func New(share float64, alive func(context.Context) error) *Cycle {
	if alive == nil {
		alive = func(context.Context) error { return nil }
	}
	return &Cycle{share: share, alive: alive, began: time.Now(), sleep: sleep}
}

type key struct{}

// With returns a context in which Rest and Waited use c.
func With(ctx context.Context, c *Cycle) context.Context { return context.WithValue(ctx, key{}, c) }

// Begin starts a piece of work now: what passed before was no work. It does nothing without a Cycle in ctx.
func Begin(ctx context.Context) {
	if c, ok := ctx.Value(key{}).(*Cycle); ok {
		c.began = time.Now()
	}
}

// Rest ends a piece of work and rests. Without a Cycle in ctx it does nothing. It returns the error of ctx or of alive.
func Rest(ctx context.Context) error { return end(ctx, longest) }

// Waited is Rest after a call that mostly waited for another service, such as a bucket: at most 10 ms of it count as
// work, because the wait itself is a rest for this machine and its database.
func Waited(ctx context.Context) error { return end(ctx, waitCounts) }

func end(ctx context.Context, most time.Duration) error {
	c, ok := ctx.Value(key{}).(*Cycle)
	if !ok {
		return nil
	}
	worked := min(time.Since(c.began), most)
	c.owed = min(c.owed+time.Duration(float64(worked)*(1/c.share-1)), longest)
	defer func() { c.began = time.Now() }()
	if c.owed >= least {
		if err := c.sleep(ctx, c.owed); err != nil {
			return err
		}
		c.owed = 0
	}
	return c.alive(ctx)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
