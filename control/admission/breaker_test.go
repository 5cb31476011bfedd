package admission_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// slowly makes each start take d.
func (w *world) slowly(d time.Duration) {
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnStart = func(run.Identity) error {
			w.Clock.Advance(d)
			return nil
		}
	})
}

// contract: H02, T135
func TestBreaker_OpensOnSlowStartsAndAProbeClosesIt(t *testing.T) {
	t.Parallel()
	w := operated(t)
	ctx := t.Context()
	w.Clock.Hold() // no probe is due unless the test advances the clock
	var ids []string
	for i := range 4 {
		ids = append(ids, w.CreateQueued(fmt.Sprintf("r%d", i), "s1"))
	}
	w.slowly(6 * time.Second)
	w.SpawnDispatcher()
	w.handedOver(ids...)
	if s := controltest.Must[admission.ServiceState](t)(w.ServiceState(ctx, w.Engineer())); s.Degraded {
		t.Error("four samples opened the breaker, want at least five")
	}
	stream := controltest.Must[control.Stream[admission.ServiceState]](t)(w.WatchService(ctx, w.Engineer()))
	controltest.TakeFrame(t, stream, "the state as it is", func(s admission.ServiceState) bool { return !s.Degraded })
	w.CreateQueued("r5", "s1")
	controltest.TakeFrame(t, stream, "that it is slow", func(s admission.ServiceState) bool { return s.Degraded })
	controltest.Eventually(t, "it opens", func() bool {
		return controltest.Must[admission.ServiceState](t)(w.ServiceState(ctx,
			w.Engineer())).Degraded
	})
	e := controltest.Refusal(t, w.start(w.Engineer(), "r6"), run.CodeEngineDegraded)
	if e.RetryAfter < time.Second || e.RetryAfter > 5*time.Second {
		t.Errorf("RetryAfter is %s, want 1 to 5 s", e.RetryAfter)
	}
	controltest.Eventually(t, "the row of the operators", func() bool {
		return w.HasAuditRow("acme",
			"dvt BREAKER OPENED ENGINE_DEGRADED")
	})
	// No run waits in the queue, so a call to the engine is the probe.
	w.Clock.Advance(5 * time.Second)
	controltest.Eventually(t, "it closes", func() bool {
		return !controltest.Must[admission.ServiceState](t)(
			w.ServiceState(ctx, w.Engineer())).Degraded
	})
	controltest.Eventually(t, "the row of the operators", func() bool {
		return w.HasAuditRow("acme",
			"dvt BREAKER CLOSED")
	})
	w.slowly(0)
	if err := w.start(w.Engineer(), "r7"); err != nil {
		t.Error(err)
	}
}

// contract: T135, R411
func TestBreaker_FailuresCountAndTheQueueIsProbedOneByOne(t *testing.T) {
	t.Parallel()
	w := operated(t)
	ctx := t.Context()
	w.Clock.Hold() // no retry and no probe is due unless the test advances the clock
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnStart = func(run.Identity) error { return engine.ErrUnavailable }
		e.DescribeError = errors.New("down")
	})
	var ids []string
	for i := range 6 {
		ids = append(ids, w.CreateQueued(fmt.Sprintf("r%d", i), "s1"))
	}
	w.SpawnDispatcher()
	degraded := func() bool {
		return controltest.Must[admission.ServiceState](t)(w.ServiceState(ctx, w.Engineer())).Degraded
	}
	controltest.Eventually(t, "it opens", degraded)
	if e := controltest.Refusal(t, w.start(w.Engineer(), "late"), run.CodeEngineDegraded); !strings.Contains(e.Message,
		"does not answer") {
		t.Errorf("the refusal says %q, want that the engine does not answer", e.Message)
	}
	total := func() (n int) {
		for _, id := range ids {
			n += w.Engine.StartsOf(id)
		}
		return n
	}
	controltest.Eventually(t, "all were tried", func() bool { return total() >= 6 })
	before := total()
	time.Sleep(700 * time.Millisecond)
	if n := total(); n != before {
		t.Errorf("%d runs were started while the breaker was open, want none", n-before)
	}
	w.Clock.Advance(31 * time.Second) // past every pause of a failed start
	controltest.Eventually(t, "one probe", func() bool { return total() == before+1 })
	time.Sleep(700 * time.Millisecond)
	if n := total(); n != before+1 || !degraded() {
		t.Errorf("%d probes were made, want one, and the breaker still open", n-before)
	}
	retry := func() time.Duration {
		return controltest.Refusal(t, w.start(w.Engineer(), "later"), run.CodeEngineDegraded).RetryAfter
	}
	if after := retry(); after != 31*time.Second {
		t.Errorf("31 s after the breaker opened RetryAfter is %s, want the same 31 s", after)
	}
	w.Clock.Advance(5 * time.Minute)
	if after := retry(); after != time.Minute {
		t.Errorf("minutes after the breaker opened RetryAfter is %s, want the limit of 1 min", after)
	}
	w.Engine.Set(func(e *controltest.FakeEngine) { e.OnStart, e.DescribeError = nil, nil })
	w.Clock.Advance(6 * time.Second)
	controltest.Eventually(t, "it closes", func() bool { return !degraded() })
	w.Clock.Advance(31 * time.Second)
	w.handedOver(ids...)
}

// handedOver waits until runs are marked as started. Their samples are recorded by then.
func (w *world) handedOver(ids ...string) {
	w.T.Helper()
	for _, id := range ids {
		controltest.Eventually(w.T, "it is started", func() bool { return w.QueueRow(id).Status == store.QueueStarted })
	}
}

// contract: T135
func TestBreaker_OldSamplesDoNotCount(t *testing.T) {
	t.Parallel()
	w := operated(t)
	var ids []string
	for i := range 4 {
		ids = append(ids, w.CreateQueued(fmt.Sprintf("r%d", i), "s1"))
	}
	w.slowly(6 * time.Second)
	w.SpawnDispatcher()
	w.handedOver(ids...)
	w.Clock.Advance(time.Minute)
	w.handedOver(w.CreateQueued("r9", "s1"))
	if controltest.Must[admission.ServiceState](t)(w.ServiceState(t.Context(), w.Engineer())).Degraded {
		t.Error("one sample of the last minute opened the breaker")
	}
}

// contract: H02, R411
func TestBreaker_AServerThatStartsNothingRefusesWithThoseThatDo(t *testing.T) {
	t.Parallel()
	often := func(c *usecases.Config) { c.Beats.Every = 20 * time.Millisecond }
	w := &world{controltest.New(t, often)}
	w.Clock.Hold() // no probe is due unless the test advances the clock
	apiOnly := usecases.New(w.Config)
	for i := range 5 {
		w.CreateQueued(fmt.Sprintf("r%d", i), "s1")
	}
	w.slowly(6 * time.Second)
	w.SpawnDispatcher()
	beats := func(s *usecases.UseCases, name string) func(context.Context) error {
		return func(ctx context.Context) error { return s.Beat(ctx, name) }
	}
	w.Spawn(beats(w.UseCases, "dispatcher"))
	w.Spawn(beats(apiOnly, "api"))
	try := func() error {
		_, err := apiOnly.StartRun(t.Context(), w.Engineer(), controltest.StartOf(rand.Text(),
			controltest.Document(nil, "s1")))
		return err
	}
	controltest.Eventually(t, "the server of the API alone refuses", func() bool {
		return controltest.CodeOf(try()) == run.CodeEngineDegraded
	})
	if e := controltest.Refusal(t, try(), run.CodeEngineDegraded); e.RetryAfter != 5*time.Second {
		t.Errorf("RetryAfter is %s, want 5 s", e.RetryAfter)
	}
	w.Clock.Advance(20 * time.Second)
	if e := controltest.Refusal(t, try(), run.CodeEngineDegraded); e.RetryAfter != 20*time.Second {
		t.Errorf("20 s later RetryAfter is %s, want 20 s", e.RetryAfter)
	}
	w.slowly(0)
	w.Clock.Advance(6 * time.Second) // a probe is due
	controltest.Eventually(t, "the server of the API alone accepts again", func() bool { return try() == nil })
}
