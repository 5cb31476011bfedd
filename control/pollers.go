package control

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dvt-engine/dvt/engine"
)

// Bounds of what this process remembers of queues.
const (
	maxQueues   = 1000
	pollersLife = 15 * time.Second // of an answer of the engine
	pollersWait = time.Second      // for one
)

// queueWatch remembers who serves which queue, so that views and sweeps ask the engine about a queue once in
// pollersLife, however many they are. It is safe for concurrent use.
type queueWatch struct {
	engine engine.Pollers // nil: nothing is known of any queue
	now    func() time.Time
	queues *lru.Cache[string, *watchedQueue]
}

type watchedQueue struct {
	mu    sync.Mutex // held while the engine is asked
	asked time.Time
	known bool // the engine has answered once
	queueSight
}

// queueSight is what is known of a queue.
type queueSight struct {
	engine.QueuePollers           // LastSeen never goes back, although engines forget
	Since               time.Time // of the first look of this process
}

func newQueueWatch(e engine.Engine, now func() time.Time) *queueWatch {
	pollers, _ := e.(engine.Pollers)
	return &queueWatch{engine: pollers, now: now, queues: kept[*watchedQueue](maxQueues)}
}

// look says what is known of a queue; false while the engine has not answered. It waits for the engine for at most
// pollersWait, and only when the last answer is old.
func (w *queueWatch) look(ctx context.Context, queue string) (queueSight, bool) {
	if w.engine == nil {
		return queueSight{}, false
	}
	q, ok := w.queues.Get(queue)
	if !ok {
		q = &watchedQueue{queueSight: queueSight{Since: w.now()}}
		if other, there, _ := w.queues.PeekOrAdd(queue, q); there {
			q = other
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := w.now(); q.asked.IsZero() || now.Sub(q.asked) >= pollersLife {
		q.asked = now // also where there is no answer: an engine that is down is not asked for each view
		ctx, cancel := context.WithTimeout(ctx, pollersWait)
		defer cancel()
		if p, err := w.engine.Pollers(ctx, queue); err == nil {
			if p.LastSeen.Before(q.LastSeen) {
				p.LastSeen = q.LastSeen
			}
			q.QueuePollers, q.known = p, true
		}
	}
	return q.queueSight, q.known
}

// PollerSeen is when a worker last asked a queue for work; nil when none is known to have. It is at most 15 s old.
func (s *Service) PollerSeen(ctx context.Context, queue string) *time.Time {
	sight, ok := s.queues.look(ctx, queue)
	if !ok || sight.LastSeen.IsZero() {
		return nil
	}
	return &sight.LastSeen
}
