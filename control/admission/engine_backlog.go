package admission

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dvt-engine/dvt/plan"
)

// Limits of the backlog of the engine's queues. A queue that no start has used for queueUsedFor is not measured.
const (
	maxBacklogQueues = 200
	queueUsedFor     = time.Hour
)

// Backlogs returns the number of tasks that wait in a queue of the engine, and false while the engine has not answered.
type Backlogs func(ctx context.Context, queue string) (waiting int64, known bool)

// engineBacklog measures the queues of the engine that runs were started on.
type engineBacklog struct {
	exact, conventional *prometheus.GaugeVec
	used                *usedQueues
}

// usedQueues are the queues to measure, and when a start used them last.
type usedQueues struct {
	mu sync.Mutex
	at map[usedQueue]time.Time
}

// usedQueue is a queue of an engine.
type usedQueue struct{ adapter, name string }

func newEngineBacklog(r prometheus.Registerer) engineBacklog {
	register := promauto.With(r)
	gauge := func(name, queue string) *prometheus.GaugeVec {
		return register.NewGaugeVec(prometheus.GaugeOpts{Name: name,
			Help: "Tasks that wait in a queue of the engine, every 10 s, of queues that a run used within an hour."},
			[]string{"adapter", queue})
	}
	return engineBacklog{exact: gauge("engine_queue_depth", "taskQueue"),
		conventional: gauge("engine_queue_backlog", "task_queue"), used: &usedQueues{at: map[usedQueue]time.Time{}}}
}

// NoteQueues records the queues of a run that an engine has started, so that their backlog is measured.
func (m *Metrics) NoteQueues(adapter string, q plan.Queues, now time.Time) {
	u := m.backlog.used
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range q.Names() {
		queue := usedQueue{adapter, name}
		if _, known := u.at[queue]; known || len(u.at) < maxBacklogQueues {
			u.at[queue] = now
		}
	}
}

// recent returns the queues that were used within queueUsedFor, and forgets the others.
func (u *usedQueues) recent(now time.Time) (recent, forgotten []usedQueue) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for queue, at := range u.at {
		if now.Sub(at) <= queueUsedFor {
			recent = append(recent, queue)
			continue
		}
		forgotten = append(forgotten, queue)
		delete(u.at, queue)
	}
	return recent, forgotten
}

// measure asks for the backlog of each queue.
func (b engineBacklog) measure(ctx context.Context, ask Backlogs, now time.Time) {
	recent, forgotten := b.used.recent(now)
	for _, queue := range forgotten {
		b.exact.DeleteLabelValues(queue.adapter, queue.name)
		b.conventional.DeleteLabelValues(queue.adapter, queue.name)
	}
	for _, queue := range recent {
		if waiting, known := ask(ctx, queue.name); known {
			b.exact.WithLabelValues(queue.adapter, queue.name).Set(float64(waiting))
			b.conventional.WithLabelValues(queue.adapter, queue.name).Set(float64(waiting))
		}
	}
}
