package engine

import (
	"context"
	"time"
)

// Pollers is an Engine that knows the pollers of its task queues. Only notifications may depend on it.
type Pollers interface {
	// Pollers describes the workers of one queue, which may never have had one. Each call queries the engine, so callers
	// should cache the answer. Errors: ErrUnavailable.
	Pollers(ctx context.Context, queue string) (QueuePollers, error)
}

// QueuePollers describes the workers of a task queue. A worker without free slots does not poll, so that silence does
// not prove that there is no worker.
type QueuePollers struct {
	Count    int       // workers that polled in the last minutes, as far as the engine remembers
	LastSeen time.Time // the last poll by the engine's clock; zero if the engine remembers none
	Waiting  int64     // approximate number of tasks that no worker has taken
}
