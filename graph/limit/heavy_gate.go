package limit

import (
	"context"
	"sync"
)

// HeavyGate limits expensive work to a few concurrent callers, each with one piece at a time. A caller with much work
// waits for its own pieces and does not delay other callers. It is safe for concurrent use.
type HeavyGate struct {
	slots chan struct{}

	mu      sync.Mutex
	callers map[string]*heavyCaller
}

// heavyCaller is a caller with running or waiting work.
type heavyCaller struct {
	turn chan struct{}
	here int // pieces of work, including waiting ones
}

// NewHeavyGate returns a gate that lets slots callers work at once.
func NewHeavyGate(slots int) *HeavyGate {
	return &HeavyGate{slots: make(chan struct{}, slots), callers: map[string]*heavyCaller{}}
}

// Enter waits for a turn of caller and returns the function that ends it, which must be called exactly once. When ctx
// ends first, it returns the cause of ctx.
func (g *HeavyGate) Enter(ctx context.Context, caller string) (leave func(), err error) {
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

func (g *HeavyGate) arrive(caller string) *heavyCaller {
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

func (g *HeavyGate) depart(caller string, c *heavyCaller) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.here--; c.here == 0 {
		delete(g.callers, caller)
	}
}
