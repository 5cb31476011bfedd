package interp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// failedD4 returns a world of D4 with hooks, where b completes before a and final fails.
func failedD4(t *testing.T, change ...func(*run.Policy)) *world {
	p := basePolicy
	for _, c := range append(change, noWindow) {
		p = with(p, c)
	}
	w := newWorld(t, withHooks(d4(), "a", "b", "final"), p).start()
	w.succeed("start", "b", "a")
	w.fail("final", "BROKEN")
	return w
}

// Hooks run in the reverse order of completion, one at a time, and a hook that fails does not prevent the others
// (contract R182, R183, R185 to R188).
//
// contract: M04
func TestCompensate_RunsHooksInReverseOrderOfCompletion(t *testing.T) {
	t.Parallel()
	w := failedD4(t)
	if w.state.Status != run.Running || w.state.Substatus() != run.Compensating {
		t.Fatalf("the run is %s %q, want RUNNING and COMPENSATING", w.state.Status, w.state.Substatus())
	}
	w.undo("a", 1, "")
	w.undo("b", 2, "STUCK")
	w.expectDone(run.Failed)
	if diff := cmp.Diff([]string{"10 StepFailed(final,1,BROKEN)", "11 RunCompensationStarted(a b)",
		"12 StepCompensated(a,1,)",
		"13 StepCompensationFailed(b,2,STUCK)", "14 RunFailed(final,1,BROKEN)"}, w.logLines()[9:]); diff != "" {
		t.Fatalf("log (-want +got):\n%s", diff)
	}
	p, err := run.PayloadOf[run.RunFailedPayload](w.log[13].Payload)
	if err != nil {
		t.Fatal(err)
	}
	want := []run.CompensationPayload{
		{StepID: "a", IdempotencyKey: "r1:a:compensate", Attempts: 1, Compensated: true},
		{StepID: "b", IdempotencyKey: "r1:b:compensate", Attempts: 2, ErrorCode: "STUCK", ErrorMessage: "STUCK!"},
	}
	if diff := cmp.Diff(want, p.Compensation); diff != "" {
		t.Errorf("hooks in RunFailed (-want +got):\n%s", diff)
	}
	if first, _ := run.PayloadOf[run.CompensationPayload](w.log[11].Payload); string(first.Result) != `{"undone":true}` {
		t.Errorf("the event of a has the payload %s, want the result of its hook", w.log[11].Payload)
	}
	if e := w.log[12]; e.LogicalAttempt != 1 || e.EngineAttempt != 2 {
		t.Errorf("the event of b is of attempt %d.%d, want 1.2", e.LogicalAttempt, e.EngineAttempt)
	}
}

// A hook runs only after the log has the end of the previous one.
//
// contract: R185
func TestCompensate_RunsOneHookAtATime(t *testing.T) {
	t.Parallel()
	w := failedD4(t)
	w.writeHookEnd(1, "")
	// never dispatched
	w.feed(interp.HookReturned{At: w.now, Return: engine.Return{StepID: "b", N: 1, Kind: engine.ReturnLost}})
	if w.hookOf() != "a" || w.pending != nil {
		t.Fatalf("the hook in flight is %+v, want that of a until the machine observes its end", w.hook)
	}
	w.returnHook(engine.Return{Kind: engine.ReturnEnded, EngineAttempt: 1})
	w.feed(interp.HookReturned{At: w.now, Return: engine.Return{StepID: "a", N: 1, Kind: engine.ReturnLost}}) // stale
	if w.hookOf() != "b" || w.pending != nil {
		t.Fatalf("the hook in flight is %+v, pending is %+v; want the hook of b", w.hook, w.pending)
	}
}

// contract: R187
func TestCompensate_AHookThatFailsDoesNotPreventTheOthers(t *testing.T) {
	t.Parallel()
	w := failedD4(t)
	w.undo("a", 2, "STUCK")
	w.undo("b", 1, "")
	w.expectDone(run.Failed)
	if diff := cmp.Diff([]string{"StepCompensationFailed(a,2,STUCK)", "StepCompensated(b,1,)",
		"RunFailed(final,1,BROKEN)"}, withoutNumbers(w.logLines()[11:])); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// Only a run that fails runs hooks, and only those of steps that succeeded in this run.
//
// contract: M05, T88
func TestCompensate_RunsNoHookThatIsNotDue(t *testing.T) {
	t.Parallel()
	t.Run("nothing succeeded", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, withHooks(l3(), "s1", "s2", "s3"), with(basePolicy, noWindow)).start()
		w.fail("s1", "BROKEN")
		w.expectDone(run.Failed)
		if got := w.compensationStarted(); got != nil || strings.Contains(string(w.log[len(w.log)-1].Payload),
			"compensation") {
			t.Errorf("the run compensates %v, want no compensation", got)
		}
	})
	t.Run("no hooks", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, l3(), with(basePolicy, noWindow)).start()
		w.succeed("s1")
		w.fail("s2", "BROKEN")
		w.expectDone(run.Failed)
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, withHooks(l3(), "s1"), basePolicy).start()
		w.succeed("s1")
		w.fail("s2", "BROKEN")
		w.signal(run.Cancel, "C", "")
		w.expectDone(run.Cancelled)
	})
	t.Run("completed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, withHooks(l3(), "s1"), basePolicy).start()
		w.succeed("s1", "s2", "s3")
		w.expectDone(run.Completed)
	})
	t.Run("skipped", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, withHooks(steps("b", "a<b", "c<a"), "a", "b"), with(basePolicy, noWindow)).start()
		w.signal(run.SkipStep, "K", "a")
		w.succeed("b")
		w.fail("c", "BROKEN")
		w.undo("b", 1, "")
		w.expectDone(run.Failed)
	})
}

// The compensation starts only after the retry window. After a retry in the window nothing has been undone.
//
// contract: T88
func TestCompensate_StartsAfterTheRetryWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withHooks(l3(), "s1", "s2"), basePolicy).start()
	w.succeed("s1")
	w.fail("s2", "BROKEN")
	if w.hook != nil || w.compensationStarted() != nil {
		t.Fatal("the run compensates in the retry window")
	}
	w.signal(run.RetryStep, "R", "s2")
	w.succeed("s2")
	w.fail("s3", "BROKEN")
	w.fire(interp.TimerRetryWindow)
	w.undo("s2", 1, "")
	if got := w.undone; !slices.Equal(got, []string{"s2", "s1"}) {
		t.Errorf("the hooks of %v were dispatched, want those of s2 and s1", got)
	}
	w.undo("s1", 1, "")
	w.expectDone(run.Failed)
	if diff := cmp.Diff([]string{"RunCompensationStarted(s2 s1)", "StepCompensated(s2,1,)", "StepCompensated(s1,1,)"},
		withoutNumbers(w.logLines()[11:14])); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// withoutNumbers removes the positions from the lines of a log.
func withoutNumbers(story []string) (out []string) {
	for _, line := range story {
		_, line, _ = strings.Cut(line, " ")
		out = append(out, line)
	}
	return out
}

// Only an emergency stop changes a run that compensates.
//
// contract: T91
func TestCompensate_OtherSignalsHaveNoEffect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		signal run.SignalType
		app    run.Application
	}{
		{run.Pause, run.SignalNoop}, {run.RetryStep, run.SignalNotApply}, {run.SkipStep, run.SignalNotApply},
		{run.Cancel, run.SignalNotApply},
	} {
		t.Run(string(c.signal), func(t *testing.T) {
			t.Parallel()
			// Control accepts the signal before the log has RunCompensationStarted.
			w := newWorld(t, withHooks(steps("a", "b<a", "c<b"), "a"), basePolicy).start()
			w.succeed("a")
			w.fail("b", "BROKEN")
			s := engine.Signal{ID: "X", Type: c.signal}
			if c.signal == run.RetryStep || c.signal == run.SkipStep {
				s.StepID = "b"
			}
			if d := w.accept(s); d.Outcome != run.Accept {
				t.Fatalf("the signal is judged %+v, want it accepted", d)
			}
			w.fire(interp.TimerRetryWindow)
			w.feed(interp.Signalled{At: w.now, Signals: w.signals})
			w.record()
			w.expectReceipt("X", c.app, run.CodeRunFinalizing, 0)
			if d := run.Judge(w.state, run.Signal{ID: "Y", Type: c.signal, StepID: s.StepID}); d.Code != run.CodeRunFinalizing {
				t.Errorf("a second one is judged %+v, want %s", d, run.CodeRunFinalizing)
			}
			w.undo("a", 1, "")
			w.expectDone(run.Failed)
		})
	}
}

// contract: T91
func TestCompensate_AnEmergencyStopEndsIt(t *testing.T) {
	t.Parallel()
	w := failedD4(t)
	w.signal(run.EmergencyStop, "E", "")
	if w.hook == nil || !w.hook.cancelled || w.m.Done() {
		t.Fatalf("the hook in flight is %+v, done is %v, want a hook that was asked to stop", w.hook, w.m.Done())
	}
	w.undo("a", 1, "CANCELLED")
	w.expectDone(run.Cancelled)
	if diff := cmp.Diff([]string{"RunCompensationStarted(a b)", "SignalAccepted(E)",
		"StepCompensationFailed(a,1,CANCELLED)", "RunCancelled"}, withoutNumbers(w.logLines()[10:])); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// After another writer has ended the run, no more hooks run (contract T80).
//
// contract: T192
func TestCompensate_StopsWhenAnotherWriterEndsTheRun(t *testing.T) {
	t.Parallel()
	w := failedD4(t)
	w.write(store.Append{
		Events: []run.Draft{{Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now,
			EmittedBy: run.ByControl}}})
	w.undo("a", 1, "")
	w.expectDone(run.Cancelled)
	if w.hook != nil {
		t.Error("the next hook runs, want none after the end of the run")
	}
}

// A hook whose worker is lost is executed once more. When that worker is lost too, the hook has failed.
//
// contract: R186
func TestCompensate_AHookLostOnceRunsAgainAndLostTwiceTimesOut(t *testing.T) {
	t.Parallel()
	w := failedD4(t)
	lose := func() {
		w.returnHook(engine.Return{Kind: engine.ReturnLost, EngineAttempt: 1 + w.hook.spent})
		w.record()
	}
	lose()
	if w.hookOf() != "a" || w.hook.n != 2 || w.hook.spent != 1 {
		t.Fatalf("the hook in flight is %+v, want that of a again with one engine attempt spent", w.hook)
	}
	w.undo("a", 2, "")
	lose()
	lose()
	w.expectDone(run.Failed)
	if diff := cmp.Diff([]string{"StepCompensated(a,2,)", "StepCompensationFailed(b,2,TIMEOUT)",
		"RunFailed(final,1,BROKEN)"}, withoutNumbers(w.logLines()[11:])); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// A late worker may write the end of a hook while the machine writes that the hook failed. The first end counts, and
// the summary in RunFailed agrees with the log.
//
// contract: R187
func TestCompensate_ALateWorkerAndTheMachineEndAHookOnce(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{"": "StepCompensated(a,1,)", "STUCK": "StepCompensationFailed(a,1,STUCK)"} {
		w := failedD4(t)
		late := w.hook
		w.returnHook(engine.Return{Kind: engine.ReturnLost, EngineAttempt: 1})
		w.returnHook(engine.Return{Kind: engine.ReturnLost, EngineAttempt: 2}) // the machine fails the hook
		w.writeEndOf(late, 1, code)
		w.record()
		w.undo("b", 1, "")
		w.expectDone(run.Failed)
		if diff := cmp.Diff([]string{want, "StepCompensated(b,1,)", "RunFailed(final,1,BROKEN)"},
			withoutNumbers(w.logLines()[11:])); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		p, err := run.PayloadOf[run.RunFailedPayload](w.log[len(w.log)-1].Payload)
		if err != nil || len(p.Compensation) != 2 || p.Compensation[0].ErrorCode != code ||
			p.Compensation[0].Compensated != (code == "") {
			t.Errorf("the summary has %+v (%v), the log has %s", p.Compensation, err, want)
		}

		w = failedD4(t) // now the machine is first
		late = w.hook
		w.returnHook(engine.Return{Kind: engine.ReturnLost, EngineAttempt: 1})
		w.returnHook(engine.Return{Kind: engine.ReturnLost, EngineAttempt: 2})
		w.record()
		w.writeEndOf(late, 1, code)
		w.undo("b", 1, "")
		w.expectDone(run.Failed)
		if got := withoutNumbers(w.logLines()[11:])[0]; got != "StepCompensationFailed(a,2,TIMEOUT)" {
			t.Errorf("the log has %s, want the end that the machine wrote", got)
		}
	}
}

// If a worker dies after it has written the end of the hook, the hook does not run again.
func TestCompensate_AHookLostAfterItsEndHasEnded(t *testing.T) {
	t.Parallel()
	w := failedD4(t)
	w.writeHookEnd(1, "")
	w.returnHook(engine.Return{Kind: engine.ReturnLost, EngineAttempt: 1})
	if w.hookOf() != "b" || w.hook.n != 1 {
		t.Fatalf("the hook in flight is %+v, want the first dispatch for b", w.hook)
	}
}

// When an engine reports the end of a hook that the log does not have, the machine dispatches the hook again, but only
// a bounded number of times.
func TestCompensate_ForgedReturnsAreBounded(t *testing.T) {
	t.Parallel()
	for _, kind := range []engine.ReturnKind{engine.ReturnEnded, engine.ReturnAbandoned, engine.ReturnRunTerminal,
		engine.ReturnCancelled, "x"} {
		w := failedD4(t)
		from, n := w.now, 0
		for ; w.hookOf() == "a"; n++ {
			if n > 50 {
				t.Fatalf("%s: the hook of a was dispatched %d times, want at most 11", kind, n)
			}
			w.returnHook(engine.Return{Kind: kind, EngineAttempt: 99})
			w.record()
			if w.hook == nil {
				w.fire(interp.TimerDelay)
			}
		}
		if took := w.now.Sub(from); n != 11 || took < 3*time.Minute {
			t.Errorf("%s: %d forged returns ended the hook of a in %v, want 11 in some minutes", kind, n, took)
		}
		w.undo("b", 1, "")
		w.expectDone(run.Failed)
		if got, want := describe(w.log[11]), "StepCompensationFailed(a,1,ENGINE_ERROR)"; got != want {
			t.Errorf("%s: the log has %s, want %s", kind, got, want)
		}
	}
}

// The summary of the hooks is bounded, so that RunFailed fits into the log even for large plans.
//
// contract: R188
func TestCompensate_TheSummaryIsBounded(t *testing.T) {
	t.Parallel()
	const n = 250
	specs := []string{"last"}
	for i := range n {
		specs = append(specs, fmt.Sprintf("%s%04d", strings.Repeat("x", 120), i))
		specs[0] = "last<" + strings.Join(specs[1:], ",")
	}
	w := newWorld(t, withHooks(steps(specs...), specs[1:]...),
		with(basePolicy, func(p *run.Policy) { noWindow(p); p.MaxParallelSteps = n })).start()
	for _, f := range slices.Clone(w.flights) {
		w.arrive(f)
		w.report(f, completed())
	}
	w.record()
	w.fail("last", "BROKEN")
	w.hookMessage = strings.Repeat("<", 1000)
	for w.hook != nil {
		w.endHook(2, "STUCK")
		w.record()
	}
	w.expectDone(run.Failed)
	end := w.log[len(w.log)-1]
	p, err := run.PayloadOf[run.RunFailedPayload](end.Payload)
	if err != nil || len(p.Compensation) < 100 || p.CompensationOmitted == 0 || len(p.Compensation)+
		p.CompensationOmitted != n || len(end.Payload) > run.MaxPayloadBytes {
		t.Errorf("RunFailed has %d hooks, %d omitted and %d bytes (%v), want at least 100 hooks within %d bytes",
			len(p.Compensation), p.CompensationOmitted, len(end.Payload), err, run.MaxPayloadBytes)
	}
}
