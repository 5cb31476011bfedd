package project

import (
	"container/heap"
	"sync"
	"time"
)

// motions are the runs that are not idle: queued, being projected, or waiting
// until another message may go out or their last ones need no remembering.
type motions struct {
	window time.Duration
	burst  int
	most   int
	woken  chan struct{} // rings when a worker should look

	mu      sync.Mutex
	runs    map[string]*motion // at most most
	queue   []*motion          // queued, each once
	waiting waiting            // the first due first
}

type motion struct {
	runID string
	stage stage
	again bool // woken while busy or waiting: it is queued once more at the end
	pace  pace
	taken time.Time // of busy
	due   time.Time // of waiting
	place int       // in waiting
}

type stage int

const (
	queued stage = iota
	busy
	waits
)

func newMotions(window time.Duration, burst, most int) *motions {
	return &motions{window: window, burst: burst, most: most, woken: make(chan struct{}, 1), runs: map[string]*motion{}}
}

// wake queues a run as soon as its pace allows.
func (ms *motions) wake(now time.Time, runID string) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m := ms.runs[runID]
	switch {
	case m == nil:
		if len(ms.runs) < ms.most {
			m = &motion{runID: runID}
			ms.runs[runID] = m
			ms.enqueue(m)
		}
	case m.stage == busy:
		m.again = true
	case m.stage == waits && !m.again:
		heap.Remove(&ms.waiting, m.place)
		m.again = true
		ms.settle(now, m)
	}
}

func (ms *motions) enqueue(m *motion) {
	m.stage, m.again = queued, false
	ms.queue = append(ms.queue, m)
	ms.signal()
}

func (ms *motions) signal() {
	select {
	case ms.woken <- struct{}{}:
	default:
	}
}

// settle finds the place of a run that is neither queued nor busy.
func (ms *motions) settle(now time.Time, m *motion) {
	due := m.pace.over(ms.window)
	if m.again {
		due = m.pace.due(ms.window, ms.burst)
	}
	switch {
	case due.After(now):
		m.stage, m.due = waits, due
		if heap.Push(&ms.waiting, m); m.place == 0 {
			ms.signal() // whoever watches the clock waits for a later one
		}
	case m.again:
		ms.enqueue(m)
	default:
		delete(ms.runs, m.runID)
	}
}

// next takes at most n runs, or says when there will be one unless one is woken:
// the zero time for never.
func (ms *motions) next(now time.Time, n int) (taken []string, at time.Time) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for len(ms.waiting) > 0 && !ms.waiting[0].due.After(now) {
		ms.settle(now, heap.Pop(&ms.waiting).(*motion))
	}
	for len(ms.queue) > 0 && len(taken) < n {
		m := ms.queue[0]
		ms.queue[0] = nil
		ms.queue = ms.queue[1:]
		m.stage, m.taken = busy, now
		taken = append(taken, m.runID)
	}
	if len(taken) > 0 && len(ms.queue)+len(ms.waiting) > 0 {
		ms.signal() // another worker may help, or watch the clock
	}
	if len(ms.waiting) > 0 {
		at = ms.waiting[0].due
	}
	return taken, at
}

// finished says that a run that was taken was projected, and whether a message
// went out: it counts from when the run was taken, so that slow work adds no delay.
func (ms *motions) finished(now time.Time, runID string, sent bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m := ms.runs[runID]
	if sent {
		m.pace = m.pace.sent(m.taken, ms.window, ms.burst)
	}
	ms.settle(now, m)
}

// waiting is a heap.
type waiting []*motion

func (w waiting) Len() int           { return len(w) }
func (w waiting) Less(i, j int) bool { return w[i].due.Before(w[j].due) }

func (w waiting) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].place, w[j].place = i, j
}

func (w *waiting) Push(m any) {
	m.(*motion).place = len(*w)
	*w = append(*w, m.(*motion))
}

func (w *waiting) Pop() any {
	last := len(*w) - 1
	m := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	return m
}
