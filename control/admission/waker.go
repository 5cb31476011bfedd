package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/live"
)

// Waker tells reconcilers, wherever they are, that there may be something to start. A word
// that is lost costs time until they look by themselves.
type Waker struct {
	bus         live.Bus // nil: nobody is told
	Dispatchers atomic.Int32
	telling     atomic.Int64 // words since the last one that was sent
	Starts      chan struct{}
}

// NewWaker makes a Waker; a nil bus tells this process only.
func NewWaker(bus live.Bus) *Waker { return &Waker{bus: bus, Starts: make(chan struct{}, 1)} }

// placesList is the list on which that is told: no run stands in it.
func placesList() live.List { return live.List{} }

// tellTime bounds one word.
const tellTime = 2 * time.Second

// tell never blocks. Words that come while one is sent are one more.
func (p *Waker) tell() {
	if p.bus == nil || p.telling.Add(1) > 1 {
		return
	}
	go func() {
		for said := p.telling.Load(); ; said = p.telling.Load() {
			ctx, cancel := context.WithTimeout(context.Background(), tellTime)
			_ = p.bus.WakeLists(ctx, placesList()) // who is not told looks later
			cancel()
			if p.telling.CompareAndSwap(said, 0) {
				return
			}
		}
	}()
}

// Up reports whether words arrive.
func (p *Waker) Up() bool { return p.bus != nil && p.bus.Up() }

// Listen wakes c at each word until the returned function is called.
func (p *Waker) Listen(c chan struct{}) (stop func()) {
	if p.bus == nil {
		return func() {}
	}
	list := placesList()
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

// WakeDispatchers has the queue looked at now: by this server, or by another one that has the duty.
func (p *Waker) WakeDispatchers() {
	control.Wake(p.Starts)
	if p.Dispatchers.Load() == 0 {
		p.tell()
	}
}

// WakeAfter has the queue looked at when d has passed.
func (p *Waker) WakeAfter(d time.Duration) {
	time.AfterFunc(d+time.Millisecond, p.WakeDispatchers)
}

// SlotNotifier returns a function that tells the reconcilers of all servers on the bus that a slot is free. The
// function does not block, and a lost message only delays the next start: reconcilers also look by themselves.
func SlotNotifier(bus live.Bus) (notify func()) {
	return (&Waker{bus: bus}).tell
}
