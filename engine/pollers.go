package engine

import (
	"context"
	"time"
)

// Pollers is an Engine that knows who serves its task queues. Nothing is decided on it but whom to tell.
type Pollers interface {
	// Pollers describes the workers of one queue, which may be one that nobody ever served. Each call is a question to
	// the engine: callers remember the answer. ErrUnavailable.
	Pollers(ctx context.Context, queue string) (QueuePollers, error)
}

// QueuePollers is who serves a task queue. A worker whose slots are all taken asks for nothing, so that silence alone
// does not say that there is no worker.
type QueuePollers struct {
	Count    int       // workers that asked for work in the last minutes, by the engine's memory
	LastSeen time.Time // when one did last, by the engine's clock; zero: the engine remembers none
	Waiting  int64     // tasks that no worker has taken, about
}
