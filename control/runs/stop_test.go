package runs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/store"
)

func stopOf(runID, id string, force bool) runs.SignalRun {
	in := controltest.SignalOf(runID, id, run.EmergencyStop)
	in.Signal.Force = force
	in.Payload = runtest.JSON(controltest.M{"reason": "runaway", "forceKill": force})
	return in
}

// stopping makes a run with one completed step, two running steps and one pending step.
func (w *world) stopping(requestID string) string {
	w.T.Helper()
	id := w.CreateSteps(requestID, "NOOP s1", "NOOP s2", "NOOP s3", "NOOP s4")
	w.FinishStep(id, "s1", 1, run.StepCompletedEvent)
	w.BeginStep(id, "s2", 1)
	w.BeginStep(id, "s3", 1)
	return id
}

// contract: W-18, G23
func TestDeliver_AForcedStopTerminatesAndEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.stopping("w18")
	terminated := make(chan string, 10)
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnTerminate = func(run.Identity) error { terminated <- strings.Join(w.EventLog(id), ";"); return nil }
	})
	// waits before the stop, and no longer matters
	pause := w.Send(w.Engineer(), controltest.SignalOf(id, "pause", run.Pause))
	r := w.Send(w.Principal("dev-admin"), stopOf(id, "stop", true))
	if r.Rejected || r.Application != run.SignalPending || r.No != pause.No+1 {
		t.Fatalf("the receipt is %+v, want PENDING behind the pause", r)
	}
	if h := controltest.Must[store.Heads](t)(w.Raw.Heads(t.Context(),
		[]string{id})).ByRun[id]; h.Gate&run.GateStopped == 0 ||
		h.Terminal {
		t.Errorf("the head is %+v, want a closed gate and an open run", h)
	}
	if b := w.BeginAttempt(id, "s4", 1, 1); b.Verdict != store.StartParked {
		t.Errorf("a step after the stop is %s, want PARKED", b.Verdict)
	}
	w.Spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
	controltest.Eventually(t, "the run ended", func() bool { return w.StateOf(id).Status == run.Cancelled })
	if before := <-terminated; !strings.Contains(before, "SignalAccepted(stop)") ||
		strings.Contains(before, "RunCancelled") {
		t.Errorf("the engine was called when the log was %s, want the intent in it", before)
	}
	want := []string{
		"1 RunApproved", "2 RunStarted", "3 StepStarted(s1)", "4 StepCompleted(s1)", "5 StepStarted(s2)", "6 StepStarted(s3)",
		"7 SignalAccepted(pause)", "8 SignalAccepted(stop)", "9 StepFailed(s2)", "10 StepFailed(s3)", "11 RunCancelled",
	}
	if diff := cmp.Diff(want, w.EventLog(id)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	st := w.StateOf(id)
	step, _ := st.Step("s2")
	if e := step.Attempts[0].Error; e == nil || e.Code != string(run.CodeTerminated) || e.Retryable ||
		step.Attempts[0].LogicalAttempt != 1 {
		t.Errorf("s2 ended with %+v, want TERMINATED", step.Attempts[0])
	}
	got := controltest.Must[runs.SignalReceipt](t)(w.Receipt(t.Context(), w.Engineer(), id, "stop"))
	if got.Application != run.SignalApplied || got.AppliedSeq != 11 {
		t.Errorf("the receipt of the stop is %+v, want APPLIED at 11", got.SignalReceipt)
	}
	if p := controltest.Must[runs.SignalReceipt](t)(w.Receipt(t.Context(), w.Engineer(), id,
		"pause")); p.Application != run.SignalNotApply ||
		p.ApplicationReason != string(run.CodeRunTerminal) {
		t.Errorf("the receipt of the pause is %+v, want NOT_APPLIED because of the end of the run", p.SignalReceipt)
	}
	if n := len(w.Engine.SignalsTo(id)); n != 0 {
		t.Errorf("%d signals reached the engine, want none", n)
	}
	// Late events change nothing.
	late := controltest.Must[store.Appended](t)(w.Journal.Append(t.Context(), store.Append{RunID: id, Events: []run.Draft{
		runtest.Draft(run.StepCompletedEvent, "s2", 1), runtest.Draft(run.StepCompletedEvent, "s4", 1),
	}}))
	if late.Outcomes[0].Refused != run.CodeInvalidTransition || late.Outcomes[1].Refused != run.CodeOrphanedTask ||
		len(w.EventLog(id)) != 11 {
		t.Errorf("late events are answered %+v, want them refused", late.Outcomes)
	}
	if !w.HasAuditRow("acme", "engine APPEND REJECTED ORPHANED_TASK "+id) {
		t.Errorf("the audit has no row of the orphan: %v", w.AuditRows("acme"))
	}
	if b := w.BeginAttempt(id, "s3", 1, 2); b.Verdict != store.StartDone {
		t.Errorf("a platform retry of s3 is %s, want DONE", b.Verdict)
	}
	// The reason and the actor are those of the person who stopped the run.
	evs := controltest.Must[[]run.Event](t)(w.Raw.Events(t.Context(), id, 10, 1))
	p := controltest.Must[run.RunCancelledPayload](t)(run.PayloadOf[run.RunCancelledPayload](evs[0].Payload))
	if p.Actor != "dev-admin" || p.Reason != "runaway" || p.SignalID != "stop" || p.SignalType != run.EmergencyStop ||
		evs[0].EmittedBy != run.ByControl {
		t.Errorf("RunCancelled says %+v by %s, want the actor and reason of the stop by control", p, evs[0].EmittedBy)
	}
}

// Whatever the engine answers, the stop is carried out once or tried again.
// contract: T192
func TestDeliver_AForcedStopIsCarriedOutOnceWhateverTheEngineAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers []error // answers of Terminate; the last one repeats
		queue   store.QueueStatus
		ends    bool
	}{
		"closed already": {answers: []error{engine.ErrClosed}, queue: store.QueueStarted, ends: true},
		"gone":           {answers: []error{engine.ErrNotStarted}, queue: store.QueueStarted, ends: true},
		"down, then there": {answers: []error{engine.ErrUnavailable, engine.ErrUnavailable, nil},
			queue: store.QueueStarted, ends: true},
		"being started":           {answers: []error{engine.ErrNotStarted}, queue: store.QueueLocked},
		"down":                    {answers: []error{engine.ErrUnavailable}, queue: store.QueueStarted},
		"a start that was undone": {answers: []error{engine.ErrNotStarted}, queue: store.QueuePending, ends: true},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			id := w.CreateQueued("t192", "s1")
			rows := controltest.Must[[]store.QueueRow](t)(w.Store.Lease(t.Context(), "x", time.Minute, 1))
			w.AppendEvents(id, runtest.Start())
			w.BeginStep(id, "s1", 1)
			var err error
			switch c.queue {
			case store.QueueStarted:
				err = w.Store.MarkStarted(t.Context(), id, rows[0].Generation)
			case store.QueuePending:
				err = w.Store.Release(t.Context(), id, rows[0].Generation, time.Hour, "timeout")
			}
			if err != nil {
				t.Fatal(err)
			}
			calls := make(chan int, 100)
			n := 0
			w.Engine.Set(func(e *controltest.FakeEngine) {
				e.OnTerminate = func(run.Identity) error {
					n++
					calls <- n
					return c.answers[min(n, len(c.answers))-1]
				}
			})
			w.Send(w.Principal("dev-admin"), stopOf(id, "stop", true))
			w.Spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
			if !c.ends {
				for range 2 {
					select {
					case <-calls:
					case <-time.After(time.Minute):
						t.Fatalf("it was not tried again; log %v", w.EventLog(id))
					}
				}
				r := controltest.Must[runs.SignalReceipt](t)(w.Receipt(t.Context(), w.Engineer(), id, "stop"))
				if r.Application != run.SignalPending || w.CountEvents(id, run.RunCancelled) != 0 {
					t.Errorf("the receipt is %+v and the log %v, want PENDING and no end", r.SignalReceipt, w.EventLog(id))
				}
				return
			}
			controltest.Eventually(t, "the run ended", func() bool { return w.StateOf(id).Status == run.Cancelled })
			r := controltest.Must[runs.SignalReceipt](t)(w.Receipt(t.Context(), w.Engineer(), id, "stop"))
			if r.Application != run.SignalApplied || w.CountEvents(id, run.RunCancelled) != 1 ||
				w.CountEvents(id, run.StepFailedEvent) != 1 {
				t.Errorf("the receipt is %+v and the log %v, want APPLIED and one end", r.SignalReceipt, w.EventLog(id))
			}
			if q := w.QueueRow(id); c.queue == store.QueuePending && q.Status != store.QueueCancelled {
				t.Errorf("the queue row is %s, want CANCELLED", q.Status)
			}
		})
	}
}

// A stop and the run's own end race for the head. One of them wins, and the receipt says which.
// contract: T192
func TestDeliver_AStopRacesWithTheEndOfTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.stopping("t192-race")
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnTerminate = func(run.Identity) error {
			w.AppendEvents(id, runtest.Draft(run.RunFailed, "", 1))
			return engine.ErrClosed
		}
	})
	w.Send(w.Principal("dev-admin"), stopOf(id, "stop", true))
	w.Spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
	controltest.Eventually(t, "the run ended", func() bool { return w.StateOf(id).Status == run.Failed })
	r := controltest.Must[runs.SignalReceipt](t)(w.Receipt(t.Context(), w.Engineer(), id, "stop"))
	if r.Application != run.SignalNotApply || r.ApplicationReason != string(run.CodeRunTerminal) ||
		w.CountEvents(id, run.RunCancelled) != 0 {
		t.Errorf("the receipt is %+v and the log %v, want the end of the run to win", r.SignalReceipt, w.EventLog(id))
	}
}

// contract: G24
func TestSignalRun_EmergencyStopOfAQueuedRunEndsItAtOnce(t *testing.T) {
	t.Parallel()
	for _, force := range []bool{false, true} {
		w := newWorld(t)
		id := w.CreateQueued(fmt.Sprintf("g24-%t", force), "s1")
		r := w.Send(w.Principal("dev-admin"), stopOf(id, "stop", force))
		if r.Application != run.SignalApplied || r.AcceptedSeq != 2 || r.AppliedSeq != 3 || r.AppliedAt == nil {
			t.Errorf("with force %t the receipt is %+v, want it accepted at 2 and APPLIED at 3", force, r.SignalReceipt)
		}
		if diff := cmp.Diff([]string{"1 RunApproved", "2 SignalAccepted(stop)", "3 RunCancelled"},
			w.EventLog(id)); diff != "" {
			t.Errorf("force %t (-want +got):\n%s", force, diff)
		}
		if q := w.QueueRow(id); q.Status != store.QueueCancelled {
			t.Errorf("the queue row is %s, want CANCELLED", q.Status)
		}
	}
}

// A graceful stop is delivered like a cancel: the engine ends the run (T200).
// contract: G23
func TestDeliver_GracefulStopIsASignal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.stopping("graceful")
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnTerminate = func(run.Identity) error { return errors.New("nobody asked for that") }
	})
	w.Send(w.Principal("dev-admin"), stopOf(id, "stop", false))
	w.Spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
	controltest.Eventually(t, "delivered", func() bool { return len(w.Engine.SignalsTo(id)) == 1 })
	if s := w.Engine.SignalsTo(id)[0]; s.Type != run.EmergencyStop || s.Force || s.ID != "stop" {
		t.Errorf("the delivered signal is %+v, want the EMERGENCY_STOP without force", s)
	}
	if r := controltest.Must[runs.SignalReceipt](t)(w.Receipt(t.Context(), w.Engineer(), id,
		"stop")); r.Application.Final() {
		t.Errorf("the receipt is %+v, want it not final yet", r.SignalReceipt)
	}
}

// A kill during the drain of a pause sets the position at which nothing ran any more (O11).
// contract: O11
func TestDeliver_KillDuringADrainIsQuiescent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.stopping("drain")
	w.Send(w.Engineer(), controltest.SignalOf(id, "pause", run.Pause))
	controltest.Must[store.Appended](t)(w.Journal.Append(t.Context(), store.Append{
		RunID: id, SetGate: run.GatePaused, Events: []run.Draft{runtest.Draft(run.RunPaused, "pause", 1)},
		Outcomes: []store.SignalOutcome{{SignalID: "pause", Application: run.SignalApplied, AppliedBy: 0}},
	}))
	w.Send(w.Principal("dev-admin"), stopOf(id, "stop", true))
	w.Spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
	controltest.Eventually(t, "the run ended", func() bool { return w.StateOf(id).Status == run.Cancelled })
	p := controltest.Must[runs.SignalReceipt](t)(w.Receipt(t.Context(), w.Engineer(), id, "pause"))
	last := ""
	for _, e := range w.EventLog(id) {
		if strings.Contains(e, "StepFailed") {
			last = e
		}
	}
	if p.Application != run.SignalApplied || !strings.HasPrefix(last, fmt.Sprintf("%d ", p.QuiescentSeq)) {
		t.Errorf("the pause is %+v, and the last step ended as %s; want APPLIED and quiescent at that event",
			p.SignalReceipt, last)
	}
}
