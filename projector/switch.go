package projector

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/live"
)

// Settle is how long after Shut the two sides of a Switch stay apart: longer than it takes
// until every process knows of it, so that nobody waits for a message that another
// process does not send any more.
const Settle = 3 * time.Second

// errShut says that publication is halted (T169).
var errShut = errors.New("project: publication is halted")

// Switch halts publication and says so to those who read (T169). Shut, readers are told
// first that the bus is down, and so read the store; Settle later the publisher finds
// it down, too: messages wait as in an outage, none is lost or counted against, and
// checkpoints go on. Opened, it is the other way round.
type Switch struct {
	bus live.Bus
	now func() time.Time
	at  atomic.Pointer[shutAt]
}

type shutAt struct {
	shut  bool
	since time.Time // zero: since the process began
}

// NewSwitch makes an open one.
func NewSwitch(bus live.Bus) *Switch {
	s := &Switch{bus: bus, now: time.Now}
	s.at.Store(&shutAt{})
	return s
}

// Shut shuts it or opens it again.
func (s *Switch) Shut(shut bool) {
	was := s.at.Load()
	if was.shut != shut {
		s.at.Store(&shutAt{shut: shut, since: s.now()})
	}
}

// settled reports whether the last change is long ago.
func (a *shutAt) settled(now time.Time) bool { return now.Sub(a.since) >= Settle }

// Publisher is the bus as a projector is to see it.
func (s *Switch) Publisher() live.Bus { return publisher{s.bus, s} }

// Readers is the bus as those who watch runs are to see it.
func (s *Switch) Readers() live.Bus { return readers{s.bus, s} }

type publisher struct {
	live.Bus
	s *Switch
}

func (p publisher) halted() bool {
	at := p.s.at.Load()
	return at.shut && at.settled(p.s.now())
}

// Publish implements live.Bus.
func (p publisher) Publish(ctx context.Context, m live.Message) error {
	if p.halted() {
		return errShut
	}
	return p.Bus.Publish(ctx, m)
}

// WakeLists implements live.Bus.
func (p publisher) WakeLists(ctx context.Context, lists ...live.List) error {
	if p.halted() {
		return errShut
	}
	return p.Bus.WakeLists(ctx, lists...)
}

// Up implements live.Bus.
func (p publisher) Up() bool { return !p.halted() && p.Bus.Up() }

type readers struct {
	live.Bus
	s *Switch
}

// Up implements live.Bus.
func (r readers) Up() bool {
	at := r.s.at.Load()
	return !at.shut && at.settled(r.s.now()) && r.Bus.Up()
}
