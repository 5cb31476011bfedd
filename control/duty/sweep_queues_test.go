package duty_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// polledEngine is a sweptEngine that knows the pollers of its queues.
type polledEngine struct {
	*controltest.SweptEngine
	queues map[string]engine.QueuePollers // under the lock of sweptEngine
	calls  map[string]int
}

func (e *polledEngine) Pollers(_ context.Context, queue string) (engine.QueuePollers, error) {
	e.Mu.Lock()
	defer e.Mu.Unlock()
	e.calls[queue]++
	if e.Down {
		return engine.QueuePollers{}, engine.ErrUnavailable
	}
	return e.queues[queue], nil
}

// lockedBuffer is a log buffer that a test reads while others write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// polledWorld is a world in which a worker has just polled the data queue and a task waits there. Its clock moves only
// when a test advances it.
type polledWorld struct {
	*sweptWorld
	engine *polledEngine
	said   lockedBuffer
}

const dataQueue = "tq-data-dev"

func newPolledWorld(t *testing.T) *polledWorld {
	t.Helper()
	w := &polledWorld{}
	w.sweptWorld = newSweptWorld(t, func(c *usecases.Config) {
		w.engine = &polledEngine{SweptEngine: c.Engine.(*controltest.SweptEngine), queues: map[string]engine.QueuePollers{},
			calls: map[string]int{}}
		c.Engine, c.Logger = w.engine, slog.New(slog.NewTextHandler(&w.said, nil))
		c.Reconcile.StepSlack = 24 * time.Hour
	})
	w.Clock.Hold()
	t.Cleanup(w.Clock.Release)
	w.polled(1, 1)
	return w
}

// waits creates a run whose only step waits for a worker of the data queue.
func (w *polledWorld) waits(requestID string) (runID string) {
	w.T.Helper()
	return w.CreateRunningPlan(requestID, controltest.Document(controltest.M{"steps": []controltest.M{
		{"stepId": "s1", "type": "COMMAND", "inputs": controltest.M{"argv": []string{"true"}}, "timeout": "1m"},
	}}))
}

// polled sets the workers that polled the data queue just now and the number of waiting tasks.
func (w *polledWorld) polled(workers int, waiting int64) {
	now := w.Clock.Now()
	w.eye.Change(func() {
		w.engine.queues[dataQueue] = engine.QueuePollers{Count: workers, LastSeen: now, Waiting: waiting}
	})
}

// queueAlerts returns the alerts about queues.
func (w *polledWorld) queueAlerts() (out []store.AlertState) {
	w.T.Helper()
	for _, a := range w.alerts() {
		if a.Code == run.CodeNoWorker {
			out = append(out, a)
		}
	}
	return out
}

func (w *polledWorld) expectNoAlert(when string) {
	w.T.Helper()
	w.looksOn()
	if got := w.queueAlerts(); len(got) != 0 {
		w.T.Fatalf("%s there are the alerts %+v, want none", when, got)
	}
}

func (w *polledWorld) expectAlerts(n int) []store.AlertState {
	w.T.Helper()
	controltest.Eventually(w.T, "alerts about queues", func() bool { return len(w.queueAlerts()) >= n })
	w.looksOn()
	got := w.queueAlerts()
	if len(got) != n {
		w.T.Fatalf("%d alerts, want %d: %+v", len(got), n, got)
	}
	return got
}

func TestReconcile_AnUnservedQueueRaisesOneAlert(t *testing.T) {
	t.Parallel()
	w := newPolledWorld(t)
	ids := []string{w.waits("r1"), w.waits("r2")}
	w.sweep()
	w.sweep() // another server
	w.expectNoAlert("while a worker asks for work")
	w.Clock.Advance(4 * time.Minute)
	w.expectNoAlert("after 4 minutes")
	w.Clock.Advance(time.Minute + time.Second)
	a := w.expectAlerts(1)[0]
	if a.RunID != ids[0] && a.RunID != ids[1] || a.StepID != "s1" || a.Level != store.AlertHigh ||
		!strings.Contains(a.Note, dataQueue) {
		t.Errorf("the alert is %+v, want a HIGH one about step s1 that names the queue", a)
	}
	w.counted("no_worker", "", 1)
	if n := w.said.count(`level=ERROR msg="an alert was raised"`); n != 1 {
		t.Errorf("%d lines of the log say that the alert was raised, want 1 of both servers", n)
	}
	w.Clock.Advance(time.Hour)
	w.expectAlerts(1)
	w.polled(1, 1) // a worker is back
	w.Clock.Advance(16 * time.Second)
	w.counted("no_worker", "", 0)
	controltest.Eventually(t, "the alert is resolved", func() bool { return w.queueAlerts()[0].ResolvedAt != nil })
	w.looksOn()
	if n := w.said.count(`level=INFO msg="an alert is resolved"`); n != 1 {
		t.Errorf("%d lines of the log say that workers are back, want 1 of both servers", n)
	}
	w.Clock.Advance(6 * time.Minute) // the worker ends again
	w.expectAlerts(2)
}

// A worker whose slots are all taken does not poll.
func TestReconcile_ABusyWorkerRaisesNoAlert(t *testing.T) {
	t.Parallel()
	w := newPolledWorld(t)
	busy := w.waits("r1")
	w.BeginStep(busy, "s1", 1)
	w.waits("r2")
	controltest.Eventually(t, "the checkpoint", func() bool {
		for _, q := range controltest.Must[[]store.QuietRun](t)(w.Raw.ListQuietRuns(t.Context(), 0, "", 10)) {
			if q.RunID == busy {
				return len(q.Running) == 1
			}
		}
		return false
	})
	beats := func() {
		beat := w.Clock.Now()
		w.eye.Change(func() {
			w.eye.Pending[busy] = []engine.Pending{{ID: "s1/1.1", State: "Started", LastHeartbeat: &beat}}
		})
	}
	w.sweep()
	for range 4 {
		w.Clock.Advance(3 * time.Minute)
		beats()
		w.expectNoAlert("while a worker works")
	}
	w.Clock.Advance(11 * time.Minute) // the worker and its steps are gone
	w.expectAlerts(1)
}

func TestReconcile_AQueueWithoutTasksRaisesNoAlert(t *testing.T) {
	t.Parallel()
	w := newPolledWorld(t)
	w.waits("r1")
	w.polled(0, 0)
	w.sweep()
	w.Clock.Advance(time.Hour)
	w.expectNoAlert("while nothing waits")
}

func TestPollers_TheEngineIsCalledOnceForAllViews(t *testing.T) {
	t.Parallel()
	w := newPolledWorld(t)
	w.waits("r1")
	w.waits("r2")
	seen := w.Clock.Now()
	w.sweep()
	w.looksOn()
	for range 100 {
		if at := w.PollerSeen(t.Context(), dataQueue); at == nil || !at.Equal(seen) {
			t.Fatalf("a worker was seen at %v, want %v", at, seen)
		}
		if at := w.PollerSeen(t.Context(), "tq-nobody"); at != nil {
			t.Fatalf("a worker of a queue that nobody serves was seen at %v", at)
		}
	}
	w.eye.Change(func() {
		for queue, n := range w.engine.calls {
			if n != 1 {
				t.Errorf("the engine was called %d times about %s, want once", n, queue)
			}
		}
		w.engine.queues[dataQueue] = engine.QueuePollers{Waiting: 1} // the engine forgets
	})
	w.Clock.Advance(10 * time.Minute)
	if at := w.PollerSeen(t.Context(), dataQueue); at == nil || !at.Equal(seen) {
		t.Errorf("a worker was seen at %v once the engine forgot it, want %v", at, seen)
	}
	w.eye.Change(func() { w.eye.Down = true })
	w.Clock.Advance(time.Minute)
	if at := w.PollerSeen(t.Context(), dataQueue); at == nil || !at.Equal(seen) {
		t.Errorf("a worker was seen at %v while the engine is down, want %v", at, seen)
	}
}
