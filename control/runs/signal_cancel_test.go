package runs_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

// contract: G24
func TestSignalRun_CancelOfAQueuedRunEndsItAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("g24", "s1")
	in := controltest.SignalOf(id, "u1", run.Cancel)
	in.Reason = "wrong data"
	r := w.Send(w.Engineer(), in)
	if r.Application != run.SignalApplied || r.AppliedSeq != 3 || r.AcceptedSeq != 2 {
		t.Errorf("the receipt is %+v, want it accepted at 2 and APPLIED at 3", r)
	}
	if diff := cmp.Diff([]string{"1 RunApproved", "2 SignalAccepted(u1)", "3 RunCancelled"}, w.EventLog(id)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	end := controltest.Must[[]run.Event](t)(w.Store.Events(t.Context(), id, 2, 10))
	says := controltest.Must[run.RunCancelledPayload](t)(run.PayloadOf[run.RunCancelledPayload](end[0].Payload))
	if want := (run.RunCancelledPayload{SignalID: "u1", SignalType: run.Cancel, Actor: says.Actor,
		Reason: "wrong data"}); says != want || says.Actor == "" {
		t.Errorf("RunCancelled says %+v, want %+v with an actor", says, want)
	}
	w.Spawn(func(ctx context.Context) error { return w.Dispatch(ctx, "a") })
	w.Spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
	other := w.CreateQueued("g24-other", "s1")
	controltest.Eventually(t, "the other run started", func() bool { return w.Engine.StartsOf(other) == 1 })
	time.Sleep(50 * time.Millisecond)
	if w.Engine.StartsOf(id) != 0 || len(w.Engine.SignalsTo(id)) != 0 {
		t.Error("the engine was called for a run that was cancelled in the queue")
	}
}

// While a start is under way, the stop is recorded as an intent (T192).
// contract: G24
func TestSignalRun_CancelDuringAStartIsAnIntent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("g24", "s1")
	leased, release := make(chan struct{}), make(chan struct{})
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnStart = func(run.Identity) error { close(leased); <-release; return nil }
		e.OnSignal = func(run.Identity, engine.Signal) error {
			select {
			case <-release:
				return nil
			default:
				return engine.ErrNotStarted
			}
		}
	})
	w.Spawn(func(ctx context.Context) error { return w.Dispatch(ctx, "a") })
	w.Spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
	<-leased
	r := w.Send(w.Engineer(), controltest.SignalOf(id, "u1", run.Cancel))
	if r.Application != run.SignalPending || r.No != 1 {
		t.Errorf("the receipt is %+v, want PENDING with number 1", r)
	}
	heads, err := w.Raw.Heads(t.Context(), []string{id})
	if err != nil || heads.ByRun[id].Gate&run.GateStopped == 0 || heads.ByRun[id].Terminal {
		t.Errorf("the head is %+v with the error %v, want a closed gate and an open run", heads.ByRun[id], err)
	}
	close(release)
	controltest.Eventually(t, "delivered after the start", func() bool { return len(w.Engine.SignalsTo(id)) == 1 })
}

// A start that failed may have reached the engine, so a run that began is cancelled by the engine.
func TestSignalRun_CancelAfterAFailedStartIsForTheEngine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateQueued("released", "s1")
	rows, err := w.Store.Lease(t.Context(), "a", time.Minute, 1)
	if err != nil || w.Store.Release(t.Context(), id, rows[0].Generation, 0, "timeout") != nil {
		t.Fatal(err)
	}
	w.AppendEvents(id, runtest.Start())
	w.BeginStep(id, "s1", 1)
	if r := w.Send(w.Engineer(), controltest.SignalOf(id, "u1", run.Cancel)); r.Application != run.SignalPending ||
		w.StateOf(id).Status != run.Running {
		t.Errorf("the receipt is %+v and the log %v, want PENDING and a RUNNING run", r, w.EventLog(id))
	}
}
