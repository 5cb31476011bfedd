package notifier_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/destination"
	"github.com/dvt-engine/dvt/store"
)

// stalling is a store whose answers to one process do not arrive while it is cut off.
type stalling struct {
	store.Store
	cut  atomic.Bool
	held atomic.Bool // a call waits
	back chan struct{}
}

func (s *stalling) AlertChanges(ctx context.Context, after int64, limit int) ([]store.AlertChange, error) {
	if s.cut.Load() {
		s.held.Store(true)
		<-s.back
	}
	return s.Store.AlertChanges(ctx, after, limit)
}

// A process that is cut off from the store for longer than its lease holds messages that another one has delivered
// meanwhile. When the store answers again it sends none of them, else old messages would come after newer ones.
func TestNotifier_AProcessThatWasCutOffSendsNothingOld(t *testing.T) {
	t.Parallel()
	f := newFixture(t, destination.Config{Name: "a", Kind: destination.Webhook})
	first, second := &receiver{}, f.receivers["a"]
	f.newSender = func(destination.Config) (destination.Sender, error) { return first, nil }
	far := &stalling{Store: f.store, back: make(chan struct{})}
	stop := f.start(far, "first")
	far.cut.Store(true)
	f.waitFor("the cut", far.held.Load)
	far.cut.Store(false)
	far.back <- struct{}{} // it reads once more, and is cut off with what it has read
	f.startRun("r", "acme", 3)
	far.held.Store(false)
	far.cut.Store(true)
	f.waitFor("the second cut", far.held.Load)
	sent := len(first.messages())
	f.newSender = func(destination.Config) (destination.Sender, error) { return second, nil }
	f.start(f.store, "second")
	f.waitFor("the delivery by the other process", func() bool { return len(second.messages())+sent >= 5 })
	far.cut.Store(false)
	close(far.back)
	time.Sleep(200 * time.Millisecond)
	stop()
	if n := len(first.messages()) - sent; n != 0 {
		t.Errorf("the process that was cut off sent %d messages after another one had, want 0", n)
	}
}
