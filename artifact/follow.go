package artifact

import (
	"context"
	"sync"
)

// followers are the channels to wake, by attempt. Safe for concurrent use.
type followers struct {
	mu   sync.Mutex
	byID map[AttemptID]*audience
}

type audience struct {
	wakes map[chan struct{}]struct{}
	stop  context.CancelFunc
}

// add registers wake. If it is the first follower of its attempt, add returns the context for the attempt's watcher,
// else nil.
func (f *followers) add(id AttemptID, wake chan struct{}) context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	if a, ok := f.byID[id]; ok {
		a.wakes[wake] = struct{}{}
		wake <- struct{}{} // its slot is empty; the watcher has already looked once
		return nil
	}
	if f.byID == nil {
		f.byID = map[AttemptID]*audience{}
	}
	ctx, stop := context.WithCancel(context.Background())
	f.byID[id] = &audience{wakes: map[chan struct{}]struct{}{wake: {}}, stop: stop}
	return ctx
}

func (f *followers) remove(id AttemptID, wake chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.byID[id]
	delete(a.wakes, wake)
	close(wake)
	if len(a.wakes) == 0 {
		a.stop()
		delete(f.byID, id)
	}
}

func (f *followers) wake(id AttemptID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a, ok := f.byID[id]
	if !ok {
		return
	}
	for w := range a.wakes {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}
