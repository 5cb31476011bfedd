package interp_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// newAheadWorld returns a world whose control applies a PAUSE when it accepts it.
func newAheadWorld(tb tb, sk plan.Skeleton, policy run.Policy) *world {
	w := newWorld(tb, sk, policy)
	w.cfg.PauseAhead = true
	w.m = interp.New(w.sk, w.cfg)
	return w
}

// pauseAhead accepts a PAUSE. The log has its RunPaused then, and the machine has not received it.
func (w *world) pauseAhead(id string) {
	w.tb.Helper()
	w.accept(engine.Signal{ID: id, Type: run.Pause})
	if r := w.receipts[id]; r.app != run.SignalApplied || r.seq != w.head.LastSeq || w.state.Status != run.Paused ||
		w.head.Gate&run.GatePaused == 0 {
		w.tb.Fatalf("the receipt is %+v, the run %s and the gate %b, want the pause in force", *r, w.state.Status,
			w.head.Gate)
	}
}

// redeliver delivers every accepted signal again.
func (w *world) redeliver() {
	w.tb.Helper()
	w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals...)})
	w.record()
}

// serveFetches answers every FetchSignals until none is outstanding.
func (w *world) serveFetches() {
	w.tb.Helper()
	for i := 0; len(w.fetch) > 0; i++ {
		if i > 5 {
			w.tb.Fatalf("the machine does not stop fetching signals")
		}
		after := w.fetch[0]
		w.fetch = w.fetch[1:]
		w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals[after:]...)})
		w.record()
	}
}

// expectHeld checks the number of Appends that the log held back.
func (w *world) expectHeld(n int) {
	w.tb.Helper()
	if w.held != n {
		w.tb.Fatalf("%d Appends were held back, want %d; the log is %v", w.held, n, w.logLines())
	}
}

// The pause is in force before the machine receives the PAUSE, and the machine writes no second RunPaused.
//
// contract: T48
func TestStep_APauseOfControlIsAdopted(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, d4(), basePolicy).start()
	w.succeed("start")
	w.begin("a")
	w.pauseAhead("A")
	w.arrive(w.flight("b")) // it meets the closed gate, and the machine does not know why
	if len(w.fetch) != 1 {
		t.Fatalf("fetches after %v, want one fetch", w.fetch)
	}
	w.redeliver()
	w.serveFetches()
	w.expectInFlight("a")
	w.succeed("a")
	w.signal(run.Resume, "B", "")
	w.succeed("b", "final")
	w.expectDone(run.Completed)
	w.expect("RunApproved", "RunStarted", "StepStarted(start,1)", "StepCompleted(start,1)", "StepStarted(a,1)",
		"SignalAccepted(A)", "RunPaused(1)",
		"StepCompleted(a,1)", "SignalAccepted(B)", "RunResumed(1)", "StepStarted(b,1)", "StepCompleted(b,1)",
		"StepStarted(final,1)", "StepCompleted(final,1)", "RunCompleted")
	w.expectReceipt("A", run.SignalApplied, "", 7)
	w.expectHeld(0)
}

// contract: T43, G13, G14
func TestStep_APauseHoldsBackRunCompleted(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{true, false} {
		w := newAheadWorld(t, l3(), basePolicy).start()
		w.succeed("s1", "s2")
		w.begin("s3")
		w.pauseAhead("A")
		w.succeed("s3") // the log holds RunCompleted back
		w.expectHeld(1)
		if asked {
			w.serveFetches()
		} else {
			w.redeliver()
		}
		w.expectHeld(1)
		w.signal(run.Resume, "B", "")
		w.serveFetches()
		w.expectDone(run.Completed)
		if diff := cmp.Diff([]string{"7 StepStarted(s3,1)", "8 SignalAccepted(A)", "9 RunPaused(1)", "10 StepCompleted(s3,1)",
			"11 SignalAccepted(B)", "12 RunResumed(1)", "13 RunCompleted"}, w.logLines()[6:]); diff != "" {
			t.Fatalf("log (-want +got):\n%s", diff)
		}
	}
}

// Without a retry window the machine appends RunFailed at once. The pause holds it back, and a retry during the pause
// is not too late.
//
// contract: T43, G16
func TestStep_APauseHoldsBackRunFailed(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(
		t, steps("a", "b", "c"), with(with(basePolicy, noWindow), func(p *run.Policy) { p.MaxParallelSteps = 2 })).start()
	w.begin("a")
	w.pauseAhead("A")
	w.fail("a", "BROKEN")
	w.expectHeld(1)
	w.comeBack(w.flight("b"), engine.Return{Kind: engine.ReturnParked}) // from the same closed gate
	w.redeliver()
	w.serveFetches()
	w.signal(run.RetryStep, "R", "a")
	w.signal(run.Resume, "B", "")
	w.serveFetches()
	w.succeed("a", "b", "c")
	w.expectDone(run.Completed)
	w.expectReceipt("R", run.SignalApplied, "", w.seqOf("StepStarted(a,2)"))
}

// A dispatch may return without a start while the machine writes the end of the run. If the pause holds the end back,
// the step starts after the resume and the retry.
//
// contract: T43
func TestStep_AStepThatReturnsWhileTheRunEndsStartsAfterTheResume(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, steps("a", "b"), with(basePolicy, noWindow)).start()
	w.begin("a")
	w.report(w.flight("a"), failed("BROKEN", true))
	w.commit()
	w.pauseAhead("A")
	w.deliver() // StepFailed is recorded, and the machine appends the end of the run
	if w.pending == nil || !w.pending.UnlessPaused {
		t.Fatalf("the machine writes %+v, want an Append with UnlessPaused", w.pending)
	}
	w.arrive(w.flight("b"))
	w.record()
	w.expectHeld(1)
	w.serveFetches()
	w.signal(run.RetryStep, "R", "a")
	w.signal(run.Resume, "B", "")
	w.serveFetches()
	w.succeed("a", "b")
	w.expectDone(run.Completed)
}

// contract: T91
func TestStep_APauseHoldsBackTheCompensation(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, withHooks(l3(), "s1"), with(basePolicy, noWindow)).start()
	w.succeed("s1")
	w.begin("s2")
	w.pauseAhead("A")
	w.fail("s2", "BROKEN")
	w.expectHeld(1)
	w.serveFetches()
	if w.hook != nil || w.state.Compensating {
		t.Fatal("the compensation has started in a paused run")
	}
	w.signal(run.Resume, "B", "")
	w.record()
	w.endHook(1, "")
	w.record()
	w.expectDone(run.Failed)
	if at, resumed := w.seqOf("RunCompensationStarted(s1)"), w.seqOf("RunResumed(1)"); at < resumed {
		t.Fatalf("the compensation started at %d, want it after the resume at %d", at, resumed)
	}
}

// The retry window expires after the pause and before the machine receives the PAUSE. The resume opens a new window.
//
// contract: T221
func TestStep_AWindowThatExpiresInAPauseOpensAgain(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), basePolicy).start()
	w.succeed("s1")
	w.fail("s2", "BROKEN")
	if w.state.RetryDeadline == nil {
		t.Fatal("no retry window is open after the failure")
	}
	w.pauseAhead("A")
	w.fire(interp.TimerRetryWindow)
	w.expectHeld(1)
	w.redeliver()
	w.serveFetches()
	w.signal(run.Resume, "B", "")
	if w.state.Status != run.Running || w.state.RetryDeadline == nil || !w.state.RetryDeadline.After(w.now) {
		t.Fatalf("the run is %s with a window until %v, want RUNNING with a new window", w.state.Status,
			w.state.RetryDeadline)
	}
	w.signal(run.RetryStep, "R", "s2")
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
}

// No worker asks the Journal before a wait for a person starts. The log still holds the wait back in a paused run.
//
// contract: T185
func TestStep_APauseHoldsBackAWait(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, asManual(l3(), 0, "s2"), basePolicy).start()
	w.begin("s1")
	w.pauseAhead("A")
	w.succeed("s1")
	w.expectHeld(1)
	w.serveFetches()
	if len(w.waits()) != 0 {
		t.Fatalf("the steps %v wait, want none in a paused run", w.waits())
	}
	w.signal(run.Resume, "B", "")
	w.complete("C", "s2", run.ManualSucceeded)
	w.succeed("s3")
	w.expectDone(run.Completed)
}

// An attempt whose worker is lost before it started does not fail in a paused run.
//
// contract: T185
func TestStep_ALossBeforeTheStartInAPausedRunIsNoFailure(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, steps("a"), basePolicy).start()
	w.pauseAhead("A")
	w.lose("a")
	w.begin("a") // it meets the closed gate
	w.serveFetches()
	w.signal(run.Resume, "B", "")
	w.succeed("a")
	w.expectDone(run.Completed)
	w.expect("RunApproved", "RunStarted", "SignalAccepted(A)", "RunPaused(1)", "SignalAccepted(B)", "RunResumed(1)",
		"StepStarted(a,1)", "StepCompleted(a,1)", "RunCompleted")
}

// A pause between RunStarted and the reused steps holds the reused steps back until the resume.
//
// contract: T209
func TestStep_APauseHoldsBackReusedSteps(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), basePolicy)
	w.cfg.Reused = []run.Ord{0, 1}
	w.m = interp.New(w.sk, w.cfg)
	w.feed(interp.Init{At: w.now})
	w.commit()
	if w.state.Counts.Success > 0 {
		t.Fatalf("the log is %v, want RunStarted without the reused steps", w.logLines())
	}
	w.pauseAhead("A")
	w.deliver()
	w.record()
	w.expectHeld(1)
	w.serveFetches()
	w.feed(interp.Pressure{At: w.now, Hard: true})
	if w.rotations > 0 {
		t.Fatal("the machine rotates with entries held back, which Carry does not have")
	}
	w.signal(run.Resume, "B", "")
	w.serveFetches()
	w.succeed("s3")
	w.expectDone(run.Completed)
	if w.state.Counts.Success != 3 {
		t.Fatalf("the counts are %+v, want 3 SUCCESS", w.state.Counts)
	}
}

// The workflow rotates after the pause. The next machine receives the PAUSE.
//
// contract: W-14
func TestStep_TheNextMachineAdoptsAPauseOfControl(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), basePolicy)
	w.cfg.RotateAfter = 1
	w.m = interp.New(w.sk, w.cfg)
	w.start()
	w.begin("s1")
	w.pauseAhead("A")
	w.succeed("s1")
	if w.rotations != 1 {
		t.Fatalf("%d rotations, want 1", w.rotations)
	}
	w.serveFetches()
	w.signal(run.Resume, "B", "")
	w.serveFetches()
	w.succeed("s2")
	w.serveFetches()
	w.succeed("s3")
	w.serveFetches()
	w.expectDone(run.Completed)
}

// Signals after the pause apply after it, in any order of delivery.
//
// contract: T196
func TestStep_SignalsAfterThePauseWaitForIt(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), basePolicy).start()
	w.begin("s1")
	w.pauseAhead("A")
	w.accept(engine.Signal{ID: "B", Type: run.Resume})
	w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals[1])}) // the RESUME first
	w.record()
	w.expectReceipt("B", run.SignalPending, "", 0)
	// C revokes B (contract T46). Control does not apply C itself, because the run is PAUSED.
	w.accept(engine.Signal{ID: "C", Type: run.Pause})
	w.serveFetches()
	w.redeliver()
	w.expectReceipt("B", run.SignalNoop, run.CodeSuperseded, 0)
	w.expectReceipt("C", run.SignalNoop, run.CodeAlreadyInState, 0)
	w.succeed("s1")
	w.signal(run.Resume, "D", "")
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
}

// While an earlier signal waits to be applied, control does not apply a PAUSE itself.
//
// contract: T196
func TestStep_APauseWaitsForEarlierSignals(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), basePolicy).start()
	w.fail("s1", "BROKEN")
	w.accept(engine.Signal{ID: "R", Type: run.RetryStep, StepID: "s1", LogicalAttempt: 1})
	w.accept(engine.Signal{ID: "A", Type: run.Pause})
	w.expectReceipt("A", run.SignalPending, "", 0)
	w.redeliver()
	w.expectReceipt("A", run.SignalApplied, "", w.seqOf("RunPaused(1)"))
	w.signal(run.Resume, "B", "")
	w.succeed("s1", "s2", "s3")
	w.expectDone(run.Completed)
}

// A machine without Config.PauseAhead, as in an older program, appends the RunPaused that the log has already and
// continues.
//
// contract: T48
func TestStep_AMachineWithoutPauseAheadRepeatsTheRunPaused(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), basePolicy).start()
	w.begin("s1")
	older := w.cfg
	older.PauseAhead = false
	m := interp.New(w.sk, older)
	for _, in := range w.inputs {
		m.Step(in)
	}
	w.cfg, w.m = older, m
	w.pauseAhead("A")
	w.redeliver()
	w.succeed("s1")
	w.signal(run.Resume, "B", "")
	w.signal(run.Pause, "C", "")
	w.expectReceipt("C", run.SignalApplied, "", w.seqOf("RunPaused(2)"))
	w.signal(run.Resume, "D", "")
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
}

// The RunPaused that control writes has the number of running steps, and the run drains as in any other pause.
//
// contract: O11
func TestStep_ARunDrainsAfterAPauseOfControl(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), basePolicy).start()
	w.begin("s1")
	w.pauseAhead("A")
	p, err := run.PayloadOf[run.PausePayload](w.log[len(w.log)-1].Payload)
	if err != nil || p.RunningStepsCount != 1 || w.state.Substatus() != run.Draining {
		t.Fatalf("RunPaused is %+v (%v) and the substatus %q, want 1 running step and DRAINING", p, err, w.state.Substatus())
	}
	w.succeed("s1")
	if w.state.Substatus() != "" {
		t.Fatalf("the substatus is %q, want none after the drain", w.state.Substatus())
	}
}

// seqOf returns the position of the event with this description.
func (w *world) seqOf(description string) run.Seq {
	w.tb.Helper()
	i := slices.IndexFunc(w.log, func(e run.Event) bool { return describe(e) == description })
	if i < 0 {
		w.tb.Fatalf("%s is not in the log %v", description, w.logLines())
	}
	return w.log[i].Seq
}

// contract: T43, T185
func TestHoldsBack_APausedRunTakesNoStartAndNoEnd(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, withHooks(l3(), "s1"), basePolicy).start()
	w.succeed("s1")
	w.begin("s2")
	draft := func(t run.EventType, id string, logicalAttempt int) run.Draft {
		return run.Draft{Type: t, StepID: id, LogicalAttempt: logicalAttempt}
	}
	held := func() (out []string) {
		for _, d := range []run.Draft{
			draft(run.RunCompleted, "", 1), draft(run.RunFailed, "", 1), draft(run.RunCancelled, "", 1),
			draft(run.RunCompensationStarted, "", 1),
			draft(run.RunResumed, "", 1), draft(run.StepStartedEvent, "s1", 1), draft(run.StepStartedEvent, "s2", 1),
			draft(run.StepStartedEvent, "s2", 2),
			draft(run.StepStartedEvent, "s3", 1), draft(run.StepStartedEvent, "none", 1), draft(run.StepCompletedEvent, "s2", 1),
			draft(run.StepFailedEvent, "s2", 1), draft(run.StepSkippedEvent, "s3", 1),
		} {
			if w.state.HoldsBack(d) {
				out = append(out, fmt.Sprintf("%s %s %d", d.Type, d.StepID, d.LogicalAttempt))
			}
		}
		return out
	}
	if got := held(); len(got) > 0 {
		t.Fatalf("a RUNNING run holds back %v, want nothing", got)
	}
	w.pauseAhead("A")
	want := []string{"RunCompleted  1", "RunFailed  1", "RunCompensationStarted  1", "StepStarted s2 2",
		"StepStarted s3 1", "StepStarted none 1", "StepSkipped s3 1"}
	if diff := cmp.Diff(want, held()); diff != "" {
		t.Fatalf("events that a PAUSED run holds back (-want +got):\n%s", diff)
	}
}

// Control does not apply a PAUSE itself when a part of the end of the run is in the log.
//
// contract: T91
func TestPausesAhead_NotAfterTheEndOfTheRunHasStarted(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]run.Draft{
		"compensation": {Type: run.RunCompensationStarted, Payload: []byte(`{"stepIds":["s1"]}`)},
		"fail-fast":    {Type: run.StepSkippedEvent, StepID: "s3", Payload: []byte(`{"reasonCode":"FAIL_FAST"}`)},
		"dependency":   {Type: run.StepSkippedEvent, StepID: "s3", Payload: []byte(`{"reasonCode":"DEPENDENCY_FAILED"}`)},
		"operator":     {Type: run.StepSkippedEvent, StepID: "s3", Payload: []byte(`{"reasonCode":"OPERATOR_SKIP"}`)},
	} {
		w := newAheadWorld(t, l3(), basePolicy).start()
		end.LogicalAttempt, end.EngineAttempt, end.EmittedAt, end.EmittedBy = 1, 1, w.now, run.ByEngine
		w.write(store.Append{Events: []run.Draft{end}})
		if got, want := w.state.PausesAhead(), name == "operator"; got != want {
			t.Errorf("%s: PausesAhead is %t, want %t", name, got, want)
		}
	}
}

// The run was about to fail and had ended its waits when the pause came. After the pause its steps can be retried.
//
// contract: T91
func TestStep_APauseRevokesAFinalFailure(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, asManual(steps("a", "b"), 0, "b"), with(basePolicy, noWindow)).start()
	w.begin("a")
	w.report(w.flight("a"), failed("BROKEN", true))
	w.commit()
	w.deliver() // the machine appends the end of the wait of b
	if got := w.pendingTypes(); len(got) != 1 || got[0] != run.StepFailedEvent {
		t.Fatalf("the machine writes %v, want one StepFailed", got)
	}
	w.pauseAhead("A")
	w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals...)})
	w.record()
	w.serveFetches()
	w.expectHeld(0)
	w.signal(run.RetryStep, "R", "a")
	w.signal(run.RetryStep, "S", "b")
	w.expectReceipt("R", run.SignalPending, "", 0)
	w.signal(run.Resume, "B", "")
	w.succeed("a")
	w.complete("C", "b", run.ManualSucceeded)
	w.expectDone(run.Completed)
}
