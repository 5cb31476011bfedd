package projector

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
	size    int                // of all news
	queue   []*motion          // queued, each once
	waiting waiting            // the first due first
}

type motion struct {
	runID string
	stage stage
	again bool      // woken while busy or waiting: it is queued once more at the end
	woken time.Time // first, since it was taken
	news  news      // since it was taken
	pace  pace
	due   time.Time // of busy: its message
	at    time.Time // of waiting: until then
	place int       // in waiting
}

// taken is a run that was woken, and what its wakes said.
type taken struct {
	runID string
	woken time.Time // by the first of them
	news  news
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
func (ms *motions) wake(now time.Time, runID string, n news) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m := ms.runs[runID]
	if m == nil {
		if len(ms.runs) >= ms.most {
			return
		}
		m = &motion{runID: runID, woken: now}
		ms.runs[runID] = m
		ms.enqueue(m)
	}
	ms.tell(m, n)
	if m.stage == queued || m.again {
		return
	}
	m.again, m.woken = true, now
	if m.stage == waits {
		heap.Remove(&ms.waiting, m.place)
		ms.settle(now, m)
	}
}

// tell adds to the news of a run. When there are too many of all runs, this one's
// log is read.
func (ms *motions) tell(m *motion, n news) {
	ms.size -= m.news.size
	if m.news.add(n); ms.size+m.news.size > maxNewsSize {
		m.news = news{read: true}
	}
	ms.size += m.news.size
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
	at := m.pace.over(ms.window)
	if m.again {
		at = m.pace.allows(m.pace.due(m.woken, ms.window, ms.burst), ms.window, ms.burst)
	}
	switch {
	case at.After(now):
		m.stage, m.at = waits, at
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
func (ms *motions) next(now time.Time, n int) (out []taken, at time.Time) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for len(ms.waiting) > 0 && !ms.waiting[0].at.After(now) {
		ms.settle(now, heap.Pop(&ms.waiting).(*motion))
	}
	for len(ms.queue) > 0 && len(out) < n {
		m := ms.queue[0]
		ms.queue[0] = nil
		ms.queue = ms.queue[1:]
		m.stage, m.due = busy, m.pace.due(m.woken, ms.window, ms.burst)
		out = append(out, taken{runID: m.runID, woken: m.woken, news: m.news})
		ms.size -= m.news.size
		m.news = news{}
	}
	if len(out) > 0 && len(ms.queue)+len(ms.waiting) > 0 {
		ms.signal() // another worker may help, or watch the clock
	}
	if len(ms.waiting) > 0 {
		at = ms.waiting[0].at
	}
	return out, at
}

// finished says that a run that was taken was projected, and whether a message
// went out: it counts from when it was due, so that slow work adds no delay.
func (ms *motions) finished(now time.Time, runID string, sent bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m := ms.runs[runID]
	if sent {
		m.pace = m.pace.sent(m.due, ms.window, ms.burst)
	}
	ms.settle(now, m)
}

// waiting is a heap.
type waiting []*motion

func (w waiting) Len() int           { return len(w) }
func (w waiting) Less(i, j int) bool { return w[i].at.Before(w[j].at) }

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
