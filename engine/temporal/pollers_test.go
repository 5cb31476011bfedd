package temporal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testtime"
)

func TestPollers_CountWorkersAndWaitingTasks(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: -1})
	ask := func(queue string) (workers int, seen time.Time, waiting int64) {
		p, err := h.engine.Pollers(t.Context(), queue)
		for tries := 0; errors.Is(err, engine.ErrUnavailable) && tries < 10; tries++ { // Temporal is slow to make a queue
			p, err = h.engine.Pollers(t.Context(), queue)
		}
		must(t, err)
		return p.Count, p.LastSeen, p.Waiting
	}
	if n, seen, waiting := ask(h.queues.Data); n != 0 || !seen.IsZero() || waiting != 0 {
		t.Errorf("an unused queue has %d workers, last seen at %s, and %d tasks; want none", n, seen, waiting)
	}
	stop := h.serve(temporal.WorkerConfig{Control: []string{h.queues.Control}})
	id := h.start(document(0, step{id: "s1"}, step{id: "s2", extra: https}, step{id: "s3", extra: dbts}))
	reaches(t, "three tasks wait in the data queue", func() bool {
		n, _, waiting := ask(h.queues.Data)
		return n == 0 && waiting == 3
	})
	reaches(t, "the control queue has a worker", func() bool {
		n, seen, _ := ask(h.queues.Control)
		return n == 1 && time.Since(seen) < time.Minute
	})
	h.serve(temporal.WorkerConfig{Data: []string{h.queues.Data}})
	h.waitForEnd(id)
	reaches(t, "the data queue has a worker and nothing waits", func() bool {
		n, _,
			waiting := ask(h.queues.Data)
		return n == 1 && waiting == 0
	})
	stop()
}

// reaches waits for a condition for at most 40 s.
func reaches(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Since(began) > testtime.Of(time.Minute) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
