package health

import (
	"context"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
)

// Limits on the cached poller information.
const (
	MaxQueues   = 1000
	pollersLife = 15 * time.Second // how long an answer of the engine is reused
	pollersWait = time.Second      // how long a caller waits for an answer
)

// Pollers caches the pollers of each queue. Views and sweeps together ask the engine about a queue at most once in
// pollersLife. It is safe for concurrent use.
type Pollers struct {
	engine engine.Pollers // nil when the engine cannot describe pollers
	now    func() time.Time
	queues *lru.Cache[string, *watchedQueue]
}

type watchedQueue struct {
	mu    sync.Mutex // held while the engine is asked
	asked time.Time
	known bool // the engine has answered once
	QueueSight
}

// QueueSight is the known state of a queue.
type QueueSight struct {
	engine.QueuePollers           // LastSeen never decreases, although engines forget
	Since               time.Time // when this process first looked at the queue
}

// NewPollers returns the cache for e. If e does not implement engine.Pollers, Look always returns false.
func NewPollers(e engine.Engine, now func() time.Time) *Pollers {
	pollers, _ := e.(engine.Pollers)
	return &Pollers{engine: pollers, now: now, queues: control.NewLRU[*watchedQueue](MaxQueues)}
}

// Look returns the known state of a queue; false while the engine has never answered. It asks the engine only when the
// last question is older than pollersLife, and waits for at most pollersWait.
func (w *Pollers) Look(ctx context.Context, queue string) (QueueSight, bool) {
	if w.engine == nil {
		return QueueSight{}, false
	}
	q, ok := w.queues.Get(queue)
	if !ok {
		q = &watchedQueue{QueueSight: QueueSight{Since: w.now()}}
		if other, there, _ := w.queues.PeekOrAdd(queue, q); there {
			q = other
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := w.now(); q.asked.IsZero() || now.Sub(q.asked) >= pollersLife {
		q.asked = now // set even if the call fails, so that views do not flood an engine that is down
		ctx, cancel := context.WithTimeout(ctx, pollersWait)
		defer cancel()
		if p, err := w.engine.Pollers(ctx, queue); err == nil {
			if p.LastSeen.Before(q.LastSeen) {
				p.LastSeen = q.LastSeen
			}
			q.QueuePollers, q.known = p, true
		}
	}
	return q.QueueSight, q.known
}

// PollerSeen returns when a worker last polled a queue, or nil when no poll is known. The answer is cached for up to 15
// s.
func (w *Pollers) PollerSeen(ctx context.Context, queue string) *time.Time {
	sight, ok := w.Look(ctx, queue)
	if !ok || sight.LastSeen.IsZero() {
		return nil
	}
	return &sight.LastSeen
}

// Backlog returns the number of tasks that wait in a queue; false while the engine has never answered. The answer is
// cached for up to 15 s.
func (w *Pollers) Backlog(ctx context.Context, queue string) (waiting int64, known bool) {
	sight, ok := w.Look(ctx, queue)
	return sight.Waiting, ok
}
