package ws

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/99designs/gqlgen/graphql"
)

// group is one execution with its viewers. One goroutine waits for its source and
// offers each payload to every member.
type group struct {
	srv    *Server
	key    string
	ctx    context.Context //nolint:containedctx // ends when the last member leaves
	cancel context.CancelFunc
	refs   int // members and who is about to be; guarded by the lock of groups

	opened chan struct{} // closed when source or failure is set
	source Source

	mu      sync.Mutex
	members []*member                 // in no order that means anything, but that of joining is kind to caches
	request *graphql.OperationContext // of the first member, and of all who sent the same
	failure error                     // why the group has ended
}

// run serves the group until its last member has left or its source fails.
func (g *group) run(open func(ctx context.Context) (Source, error)) {
	err := guarded(func() (err error) { g.source, err = open(g.ctx); return err })
	if err != nil {
		g.end(err)
		close(g.opened)
		return
	}
	close(g.opened)
	defer func() { _ = guarded(func() error { g.source.Close(); return nil }) }()
	for err == nil && g.ctx.Err() == nil {
		if err = guarded(func() error { return g.source.Wait(g.ctx) }); err == nil {
			err = guarded(g.step)
		}
	}
	g.end(err)
}

// step moves the source on and offers the payload to all members. One that is
// still busy with an earlier payload does not get this one, but later the newest.
func (g *group) step() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.srv.parcels.take()
	defer g.srv.parcels.put(p)
	b, at, err := g.source.Next(p.room())
	if err != nil {
		return err
	}
	p.load(b, at)
	for _, r := range g.spread(p) {
		g.dismiss(r.member, r.why)
	}
	return nil
}

// membersEach is how many members a goroutine serves at a time, if there are processors for
// several: what an offer takes is the kernel's time, a few microseconds on each socket.
const membersEach = 256

// refusal is a member that has no right to a payload any more.
type refusal struct {
	member *member
	why    error
}

// spread offers p to all members, on several processors when they are many. The lock is held.
func (g *group) spread(p *parcel) (lost []refusal) {
	servants := max(1, min(runtime.GOMAXPROCS(0), len(g.members)/membersEach))
	if servants == 1 {
		return g.pass(p, g.members)
	}
	var (
		wg    sync.WaitGroup
		next  atomic.Int64
		found = make([][]refusal, servants)
	)
	for i, own := range p.copies(&g.srv.parcels, servants) {
		wg.Go(func() {
			defer g.srv.parcels.put(own)
			for {
				to := int(next.Add(membersEach)) // whoever is quicker takes more
				if to-membersEach >= len(g.members) {
					return
				}
				found[i] = append(found[i], g.pass(own, g.members[to-membersEach:min(to, len(g.members))])...)
			}
		})
	}
	wg.Wait()
	return slices.Concat(found...)
}

// pass offers p to some members and returns those that are to be dismissed. The lock is held.
func (g *group) pass(p *parcel, members []*member) (lost []refusal) {
	for _, m := range members {
		switch err := guarded(m.ticket.Check); {
		case err != nil:
			lost = append(lost, refusal{m, err})
		case m.behind:
			m.slow = true
			g.srv.metrics.conflated.Inc()
		default:
			g.offer(m, p)
			m.slow = m.behind
		}
	}
	return lost
}

// admit lets m in and offers what brings it from since to where the group is. It
// waits until the group is open.
func (g *group) admit(m *member, shared *Shared) error {
	select {
	case <-g.opened:
	case <-m.ctx.Done():
		return m.ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failure != nil {
		return g.failure
	}
	if err := shared.Ticket.Check(); err != nil {
		return err
	}
	first, err := g.source.First(shared.Since, false)
	if err != nil {
		return err
	}
	m.request, m.ticket, m.behind, m.slow = g.idle(m.request), shared.Ticket, false, false
	if m.placed = shared.Since != nil; m.placed {
		m.at = *shared.Since
	}
	m.index = len(g.members)
	g.members = append(g.members, m)
	m.group.Store(g)
	g.srv.metrics.viewers.Inc()
	if err := m.ctx.Err(); err != nil { // who ended it may not have seen the group yet
		g.takeOut(m)
		return err
	}
	g.deliver(m, first)
	return nil
}

// idle is the request of a member, who may begin anew much later: without what
// reading it has left behind, and one for all members who sent the same.
func (g *group) idle(r *graphql.OperationContext) *graphql.OperationContext {
	own := fresh(r)
	if g.request == nil {
		g.request = own
	}
	if k := g.request; r.RawQuery == k.RawQuery && r.OperationName == k.OperationName {
		if reflect.DeepEqual(r.Variables, k.Variables) {
			return k
		}
		own.RawQuery = k.RawQuery
	}
	return own
}

// fresh is a request that has not begun.
func fresh(r *graphql.OperationContext) *graphql.OperationContext {
	return &graphql.OperationContext{
		RawQuery: r.RawQuery, Variables: r.Variables, OperationName: r.OperationName, Doc: r.Doc, Operation: r.Operation,
		DisableIntrospection: r.DisableIntrospection, RecoverFunc: r.RecoverFunc,
		ResolverMiddleware: r.ResolverMiddleware, RootResolverMiddleware: r.RootResolverMiddleware,
	}
}

// catchUp gives a member that was behind the newest. The lock of the group is not held.
func (g *group) catchUp(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.group.Load() != g || !m.behind || !g.permits(m) {
		return
	}
	var p Payload
	err := guarded(func() (err error) { p, err = g.source.First(m.place(), m.slow); return err })
	if err != nil {
		g.dismiss(m, err)
		return
	}
	g.deliver(m, p)
}

// deliver offers m a payload of its own. The lock is held.
func (g *group) deliver(m *member, own Payload) {
	p := g.srv.parcels.take()
	defer g.srv.parcels.put(p)
	p.load(append(p.room(), own.Data...), own.At)
	g.offer(m, p)
}

// offer gives a payload to m. The lock is held.
func (g *group) offer(m *member, p *parcel) {
	if m.behind = !m.sink.offer(p); m.behind {
		g.srv.metrics.conflated.Inc()
		return
	}
	m.at, m.placed, m.slow = p.at, true, false
}

// permits asks for the rights of m, and dismisses it without. The lock is held.
func (g *group) permits(m *member) bool {
	err := guarded(m.ticket.Check)
	if err != nil {
		g.dismiss(m, err)
	}
	return err == nil
}

// dismiss takes m out: into another group, into an execution of its own, or to its
// end. The lock is held.
func (g *group) dismiss(m *member, why error) {
	g.takeOut(m)
	go func() {
		g.srv.groups.exit(g)
		m.request = fresh(m.request) // others may have the same one
		switch {
		case errors.Is(why, ErrMoved):
			m.follow(true)
		case errors.Is(why, ErrAlone):
			m.sink.end(m.srv.respond(m.ctx, m.request, m.sink.take))
		default:
			m.sink.end(m.worded(why))
		}
	}()
}

// check asks for the rights of all members.
func (g *group) check() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := len(g.members) - 1; i >= 0; i-- {
		g.permits(g.members[i])
	}
}

// remove takes m out; true for the one caller who did.
func (g *group) remove(m *member) bool {
	g.mu.Lock()
	ok := m.group.Load() == g
	if ok {
		g.takeOut(m)
	}
	g.mu.Unlock()
	if ok {
		g.srv.groups.exit(g)
	}
	return ok
}

// takeOut fills the place of m with the last member. The lock is held.
func (g *group) takeOut(m *member) {
	last := len(g.members) - 1
	g.members[m.index] = g.members[last]
	g.members[m.index].index = m.index
	g.members[last] = nil
	g.members = g.members[:last]
	m.group.Store(nil)
	g.srv.metrics.viewers.Dec()
}

// end tells all members why their group has ended. After the last has left there
// is nobody to tell.
func (g *group) end(err error) {
	if g.ctx.Err() != nil {
		return
	}
	g.srv.groups.retire(g)
	told := worded{g.srv.present(g.ctx, err)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failure = told
	for len(g.members) > 0 {
		g.dismiss(g.members[0], told)
	}
}
