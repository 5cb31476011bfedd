package graph

import (
	"context"
	"sync"
)

// heavyGate lets a few callers at once do heavy work, each of them one piece at a time: a caller with much to do waits for
// itself and not others for him. It is safe for concurrent use.
type heavyGate struct {
	slots chan struct{}

	mu      sync.Mutex
	callers map[string]*heavyCaller
}

// heavyCaller is a caller who works or waits.
type heavyCaller struct {
	turn chan struct{}
	here int // pieces of work, those that wait included
}

func newHeavyGate(slots int) *heavyGate {
	return &heavyGate{slots: make(chan struct{}, slots), callers: map[string]*heavyCaller{}}
}

// enter waits for a turn and returns the function that ends it, or the cause of the end of ctx.
func (g *heavyGate) enter(ctx context.Context, caller string) (leave func(), err error) {
	c := g.arrive(caller)
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		g.depart(caller, c)
		return nil, context.Cause(ctx)
	}
	select {
	case g.slots <- struct{}{}:
	case <-ctx.Done():
		<-c.turn
		g.depart(caller, c)
		return nil, context.Cause(ctx)
	}
	return func() {
		<-g.slots
		<-c.turn
		g.depart(caller, c)
	}, nil
}

func (g *heavyGate) arrive(caller string) *heavyCaller {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := g.callers[caller]
	if c == nil {
		c = &heavyCaller{turn: make(chan struct{}, 1)}
		g.callers[caller] = c
	}
	c.here++
	return c
}

func (g *heavyGate) depart(caller string, c *heavyCaller) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.here--; c.here == 0 {
		delete(g.callers, caller)
	}
}
