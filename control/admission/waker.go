package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/live"
)

// Waker notifies the dispatchers of all processes that a run may be ready to start. Best effort: dispatchers also poll.
type Waker struct {
	bus         live.Bus // nil: other processes are not notified
	Dispatchers atomic.Int32
	unsent      atomic.Int64 // notifications since the last one that was sent
	Starts      chan struct{}
}

// NewWaker makes a Waker. With a nil bus it notifies this process only.
func NewWaker(bus live.Bus) *Waker { return &Waker{bus: bus, Starts: make(chan struct{}, 1)} }

// wakeList returns the list on whose channel the notifications travel. No run is in it.
func wakeList() live.List { return live.List{} }

// notifyTimeout bounds the time of one notification.
const notifyTimeout = 2 * time.Second

// notify notifies the other processes without blocking. Calls during a notification cause one more.
func (p *Waker) notify() {
	if p.bus == nil || p.unsent.Add(1) > 1 {
		return
	}
	go func() {
		for said := p.unsent.Load(); ; said = p.unsent.Load() {
			ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
			_ = p.bus.WakeLists(ctx, wakeList()) // a process that misses it polls
			cancel()
			if p.unsent.CompareAndSwap(said, 0) {
				return
			}
		}
	}()
}

// Up reports whether notifications of other processes arrive.
func (p *Waker) Up() bool { return p.bus != nil && p.bus.Up() }

// Listen wakes c at each notification until stop is called.
func (p *Waker) Listen(c chan struct{}) (stop func()) {
	if p.bus == nil {
		return func() {}
	}
	list := wakeList()
	sub := p.bus.SubscribeList(list.TenantID, list.ProjectID)
	done := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-sub.C():
				control.Wake(c)
			}
		}
	})
	return func() {
		close(done)
		group.Wait()
		sub.Close()
	}
}

// WakeDispatchers makes a dispatcher look at the queue now: in this process, or else in another one.
func (p *Waker) WakeDispatchers() {
	control.Wake(p.Starts)
	if p.Dispatchers.Load() == 0 {
		p.notify()
	}
}

// WakeAfter calls WakeDispatchers when d has passed.
func (p *Waker) WakeAfter(d time.Duration) {
	time.AfterFunc(d+time.Millisecond, p.WakeDispatchers)
}

// SlotNotifier returns a function that notifies the dispatchers of all servers on the bus that a slot is free. The
// function does not block. A lost notification only delays the next start, because dispatchers also poll.
func SlotNotifier(bus live.Bus) (notify func()) {
	return (&Waker{bus: bus}).notify
}
