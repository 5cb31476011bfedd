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

// newAheadWorld is a world whose control applies a PAUSE as it accepts it.
func newAheadWorld(tb tb, sk plan.Skeleton, policy run.Policy) *world {
	w := newWorld(tb, sk, policy)
	w.who.PauseAhead = true
	w.m = interp.New(w.sk, w.who)
	return w
}

// pauseAhead accepts a PAUSE, which is then in the log; nobody has told the machine.
func (w *world) pauseAhead(id string) {
	w.tb.Helper()
	w.accept(engine.Signal{ID: id, Type: run.Pause})
	if r := w.receipts[id]; r.app != run.SignalApplied || r.seq != w.head.LastSeq || w.state.Status != run.Paused ||
		w.head.Gate&run.GatePaused == 0 {
		w.tb.Fatalf("receipt %+v, run %s, gate %b", *r, w.state.Status, w.head.Gate)
	}
}

// hear delivers every signal again.
func (w *world) hear() {
	w.tb.Helper()
	w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals...)})
	w.record()
}

// ask answers what the machine asks for until it asks no more.
func (w *world) ask() {
	w.tb.Helper()
	for i := 0; len(w.fetch) > 0; i++ {
		if i > 5 {
			w.tb.Fatalf("signals are read again and again")
		}
		after := w.fetch[0]
		w.fetch = w.fetch[1:]
		w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals[after:]...)})
		w.record()
	}
}

// expectHeld says how many Appends the log did not take.
func (w *world) expectHeld(n int) {
	w.tb.Helper()
	if w.held != n {
		w.tb.Fatalf("%d Appends were held back, want %d; the log is %v", w.held, n, w.story())
	}
}

// TestStep_PauseAhead: the pause is in force before the machine hears of it, and it
// writes no second RunPaused.
// contract: T48
func TestStep_PauseAhead(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, d4(), calm).start()
	w.succeed("start")
	w.begin("a")
	w.pauseAhead("A")
	w.arrive(w.flight("b")) // it is parked, and the machine does not know why
	if len(w.fetch) != 1 {
		t.Fatalf("fetches %v", w.fetch)
	}
	w.hear()
	w.ask()
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

// TestStep_EndHeldBack: the run was about to end when it was paused.
// contract: T43, G13, G14
func TestStep_EndHeldBack(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{true, false} {
		w := newAheadWorld(t, l3(), calm).start()
		w.succeed("s1", "s2")
		w.begin("s3")
		w.pauseAhead("A")
		w.succeed("s3") // and RunCompleted is held back
		w.expectHeld(1)
		if asked {
			w.ask()
		} else {
			w.hear()
		}
		w.expectHeld(1)
		w.signal(run.Resume, "B", "")
		w.ask()
		w.expectDone(run.Completed)
		if diff := cmp.Diff([]string{"7 StepStarted(s3,1)", "8 SignalAccepted(A)", "9 RunPaused(1)", "10 StepCompleted(s3,1)",
			"11 SignalAccepted(B)", "12 RunResumed(1)", "13 RunCompleted"}, w.story()[6:]); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}

// TestStep_FailureHeldBack: without a retry window RunFailed is on its way at
// once; a retry that is ordered during the pause is not too late.
// contract: T43, G16
func TestStep_FailureHeldBack(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(
		t, steps("a", "b", "c"), with(with(calm, noWindow), func(p *run.Policy) { p.MaxParallelSteps = 2 })).start()
	w.begin("a")
	w.pauseAhead("A")
	w.fail("a", "BROKEN")
	w.expectHeld(1)
	w.comeBack(w.flight("b"), engine.Return{Kind: engine.ReturnParked}) // of the same closed gate
	w.hear()
	w.ask()
	w.signal(run.RetryStep, "R", "a")
	w.signal(run.Resume, "B", "")
	w.ask()
	w.succeed("a", "b", "c")
	w.expectDone(run.Completed)
	w.expectReceipt("R", run.SignalApplied, "", w.seqOf("StepStarted(a,2)"))
}

// TestStep_ParkedWhileClosing: what comes home unbegun while the end is held back
// starts once the run is resumed and retried.
// contract: T43
func TestStep_ParkedWhileClosing(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, steps("a", "b"), with(calm, noWindow)).start()
	w.begin("a")
	w.report(w.flight("a"), failed("BROKEN", true))
	w.commit()
	w.pauseAhead("A")
	w.deliver() // StepFailed is recorded, and the end is on its way
	if w.pending == nil || !w.pending.UnlessPaused {
		t.Fatalf("pending %+v", w.pending)
	}
	w.arrive(w.flight("b"))
	w.record()
	w.expectHeld(1)
	w.ask()
	w.signal(run.RetryStep, "R", "a")
	w.signal(run.Resume, "B", "")
	w.ask()
	w.succeed("a", "b")
	w.expectDone(run.Completed)
}

// TestStep_CompensationHeldBack: what succeeded is not undone while the run is paused.
// contract: T91
func TestStep_CompensationHeldBack(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, undoable(l3(), "s1"), with(calm, noWindow)).start()
	w.succeed("s1")
	w.begin("s2")
	w.pauseAhead("A")
	w.fail("s2", "BROKEN")
	w.expectHeld(1)
	w.ask()
	if w.hook != nil || w.state.Compensating {
		t.Fatal("the compensation has begun")
	}
	w.signal(run.Resume, "B", "")
	w.record()
	w.endHook(1, "")
	w.record()
	w.expectDone(run.Failed)
	if at, resumed := w.seqOf("RunCompensationStarted(s1)"), w.seqOf("RunResumed(1)"); at < resumed {
		t.Fatalf("the compensation began at %d, the run was resumed at %d", at, resumed)
	}
}

// TestStep_WindowEndsInAPause: the window's time is over between the pause and the
// moment at which the machine hears of it; the resume opens another one.
// contract: T221
func TestStep_WindowEndsInAPause(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), calm).start()
	w.succeed("s1")
	w.fail("s2", "BROKEN")
	if w.state.RetryDeadline == nil {
		t.Fatal("no window is open")
	}
	w.pauseAhead("A")
	w.fire(interp.TimerRetryWindow)
	w.expectHeld(1)
	w.hear()
	w.ask()
	w.signal(run.Resume, "B", "")
	if w.state.Status != run.Running || w.state.RetryDeadline == nil || !w.state.RetryDeadline.After(w.now) {
		t.Fatalf("%s, window %v", w.state.Status, w.state.RetryDeadline)
	}
	w.signal(run.RetryStep, "R", "s2")
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
}

// TestStep_ManualWaitHeldBack: a wait for a person begins without an executor's
// Begin, and does not begin in a paused run.
// contract: T185
func TestStep_ManualWaitHeldBack(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, asking(l3(), 0, "s2"), calm).start()
	w.begin("s1")
	w.pauseAhead("A")
	w.succeed("s1")
	w.expectHeld(1)
	w.ask()
	if len(w.waits()) != 0 {
		t.Fatalf("waits %v", w.waits())
	}
	w.signal(run.Resume, "B", "")
	w.complete("C", "s2", run.ManualSucceeded)
	w.succeed("s3")
	w.expectDone(run.Completed)
}

// TestStep_LostBeforeItBegan: an execution that nobody saw begin does not fail in a
// run that is paused.
// contract: T185
func TestStep_LostBeforeItBegan(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, steps("a"), calm).start()
	w.pauseAhead("A")
	w.lose("a")
	w.begin("a") // the gate sends it back
	w.ask()
	w.signal(run.Resume, "B", "")
	w.succeed("a")
	w.expectDone(run.Completed)
	w.expect("RunApproved", "RunStarted", "SignalAccepted(A)", "RunPaused(1)", "SignalAccepted(B)", "RunResumed(1)",
		"StepStarted(a,1)", "StepCompleted(a,1)", "RunCompleted")
}

// TestStep_ReuseHeldBack: the run is paused between RunStarted and what it takes over.
// contract: T209
func TestStep_ReuseHeldBack(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), calm)
	w.who.Reused = []run.Ord{0, 1}
	w.m = interp.New(w.sk, w.who)
	w.feed(interp.Init{At: w.now})
	w.commit()
	if w.state.Counts.Success > 0 { // RunStarted goes alone
		t.Fatalf("the log is %v", w.story())
	}
	w.pauseAhead("A")
	w.deliver()
	w.record()
	w.expectHeld(1)
	w.ask()
	w.feed(interp.Pressure{At: w.now, Hard: true})
	if w.rotations > 0 {
		t.Fatal("it rotates, and what it put off is not carried")
	}
	w.signal(run.Resume, "B", "")
	w.ask()
	w.succeed("s3")
	w.expectDone(run.Completed)
	if w.state.Counts.Success != 3 {
		t.Fatalf("%+v", w.state.Counts)
	}
}

// TestStep_PauseAheadRotates: the machine that hears of the pause is the next one.
// contract: W-14
func TestStep_PauseAheadRotates(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), calm)
	w.who.RotateAfter = 1
	w.m = interp.New(w.sk, w.who)
	w.start()
	w.begin("s1")
	w.pauseAhead("A")
	w.succeed("s1")
	if w.rotations != 1 {
		t.Fatalf("%d rotations", w.rotations)
	}
	w.ask()
	w.signal(run.Resume, "B", "")
	w.ask()
	w.succeed("s2")
	w.ask()
	w.succeed("s3")
	w.ask()
	w.expectDone(run.Completed)
}

// TestStep_LaterSignalsWait: what was ordered after the pause is taken after it,
// in whatever order it is delivered.
// contract: T196
func TestStep_LaterSignalsWait(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), calm).start()
	w.begin("s1")
	w.pauseAhead("A")
	w.accept(engine.Signal{ID: "B", Type: run.Resume})
	w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals[1])}) // the RESUME first
	w.record()
	w.expectReceipt("B", run.SignalPending, "", 0)
	w.accept(engine.Signal{ID: "C", Type: run.Pause}) // takes B back (T46): not ahead, the run is PAUSED
	w.ask()
	w.hear()
	w.expectReceipt("B", run.SignalNoop, run.CodeSuperseded, 0)
	w.expectReceipt("C", run.SignalNoop, run.CodeAlreadyInState, 0)
	w.succeed("s1")
	w.signal(run.Resume, "D", "")
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
}

// TestStep_NotAheadOfOthers: while an earlier signal waits to be applied a PAUSE
// goes the way of all signals.
// contract: T196
func TestStep_NotAheadOfOthers(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), calm).start()
	w.fail("s1", "BROKEN")
	w.accept(engine.Signal{ID: "R", Type: run.RetryStep, StepID: "s1", LogicalAttempt: 1})
	w.accept(engine.Signal{ID: "A", Type: run.Pause})
	w.expectReceipt("A", run.SignalPending, "", 0)
	w.hear()
	w.expectReceipt("A", run.SignalApplied, "", w.seqOf("RunPaused(1)"))
	w.signal(run.Resume, "B", "")
	w.succeed("s1", "s2", "s3")
	w.expectDone(run.Completed)
}

// TestStep_OlderMachine: a machine of an older program, which knows nothing of a
// pause ahead, finds its RunPaused there and goes on.
// contract: T48
func TestStep_OlderMachine(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), calm).start()
	w.begin("s1")
	older := w.who
	older.PauseAhead = false
	m := interp.New(w.sk, older)
	for _, in := range w.inputs {
		m.Step(in)
	}
	w.who, w.m = older, m
	w.pauseAhead("A")
	w.hear()
	w.succeed("s1")
	w.signal(run.Resume, "B", "")
	w.signal(run.Pause, "C", "")
	w.expectReceipt("C", run.SignalApplied, "", w.seqOf("RunPaused(2)"))
	w.signal(run.Resume, "D", "")
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
}

// TestStep_QuiescentAhead: the store says of a pause ahead when nothing ran any
// more, as of any other.
// contract: O11
func TestStep_QuiescentAhead(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, l3(), calm).start()
	w.begin("s1")
	w.pauseAhead("A")
	p, err := run.PayloadOf[run.PausePayload](w.log[len(w.log)-1].Payload)
	if err != nil || p.RunningStepsCount != 1 || w.state.Substatus() != run.Draining {
		t.Fatalf("%+v %v; %s", p, err, w.state.Substatus())
	}
	w.succeed("s1")
	if w.state.Substatus() != "" {
		t.Fatalf("substatus %s", w.state.Substatus())
	}
}

// seqOf is where the log tells so.
func (w *world) seqOf(told string) run.Seq {
	w.tb.Helper()
	i := slices.IndexFunc(w.log, func(e run.Event) bool { return tell(e) == told })
	if i < 0 {
		w.tb.Fatalf("%s is not in the log %v", told, w.story())
	}
	return w.log[i].Seq
}

// TestHoldsBack is the table of what a paused run does not take.
// contract: T43, T185
func TestHoldsBack(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, undoable(l3(), "s1"), calm).start()
	w.succeed("s1")
	w.begin("s2")
	draft := func(t run.EventType, id string, la int) run.Draft {
		return run.Draft{Type: t, StepID: id, LogicalAttempt: la}
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
		t.Fatalf("a run that runs holds back %v", got)
	}
	w.pauseAhead("A")
	want := []string{"RunCompleted  1", "RunFailed  1", "RunCompensationStarted  1", "StepStarted s2 2",
		"StepStarted s3 1", "StepStarted none 1", "StepSkipped s3 1"}
	if diff := cmp.Diff(want, held()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

// TestPausesAhead: once a part of the end of the run is in the log a PAUSE does not
// come before it any more.
// contract: T91
func TestPausesAhead(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]run.Draft{
		"compensation": {Type: run.RunCompensationStarted, Payload: []byte(`{"stepIds":["s1"]}`)},
		"fail-fast":    {Type: run.StepSkippedEvent, StepID: "s3", Payload: []byte(`{"reasonCode":"FAIL_FAST"}`)},
		"dependency":   {Type: run.StepSkippedEvent, StepID: "s3", Payload: []byte(`{"reasonCode":"DEPENDENCY_FAILED"}`)},
		"operator":     {Type: run.StepSkippedEvent, StepID: "s3", Payload: []byte(`{"reasonCode":"OPERATOR_SKIP"}`)},
	} {
		w := newAheadWorld(t, l3(), calm).start()
		end.LogicalAttempt, end.EngineAttempt, end.EmittedAt, end.EmittedBy = 1, 1, w.now, run.ByEngine
		w.write(store.Append{Events: []run.Draft{end}})
		if got, want := w.state.PausesAhead(), name == "operator"; got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

// TestStep_FinalTakenBack: the run was about to fail, and had ended what waits for
// people, when the pause came; afterwards it can be retried.
// contract: T91
func TestStep_FinalTakenBack(t *testing.T) {
	t.Parallel()
	w := newAheadWorld(t, asking(steps("a", "b"), 0, "b"), with(calm, noWindow)).start()
	w.begin("a")
	w.report(w.flight("a"), failed("BROKEN", true))
	w.commit()
	w.deliver() // and the wait of b is to be cancelled
	if got := w.pendingTypes(); len(got) != 1 || got[0] != run.StepFailedEvent {
		t.Fatalf("pending %v", got)
	}
	w.pauseAhead("A")
	w.feed(interp.Signalled{At: w.now, Signals: w.asSent(w.signals...)})
	w.record()
	w.ask()
	w.expectHeld(0)
	w.signal(run.RetryStep, "R", "a")
	w.signal(run.RetryStep, "S", "b")
	w.expectReceipt("R", run.SignalPending, "", 0)
	w.signal(run.Resume, "B", "")
	w.succeed("a")
	w.complete("C", "b", run.ManualSucceeded)
	w.expectDone(run.Completed)
}
