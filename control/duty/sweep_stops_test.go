package duty_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

const stopWithin = 2 * time.Minute // the default

// receipt returns the receipt "stop" of a run as callers see it.
func (w *sweptWorld) receipt(id string) runs.SignalReceipt {
	w.T.Helper()
	return controltest.Must[runs.SignalReceipt](w.T)(w.Receipt(w.T.Context(), w.Engineer(), id, "stop"))
}

// stopped checks that a sweep ended a run because of its stop, and returns the events after SignalAccepted.
func (w *sweptWorld) stopped(id string) []string {
	w.T.Helper()
	st := w.ends(id)
	if st.Status != run.Cancelled || w.CountEvents(id, run.RunCancelled) != 1 {
		w.T.Errorf("the run is %s, want CANCELLED once; log %v", st.Status, w.EventLog(id))
	}
	r := w.receipt(id)
	why := r.ApplicationReason
	if r.Application != run.SignalApplied || r.AppliedSeq != st.Seq || !strings.Contains(why,
		"dvt ended the run by itself") {
		w.T.Errorf("the receipt is %s at %d because %q, want APPLIED at %d by dvt itself", r.Application, r.AppliedSeq, why,
			st.Seq)
	}
	log := w.EventLog(id)
	return log[r.AcceptedSeq:]
}

// A stop that the engine does not carry out ends the run after StopWithin and not earlier, for every fault of the
// engine. It writes the events that the workflow would have written. Another run is not affected.
// contract: T99, T192, T200
func TestReconcile_EndsARunWhoseStopTheEngineDoesNotCarryOut(t *testing.T) {
	t.Parallel()
	for name, breakEngine := range map[string]func(*controltest.SweptEngine, string){
		"it took the order and does nothing": func(*controltest.SweptEngine, string) {},
		"it does not answer": func(e *controltest.SweptEngine, _ string) {
			e.Change(func() { e.Down = true })
			e.Set(func(f *controltest.FakeEngine) {
				f.OnSignal = func(run.Identity, engine.Signal) error { return engine.ErrUnavailable }
				f.OnTerminate = func(run.Identity) error { return engine.ErrUnavailable }
			})
		},
		"its index says that the run goes on, and it knows nothing of it": func(e *controltest.SweptEngine, id string) {
			e.Set(func(f *controltest.FakeEngine) {
				f.OnSignal = func(run.Identity, engine.Signal) error { return engine.ErrNotStarted }
				f.OnTerminate = func(run.Identity) error { return engine.ErrNotStarted }
			})
			e.Change(func() { e.Pending[id] = []engine.Pending{{ID: "s1/1.1", State: "STARTED", Attempt: 1}} })
		},
		"it claims to know more of the log than there is": func(e *controltest.SweptEngine, id string) {
			e.Change(func() { e.Heads[id], e.Ends[id] = 1000, "Terminated" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSweptWorld(t)
			w.Clock.Hold()
			id, other := w.atWork("r1"), w.atWork("r2")
			w.eye.Change(func() { w.eye.Pending[id] = []engine.Pending{{ID: "s1/1.1", State: "STARTED", Attempt: 1}} })
			breakEngine(w.eye, id)
			w.Spawn(func(ctx context.Context) error { return w.Deliver(ctx, "test") })
			w.Send(w.Engineer(), controltest.SignalOf(id, "stop", run.Cancel))
			w.sweep()
			w.Clock.Advance(stopWithin - time.Second)
			w.looksOn()
			if st := w.StateOf(id); st.Status.Terminal() {
				t.Fatalf("the run ended before StopWithin: %v", w.EventLog(id))
			}
			w.Clock.Advance(2 * time.Second)
			want := []string{"5 StepFailed(s1)", "6 RunCancelled"}
			if diff := cmp.Diff(want, w.stopped(id)); diff != "" {
				t.Errorf("the events of the stop (-want +got):\n%s", diff)
			}
			step, _ := w.StateOf(id).Step("s1")
			if e := step.Attempts[0].Error; e == nil || e.Code != string(run.CodeCancelled) || e.Retryable {
				t.Errorf("the attempt ended with %+v, want CANCELLED, which is not retryable", e)
			}
			w.counted("stop_unanswered", "cancelled", 1)
			if !w.HasAuditRow("acme", "dvt SWEEP ACCEPTED CANCELLED "+id) {
				t.Errorf("the audit has no row of the sweep: %v", w.AuditRows("acme"))
			}
			if w.StateOf(other).Status != run.Running {
				t.Errorf("the other run is %s, want it open", w.StateOf(other).Status)
			}
		})
	}
}

// contract: T192
func TestReconcile_TwoSweepsEndAStoppedRunOnce(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	var ids []string
	for _, r := range []string{"r1", "r2", "r3", "r4", "r5", "r6"} {
		id := w.atWork(r)
		w.Send(w.Engineer(), controltest.SignalOf(id, "stop", run.Cancel))
		ids = append(ids, id)
	}
	w.Clock.Advance(stopWithin + time.Second)
	for range 4 {
		w.sweep()
	}
	for _, id := range ids {
		if got := w.stopped(id); len(got) != 2 {
			t.Errorf("the stop of %s wrote %v, want the end of one attempt and of the run", id, got)
		}
	}
	w.counted("stop_unanswered", "cancelled", float64(len(ids)))
	w.eye.Sweeps(t, 5)
	w.counted("stop_unanswered", "cancelled", float64(len(ids)))
}

// stoppingStore calls hook after the list of stopped runs is read and before the sweep decides about one.
type stoppingStore struct {
	store.Store
	armed atomic.Bool
	once  sync.Once
	hook  func()
}

func (s *stoppingStore) InRun(ctx context.Context, runID string, f func(store.RunTx) error) error {
	if s.armed.Load() {
		s.once.Do(s.hook)
	}
	return s.Store.InRun(ctx, runID, f)
}

// The end of an attempt or of the run may enter the log between the sweep's list and its decision. It stays, and the
// sweep ends the rest.
// contract: A08, T10, T192
func TestReconcile_ALateEndDuringTheStopStays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		late func(w *sweptWorld, id string)
		want []string
	}{
		"of the attempt": {func(w *sweptWorld, id string) {
			w.appendRaw(id, runtest.Draft(run.StepCompletedEvent, "s1", 1))
		}, []string{"5 StepCompleted(s1)", "6 RunCancelled"}},
		"of the run": {func(w *sweptWorld, id string) {
			failed := runtest.Draft(run.StepFailedEvent, "s1", 1)
			cancelled := runtest.Draft(run.RunCancelled, "", 1)
			cancelled.Payload = json.RawMessage(`{"signalId":"stop"}`)
			w.appendRaw(id, failed, cancelled)
		}, []string{"5 StepFailed(s1)", "6 RunCancelled"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var between *stoppingStore
			w := newSweptWorld(t, func(c *usecases.Config) {
				between = &stoppingStore{Store: c.Store}
				c.Store = between
			})
			id := w.atWork("r1")
			w.Send(w.Engineer(), controltest.SignalOf(id, "stop", run.Cancel))
			between.hook = func() { c.late(w, id) }
			between.armed.Store(true)
			w.Clock.Advance(stopWithin + time.Second)
			w.sweep()
			w.ends(id)
			w.eye.Sweeps(t, 3)
			if diff := cmp.Diff(c.want, w.EventLog(id)[4:]); diff != "" {
				t.Errorf("the log after the stop was accepted (-want +got):\n%s", diff)
			}
			if r := w.receipt(id); !r.Application.Final() {
				t.Errorf("the receipt is %s, want a final one", r.Application)
			}
		})
	}
}

// Events that a worker or a workflow writes after the sweep ended the run are refused.
// contract: A08
func TestReconcile_AnEndAfterTheStopIsRefused(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	id := w.atWork("r1")
	w.Send(w.Engineer(), controltest.SignalOf(id, "stop", run.Cancel))
	w.Clock.Advance(stopWithin + time.Second)
	w.sweep()
	w.stopped(id)
	before := w.EventLog(id)
	for _, late := range []run.Draft{
		runtest.Draft(run.StepCompletedEvent, "s1", 1), runtest.Draft(run.RunCompleted, "", 1),
		runtest.Draft(run.StepCompletedEvent, "s2", 1),
	} {
		late.EmittedAt = w.Clock.Now()
		out := controltest.Must[store.Appended](t)(w.Store.Append(t.Context(), store.Append{RunID: id,
			Events: []run.Draft{late}}))
		if out.Outcomes[0].Refused == "" {
			t.Errorf("%s of %q came into the log of a run that has ended", late.Type, late.StepID)
		}
	}
	if diff := cmp.Diff(before, w.EventLog(id)); diff != "" {
		t.Errorf("the log (-before +after):\n%s", diff)
	}
}

// appendRaw writes without the Journal, like a late worker or workflow.
func (w *sweptWorld) appendRaw(runID string, events ...run.Draft) {
	w.T.Helper()
	for i := range events {
		events[i].EmittedAt = w.Clock.Now()
	}
	_, err := w.Raw.Append(context.Background(), store.Append{RunID: runID, Events: events})
	if err != nil {
		w.T.Error(err)
	}
}

// A stop that arrives during a start ends the run even if the engine never answers, and the start then changes nothing.
// contract: T100, T192
func TestReconcile_EndsARunWhoseStartIsUnderWay(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	id := w.CreateQueued("r1", "s1")
	leased := controltest.Must[[]store.QueueRow](t)(w.Store.Lease(t.Context(), "starter", time.Hour, 1))[0]
	w.Send(w.Engineer(), controltest.SignalOf(id, "stop", run.Cancel))
	if st := w.StateOf(id); st.Status.Terminal() {
		t.Fatal("invalid fixture: no server is starting the run")
	}
	w.Clock.Advance(stopWithin + time.Second)
	w.sweep()
	w.stopped(id)
	q := controltest.Must[store.QueueRow](t)(w.Raw.QueueRow(t.Context(), id))
	if q.Status != store.QueueCancelled {
		t.Errorf("the queue row is %s, want CANCELLED", q.Status)
	}
	if err := w.Store.MarkStarted(t.Context(), id, leased.Generation); err == nil {
		t.Error("the start that was under way marked the run as started")
	}
}

// The receipt of a stop says from the beginning when dvt ends the run by itself, and since when the engine has the
// order.
// contract: O11, T192
func TestReceipt_OfAStopSaysWhenDvtEndsTheRunByItself(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	id := w.atWork("r1")
	sent := w.Send(w.Engineer(), controltest.SignalOf(id, "stop", run.Cancel))
	at := sent.ReceivedAt.Add(stopWithin).UTC().Format(time.RFC3339)
	const not = "the engine has not taken the order yet"
	if why := sent.ApplicationReason; !strings.Contains(why, not) || !strings.Contains(why, at) {
		t.Errorf("the answer says %q, want %q and %s", why, not, at)
	}
	w.Spawn(func(ctx context.Context) error { return w.Deliver(ctx, "test") })
	controltest.Eventually(t, "the engine has the order",
		func() bool { return w.receipt(id).Application == run.SignalDelivered })
	since := "since " + w.receipt(id).DeliveredAt.UTC().Format(time.RFC3339)
	page := controltest.Must[runs.ReceiptsPage](t)(w.Receipts(t.Context(), w.Engineer(), id, "", 10))
	if why := page.Receipts[0].ApplicationReason; !strings.Contains(why, since) || !strings.Contains(why, at) {
		t.Errorf("the page says %q, want %q and %s", why, since, at)
	}
	stream := controltest.Must[control.Stream[runs.SignalReceipt]](t)(w.WatchReceipts(t.Context(), w.Engineer(), id,
		"stop"))
	defer stream.Close()
	controltest.TakeFrame(t, stream, "the stream says when", func(r runs.SignalReceipt) bool {
		return strings.Contains(r.ApplicationReason, at)
	})
	pause := w.Send(w.Engineer(), controltest.SignalOf(w.atWork("r2"), "pause", run.Resume))
	if pause.ApplicationReason != "" && strings.Contains(pause.ApplicationReason, "by itself") {
		t.Errorf("the receipt of another signal has the reason %q, want none", pause.ApplicationReason)
	}
}

// When the engine did not answer at the end of the run, a later sweep terminates the execution.
func TestReconcile_EndsTheExecutionOfAnEndedRunOnceTheEngineAnswers(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	id, other := w.atWork("r1"), w.atWork("r2")
	var mu sync.Mutex
	ended := map[string]int{}
	w.eye.Set(func(f *controltest.FakeEngine) {
		f.OnTerminate = func(id run.Identity) error {
			mu.Lock()
			defer mu.Unlock()
			w.eye.Mu.Lock()
			defer w.eye.Mu.Unlock()
			if w.eye.Down {
				return engine.ErrUnavailable
			}
			ended[id.RunID]++
			return nil
		}
	})
	w.eye.Change(func() {
		w.eye.Down = true
		w.eye.Open = []run.Identity{w.identity(id), w.identity(other), {TenantID: "acme", RunID: "nobody-knows-it"}}
	})
	w.Send(w.Engineer(), controltest.SignalOf(id, "stop", run.Cancel))
	w.Clock.Advance(stopWithin + time.Second)
	w.sweep()
	w.stopped(id)
	w.Clock.Advance(time.Minute)
	w.eye.Change(func() { w.eye.Down = false })
	controltest.Eventually(t, "the execution is ended", func() bool { mu.Lock(); defer mu.Unlock(); return ended[id] > 0 })
	w.looksOn()
	mu.Lock()
	defer mu.Unlock()
	delete(ended, id)
	if len(ended) > 0 {
		t.Errorf("executions of runs that go on were ended: %v", ended)
	}
}

func (w *sweptWorld) identity(id string) run.Identity {
	w.T.Helper()
	return controltest.Must[store.Run](w.T)(w.Raw.Get(w.T.Context(), id)).Identity
}
