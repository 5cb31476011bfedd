package duty_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// newHungWorld is a swept world with a recovery whose looks are 10 ms apart.
func newHungWorld(t *testing.T, mode admission.RecoveryMode) *sweptWorld {
	t.Helper()
	w := newSweptWorld(t, func(c *usecases.Config) {
		c.Recovery, c.Reconcile.RecoverEvery = mode, 10*time.Millisecond
	})
	w.ChangePolicy(func(d *authz.Document) {
		d.Grants = append(d.Grants, authz.PrincipalGrant{Principal: authz.Recovery, Role: authz.Engineer, ProjectID: "*",
			EnvironmentID: "*"})
	})
	return w
}

// loseAttempt ends an attempt as the interpreter does when the engine gives it up.
func (w *sweptWorld) loseAttempt(id, step string, attempt int) {
	w.T.Helper()
	w.failAttempt(id, step, attempt, run.CodeTimeout, "engine")
}

func (w *sweptWorld) failAttempt(id, step string, attempt int, code run.Code, source string) {
	w.T.Helper()
	draft := runtest.Draft(run.StepFailedEvent, step, attempt, controltest.M{"errorCode": string(code),
		"errorMessage": "no heartbeat", "failureSource": source, "retryable": true})
	draft.EmittedAt = w.Clock.Now()
	controltest.Must[store.Appended](w.T)(w.Store.Append(w.T.Context(), store.Append{RunID: id,
		Events: []run.Draft{draft}, SetGate: run.GateFailing, RetryDeadline: w.Clock.Now().Add(time.Hour)}))
}

// retries returns the signals of the recovery to a run.
func (w *sweptWorld) retries(id string) (out []run.SignalReceipt) {
	w.T.Helper()
	for rc, err := range w.SignalsOf(w.T.Context(), id) {
		if err != nil {
			w.T.Fatal(err)
		}
		if rc.Actor == authz.Recovery {
			out = append(out, rc)
		}
	}
	return out
}

// openGate opens the gate that a failure closed, as the interpreter does for a retry.
func (w *sweptWorld) openGate(id string) {
	w.T.Helper()
	controltest.Must[store.Appended](w.T)(w.Store.Append(w.T.Context(), store.Append{RunID: id,
		ClearGate: run.GateFailing, Seen: w.StateOf(id).Seq}))
}

func (w *sweptWorld) codes(level store.AlertLevel) (out []run.Code) {
	for _, a := range w.alerts() {
		if a.Level == level {
			out = append(out, a.Code)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// contract: H06, T57, T103
func TestRecovery_RetriesAHungAttemptOnceThenEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newHungWorld(t, admission.RecoveryAct)
	id := w.atWork("r1")
	w.loseAttempt(id, "s1", 1)
	w.sweep()
	controltest.Eventually(t, "the retry", func() bool { return len(w.retries(id)) == 1 })
	w.looksOn()
	sent := w.retries(id)
	if len(sent) != 1 || sent[0].Signal.Type != run.RetryStep || !sent[0].Signal.Force ||
		sent[0].Signal.ExpectedAttempt != 1 || !strings.Contains(sent[0].Reason, "Attempt 1 of step s1 hangs") {
		t.Fatalf("the signals are %+v, want one forced retry of attempt 1 with a reason", sent)
	}
	if w.StateOf(id).Status.Terminal() || len(w.codes(store.AlertHigh)) > 0 {
		t.Errorf("after the retry the run is %s with the alerts %v, want it open without one of level HIGH",
			w.StateOf(id).Status, w.codes(store.AlertHigh))
	}
	if !w.HasAuditRow("acme", authz.Recovery+" RETRY_STEP ACCEPTED  "+id+` {"stepId":"s1","force":true}`) {
		t.Errorf("the audit %v lacks the retry", w.AuditRows("acme"))
	}
	w.openGate(id)
	w.BeginStep(id, "s1", 2)
	w.loseAttempt(id, "s1", 2)
	st := w.ends(id)
	if st.Status != run.Failed || st.Failure == nil || st.Failure.Code != string(run.CodeEngineTerminated) {
		t.Errorf("the run ended %s with %+v, want FAILED with ENGINE_TERMINATED", st.Status, st.Failure)
	}
	if n := len(w.retries(id)); n != 1 {
		t.Errorf("%d retries were sent, want one", n)
	}
	controltest.Eventually(t, "people are told", func() bool { return len(w.codes(store.AlertHigh)) > 0 })
	w.looksOn()
	if got := fmt.Sprint(w.codes(store.AlertHigh)); got != "[RECOVERY_FAILED]" {
		t.Errorf("the alerts of level HIGH are %s, want RECOVERY_FAILED", got)
	}
	if got := w.CountEvents(id, run.RunFailed); got != 1 {
		t.Errorf("the log has %d ends, want one", got)
	}
}

// contract: H06, T166
func TestRecovery_LeavesPausedManualAndFailedRunsAlone(t *testing.T) {
	t.Parallel()
	w := newHungWorld(t, admission.RecoveryAct)
	paused := w.atWork("paused")
	pause := runtest.Draft(run.RunPaused, "", 1)
	pause.EmittedAt = w.Clock.Now()
	w.ApplySignal(paused, "p", pause)
	if _, err := w.Raw.Append(t.Context(), store.Append{RunID: paused, SetGate: run.GatePaused}); err != nil {
		t.Fatal(err)
	}
	w.loseAttempt(paused, "s1", 1)
	awaiting := w.atWork("awaiting")
	w.failAttempt(awaiting, "s1", 1, run.CodeTimeout, "step")
	person := w.CreateManual("person", "check")
	queued := w.CreateQueued("queued", "s1")
	w.HandOver()
	hung := w.atWork("hung")
	w.loseAttempt(hung, "s1", 1)
	w.sweep()
	controltest.Eventually(t, "the hung attempt is retried", func() bool { return len(w.retries(hung)) == 1 })
	w.Clock.Advance(30 * time.Minute)
	w.looksOn()
	for name, id := range map[string]string{"PAUSED": paused, "AWAITING_OPERATOR": awaiting, "WAITING_MANUAL": person,
		"queued": queued} {
		if n := len(w.retries(id)); n > 0 || w.StateOf(id).Status.Terminal() {
			t.Errorf("the run that is %s got %d retries and is %s, want none", name, n, w.StateOf(id).Status)
		}
		for _, a := range w.alerts() {
			if a.RunID == id && (a.Code == run.CodeStepStuck || a.Code == run.CodeRecoveryFailed) {
				t.Errorf("the run that is %s raised %s: %s", name, a.Code, a.Note)
			}
		}
	}
}

// contract: H06
func TestRecovery_ObserveAndAMissingGrantOnlyTell(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*sweptWorld){
		"observe": func(*sweptWorld) {},
		"the tenant lowers it": func(w *sweptWorld) {
			if _, err := w.SetRecovery(w.T.Context(), w.Principal("dev-admin"), admission.SetRecovery{RequestID: "low",
				Mode: admission.RecoveryObserve, Reason: "we retry ourselves"}); err != nil {
				w.T.Fatal(err)
			}
		},
		"no grant": func(w *sweptWorld) { w.ChangePolicy(controltest.WithoutGrants(authz.Recovery)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mode := admission.RecoveryAct
			if name == "observe" {
				mode = admission.RecoveryObserve
			}
			w := newHungWorld(t, mode)
			change(w)
			id := w.atWork("r1")
			w.loseAttempt(id, "s1", 1)
			w.sweep()
			controltest.Eventually(t, "people are told", func() bool { return len(w.codes(store.AlertHigh)) > 0 })
			w.looksOn()
			if n := len(w.retries(id)); n > 0 || w.StateOf(id).Status.Terminal() {
				t.Errorf("%d retries were sent and the run is %s, want none and open", n, w.StateOf(id).Status)
			}
			if got := fmt.Sprint(w.codes(store.AlertHigh)); got != "[STEP_STUCK]" {
				t.Errorf("the alerts of level HIGH are %s, want STEP_STUCK", got)
			}
		})
	}
}

// A tenant may lower the recovery and never raise it.
func TestRecovery_ATenantOnlyLowersIt(t *testing.T) {
	t.Parallel()
	w := newHungWorld(t, admission.RecoveryObserve)
	set := func(mode admission.RecoveryMode) admission.RecoveryMode {
		out := controltest.Must[admission.ModeChange](t)(w.SetRecovery(t.Context(), w.Principal("dev-admin"),
			admission.SetRecovery{RequestID: "set-" + string(mode), Mode: mode, Reason: "test"}))
		return out.Recovery
	}
	got := []admission.RecoveryMode{set(admission.RecoveryAct), set(admission.RecoveryOff), set("")}
	want := []admission.RecoveryMode{admission.RecoveryObserve, admission.RecoveryOff, admission.RecoveryObserve}
	if !slices.Equal(got, want) {
		t.Errorf("ACT, OFF and none are in force as %v, want %v", got, want)
	}
	controltest.Refusal(t, controltest.ErrorOf(w.SetRecovery(t.Context(), w.Engineer(), admission.SetRecovery{
		RequestID: "no", Mode: admission.RecoveryOff, Reason: "test"})), run.CodeForbidden)
}
