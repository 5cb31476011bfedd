package admission_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/duty"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
	"github.com/dvt-engine/dvt/store/decorate"
)

// admits runs a dispatcher until the test ends.
func (w *world) admits() {
	w.Spawn(func(ctx context.Context) error { return w.Dispatch(ctx, "here") })
}

// contract: Q01, Q02, T213
func TestStartRun_ThirdOfTwoSlotsWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas()))
	var two []string
	for _, r := range []string{"r1", "r2"} {
		s := w.StartOneStep(r)
		if controltest.Waits(s) || s.View.State.Status != run.Approved {
			t.Errorf("%s waits or is not APPROVED: %+v", r, s.View.Queue)
		}
		two = append(two, s.View.Run.RunID)
	}
	third := w.StartOneStep("r3")
	q, id := third.View.Queue, third.View.Run.RunID
	if !controltest.Waits(third) || q.Position != 1 || q.Wait <= 0 || q.Wait > 30*time.Second ||
		q.Why != store.WaitQuota ||
		q.ExpiresAt.Sub(q.CreatedAt) != 5*time.Minute {
		t.Errorf("the queue entry is %+v, want the first position, its reason and a TTL of 5 minutes", q)
	}
	if st := third.View.State; st.Status != run.Pending || st.Substatus() != "QUEUED" {
		t.Errorf("the third run is %s %s, want PENDING QUEUED", st.Status, st.Substatus())
	}
	if again := w.StartOneStep("r3"); !again.Deduplicated || again.View.Run.RunID != id || again.View.Queue.Position != 1 {
		t.Errorf("the repeated request is answered %+v, want the waiting run at position 1", again)
	}
	fourth := w.StartOneStep("r4", func(in *runs.StartRun) { in.Priority = 9 })
	page := controltest.Must[admission.QueuePage](t)(w.Queue(t.Context(), w.Principal("dev-viewer"),
		admission.QueueQuery{First: 1}))
	if len(page.Entries) != 1 || page.Entries[0].RunID != fourth.View.Run.RunID || !page.HasNext || page.Depth != 2 ||
		page.Entries[0].EnvironmentID != "dev" {
		t.Errorf("the page of the queue is %+v, want the fourth run, which has a higher priority", page)
	}
	next := controltest.Must[admission.QueuePage](t)(
		w.Queue(t.Context(), w.Principal("dev-viewer"), admission.QueueQuery{First: 1, After: page.Entries[0].RunID}))
	if len(next.Entries) != 1 || next.Entries[0].RunID != id || next.Entries[0].Position != 2 ||
		next.Entries[0].Why != store.WaitTurn || next.HasNext {
		t.Errorf("the next page is %+v, want the third run at position 2, which waits for its turn", next)
	}
	for who, depth := range map[string]int{"nobody": 0, "dev-viewer": 2} {
		if p := controltest.Must[admission.QueuePage](t)(w.Queue(t.Context(), w.Principal(who),
			admission.QueueQuery{})); len(p.Entries) != depth ||
			p.Depth != depth {
			t.Errorf("%s sees %+v, want as many runs as it may read", who, p)
		}
	}
	_, err := w.Queue(t.Context(), w.Engineer(), admission.QueueQuery{After: "nothing"})
	controltest.Refusal(t, err, run.CodeCursorInvalid)
	w.admits()
	controltest.Eventually(t, "the two are started", func() bool {
		return w.Engine.StartsOf(two[0]) == 1 &&
			w.Engine.StartsOf(two[1]) == 1
	})
	if w.Engine.StartsOf(id) != 0 || len(w.EventLog(id)) != 1 || w.depth() != 2 {
		t.Errorf("the third run has %d starts and the log %q, and %d runs wait; want no start, one event and 2",
			w.Engine.StartsOf(id), w.EventLog(id), w.depth())
	}
	w.Clock.Advance(31 * time.Second) // a token for the first waiting run
	controltest.Eventually(t, "the fourth is started",
		func() bool { return w.Engine.StartsOf(fourth.View.Run.RunID) == 1 })
	w.Clock.Advance(31 * time.Second)
	controltest.Eventually(t, "the third is started", func() bool { return w.Engine.StartsOf(id) == 1 })
	w.AppendEvents(id, runtest.Start())
	if diff := cmp.Diff([]string{"1 RunQueued", "2 RunApproved", "3 RunStarted"}, w.EventLog(id)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// depth returns the number of waiting runs of acme.
func (w *world) depth() int64 {
	return controltest.Must[store.Usage](w.T)(w.Raw.Usage(w.T.Context(), "acme")).Tenant.Waiting
}

// contract: Q03, W-8, T131
func TestQueue_ARunThatWaitsTooLongFails(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	e := &controltest.SweptEngine{}
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas()), func(c *usecases.Config) {
		e.FakeEngine, _ = c.Engine.(*controltest.FakeEngine)
		c.Engine, c.Metrics = e, registry
		c.Reconcile = duty.ReconcileSettings{Interval: 20 * time.Millisecond}
	})
	w.Clock.Hold()
	w.StartOneStep("r1")
	w.StartOneStep("r2")
	id := w.StartOneStep("r3").View.Run.RunID
	if _, err := w.SetQuota(t.Context(), w.Principal("dev-admin"),
		setting(0, admission.QuotaDocument{Tenant: admission.QuotaLimits{StartRunPerMinute: new(0)}})); err != nil {
		t.Fatal(err)
	}
	w.admits()
	w.Spawn(w.Reconcile)
	w.Clock.Advance(5*time.Minute - time.Second)
	e.Sweeps(t, 5)
	if got := w.EventLog(id); len(got) != 1 {
		t.Fatalf("the run ended before its TTL: %q", got)
	}
	w.Clock.Advance(2 * time.Second)
	controltest.Eventually(t, "it fails", func() bool { return len(w.EventLog(id)) == 2 })
	st := w.StateOf(id)
	if f := st.Failure; st.Status != run.Failed || f.Code != "QUEUE_TTL_EXCEEDED" || f.Category != run.CategorySystem ||
		!f.Retryable {
		t.Errorf("the run is %s with %+v, want FAILED with a retryable QUEUE_TTL_EXCEEDED", st.Status, f)
	}
	row := controltest.Must[store.QueueRow](t)(w.Raw.QueueRow(t.Context(), id))
	if row.Status != store.QueueFailed || w.Engine.StartsOf(id) != 0 || w.depth() != 0 {
		t.Errorf("the row is %+v with %d starts and the depth %d, want FAILED, no start and 0",
			row, w.Engine.StartsOf(id), w.depth())
	}
	if err := w.LoadPolicy(t.Context()); err != nil { // a policy that was not confirmed for 5 minutes is not used
		t.Fatal(err)
	}
	if again := w.StartOneStep("r3"); !again.Deduplicated || again.View.Run.RunID != id ||
		again.View.State.Status != run.Failed || again.View.Queue != nil {
		t.Errorf("the repeated request is answered %+v, want the FAILED run", again)
	}
	controltest.Eventually(t, "it is counted, after it was committed",
		func() bool { return controltest.MetricValues(t, registry)["engine_queue_ttl_exceeded_total"] == 1 })
	if m := controltest.MetricValues(t, registry); m["engine_backpressure_queued"] != 1 {
		t.Errorf("the metrics are %v, want one queued run", m)
	}
}

// contract: Q03, H03, T131
func TestQueue_AFreezeGivesWaitingRunsTheirWholeTimeAgain(t *testing.T) {
	t.Parallel()
	e := &controltest.SweptEngine{}
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas()), func(c *usecases.Config) {
		e.FakeEngine, _ = c.Engine.(*controltest.FakeEngine)
		c.Engine = e
		c.Reconcile = duty.ReconcileSettings{Interval: 20 * time.Millisecond}
	})
	w.Clock.Hold()
	w.StartOneStep("r1")
	w.StartOneStep("r2")
	id := w.StartOneStep("r3").View.Run.RunID
	w.quotas(admission.QuotaDocument{Tenant: admission.QuotaLimits{StartRunPerMinute: new(0)}})
	freeze := func(request string, frozen bool) {
		controltest.Must[admission.ModeChange](t)(w.FreezeTenant(t.Context(), w.Principal("dev-admin"),
			admission.FreezeTenant{RequestID: request, Frozen: frozen, Reason: "leak"}))
	}
	expiry := func() time.Time {
		page := controltest.Must[admission.QueuePage](t)(w.Queue(t.Context(), w.Principal("dev-viewer"),
			admission.QueueQuery{}))
		return page.Entries[0].ExpiresAt
	}
	w.Clock.Advance(time.Minute)
	freeze("f1", true)
	if got := expiry(); !got.IsZero() {
		t.Errorf("a frozen run gives up at %v, want no time", got)
	}
	w.Spawn(w.Reconcile)
	for range 3 { // past its time more than once
		w.Clock.Advance(6 * time.Minute)
		controltest.Must[int](t)(0, w.LoadPolicy(t.Context())) // one that was not confirmed for 5 minutes is not used
		e.Sweeps(t, 5)
	}
	if got := w.EventLog(id); len(got) != 1 {
		t.Fatalf("the run ended during the freeze: %q", got)
	}
	freeze("f2", false)
	ends := w.Clock.Now().Add(5 * time.Minute)
	if got := expiry(); got.Sub(ends).Abs() > time.Second {
		t.Errorf("after the freeze the run gives up at %v, want %v", got, ends)
	}
	w.Clock.Advance(5*time.Minute - 2*time.Second)
	e.Sweeps(t, 5)
	if got := w.EventLog(id); len(got) != 1 {
		t.Fatalf("the run ended before its whole time after the freeze: %q", got)
	}
	w.Clock.Advance(4 * time.Second)
	controltest.Eventually(t, "it fails", func() bool { return len(w.EventLog(id)) == 2 })
}

// contract: Q04, T132
func TestStartRun_IsRefusedByAFullQueueAndAUsedQuota(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas(func(q *admission.Quotas) {
		h := q.Tiers["hobby"]
		h.MaxQueueDepth = 3
		q.Tiers["hobby"] = h
	})), func(c *usecases.Config) { c.Metrics = registry })
	for i := range 5 {
		w.StartOneStep(fmt.Sprint("r", i))
	}
	start := func(request string, code run.Code) {
		t.Helper()
		_, err := w.StartRun(t.Context(), w.Engineer(), controltest.StartOf(request, controltest.Document(nil, "s1")))
		if e := controltest.Refusal(t, err, code); e.RetryAfter <= 0 || e.RetryAfter > 30*time.Second {
			t.Errorf("%s may be tried again after %s, want up to 30 s", code, e.RetryAfter)
		}
	}
	start("r5", run.CodeQueueFull)
	if s := w.StartOneStep("r4"); !s.Deduplicated {
		t.Error("a known request was refused or started another run")
	}
	if w.CountTenantRuns("acme") != 5 || !w.HasAuditRow("acme", "dev-engineer START REJECTED QUEUE_FULL") {
		t.Errorf("there are %d runs and the audit %q, want 5 and a row of QUEUE_FULL", w.CountTenantRuns("acme"),
			w.AuditRows("acme"))
	}
	w.quotas(admission.QuotaDocument{Strategy: store.StrategyReject})
	start("r6", run.CodeQuotaExceeded)
	if m := controltest.MetricValues(t, registry); m["engine_backpressure_rejected"] != 2 ||
		m["engine_backpressure_queued"] != 3 {
		t.Errorf("the metrics are %v, want 2 refused and 3 queued runs", m)
	}
}

// quotas sets the first quota document of acme.
func (w *world) quotas(doc admission.QuotaDocument) {
	w.T.Helper()
	if _, err := w.SetQuota(w.T.Context(), w.Principal("dev-admin"), setting(0, doc)); err != nil {
		w.T.Fatal(err)
	}
}

// contract: Q11
func TestStartRun_IsDelayedUntilItsToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t,
		controltest.WithQuotas(controltest.HobbyQuotas(func(q *admission.Quotas) { q.Strategy = store.StrategyDelay })))
	w.Clock.Hold()
	w.StartOneStep("r1")
	w.StartOneStep("r2")
	s := w.StartOneStep("r3")
	id, q := s.View.Run.RunID, s.View.Queue
	if controltest.Waits(s) || s.View.State.Status != run.Approved || q.NotBefore.Sub(s.View.AsOf) != 30*time.Second {
		t.Errorf("the queue row is %+v, want APPROVED and due in 30 s", q)
	}
	w.admits()
	w.Clock.Advance(29 * time.Second)
	w.AwaitLeases()
	if w.QueueRow(id).Status != store.QueuePending || w.Engine.StartsOf(id) != 0 {
		t.Error("the run was started before its time")
	}
	w.Clock.Advance(time.Second)
	w.StartOneStep("r1")
	controltest.Eventually(t, "it is started", func() bool { return w.Engine.StartsOf(id) == 1 })
}

// contract: T209, T224
func TestRerun_KeepsItsReusedStepsWhileItWaitsInTheQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas(func(q *admission.Quotas) { q.Tenants = nil })))
	id := w.CreateFailed("r1")
	w.quotas(admission.QuotaDocument{Tenant: admission.QuotaLimits{StartRunPerMinute: new(0)}})
	s := w.RequestRerun(runs.Rerun{RunID: id, RequestID: "again", Failed: true})
	again := s.View.Run.RunID
	if !controltest.Waits(s) || s.View.Queue.Wait != 0 || w.ReusedSteps(again) != "a d" {
		t.Errorf("the rerun %+v takes over %q, want it to wait and take over a and d", s.View.Queue, w.ReusedSteps(again))
	}
	if s := w.RequestRerun(runs.Rerun{RunID: id, RequestID: "again", Failed: true}); !s.Deduplicated {
		t.Error("the repeated request made a second run")
	}
	if _, err := w.SetQuota(t.Context(), w.Principal("dev-admin"), setting(1, admission.QuotaDocument{})); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(11 * time.Second)
	w.admits()
	controltest.Eventually(t, "it is started", func() bool { return w.Engine.StartsOf(again) == 1 })
	if got := w.EventLog(again); w.ReusedSteps(again) != "a d" || len(got) != 2 || got[1] != "2 RunApproved" {
		t.Errorf("the log is %q and the rerun takes over %q, want RunApproved and a and d", got, w.ReusedSteps(again))
	}
}

// contract: T100, T192
func TestSignalRun_CancelOfAWaitingRunEndsItAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas()))
	w.StartOneStep("r1")
	w.StartOneStep("r2")
	id := w.StartOneStep("r3").View.Run.RunID
	w.Send(w.Engineer(), controltest.SignalOf(id, "c1", run.Cancel))
	if row := controltest.Must[store.QueueRow](t)(w.Raw.QueueRow(t.Context(), id)); row.Status != store.QueueCancelled ||
		w.depth() != 0 {
		t.Errorf("the row is %+v and the depth %d, want CANCELLED and 0", row, w.depth())
	}
	w.admits()
	w.Clock.Advance(10 * time.Minute)
	w.AwaitLeases()
	if w.QueueRow(id).Status != store.QueueCancelled || w.Engine.StartsOf(id) != 0 ||
		w.StateOf(id).Status != run.Cancelled {
		t.Errorf("%d starts and the status %s, want none and CANCELLED", w.Engine.StartsOf(id), w.StateOf(id).Status)
	}
}

// A slot that becomes free is taken at once, also when the run ended through another process.
func TestDispatch_ASlotFreedElsewhereIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas(func(q *admission.Quotas) {
		q.Tenants = nil
		d := q.Tiers[admission.DefaultTier]
		d.MaxActive = 1
		q.Tiers[admission.DefaultTier] = d
	})))
	// The store as another server or worker process uses it.
	elsewhere := decorate.NotifyRunEnd(w.Store, admission.SlotNotifier(w.Bus))
	active := w.CreateRunning("r0", "s1")
	w.admits()
	var ids []string
	for i := range 5 {
		s := w.StartOneStep(fmt.Sprint("r", i+1))
		if !controltest.Waits(s) || s.View.Queue.Why == store.WaitQuota {
			t.Fatalf("the run is %+v, want it to wait for a slot", s.View.Queue)
		}
		ids = append(ids, s.View.Run.RunID)
	}
	var slowest time.Duration
	for _, next := range ids {
		began := time.Now()
		end := runtest.Draft(run.RunCancelled, "", 1)
		end.EmittedAt = w.Clock.Now()
		controltest.Must[store.Appended](t)(elsewhere.Append(t.Context(), store.Append{RunID: active,
			Events: []run.Draft{end}}))
		controltest.Eventually(t, "the next is started", func() bool { return w.Engine.StartsOf(next) == 1 })
		slowest = max(slowest, time.Since(began))
		w.AppendEvents(next, runtest.Start())
		active = next
	}
	t.Logf("from the end of a run to the start of the next: at most %s", slowest)
	if slowest > testtime.Of(2*time.Second) { // polling alone would take 5 s
		t.Errorf("the next run was started after %s, want at most 2 s", slowest)
	}
}

// contract: Q05, Q12
func TestDispatch_IsFairAndStartsEachRunOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas(func(q *admission.Quotas) {
		q.Tenants = nil
		q.Tiers[admission.DefaultTier] = admission.Tier{StartRunPerMinute: 100_000, MaxActive: 1000, MaxQueueDepth: 1000,
			Weight: 1}
		q.MaxActive = 1
	})))
	active := w.CreateRunning("first", "s1")
	var ids []string
	for i := range 40 {
		ids = append(ids, w.StartOneStep(fmt.Sprint("a", i)).View.Run.RunID)
	}
	globex := controltest.Document(controltest.M{"scope.tenantId": "globex"}, "s1")
	other := controltest.Must[runs.StartedRun](t)(w.StartRun(t.Context(), w.Principal("dev-mallory"),
		controltest.StartOf("b", globex))).View.Run.RunID
	var mu sync.Mutex
	var order []string
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnStart = func(id run.Identity) error { mu.Lock(); defer mu.Unlock(); order = append(order, id.RunID); return nil }
	})
	w.admits()
	second := usecases.New(w.Config)
	if err := second.LoadPolicy(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Spawn(func(ctx context.Context) error { return second.Dispatch(ctx, "there") })
	w.Store = decorate.NotifyRunEnd(w.Store, admission.SlotNotifier(w.Bus))
	for done := 1; done <= 41; done++ {
		end := runtest.Draft(run.RunCancelled, "", 1)
		end.EmittedAt = w.Clock.Now()
		controltest.Must[store.Appended](t)(w.Store.Append(t.Context(), store.Append{RunID: active,
			Events: []run.Draft{end}}))
		controltest.Eventually(t, "another is started",
			func() bool { mu.Lock(); defer mu.Unlock(); return len(order) >= done })
		mu.Lock()
		active = order[done-1]
		mu.Unlock()
	}
	for i, id := range order {
		if id == other && i > 2 {
			t.Errorf("the run of globex was started as number %d, want at most number 3", i+1)
		}
	}
	for _, id := range append(ids, other) {
		if n := w.Engine.StartsOf(id); n != 1 || w.CountEvents(id, run.RunApproved) != 1 {
			t.Errorf("run %s has %d starts and the log %q, want one start and one RunApproved", id, n, w.EventLog(id))
		}
	}
}

// contract: Q09, T138
func TestStartRun_WarnsOfAnotherVersion(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	w := newWorld(t, func(c *usecases.Config) { c.Logger = slog.New(slog.NewTextHandler(&said, nil)) })
	w.StartOneStep("r1")
	w.StartOneStep("r1")
	if strings.Contains(said.String(), "second run") {
		t.Errorf("the log says %s, want nothing yet", said.String())
	}
	w.StartOneStep("r1", func(in *runs.StartRun) {
		in.Inline = controltest.Document(controltest.M{"metadata.planVersion": "2.0"}, "s1")
	})
	if !strings.Contains(said.String(), "second run") || !strings.Contains(said.String(), "before=1.0 now=2.0") {
		t.Errorf("the log says %s, want a warning with both versions", said.String())
	}
}

// A run that needs the slot of an active run has no estimate, however many tokens there are, and its entry says whose
// slots are in use. The runs behind it have none either.
func TestQueue_PromisesNoStartThatDependsOnTheEndOfAnotherRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, controltest.WithQuotas(controltest.HobbyQuotas(func(q *admission.Quotas) {
		q.Tiers["hobby"] = admission.Tier{StartRunPerMinute: 4, SignalOpsPerMinute: 20, MaxActive: 2, MaxQueueDepth: 100,
			Weight: 1}
	})))
	for i := range 6 {
		w.StartOneStep(fmt.Sprintf("r%d", i))
	}
	page := controltest.Must[admission.QueuePage](t)(w.Queue(t.Context(), w.Principal("dev-viewer"),
		admission.QueueQuery{}))
	if len(page.Entries) != 4 {
		t.Fatalf("%d runs wait, want 4 behind the 2 that hold the slots", len(page.Entries))
	}
	want := &control.SlotUse{Scope: control.SlotsOfTenant, Active: 2, Max: 2}
	for _, e := range page.Entries {
		if diff := cmp.Diff(want, e.Slots); diff != "" || e.Wait != 0 {
			t.Errorf("position %d has the estimate %v, want none; slots (-want +got):\n%s", e.Position, e.Wait, diff)
		}
	}
	v := controltest.Must[control.RunView](t)(w.Run(t.Context(), w.Principal("dev-viewer"), page.Entries[0].RunID, nil))
	if diff := cmp.Diff(want, v.Queue.Slots); diff != "" || v.Queue.Wait != 0 {
		t.Errorf("the run has the estimate %v, want none; slots (-want +got):\n%s", v.Queue.Wait, diff)
	}
}
