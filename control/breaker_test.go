package control_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// slowly makes each start take d.
func (w *world) slowly(d time.Duration) {
	w.engine.set(func(e *fakeEngine) {
		e.start = func(run.Identity) error {
			w.clock.advance(d)
			return nil
		}
	})
}

// contract: H02, T135
func TestBreaker_OpensOnSlowStartsAndAProbeClosesIt(t *testing.T) {
	t.Parallel()
	w := operated(t)
	ctx := t.Context()
	w.clock.hold() // no probe is due unless the test advances the clock
	var ids []string
	for i := range 4 {
		ids = append(ids, w.queued(fmt.Sprintf("r%d", i), "s1"))
	}
	w.slowly(6 * time.Second)
	w.reconciling()
	w.handedOver(ids...)
	if s := must[admission.ServiceState](t)(w.ServiceState(ctx, w.eng())); s.Degraded {
		t.Error("four samples opened the breaker, want at least five")
	}
	stream := must[control.Stream[admission.ServiceState]](t)(w.WatchService(ctx, w.eng()))
	take(t, stream, "the state as it is", func(s admission.ServiceState) bool { return !s.Degraded })
	w.queued("r5", "s1")
	take(t, stream, "that it is slow", func(s admission.ServiceState) bool { return s.Degraded })
	eventually(t, "it opens", func() bool {
		return must[admission.ServiceState](t)(w.ServiceState(ctx,
			w.eng())).Degraded
	})
	e := refusal(t, w.start(w.eng(), "r6"), run.CodeEngineDegraded)
	if e.RetryAfter < time.Second || e.RetryAfter > 5*time.Second {
		t.Errorf("RetryAfter is %s, want 1 to 5 s", e.RetryAfter)
	}
	eventually(t, "the row of the operators", func() bool {
		return w.audited("acme",
			"dvt BREAKER OPENED ENGINE_DEGRADED")
	})
	// No run waits in the queue, so a call to the engine is the probe.
	w.clock.advance(5 * time.Second)
	eventually(t, "it closes", func() bool {
		return !must[admission.ServiceState](t)(
			w.ServiceState(ctx, w.eng())).Degraded
	})
	eventually(t, "the row of the operators", func() bool { return w.audited("acme", "dvt BREAKER CLOSED") })
	w.slowly(0)
	if err := w.start(w.eng(), "r7"); err != nil {
		t.Error(err)
	}
}

// contract: T135
func TestBreaker_FailuresCountAndTheQueueIsProbedOneByOne(t *testing.T) {
	t.Parallel()
	w := operated(t)
	ctx := t.Context()
	w.clock.hold() // no retry and no probe is due unless the test advances the clock
	w.engine.set(func(e *fakeEngine) {
		e.start = func(run.Identity) error { return engine.ErrUnavailable }
		e.describe = errors.New("down")
	})
	var ids []string
	for i := range 6 {
		ids = append(ids, w.queued(fmt.Sprintf("r%d", i), "s1"))
	}
	w.reconciling()
	degraded := func() bool { return must[admission.ServiceState](t)(w.ServiceState(ctx, w.eng())).Degraded }
	eventually(t, "it opens", degraded)
	total := func() (n int) {
		for _, id := range ids {
			n += w.engine.starts(id)
		}
		return n
	}
	eventually(t, "all were tried", func() bool { return total() >= 6 })
	before := total()
	time.Sleep(700 * time.Millisecond)
	if n := total(); n != before {
		t.Errorf("%d runs were started while the breaker was open, want none", n-before)
	}
	w.clock.advance(31 * time.Second) // past every pause of a failed start
	eventually(t, "one probe", func() bool { return total() == before+1 })
	time.Sleep(700 * time.Millisecond)
	if n := total(); n != before+1 || !degraded() {
		t.Errorf("%d probes were made, want one, and the breaker still open", n-before)
	}
	w.engine.set(func(e *fakeEngine) { e.start, e.describe = nil, nil })
	w.clock.advance(6 * time.Second)
	eventually(t, "it closes", func() bool { return !degraded() })
	w.clock.advance(31 * time.Second)
	w.handedOver(ids...)
}

// handedOver waits until runs are marked as started. Their samples are recorded by then.
func (w *world) handedOver(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		eventually(w.t, "it is started", func() bool { return w.queueRow(id).Status == store.QueueStarted })
	}
}

// contract: T135
func TestBreaker_OldSamplesDoNotCount(t *testing.T) {
	t.Parallel()
	w := operated(t)
	var ids []string
	for i := range 4 {
		ids = append(ids, w.queued(fmt.Sprintf("r%d", i), "s1"))
	}
	w.slowly(6 * time.Second)
	w.reconciling()
	w.handedOver(ids...)
	w.clock.advance(time.Minute)
	w.handedOver(w.queued("r9", "s1"))
	if must[admission.ServiceState](t)(w.ServiceState(t.Context(), w.eng())).Degraded {
		t.Error("one sample of the last minute opened the breaker")
	}
}
