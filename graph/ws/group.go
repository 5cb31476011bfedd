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

// group is one execution of a subscription and its viewers, the members. One goroutine waits for the source and offers
// each payload to every member.
type group struct {
	srv    *Server
	key    string
	ctx    context.Context //nolint:containedctx // ends when the last member leaves
	cancel context.CancelFunc
	refs   int // members and viewers that are joining or leaving; guarded by the lock of groups

	opened chan struct{} // closed when source or failure is set
	source Source

	mu      sync.Mutex
	members []*member                 // in any order; mostly that of joining, because that is good for CPU caches
	request *graphql.OperationContext // shared by the members that sent the same request as the first
	failure error                     // set when the group has ended
}

// run serves the group until its last member has left or its source fails.
func (g *group) run(open func(ctx context.Context) (Source, error)) {
	err := catchPanic(func() (err error) { g.source, err = open(g.ctx); return err })
	if err != nil {
		g.end(err)
		close(g.opened)
		return
	}
	close(g.opened)
	defer func() { _ = catchPanic(func() error { g.source.Close(); return nil }) }()
	for err == nil && g.ctx.Err() == nil {
		if err = catchPanic(func() error { return g.source.Wait(g.ctx) }); err == nil {
			err = catchPanic(g.step)
		}
	}
	g.end(err)
}

// step renders the source's next payload and offers it to all members. A member that is still receiving an earlier
// payload skips this one; catchUp later brings it to the newest state.
func (g *group) step() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.srv.frameBufs.take()
	defer g.srv.frameBufs.put(p)
	b, at, err := g.source.Next(p.room())
	if err != nil {
		return err
	}
	p.load(b, at)
	for _, r := range g.offerAll(p) {
		g.remove(r.member, r.why)
	}
	return nil
}

// membersEach is the number of members in one unit of work of a worker. An offer spends a few microseconds in the
// kernel, so only several hundred offers justify a further goroutine.
const membersEach = 256

// refusal is a member whose Ticket refused, with the Ticket's error.
type refusal struct {
	member *member
	why    error
}

// offerAll offers p to all members, with several goroutines if there are many members. It returns the members to
// remove. The caller holds g.mu.
func (g *group) offerAll(p *frameBuf) (lost []refusal) {
	workers := max(1, min(runtime.GOMAXPROCS(0), len(g.members)/membersEach))
	if workers == 1 {
		return g.offerTo(p, g.members)
	}
	var (
		wg    sync.WaitGroup
		next  atomic.Int64
		found = make([][]refusal, workers)
	)
	for i, own := range p.copies(&g.srv.frameBufs, workers) {
		wg.Go(func() {
			defer g.srv.frameBufs.put(own)
			for {
				to := int(next.Add(membersEach)) // workers take units until none is left
				if to-membersEach >= len(g.members) {
					return
				}
				found[i] = append(found[i], g.offerTo(own, g.members[to-membersEach:min(to, len(g.members))])...)
			}
		})
	}
	wg.Wait()
	return slices.Concat(found...)
}

// offerTo offers p to the given members and returns those to remove. The caller holds g.mu.
func (g *group) offerTo(p *frameBuf, members []*member) (lost []refusal) {
	for _, m := range members {
		switch err := catchPanic(m.ticket.Check); {
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

// admit waits until the group is open, makes m a member and offers the payload that brings it from Shared.Since to the
// group's present state. On an error m is not a member.
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
	m.request, m.ticket, m.behind, m.slow = g.shareRequest(m.request), shared.Ticket, false, false
	if m.atKnown = shared.Since != nil; m.atKnown {
		m.at = *shared.Since
	}
	m.index = len(g.members)
	g.members = append(g.members, m)
	m.group.Store(g)
	g.srv.metrics.viewers.Inc()
	if err := m.ctx.Err(); err != nil { // drop may have run before m.group was set and then did not remove m
		g.unlink(m)
		return err
	}
	g.deliver(m, first)
	return nil
}

// shareRequest returns the request that a member keeps in order to run again later, in another group or alone. To save
// memory it drops the data of the first execution, and members with equal requests share one.
func (g *group) shareRequest(r *graphql.OperationContext) *graphql.OperationContext {
	own := freshRequest(r)
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

// freshRequest returns a copy of r without the data of its execution.
func freshRequest(r *graphql.OperationContext) *graphql.OperationContext {
	return &graphql.OperationContext{
		RawQuery: r.RawQuery, Variables: r.Variables, OperationName: r.OperationName, Doc: r.Doc, Operation: r.Operation,
		DisableIntrospection: r.DisableIntrospection, RecoverFunc: r.RecoverFunc,
		ResolverMiddleware: r.ResolverMiddleware, RootResolverMiddleware: r.RootResolverMiddleware,
	}
}

// catchUp offers a member that was behind one payload to the newest state. The caller must not hold g.mu.
func (g *group) catchUp(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m.group.Load() != g || !m.behind || !g.checkMember(m) {
		return
	}
	var p Payload
	err := catchPanic(func() (err error) { p, err = g.source.First(m.position(), m.slow); return err })
	if err != nil {
		g.remove(m, err)
		return
	}
	g.deliver(m, p)
}

// deliver offers m a payload that was rendered for it alone. The caller holds g.mu.
func (g *group) deliver(m *member, own Payload) {
	p := g.srv.frameBufs.take()
	defer g.srv.frameBufs.put(p)
	p.load(append(p.room(), own.Data...), own.At)
	g.offer(m, p)
}

// offer offers a payload to m and records whether m is behind. The caller holds g.mu.
func (g *group) offer(m *member, p *frameBuf) {
	if m.behind = !m.sink.offer(p); m.behind {
		g.srv.metrics.conflated.Inc()
		return
	}
	m.at, m.atKnown, m.slow = p.at, true, false
}

// checkMember checks the Ticket of m and removes m if the Ticket refuses; false means removed. The caller holds g.mu.
func (g *group) checkMember(m *member) bool {
	err := catchPanic(m.ticket.Check)
	if err != nil {
		g.remove(m, err)
	}
	return err == nil
}

// remove removes m from the group. A new goroutine then moves m to another group (ErrMoved), runs it alone (ErrAlone)
// or ends it with the error. The caller holds g.mu.
func (g *group) remove(m *member, why error) {
	g.unlink(m)
	go func() {
		g.srv.groups.exit(g)
		m.request = freshRequest(m.request) // a copy, because other members may share it
		switch {
		case errors.Is(why, ErrMoved):
			m.follow(true)
		case errors.Is(why, ErrAlone):
			m.sink.end(m.srv.respond(m.ctx, m.request, m.sink.take))
		default:
			m.sink.end(m.present(why))
		}
	}()
}

// check checks the Tickets of all members.
func (g *group) check() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := len(g.members) - 1; i >= 0; i-- {
		g.checkMember(g.members[i])
	}
}

// detach removes m from the group. It reports whether this call removed it, because drop and the group may race.
func (g *group) detach(m *member) bool {
	g.mu.Lock()
	ok := m.group.Load() == g
	if ok {
		g.unlink(m)
	}
	g.mu.Unlock()
	if ok {
		g.srv.groups.exit(g)
	}
	return ok
}

// unlink deletes m from members by moving the last member to its index. The caller holds g.mu.
func (g *group) unlink(m *member) {
	last := len(g.members) - 1
	g.members[m.index] = g.members[last]
	g.members[m.index].index = m.index
	g.members[last] = nil
	g.members = g.members[:last]
	m.group.Store(nil)
	g.srv.metrics.viewers.Dec()
}

// end ends all members with err. It does nothing when the group has ended because the last member left.
func (g *group) end(err error) {
	if g.ctx.Err() != nil {
		return
	}
	g.srv.groups.retire(g)
	presented := presentedError{g.srv.present(g.ctx, err)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failure = presented
	for len(g.members) > 0 {
		g.remove(g.members[0], presented)
	}
}
