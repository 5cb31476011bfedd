package duty_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// contract: E-16, T99
func TestReconcile_FailsARunWhoseExecutionEnded(t *testing.T) {
	t.Parallel()
	for name, unseen := range map[string]bool{"seen among the closed": false, "seen because it is quiet": true} {
		w := newSweptWorld(t)
		id, other := w.atWork("r1"), w.atWork("r2")
		w.eye.Change(func() { w.eye.Ends[id], w.eye.Unseen = "Terminated", unseen })
		w.sweep()
		st := w.ends(id)
		log := w.EventLog(id)
		want := []string{"4 StepFailed(s1)", "5 RunFailed"}
		if diff := cmp.Diff(want, log[len(log)-2:]); diff != "" || st.Failure.Code != "ENGINE_TERMINATED" ||
			!strings.Contains(st.Failure.Message, "Terminated") {
			t.Errorf("%s: the run failed with %+v, the log differs (-want +got):\n%s", name, st.Failure, diff)
		}
		step, _ := st.Step("s1")
		if a := step.Attempts[0]; a.Error.Code != "TERMINATED" || a.LogicalAttempt != 1 {
			t.Errorf("%s: the attempt is %+v, want TERMINATED", name, a)
		}
		w.looksOn()
		if w.StateOf(other).Status.Terminal() {
			t.Errorf("%s: the other run ended", name)
		}
		w.counted("workflow_gone", "failed", 1)
		w.counted("workflow_gone", "", 0)
		if !w.HasAuditRow("acme", "dvt SWEEP ACCEPTED ENGINE_TERMINATED "+id) {
			t.Errorf("%s: the audit %v has no row of the sweep", name, w.AuditRows("acme"))
		}
	}
}

// contract: T192
func TestReconcile_AnOpenStopWins(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	began, never := w.atWork("r1"), w.atWork("r2")
	w.HandOver()
	for _, id := range []string{began, never} {
		w.Send(w.Engineer(), controltest.SignalOf(id, "stop", run.Cancel))
	}
	w.eye.Change(func() { w.eye.Ends[began], w.eye.Unknown[never] = "Failed", true })
	w.sweep()
	for _, id := range []string{began, never} {
		st := w.ends(id)
		r := controltest.Must[run.SignalReceipt](t)(w.Raw.Receipt(t.Context(), id, "stop"))
		if st.Status != run.Cancelled || r.Application != run.SignalApplied || r.AppliedSeq != st.Seq ||
			w.CountEvents(id, run.RunFailed) != 0 {
			t.Errorf("the run is %s, the receipt %+v and the log %v; want CANCELLED by the stop",
				st.Status, r, w.EventLog(id))
		}
	}
	w.counted("workflow_gone", "cancelled", 1)
	w.counted("workflow_missing", "cancelled", 1)
}

// stopStore makes a stop arrive just after the sweep has looked for one.
type stopStore struct {
	store.Store
	once sync.Once
	stop func()
}

func (s *stopStore) After(ctx context.Context, runID string, no int64) ([]run.SignalReceipt, error) {
	out, err := s.Store.After(ctx, runID, no)
	s.once.Do(s.stop)
	return out, err
}

// contract: T192
func TestReconcile_AStopThatRacesWins(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"before the receipts are read": false, "after they were read": true} {
		var racing *stopStore
		w := newSweptWorld(t, func(c *usecases.Config) {
			racing = &stopStore{Store: c.Store, stop: func() {}}
			c.Store = racing
		})
		id := w.atWork("r1")
		stop := sync.OnceFunc(func() { w.Send(w.Engineer(), controltest.SignalOf(id, "stop", run.Cancel)) })
		if late {
			racing.stop = stop
		} else {
			w.eye.Hook = stop
		}
		w.eye.Change(func() { w.eye.Ends[id] = "Terminated" })
		w.sweep()
		if st := w.ends(id); st.Status != run.Cancelled || w.CountEvents(id, run.RunFailed) != 0 ||
			w.CountEvents(id, run.RunCancelled) != 1 {
			t.Errorf("%s: the run is %s and the log %v, want CANCELLED once", name, st.Status, w.EventLog(id))
		}
	}
}

// contract: T192
func TestReconcile_FailsOrRestartsARunThatTheEngineDoesNotKnow(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	never, began, fine := w.CreateQueued("r1", "s1"), w.atWork("r2"), w.atWork("r3")
	w.HandOver()
	w.eye.Change(func() { w.eye.Unknown[never], w.eye.Unknown[began] = true, true })
	w.sweep()
	controltest.Eventually(t, "the start is due again", func() bool {
		return controltest.Must[store.QueueRow](t)(w.Raw.QueueRow(t.Context(), never)).Status == store.QueuePending
	})
	w.Spawn(func(ctx context.Context) error { return w.Dispatch(ctx, "test") })
	controltest.Eventually(t, "it is started", func() bool { return w.Engine.StartsOf(never) > 0 })
	w.eye.Change(func() { w.eye.Unknown[never] = false })
	if st := w.ends(began); st.Failure == nil || st.Failure.Code != "ENGINE_LOST" ||
		w.CountEvents(began, run.StepFailedEvent) != 1 {
		t.Errorf("the run failed with %+v, and the log is %v; want ENGINE_LOST and the end of its attempt",
			st.Failure, w.EventLog(began))
	}
	w.looksOn()
	if w.StateOf(never).Status.Terminal() || w.StateOf(fine).Status.Terminal() || w.Engine.StartsOf(fine) > 0 {
		t.Errorf("the run that never began is %s and the other run %s, want both open",
			w.StateOf(never).Status, w.StateOf(fine).Status)
	}
	w.counted("workflow_missing", "failed", 1)
	controltest.Eventually(t, "the start is counted", func() bool { return w.swept("workflow_missing", "restarted") >= 1 })
}

// contract: T192
func TestReconcile_AnEngineThatDoesNotAnswerIsNoFinding(t *testing.T) {
	t.Parallel()
	for _, mute := range []bool{false, true} {
		w := newSweptWorld(t)
		id := w.atWork("r1")
		w.eye.Change(func() { w.eye.Down, w.eye.Mute, w.eye.Ends[id] = !mute, mute, "Terminated" })
		w.sweep()
		w.looksOn()
		if w.StateOf(id).Status.Terminal() {
			t.Fatalf("the run ended while the engine was down: %v", w.EventLog(id))
		}
		w.eye.Change(func() { w.eye.Down, w.eye.Mute = false, false })
		w.ends(id)
	}
}

func TestReconcile_AnIndexThatLagsIsNoFinding(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	id := w.atWork("r1")
	w.eye.Change(func() { w.eye.Unseen = true }) // Describe still reports it as open
	w.sweep()
	w.looksOn()
	if w.StateOf(id).Status.Terminal() {
		t.Fatalf("the run ended because of an index that lags: %v", w.EventLog(id))
	}
}

func TestReconcile_TwoChecksMustAgree(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t, func(c *usecases.Config) { c.Reconcile.Confirm = time.Hour })
	id := w.atWork("r1")
	w.eye.Change(func() { w.eye.Ends[id] = "Terminated" })
	w.sweep()
	w.looksOn()
	if w.StateOf(id).Status.Terminal() {
		t.Fatalf("the run ended after one check: %v", w.EventLog(id))
	}
	w.counted("workflow_gone", "", 1)
	w.Clock.Advance(2 * time.Hour)
	w.ends(id)
}

// contract: T194
func TestReconcile_ALogThatIsTooShortIsForRepair(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	id := w.atWork("r1")
	w.eye.Change(func() { w.eye.Ends[id], w.eye.Heads[id] = "Completed", w.StateOf(id).Seq+3 })
	w.sweep()
	w.counted("log_regressed", "escalated", 1)
	w.Clock.Advance(10 * time.Minute)
	w.looksOn()
	alerts := w.alerts()
	if w.StateOf(id).Status.Terminal() || len(alerts) != 1 || alerts[0].Code != run.CodeStoreRegressed ||
		!strings.Contains(alerts[0].Note, "dvt store repair") {
		t.Errorf("the run is %s and the alerts are %+v, want it open and an alert that names dvt store repair",
			w.StateOf(id).Status, alerts)
	}
	w.eye.Change(func() { w.eye.Heads[id] = 0 }) // the log was repaired
	w.Clock.Advance(10 * time.Minute)
	w.ends(id)
}

func TestReconcile_AnEngineThatForgotThemAllIsDoubted(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	var ids []string
	for i := range 14 {
		ids = append(ids, w.atWork(fmt.Sprint("r", i)))
	}
	w.eye.Change(func() {
		for _, id := range ids {
			w.eye.Unknown[id] = true
		}
	})
	w.sweep()
	controltest.Eventually(t, "people are told", func() bool { return len(w.alerts()) > 0 })
	w.looksOn()
	for _, id := range ids {
		if w.StateOf(id).Status.Terminal() {
			t.Fatalf("run %s ended, want it left alone", id)
		}
	}
}

func TestReconcile_TwoServersEndARunOnce(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	cfg := w.Config
	cfg.Metrics = nil
	second := usecases.New(cfg)
	var ids []string
	for i := range 8 {
		ids = append(ids, w.atWork(fmt.Sprint("r", i)))
	}
	w.eye.Change(func() {
		for _, id := range ids {
			w.eye.Ends[id] = "TimedOut"
		}
	})
	w.sweep()
	w.Spawn(second.Reconcile)
	for _, id := range ids {
		w.ends(id)
		if w.CountEvents(id, run.StepFailedEvent) != 1 || w.CountEvents(id, run.RunFailed) != 1 {
			t.Errorf("the log is %v, want one end", w.EventLog(id))
		}
	}
}

func TestReconcile_FreesAStartThatNobodyMakes(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	id := w.CreateQueued("r1", "s1")
	locked := w.CreateQueued("r2", "s1")
	rows := controltest.Must[[]store.QueueRow](t)(w.Raw.Lease(t.Context(), "gone", time.Second, 2))
	i := slices.IndexFunc(rows, func(q store.QueueRow) bool { return q.RunID == id })
	if err := w.Raw.Release(t.Context(), id, rows[i].Generation, 0, "the engine said no"); err != nil {
		t.Fatal(err)
	}
	w.sweep()
	w.looksOn()
	if n := w.swept("start_stuck", ""); n != 0 {
		t.Errorf("%v starts count as stuck, want none yet", n)
	}
	w.Clock.Advance(5 * time.Minute)
	controltest.Eventually(t, "the lease is freed", func() bool {
		return controltest.Must[store.QueueRow](t)(w.Raw.QueueRow(t.Context(), locked)).Status == store.QueuePending
	})
	w.counted("start_stuck", "", 2)
	controltest.Eventually(t, "people are told", func() bool { return len(w.alerts()) > 0 })
	w.looksOn()
	if alerts := w.alerts(); len(alerts) != 1 || alerts[0].RunID != id || !strings.Contains(alerts[0].Note,
		"the engine said no") {
		t.Errorf("the alerts are %+v, want one with the last error", alerts)
	}
	w.counted("start_stuck", "woken", 1)
}

// contract: T166, H06
func TestReconcile_ReportsAStepThatHangs(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	hung, paused := w.atWork("r1"), w.atWork("r2")
	pause := runtest.Draft(run.RunPaused, "", 1)
	pause.EmittedAt = w.Clock.Now()
	w.ApplySignal(paused, "p", pause)
	if _, err := w.Raw.Append(t.Context(), store.Append{RunID: paused, SetGate: run.GatePaused}); err != nil {
		t.Fatal(err)
	}
	person := w.CreateManual("r3", "check")
	w.HandOver()
	beat := w.Clock.Now()
	w.eye.Change(func() {
		w.eye.Pending[hung] = []engine.Pending{{ID: "s1/1.1", State: "STARTED", Attempt: 2, LastHeartbeat: &beat}}
	})
	for _, id := range []string{hung, paused, person} {
		controltest.Eventually(t, "the checkpoint", func() bool {
			rows := controltest.Must[[]store.QuietRun](t)(w.Raw.ListQuietRuns(t.Context(), 0, "", 10))
			i := slices.IndexFunc(rows, func(q store.QuietRun) bool { return q.RunID == id })
			return i >= 0 && (id == person || len(rows[i].Running) == 1)
		})
	}
	w.sweep()
	w.looksOn()
	if n := len(w.alerts()); n != 0 {
		t.Fatalf("there are %d alerts within the time of its tries, want none", n)
	}
	w.Clock.Advance(time.Hour)           // longer than 3 tries of a minute, their backoffs and the slack
	stuck := func() []store.AlertState { // the pause has an alert of its own, because it does not drain
		return slices.DeleteFunc(w.alerts(), func(a store.AlertState) bool { return a.Code == run.CodePauseDrain })
	}
	controltest.Eventually(t, "people are told", func() bool { return len(stuck()) > 0 })
	w.looksOn()
	alerts := stuck()
	if len(alerts) != 1 || alerts[0].RunID != hung || alerts[0].StepID != "s1" || !strings.Contains(alerts[0].Note,
		"has try 2 (STARTED)") {
		t.Errorf("the alerts are %+v, want one that names the try", alerts)
	}
	if w.StateOf(hung).Status.Terminal() {
		t.Errorf("the run is %s, want it open", w.StateOf(hung).Status)
	}
	w.counted("step_stuck", "escalated", 1)
	w.counted("step_stuck", "", 1)
	if !w.HasAuditRow("acme", "dvt SWEEP ESCALATED TIMEOUT "+hung) {
		t.Errorf("the audit %v has no row of the alert", w.AuditRows("acme"))
	}
}

func TestReconcile_RunsOfOtherEnginesAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t)
	id := run.Identity{RunID: "imported", TenantID: "acme", ProjectID: "shop", EnvironmentID: "dev", PlanID: "plan-3",
		PlanVersion: "1.0"}
	r := controltest.Must[store.Run](t)(w.Raw.Get(t.Context(), w.atWork("r1")))
	r.Identity, r.RequestKey, r.RequestID = id, "", "other"
	if err := w.Raw.Import(t.Context(), store.NewRun{Run: r}, runtest.Log(runtest.Start("s1"))); err != nil {
		t.Fatal(err)
	}
	w.eye.Change(func() { w.eye.Unknown["imported"] = true })
	w.sweep()
	w.looksOn()
	if st := w.StateOf("imported"); st.Status.Terminal() {
		t.Errorf("the run is %s, want it open", st.Status)
	}
}

func TestReconcile_NeedsACensus(t *testing.T) {
	t.Parallel()
	w := controltest.New(t)
	if err := w.Reconcile(t.Context()); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("Reconcile returned %v, want an error about the engine", err)
	}
}

// The time at which a start is due is on the store's clock, whatever the clock of this server says.
func TestReconcile_AServerWhoseClockIsAheadRestartsAtOnce(t *testing.T) {
	t.Parallel()
	w := newSweptWorld(t, func(c *usecases.Config) {
		c.Now = func() time.Time { return time.Now().Add(time.Hour) }
	})
	id := w.CreateQueued("r1", "s1")
	w.HandOver()
	w.eye.Change(func() { w.eye.Unknown[id] = true })
	w.sweep()
	controltest.Eventually(t, "its start is due again", func() bool {
		return controltest.Must[store.QueueRow](t)(w.Raw.QueueRow(t.Context(), id)).Status == store.QueuePending
	})
	if rows := controltest.Must[[]store.QueueRow](t)(w.Raw.Lease(t.Context(), "r", time.Minute, 1)); len(rows) != 1 {
		t.Errorf("nobody may start it before %v", controltest.Must[store.QueueRow](t)(w.Raw.QueueRow(t.Context(),
			id)).NotBefore)
	}
}
