package projector

import (
	"container/heap"
	"sync"
	"time"
)

// schedule holds the runs that are not idle: queued, being projected, or delayed by the rate limit or until the limit
// may forget them. Safe for concurrent use.
type schedule struct {
	window time.Duration
	burst  int
	limit  int
	signal chan struct{} // receives when a worker should look

	mu      sync.Mutex
	runs    map[string]*scheduledRun // at most limit runs
	size    int                      // payload bytes of all pending events
	queue   []*scheduledRun          // runs in stage queued, once each
	delayed dueHeap                  // earliest first
}

type scheduledRun struct {
	runID     string
	stage     stage
	wakeAgain bool          // woken while busy or delayed: it is queued again afterwards
	woken     time.Time     // first wake since it was taken
	pending   pendingEvents // events since it was taken
	pace      pace
	due       time.Time // in stage busy: when its message is due
	at        time.Time // in stage delayed: until when
	index     int       // in the heap of delayed runs
}

// dueRun is a run that was woken, with the events reported by its wakes.
type dueRun struct {
	runID   string
	woken   time.Time // time of the first wake
	pending pendingEvents
}

type stage int

const (
	stageQueued stage = iota
	stageBusy
	stageDelayed
)

func newSchedule(window time.Duration, burst, limit int) *schedule {
	return &schedule{window: window, burst: burst, limit: limit, signal: make(chan struct{}, 1),
		runs: map[string]*scheduledRun{}}
}

// wake queues a run as soon as its rate limit allows. With limit runs in the schedule it does nothing.
func (s *schedule) wake(now time.Time, runID string, n pendingEvents) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.runs[runID]
	if m == nil {
		if len(s.runs) >= s.limit {
			return
		}
		m = &scheduledRun{runID: runID, woken: now}
		s.runs[runID] = m
		s.enqueue(m)
	}
	s.addPending(m, n)
	if m.stage == stageQueued || m.wakeAgain {
		return
	}
	m.wakeAgain, m.woken = true, now
	if m.stage == stageDelayed {
		heap.Remove(&s.delayed, m.index)
		s.reschedule(now, m)
	}
}

// addPending adds reported events to a run. When the events of all runs exceed maxPendingBytes, the log of this run
// is read instead.
func (s *schedule) addPending(m *scheduledRun, n pendingEvents) {
	s.size -= m.pending.size
	if m.pending.add(n); s.size+m.pending.size > maxPendingBytes {
		m.pending = pendingEvents{mustRead: true}
	}
	s.size += m.pending.size
}

func (s *schedule) enqueue(m *scheduledRun) {
	m.stage, m.wakeAgain = stageQueued, false
	s.queue = append(s.queue, m)
	s.notify()
}

func (s *schedule) notify() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

// reschedule decides about a run that is neither queued nor busy: queue it, delay it, or forget it.
func (s *schedule) reschedule(now time.Time, m *scheduledRun) {
	at := m.pace.expiry(s.window)
	if m.wakeAgain {
		at = m.pace.allows(m.pace.due(m.woken, s.window, s.burst), s.window, s.burst)
	}
	switch {
	case at.After(now):
		m.stage, m.at = stageDelayed, at
		if heap.Push(&s.delayed, m); m.index == 0 {
			s.notify() // the worker that waits has a later time
		}
	case m.wakeAgain:
		s.enqueue(m)
	default:
		delete(s.runs, m.runID)
	}
}

// next takes at most n runs. at is the time when the next run becomes due without a wake; zero for never.
func (s *schedule) next(now time.Time, n int) (out []dueRun, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.delayed) > 0 && !s.delayed[0].at.After(now) {
		s.reschedule(now, heap.Pop(&s.delayed).(*scheduledRun))
	}
	for len(s.queue) > 0 && len(out) < n {
		m := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		m.stage, m.due = stageBusy, m.pace.due(m.woken, s.window, s.burst)
		out = append(out, dueRun{runID: m.runID, woken: m.woken, pending: m.pending})
		s.size -= m.pending.size
		m.pending = pendingEvents{}
	}
	if len(out) > 0 && len(s.queue)+len(s.delayed) > 0 {
		s.notify() // another worker may help, or wait for the next due time
	}
	if len(s.delayed) > 0 {
		at = s.delayed[0].at
	}
	return out, at
}

// finish records that a run was projected, and whether a message was sent. The message counts from the time when it
// was due, so that slow work adds no delay.
func (s *schedule) finish(now time.Time, runID string, sent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.runs[runID]
	if sent {
		m.pace = m.pace.add(m.due, s.window, s.burst)
	}
	s.reschedule(now, m)
}

// dueHeap implements heap.Interface, ordered by at.
type dueHeap []*scheduledRun

func (w dueHeap) Len() int           { return len(w) }
func (w dueHeap) Less(i, j int) bool { return w[i].at.Before(w[j].at) }

func (w dueHeap) Swap(i, j int) {
	w[i], w[j] = w[j], w[i]
	w[i].index, w[j].index = i, j
}

func (w *dueHeap) Push(m any) {
	m.(*scheduledRun).index = len(*w)
	*w = append(*w, m.(*scheduledRun))
}

func (w *dueHeap) Pop() any {
	last := len(*w) - 1
	m := (*w)[last]
	(*w)[last] = nil
	*w = (*w)[:last]
	return m
}
