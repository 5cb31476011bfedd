package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control/admission"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// adopting makes a run in the state that an engine leaves which takes pauses over.
func (w *world) adopting(requestID string, steps ...string) string {
	w.T.Helper()
	id := w.CreateQueued(requestID, steps...)
	w.HandOver()
	started := runtest.Start()
	var p map[string]any
	if err := json.Unmarshal(started.Payload, &p); err != nil {
		w.T.Fatal(err)
	}
	p["engineRunRef"].(map[string]any)["pauseAhead"] = true
	started.Payload = runtest.JSON(p)
	w.AppendEvents(id, started)
	return id
}

// pausing returns a PAUSE with a reason.
func pausing(runID, id string) runs.SignalRun {
	in := controltest.SignalOf(runID, id, run.Pause)
	in.Reason = "look at it"
	return in
}

// contract: G01, C01
func TestSignalRun_PauseIsInForceAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnSignal = func(run.Identity, engine.Signal) error { return engine.ErrUnavailable }
	})
	id := w.adopting("g01", "s1<", "s2<")
	w.BeginStep(id, "s1", 1)
	w.Spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
	r := w.Send(w.Engineer(), pausing(id, "u1"))
	if r.Application != run.SignalApplied || r.AcceptedSeq != 4 || r.AppliedSeq != 5 || r.AppliedAt == nil ||
		r.DeliveredAt != nil || r.QuiescentSeq != 0 {
		t.Errorf("the receipt is %+v, want APPLIED and not delivered yet", r.SignalReceipt)
	}
	evs := controltest.Must[[]run.Event](t)(w.Raw.Events(t.Context(), id, 4, 10))
	if len(evs) != 1 || evs[0].Type != run.RunPaused || evs[0].EmittedBy != run.ByControl || evs[0].LogicalAttempt != 1 {
		t.Fatalf("the events are %+v, want one RunPaused by control for epoch 1", evs)
	}
	want := run.PausePayload{SignalID: "u1", Reason: "look at it", PauseRequestedBy: "dev-engineer", RunningStepsCount: 1}
	if diff := cmp.Diff(want,
		controltest.Must[run.PausePayload](t)(run.PayloadOf[run.PausePayload](evs[0].Payload))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b := controltest.Must[engine.AttemptStarted](t)(w.Journal.StartAttempt(t.Context(), w.BeginOf(id, "s2", 1, 1)))
	if b.Verdict != store.StartParked {
		t.Errorf("s2 is %s, want PARKED", b.Verdict)
	}
	if st := w.StateOf(id); st.Status != run.Paused || st.Substatus() != run.Draining || st.Pause.SignalID != "u1" {
		t.Errorf("the run is %s %s, want PAUSED and DRAINING because of u1", st.Status, st.Substatus())
	}
	if again := w.Send(w.Engineer(), pausing(id, "u1")); !again.Duplicate || again.Application != run.SignalApplied {
		t.Errorf("the repeated signal is answered %+v, want the APPLIED duplicate", again)
	}
	// The RunPaused that the engine writes for the same pause is the same event (T05) with the same payload.
	draft := runtest.Draft(run.RunPaused, "", 1)
	draft.Payload = runtest.JSON(run.PausePayload{SignalID: "u1"})
	out := w.AppendEvents(id, draft)
	if o := out.Outcomes[0]; !o.Deduplicated || o.PayloadMismatch || o.Seq != 5 {
		t.Errorf("the RunPaused of the engine is answered %+v, want the event at 5 without a mismatch", o)
	}
	w.AppendEvents(id, runtest.Draft(run.StepCompletedEvent, "s1", 1))
	if r := controltest.Must[runs.SignalReceipt](t)(w.Receipt(t.Context(), w.Engineer(), id, "u1")); r.QuiescentSeq != 6 {
		t.Errorf("quiescent at %d, want 6", r.QuiescentSeq)
	}
	w.Engine.Set(func(e *controltest.FakeEngine) { e.OnSignal = nil }) // it is back
	controltest.Eventually(t, "delivered", func() bool {
		r := controltest.Must[runs.SignalReceipt](t)(w.Receipt(t.Context(), w.Engineer(), id, "u1"))
		return r.DeliveredAt != nil && r.Application == run.SignalApplied
	})
	if s := w.Engine.SignalsTo(id); len(s) == 0 || !s[0].Applied || s[0].ID != "u1" {
		t.Errorf("the delivered signals are %+v, want u1 first, marked as applied", s)
	}
}

// The table lists the states in which a PAUSE is delivered like other signals instead of taking effect at once.
// contract: T45, T196
func TestSignalRun_SomePausesWaitForTheEngine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		before func(id string)
		ahead  bool
	}{
		"a run that runs":     {func(string) {}, true},
		"in the retry window": {func(id string) { w.FinishStep(id, "s1", 1, run.StepFailedEvent) }, true},
		"after a parameter": {func(id string) {
			w.Send(w.Principal("dev-admin"), controltest.SignalOf(id, "p",
				run.UpdateParams))
		}, true},
		"after a retry": {func(id string) {
			w.FinishStep(id, "s1", 1, run.StepFailedEvent)
			w.Send(w.Engineer(), controltest.SignalOf(id, "r", run.RetryStep))
		}, false},
		"after a resume":       {func(id string) { w.Send(w.Engineer(), controltest.SignalOf(id, "r", run.Resume)) }, false},
		"after a cancellation": {func(id string) { w.Send(w.Engineer(), controltest.SignalOf(id, "c", run.Cancel)) }, false},
		"a stop that came to nothing": {func(id string) {
			w.Send(w.Engineer(), controltest.SignalOf(id, "c", run.Cancel))
			w.outcome(id, store.SignalOutcome{SignalID: "c", Application: run.SignalNoop, AppliedBy: -1})
		}, false},
		"compensating": {func(id string) {
			w.AppendEvents(id, runtest.Draft(run.RunCompensationStarted, "", 1, controltest.M{"stepIds": []string{"s1"}}))
		}, false},
		"ending": {func(id string) {
			w.AppendEvents(id, runtest.Draft(run.StepSkippedEvent, "s2", 1, controltest.M{"reasonCode": "FAIL_FAST"}))
		}, false},
		"paused":       {func(id string) { w.AppendEvents(id, runtest.Draft(run.RunPaused, "", 1)) }, false},
		"paused ahead": {func(id string) { w.Send(w.Engineer(), pausing(id, "u0")) }, false},
	} {
		id := w.adopting("t45-"+strings.ReplaceAll(name, " ", "-"), "s1", "s2")
		c.before(id)
		paused := w.CountEvents(id, run.RunPaused)
		r := w.Send(w.Engineer(), pausing(id, "u1"))
		want := run.SignalPending
		if c.ahead {
			want = run.SignalApplied
			paused++
		}
		if r.Application != want || w.CountEvents(id, run.RunPaused) != paused {
			t.Errorf("%s: the pause is %s, want %s; the log is %v", name, r.Application, want, w.EventLog(id))
		}
	}
	older := w.CreateRunning("t45-older", "s1")
	if r := w.Send(w.Engineer(), pausing(older, "u1")); r.Application != run.SignalPending ||
		w.CountEvents(older, run.RunPaused) != 0 {
		t.Errorf("the pause of a run with an engine of an older program is %+v, want PENDING", r)
	}
	queued := w.CreateQueued("t45-queued", "s1")
	if r := w.Send(w.Engineer(), pausing(queued, "u1")); r.Rejection != run.CodeInvalidRunState {
		t.Errorf("the pause of a queued run is %+v, want INVALID_RUN_STATE", r)
	}
}

// outcome changes a receipt like the interpreter.
func (w *world) outcome(runID string, o store.SignalOutcome) {
	w.T.Helper()
	controltest.Must[store.Appended](w.T)(
		w.Journal.Append(w.T.Context(), store.Append{RunID: runID, Outcomes: []store.SignalOutcome{o}}))
}

// Each pause is an epoch of its own, no matter which writer recorded the previous pause.
// contract: P06
func TestSignalRun_EachPauseHasItsOwnEpoch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.adopting("p06", "s1")
	for epoch := 1; epoch <= 2; epoch++ {
		resumed := fmt.Sprintf("r%d", epoch)
		if r := w.Send(w.Engineer(), pausing(id, fmt.Sprintf("p%d", epoch))); r.QuiescentSeq != r.AppliedSeq {
			t.Errorf("nothing runs and the receipt is %+v, want it quiescent at once", r.SignalReceipt)
		}
		w.Send(w.Engineer(), controltest.SignalOf(id, resumed, run.Resume))
		controltest.Must[store.Appended](t)(w.Journal.Append(t.Context(), store.Append{
			RunID: id, ClearGate: run.GatePaused, Events: []run.Draft{runtest.Draft(run.RunResumed, "", epoch)},
			Outcomes: []store.SignalOutcome{{SignalID: resumed, Application: run.SignalApplied}},
		}))
	}
	if diff := cmp.Diff([]string{"3 SignalAccepted(p1)", "4 RunPaused", "5 SignalAccepted(r1)", "6 RunResumed",
		"7 SignalAccepted(p2)", "8 RunPaused", "9 SignalAccepted(r2)", "10 RunResumed"}, w.EventLog(id)[2:]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Events that must not follow RunPaused are written before it or not at all. A repetition of a written batch gets the
// first answer.
// contract: T43
func TestAppendUnlessPaused_RefusesEventsAfterRunPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.adopting("t43", "s1", "s2")
	put := func(types ...run.Draft) (store.Appended, error) {
		return w.Journal.AppendUnlessPaused(t.Context(), store.Append{RunID: id, Events: types})
	}
	begun := []run.Draft{runtest.Draft(run.StepStartedEvent, "s1", 1), runtest.Draft(run.StepFailedEvent, "s1", 1)}
	first := controltest.Must[store.Appended](t)(put(begun...))
	w.Send(w.Engineer(), pausing(id, "u1"))
	again := controltest.Must[store.Appended](t)(put(begun...)) // its first answer was lost
	if !again.Outcomes[0].Deduplicated || again.Outcomes[1].Seq != first.Outcomes[1].Seq {
		t.Errorf("the repeated batch is answered %+v, want the first answer", again.Outcomes)
	}
	log := w.EventLog(id)
	for _, d := range []run.Draft{
		runtest.Draft(run.RunCompleted, "", 1), runtest.Draft(run.RunFailed, "", 1), runtest.Draft(run.StepStartedEvent,
			"s2",
			1),
		runtest.Draft(run.RunCompensationStarted, "", 1, controltest.M{"stepIds": []string{"s1"}}),
	} {
		if _, err := put(d); !errors.Is(err, engine.ErrPaused) {
			t.Errorf("%s after RunPaused returned %v, want ErrPaused", d.Type, err)
		}
	}
	if diff := cmp.Diff(log, w.EventLog(id)); diff != "" {
		t.Errorf("the log moved:\n%s", diff)
	}
	w.AppendEvents(id, runtest.Draft(run.RunCancelled, "", 1)) // by another hand
	out := controltest.Must[store.Appended](t)(put(runtest.Draft(run.RunFailed, "", 1)))
	if out.Outcomes[0].Refused != run.CodeInvalidTransition || !out.Head.Terminal {
		t.Errorf("the batch after the end of the run is answered %+v, want INVALID_TRANSITION", out)
	}
}

// A run takes 60 signals a minute, and its tenant as many as its bucket allows. Repeated signals get their receipt, and
// refused senders use nothing up.
// contract: T96, W-13
func TestSignalRun_ARunTakes60SignalsAMinute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("w13", "s1")
	before := len(w.EventLog(id))
	for i := range 60 {
		r := w.Send(w.Principal("dev-system"), controltest.SignalOf(id, fmt.Sprintf("u%d", i), run.EscalateAlert))
		if r.Rejected || r.Application != run.SignalApplied {
			t.Fatalf("signal %d is answered %+v, want APPLIED", i, r)
		}
	}
	_, err := w.SignalRun(t.Context(), w.Principal("dev-system"), controltest.SignalOf(id, "u60", run.EscalateAlert))
	if e := controltest.Refusal(t, err, run.CodeSignalRate); e.RetryAfter <= 0 || e.RetryAfter > time.Minute {
		t.Errorf("the refusal has RetryAfter %s, want at most a minute", e.RetryAfter)
	}
	if n := len(w.EventLog(id)) - before; n != 60 {
		t.Errorf("the log has %d events more, want 60", n)
	}
	if _, err := w.Receipt(t.Context(), w.Engineer(), id, "u60"); err == nil {
		t.Error("the signal above the limit has a receipt")
	}
	if !w.HasAuditRow("acme", "dev-system ESCALATE_ALERT DENIED SIGNAL_RATE_LIMITED") {
		t.Error("the refusal left no audit row")
	}
	if r := w.Send(w.Principal("dev-system"), controltest.SignalOf(id, "u7", run.EscalateAlert)); !r.Duplicate ||
		r.Application != run.SignalApplied {
		t.Errorf("the repeated u7 is answered %+v, want the APPLIED duplicate", r)
	}
	// the authorisation comes first
	_, err = w.SignalRun(t.Context(), w.Principal("dev-viewer"), controltest.SignalOf(id, "v", run.Pause))
	controltest.Refusal(t, err, run.CodeForbidden)
	w.Clock.Advance(61 * time.Second)
	if r := w.Send(w.Principal("dev-system"), controltest.SignalOf(id, "u60",
		run.EscalateAlert)); r.Application != run.SignalApplied {
		t.Errorf("a minute later the signal is answered %+v, want APPLIED", r)
	}
}

// contract: T96
func TestSignalRun_TheQuotaOfTheTenantLimitsSignals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *usecases.Config) {
		c.Quotas = &admission.Quotas{MaxActive: 10, Strategy: store.StrategyQueue,
			Tiers: map[string]admission.Tier{admission.DefaultTier: {
				StartRunPerMinute: 10, HeavyStepsPerMinute: 10, SignalOpsPerMinute: 3, MaxActive: 10, MaxQueueDepth: 10, Weight: 1,
			}}}
	})
	a, b := w.CreateRunning("a", "s1"), w.CreateRunning("b", "s1")
	for i := range 10 {
		_, err := w.SignalRun(t.Context(), w.Principal("dev-viewer"), controltest.SignalOf(a, fmt.Sprintf("v%d", i),
			run.Pause))
		controltest.Refusal(t, err, run.CodeForbidden)
	}
	w.Send(w.Engineer(), controltest.SignalOf(a, "u1", run.Pause))
	w.Send(w.Engineer(), controltest.SignalOf(a, "u1", run.Pause)) // known: it costs nothing
	w.Send(w.Engineer(), controltest.SignalOf(b, "u2", run.Pause))
	if r := w.Send(w.Engineer(),
		controltest.SignalOf(b, "u3", run.RetryStep)); r.Rejection != run.CodeStepNotFailed { // refused, and charged
		t.Errorf("the signal is answered %+v, want STEP_NOT_FAILED", r)
	}
	log := w.EventLog(a)
	_, err := w.SignalRun(t.Context(), w.Engineer(), controltest.SignalOf(a, "u4", run.Resume))
	if e := controltest.Refusal(t, err, run.CodeSignalRate); e.RetryAfter <= 0 || e.RetryAfter > time.Minute {
		t.Errorf("the refusal has RetryAfter %s, want the time to the next token", e.RetryAfter)
	}
	if diff := cmp.Diff(log, w.EventLog(a)); diff != "" {
		t.Errorf("the log moved:\n%s", diff)
	}
	w.Clock.Advance(21 * time.Second) // a third of a minute is a token
	if r := w.Send(w.Engineer(), controltest.SignalOf(a, "u4", run.Resume)); r.Rejected {
		t.Errorf("after the refill the signal is answered %+v, want it accepted", r)
	}
}
