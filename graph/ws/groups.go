package ws

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// checkEvery is the interval at which all Tickets are checked, also without payloads.
const checkEvery = time.Second

// groups holds the groups that viewers can join. While there is one, a goroutine (watch) checks the Tickets of all
// members.
type groups struct {
	srv *Server

	mu    sync.Mutex
	byKey map[string]*group
	stop  chan struct{} // closed to end watch
}

// enter returns the group of a subscription and starts it for the first viewer. The caller must call exit, or become a
// member and leave.
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

// exit reverts enter. The last exit ends the group.
func (gs *groups) exit(g *group) {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g.refs--; g.refs == 0 {
		gs.forget(g)
		g.cancel()
	}
}

// retire prevents viewers from joining a group that is ending; the next viewer starts a new one.
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

// watch checks all Tickets every checkEvery and when RightsChanged signals, until stop is closed.
func (gs *groups) watch(stop <-chan struct{}) {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		var changed <-chan struct{}
		if gs.srv.cfg.RightsChanged != nil {
			changed = gs.srv.cfg.RightsChanged() // taken before the check, otherwise a change between the two would be missed
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
