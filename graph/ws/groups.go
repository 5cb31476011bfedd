package ws

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// checkEvery is how often the rights of all members are asked for.
const checkEvery = time.Second

// groups are those that viewers can join, and the warden of their rights, who is
// there as long as there is one.
type groups struct {
	srv *Server

	mu    sync.Mutex
	byKey map[string]*group
	stop  chan struct{} // ends the warden
}

// enter gives the group of a subscription, which begins with its first viewer. Whoever
// enters is to exit, or to leave as a member.
func (gs *groups) enter(shared *Shared) *group {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	g := gs.byKey[shared.Key]
	if g == nil {
		g = &group{srv: gs.srv, key: shared.Key, opened: make(chan struct{})}
		g.ctx, g.cancel = context.WithCancel(context.Background())
		if len(gs.byKey) == 0 {
			stop := make(chan struct{})
			gs.stop = stop
			gs.srv.spawn(func() { gs.watch(stop) })
		}
		gs.byKey[g.key] = g
		gs.srv.spawn(func() { g.run(shared.Open) })
	}
	g.refs++
	return g
}

// exit is for who entered; the last one ends the group.
func (gs *groups) exit(g *group) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g.refs--; g.refs == 0 {
		gs.forget(g)
		g.cancel()
	}
}

// retire keeps viewers from joining a group that ends.
func (gs *groups) retire(g *group) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	gs.forget(g)
}

func (gs *groups) forget(g *group) {
	if gs.byKey[g.key] != g {
		return
	}
	delete(gs.byKey, g.key)
	if len(gs.byKey) == 0 {
		close(gs.stop)
	}
}

func (gs *groups) all() []*group {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return slices.Collect(maps.Values(gs.byKey))
}

func (gs *groups) count() float64 {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	return float64(len(gs.byKey))
}

// watch is the warden: it asks for all rights every second and when they may have changed.
func (gs *groups) watch(stop <-chan struct{}) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		var changed <-chan struct{}
		if gs.srv.cfg.RightsChanged != nil {
			changed = gs.srv.cfg.RightsChanged() // before the check, or a change could fall between
		}
		for _, g := range gs.all() {
			g.check()
		}
		select {
		case <-tick.C:
		case <-changed:
		case <-stop:
			return
		}
	}
}
