package admission_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// operated makes a world whose operators' tenant is acme.
func operated(t *testing.T, change ...func(*usecases.Config)) *world {
	t.Helper()
	return newWorld(t, append(change, func(c *usecases.Config) { c.OperatorsTenant = "acme" })...)
}

func (w *world) mode(requestID string, mode admission.EngineMode) admission.ServiceState {
	w.T.Helper()
	return controltest.Must[admission.ModeChange](w.T)(w.SetEngineMode(w.T.Context(), w.Principal("dev-sre"),
		admission.SetEngineMode{RequestID: requestID, Mode: mode, Reason: "maintenance"})).ServiceState
}

func (w *world) start(p authz.Principal, requestID string) error {
	_, err := w.StartRun(w.T.Context(), p, controltest.StartOf(requestID, controltest.Document(nil, "s1")))
	return err
}

type publishGate struct{ held atomic.Bool }

func (g *publishGate) Hold() { g.held.Store(true) }

func (g *publishGate) Release() { g.held.Store(false) }

// contract: H03, T169
func TestSetEngineMode_NothingNewStartsAndRunningRunsGoOn(t *testing.T) {
	t.Parallel()
	gate := &publishGate{}
	w := operated(t, func(c *usecases.Config) { c.PublishGate = gate })
	ctx := t.Context()
	running, waiting := w.CreateRunning("r0", "s1", "b<s1"), w.CreateQueued("r00", "s1")
	w.reconcileIn(admission.ModeReadOnly, run.CodeEngineReadOnly, waiting)
	if !gate.held.Load() {
		t.Error("publication continues in READ_ONLY mode")
	}
	// Running workflows still append, and take signals.
	w.FinishStep(running, "s1", 1, run.StepCompletedEvent)
	if rc := w.Send(w.Engineer(), controltest.SignalOf(running, "p1", run.Pause)); rc.Rejected {
		t.Errorf("the receipt is %+v, want an accepted PAUSE", rc)
	}
	if _, err := w.StartRun(ctx, w.Engineer(), controltest.StartOf("r00", controltest.Document(nil, "s1"))); err != nil {
		t.Errorf("the repetition of an accepted start returned %v, want no error", err)
	}
	w.reconcileIn(admission.ModeDrained, run.CodeEngineDraining, waiting)
	if gate.held.Load() {
		t.Error("publication is halted in DRAINED mode")
	}
	if s := w.mode("m-normal", admission.ModeNormal); s.Mode != admission.ModeNormal || s.ModeReason != "maintenance" ||
		s.ModeSince.IsZero() {
		t.Errorf("the state is %+v, want the mode with its reason and time", s)
	}
	controltest.Eventually(t, "what waited starts", func() bool { return w.Engine.StartsOf(waiting) == 1 })
	if err := w.start(w.Engineer(), "r2"); err != nil {
		t.Error(err)
	}
}

// reconcileIn sets a mode and checks that nothing starts in it.
func (w *world) reconcileIn(mode admission.EngineMode, code run.Code, waiting string) {
	w.T.Helper()
	if s := w.mode("m-"+string(mode), mode); s.Mode != mode {
		w.T.Fatalf("the state is %+v, want the mode that was set", s)
	}
	w.SpawnDispatcher()
	if e := controltest.Refusal(w.T, w.start(w.Engineer(), "r-"+string(mode)), code); e.RetryAfter == 0 {
		w.T.Error("it does not say when to come again")
	}
	pre := controltest.Must[runs.ActionPreview](w.T)(w.PreviewAction(w.T.Context(), w.Engineer(),
		runs.PreviewAction{Start: new(controltest.StartOf("x", controltest.Document(nil, "s1")))}))
	if pre.Outcome != "REFUSED" || pre.Code != code {
		w.T.Errorf("the preview is %+v, want REFUSED with the code of the mode", pre)
	}
	time.Sleep(700 * time.Millisecond) // longer than the pause of a dispatcher
	if n := w.Engine.StartsOf(waiting); n != 0 {
		w.T.Errorf("the run was started %d times in %s, want never", n, mode)
	}
	if !w.HasAuditRow("acme", "dev-sre SET_ENGINE_MODE ACCEPTED") || !w.HasAuditRow("acme", "dev-engineer START DENIED "+
		string(code)) {
		w.T.Errorf("the audit %q has no row of the refusal", w.AuditRows("acme"))
	}
}

func TestSetEngineMode_OnlyOperatorsMaySetIt(t *testing.T) {
	t.Parallel()
	w := operated(t)
	ctx := t.Context()
	in := admission.SetEngineMode{RequestID: "m1", Mode: admission.ModeDrained, Reason: "maintenance"}
	for _, who := range []string{"dev-admin", "dev-engineer", "dev-mallory"} {
		_, err := w.SetEngineMode(ctx, w.Principal(who), in)
		controltest.Refusal(t, err, run.CodeForbidden)
	}
	sre := w.Principal("dev-sre")
	_, err := w.SetEngineMode(ctx, sre, admission.SetEngineMode{RequestID: "m0", Mode: "LAZY"})
	if e := controltest.Refusal(t, err, run.CodeBadInput); len(e.Violations) != 2 {
		t.Errorf("the refusal is %+v, want two violations", e)
	}
	controltest.Must[admission.ModeChange](t)(w.SetEngineMode(ctx, sre, in))
	w.mode("m2", admission.ModeNormal)
	// A request that was carried out before changes nothing, even if the mode was set again since.
	if s := controltest.Must[admission.ModeChange](t)(w.SetEngineMode(ctx, sre, in)); s.Mode != admission.ModeNormal {
		t.Errorf("the state is %+v, want NORMAL", s)
	}
	in.Mode = admission.ModeReadOnly
	_, err = w.SetEngineMode(ctx, sre, in)
	controltest.Refusal(t, err, run.CodeRequestConflict)
	if n := len(controltest.Must[[]store.StoredSetting](t)(w.Raw.SettingHistory(ctx, store.SettingMode, "", 0,
		10))); n != 2 {
		t.Errorf("there are %d versions of the mode, want 2", n)
	}
	nobody := newWorld(t)
	_, err = nobody.SetEngineMode(ctx, nobody.Principal("dev-sre"), in)
	controltest.Refusal(t, err, run.CodeForbidden)
}

// contract: H03
func TestFreezeTenant_AFrozenTenantStartsNothing(t *testing.T) {
	t.Parallel()
	w := operated(t)
	ctx := t.Context()
	waiting, running := w.CreateQueued("r0", "s1"), w.CreateRunning("r00", "s1", "b<s1")
	w.Engine.Set(func(e *controltest.FakeEngine) { delete(e.Started, waiting) })
	admin := w.Principal("dev-admin")
	freeze := func(p authz.Principal, id, tenant string, frozen bool) (admission.ModeChange, error) {
		return w.FreezeTenant(ctx, p, admission.FreezeTenant{RequestID: id, TenantID: tenant, Frozen: frozen,
			Reason: "secrets leaked"})
	}
	s := controltest.Must[admission.ModeChange](t)(freeze(admin, "f1", "", true))
	if !s.Frozen || s.FrozenReason != "secrets leaked" || s.FrozenSince.IsZero() || s.Mode != admission.ModeNormal ||
		s.ActiveRuns != nil {
		t.Errorf("the state of the tenant is %+v, want frozen without a number of active runs", s)
	}
	controltest.Refusal(t, w.start(w.Engineer(), "r1"), run.CodeTenantFrozen)
	mallory := w.Principal("dev-mallory")
	if s := controltest.Must[admission.ServiceState](t)(w.ServiceState(ctx, mallory)); s.Frozen {
		t.Error("another tenant is shown as frozen")
	}
	doc := controltest.StartOf("g1", controltest.Document(controltest.M{"scope.tenantId": "globex"}, "s1"))
	if _, err := w.StartRun(ctx, mallory, doc); err != nil {
		t.Errorf("a start in another tenant returned %v, want no error", err)
	}
	w.FinishStep(running, "s1", 1, run.StepCompletedEvent) // running runs go on
	controltest.Must[admission.ModeChange](t)(freeze(admin, "f2", "acme", false))
	if err := w.start(w.Engineer(), "r2"); err != nil {
		t.Error(err)
	}
	for _, who := range []string{"dev-engineer", "dev-mallory", "dev-admin"} {
		_, known := freeze(w.Principal(who), "f3", "globex", true)
		_, unknown := freeze(w.Principal(who), "f3", "nowhere", true)
		if who == "dev-mallory" {
			known, unknown = controltest.ErrorOf(freeze(mallory, "f3", "acme", true)),
				controltest.ErrorOf(freeze(mallory, "f3", "nowhere", true))
		}
		if a, b := controltest.Refusal(t, known, run.CodeForbidden), controltest.Refusal(t, unknown,
			run.CodeForbidden); a.Message != b.Message {
			t.Errorf("%s can tell a known tenant from an unknown one: %q, %q", who, a.Message, b.Message)
		}
	}
	sre := w.Principal("dev-sre")
	_, err := freeze(sre, "f4", "nowhere", true)
	controltest.Refusal(t, err, run.CodeNotFound)
	controltest.Must[admission.ModeChange](t)(freeze(sre, "f5", "globex", true))
	doc.RequestID = "g2"
	_, err = w.StartRun(ctx, mallory, doc)
	controltest.Refusal(t, err, run.CodeTenantFrozen)
	if !w.HasAuditRow("acme", "dev-sre FREEZE_TENANT ACCEPTED") || !w.HasAuditRow("globex",
		"dvt FREEZE_TENANT ACCEPTED") ||
		!w.HasAuditRow("acme", "dev-sre FREEZE_TENANT REJECTED NOT_FOUND") {
		t.Errorf("the audits %q and %q lack a row of the freeze", w.AuditRows("acme"), w.AuditRows("globex"))
	}
	controltest.Must[admission.ModeChange](t)(freeze(mallory, "f6", "", false)) // her own tenant, as its Admin
}

// contract: H03
func TestDispatch_ReleasesTheStartOfAFrozenTenant(t *testing.T) {
	t.Parallel()
	w := operated(t)
	id := w.CreateQueued("r0", "s1")
	controltest.Must[admission.ModeChange](t)(
		w.FreezeTenant(t.Context(), w.Principal("dev-admin"), admission.FreezeTenant{RequestID: "f1", Frozen: true,
			Reason: "x"}))
	w.SpawnDispatcher()
	controltest.Eventually(t, "it is given back", func() bool {
		q := controltest.Must[store.QueueRow](t)(w.Store.QueueRow(t.Context(), id))
		return q.Status == store.QueuePending && q.LastError == "the tenant is frozen"
	})
	if n := w.Engine.StartsOf(id); n != 0 {
		t.Errorf("the run was started %d times, want never", n)
	}
}

// contract: H03
func TestApproveRun_RefusedByModeButNotARejection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) { c.OperatorsTenant = "acme" })
	w.ChangePolicy(func(d *authz.Document) {
		d.Approvals = []authz.Approval{{ProjectID: "*", EnvironmentID: "*", Required: 1}}
	})
	ctx := t.Context()
	id := w.CreateQueued("r1", "s1")
	w.mode("m1", admission.ModeReadOnly)
	_, err := w.ApproveRun(ctx, w.Principal("dev-planner"), controltest.ApprovalOf(id, "a1"))
	controltest.Refusal(t, err, run.CodeEngineReadOnly)
	controltest.Must[control.RunView](t)(w.ApproveRun(ctx, w.Principal("dev-planner"), controltest.RejectionOf(id, "a2")))
}

func TestModes_AreInForceInAnotherProcessWithin2s(t *testing.T) {
	t.Parallel()
	w := operated(t)
	w.Config.Authz = controltest.Must[*authz.Authorizer](t)(authz.New(authz.DefaultPolicy(), w.Directory))
	other := usecases.New(w.Config)
	if err := other.LoadPolicy(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Spawn(other.FollowPolicy)
	stream := controltest.Must[control.Stream[admission.ServiceState]](t)(other.WatchService(t.Context(),
		w.Principal("dev-viewer")))
	defer stream.Close()
	if s := controltest.Must[admission.ServiceState](t)(stream.Next(t.Context())); s.Mode != admission.ModeNormal ||
		s.ActiveRuns != nil {
		t.Errorf("the state is %+v, want NORMAL without a number of active runs", s)
	}
	w.mode("m1", admission.ModeDrained)
	ctx, cancel := context.WithTimeout(t.Context(), testtime.Of(2*time.Second))
	defer cancel()
	if s := controltest.Must[admission.ServiceState](t)(stream.Next(ctx)); s.Mode != admission.ModeDrained ||
		s.ModeReason != "maintenance" {
		t.Errorf("the state is %+v, want the reason of the mode", s)
	}
	_, err := other.StartRun(t.Context(), w.Engineer(), controltest.StartOf("r1", controltest.Document(nil, "s1")))
	controltest.Refusal(t, err, run.CodeEngineDraining)
}

// contract: T178
func TestWatchService_EndsWithTheRightToRead(t *testing.T) {
	t.Parallel()
	w := operated(t)
	ctx := t.Context()
	if _, err := w.WatchService(ctx, w.Principal("nobody")); controltest.CodeOf(err) != run.CodeForbidden {
		t.Errorf("a principal who may read nothing gets %v, want FORBIDDEN", err)
	}
	if _, err := w.ServiceState(ctx, w.Principal("nobody")); controltest.CodeOf(err) != run.CodeForbidden {
		t.Errorf("a principal who may read nothing gets the stream with %v, want FORBIDDEN", err)
	}
	stream := controltest.Must[control.Stream[admission.ServiceState]](t)(w.WatchService(ctx, w.Principal("dev-viewer")))
	controltest.Must[admission.ServiceState](t)(stream.Next(ctx))
	w.ChangePolicy(controltest.WithoutGrants("dev-viewer"))
	_, err := stream.Next(ctx)
	controltest.Refusal(t, err, run.CodeForbidden)
}

func TestServiceState_AnOperatorSeesTheDrain(t *testing.T) {
	t.Parallel()
	w := operated(t)
	if s := controltest.Must[admission.ServiceState](t)(w.ServiceState(t.Context(),
		w.Principal("dev-sre"))); s.ActiveRuns == nil {
		t.Errorf("the state is %+v, want the number of active runs", s)
	}
}

func TestModes_AnUnreadableSettingStartsNothingNew(t *testing.T) {
	t.Parallel()
	w := operated(t)
	ctx := t.Context()
	put := func(kind store.SettingKind, tenant string, version int64, doc string) {
		controltest.Must[store.StoredSetting](t)(w.Raw.PutSetting(ctx, store.StoredSetting{
			Kind: kind, TenantID: tenant, Version: version, Doc: []byte(doc), Actor: "later", Reason: "x", RequestID: "x",
		}, store.AuditRow{ID: uuid.NewString(), TenantID: "acme", Actor: "later", Action: "SET_ENGINE_MODE",
			Outcome: "ACCEPTED"}))
		if err := w.LoadPolicy(ctx); err != nil {
			t.Fatal(err)
		}
	}
	put(store.SettingMode, "", 1, `{"mode":"QUARANTINE"}`)
	controltest.Refusal(t, w.start(w.Engineer(), "r1"), run.CodeEngineDraining)
	put(store.SettingMode, "", 2, `{"mode":"NORMAL"}`)
	put(store.SettingFreeze, "acme", 1, `{"frozen":"partly"}`)
	controltest.Refusal(t, w.start(w.Engineer(), "r1"), run.CodeTenantFrozen)
}
