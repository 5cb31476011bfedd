package projector

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/live"
)

// SettleDelay is the time between a change of a PublishGate for readers and the same change for the publisher. It is
// longer than all processes need to learn of the change, so that no reader waits for messages that another process
// has stopped to send.
const SettleDelay = 3 * time.Second

// errHeld means that publication is halted (contract T169).
var errHeld = errors.New("projector: publication is halted")

// PublishGate halts publication and tells the readers (contract T169). After Hold the readers see a bus that is down
// and read the store. SettleDelay later the publisher sees it down, too: messages wait as in an outage, none is lost
// or counted as refused, and checkpoints continue. After Release the publisher starts at once and the readers follow
// after SettleDelay. Safe for concurrent use.
type PublishGate struct {
	bus   live.Bus
	now   func() time.Time
	state atomic.Pointer[gateState]
}

type gateState struct {
	held  bool
	since time.Time // zero: since the start of the process
}

// NewPublishGate makes a gate that is open.
func NewPublishGate(bus live.Bus) *PublishGate {
	g := &PublishGate{bus: bus, now: time.Now}
	g.state.Store(&gateState{})
	return g
}

// Hold halts publication. It does not wait; repeated calls change nothing.
func (g *PublishGate) Hold() { g.set(true) }

// Release resumes publication. It does not wait; repeated calls change nothing.
func (g *PublishGate) Release() { g.set(false) }

func (g *PublishGate) set(held bool) {
	if g.state.Load().held != held {
		g.state.Store(&gateState{held: held, since: g.now()})
	}
}

// isSettled reports whether SettleDelay has passed since the last change.
func (a *gateState) isSettled(now time.Time) bool { return now.Sub(a.since) >= SettleDelay }

// Publisher returns the bus for the projector.
func (g *PublishGate) Publisher() live.Bus { return publisher{g.bus, g} }

// Readers returns the bus for hubs.
func (g *PublishGate) Readers() live.Bus { return readers{g.bus, g} }

type publisher struct {
	live.Bus
	gate *PublishGate
}

func (p publisher) isHeld() bool {
	at := p.gate.state.Load()
	return at.held && at.isSettled(p.gate.now())
}

// Publish implements live.Bus.
func (p publisher) Publish(ctx context.Context, m live.Message) error {
	if p.isHeld() {
		return errHeld
	}
	return p.Bus.Publish(ctx, m)
}

// WakeLists implements live.Bus.
func (p publisher) WakeLists(ctx context.Context, lists ...live.List) error {
	if p.isHeld() {
		return errHeld
	}
	return p.Bus.WakeLists(ctx, lists...)
}

// Up implements live.Bus.
func (p publisher) Up() bool { return !p.isHeld() && p.Bus.Up() }

type readers struct {
	live.Bus
	gate *PublishGate
}

// Up implements live.Bus.
func (r readers) Up() bool {
	at := r.gate.state.Load()
	return !at.held && at.isSettled(r.gate.now()) && r.Bus.Up()
}
