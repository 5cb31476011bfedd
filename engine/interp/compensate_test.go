package interp_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// undone is D4 with hooks, whose b completes before a and whose final fails.
func undoneD4(t *testing.T, change ...func(*run.Policy)) *world {
	p := calm
	for _, c := range append(change, noWindow) {
		p = with(p, c)
	}
	w := newWorld(t, undoable(d4(), "a", "b", "final"), p).start()
	w.succeed("start", "b", "a")
	w.fail("final", "BROKEN")
	return w
}

// R182, R183, R185 to R188: the reverse order of completion, one at a time, and the
// one that fails keeps no other from running.
func TestCompensate_M04_ReverseOrderOfCompletion(t *testing.T) {
	t.Parallel()
	w := undoneD4(t)
	if w.state.Status != run.Running || w.state.Substatus() != run.Compensating {
		t.Fatalf("the run is %s %q", w.state.Status, w.state.Substatus())
	}
	w.undo("a", 1, "")
	w.undo("b", 2, "STUCK")
	w.expectDone(run.Failed)
	if diff := cmp.Diff([]string{"10 StepFailed(final,1,BROKEN)", "11 RunCompensationStarted(a b)", "12 StepCompensated(a,1,)",
		"13 StepCompensationFailed(b,2,STUCK)", "14 RunFailed(final,1,BROKEN)"}, w.story()[9:]); diff != "" {
		t.Fatal(diff)
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
		t.Error(diff)
	}
	if first, _ := run.PayloadOf[run.CompensationPayload](w.log[11].Payload); string(first.Result) != `{"undone":true}` {
		t.Errorf("the event of a says %s", w.log[11].Payload)
	}
	if e := w.log[12]; e.LogicalAttempt != 1 || e.EngineAttempt != 2 {
		t.Errorf("the event of b is of attempt %d.%d", e.LogicalAttempt, e.EngineAttempt)
	}
}

// Each hook waits for the log to have the end of the one before.
func TestCompensate_R185_OneAtATime(t *testing.T) {
	t.Parallel()
	w := undoneD4(t)
	w.endHook(1, "")
	if w.hook != nil || w.pending == nil {
		t.Fatal("the second hook runs before the end of the first is in the log")
	}
	w.feed(interp.Compensated{At: w.now, End: interp.CompensationEnd{StepID: "a", Attempts: 1}}) // again
	w.feed(interp.Compensated{At: w.now, End: interp.CompensationEnd{StepID: "b", Attempts: 1}}) // never dispatched
	w.commit()
	w.deliver()
	if w.hookOf() != "b" || w.pending != nil {
		t.Fatalf("the hook in flight is %+v", w.hook)
	}
	w.feed(interp.Compensated{At: w.now, End: interp.CompensationEnd{StepID: "a", Attempts: 1}}) // once more
	if w.pending != nil {
		t.Fatalf("a stale end is appended: %+v", w.pending.Events)
	}
}

func TestCompensate_R187_OneThatFailsKeepsNoOtherFromRunning(t *testing.T) {
	t.Parallel()
	w := undoneD4(t)
	w.undo("a", 2, "STUCK")
	w.undo("b", 1, "")
	w.expectDone(run.Failed)
	if diff := cmp.Diff([]string{"StepCompensationFailed(a,2,STUCK)", "StepCompensated(b,1,)", "RunFailed(final,1,BROKEN)"}, without(w.story()[11:])); diff != "" {
		t.Error(diff)
	}
}

// M05: only steps that succeeded in this run are undone, and only by a run that fails.
func TestCompensate_M05_T88_WhenNot(t *testing.T) {
	t.Parallel()
	t.Run("nothing succeeded", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, undoable(l3(), "s1", "s2", "s3"), with(calm, noWindow)).start()
		w.fail("s1", "BROKEN")
		w.expectDone(run.Failed)
		if got := w.compensationStarted(); got != nil || strings.Contains(string(w.log[len(w.log)-1].Payload), "compensation") {
			t.Errorf("it undoes %v", got)
		}
	})
	t.Run("no hooks", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, l3(), with(calm, noWindow)).start()
		w.succeed("s1")
		w.fail("s2", "BROKEN")
		w.expectDone(run.Failed)
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, undoable(l3(), "s1"), calm).start()
		w.succeed("s1")
		w.fail("s2", "BROKEN")
		w.signal(run.Cancel, "C", "")
		w.expectDone(run.Cancelled)
	})
	t.Run("completed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, undoable(l3(), "s1"), calm).start()
		w.succeed("s1", "s2", "s3")
		w.expectDone(run.Completed)
	})
	t.Run("skipped", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, undoable(steps("b", "a<b", "c<a"), "a", "b"), with(calm, noWindow)).start()
		w.signal(run.SkipStep, "K", "a")
		w.succeed("b")
		w.fail("c", "BROKEN")
		w.undo("b", 1, "")
		w.expectDone(run.Failed)
	})
}

// T88: the retry window comes first, and a retry in it leaves everything as it is.
func TestCompensate_T88_AfterTheRetryWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, undoable(l3(), "s1", "s2"), calm).start()
	w.succeed("s1")
	w.fail("s2", "BROKEN")
	if w.hook != nil || w.compensationStarted() != nil {
		t.Fatal("it compensates in the retry window")
	}
	w.signal(run.RetryStep, "R", "s2")
	w.succeed("s2")
	w.fail("s3", "BROKEN")
	w.fire(interp.TimerRetryWindow)
	w.undo("s2", 1, "")
	if got := w.undone; !slices.Equal(got, []string{"s2", "s1"}) {
		t.Errorf("hooks of %v were dispatched", got)
	}
	w.undo("s1", 1, "")
	w.expectDone(run.Failed)
	if diff := cmp.Diff([]string{"RunCompensationStarted(s2 s1)", "StepCompensated(s2,1,)", "StepCompensated(s1,1,)"}, without(w.story()[11:14])); diff != "" {
		t.Error(diff)
	}
}

// without drops the numbers of a story.
func without(story []string) (out []string) {
	for _, line := range story {
		_, line, _ = strings.Cut(line, " ")
		out = append(out, line)
	}
	return out
}

// T91: nothing but an emergency stop changes a run that compensates.
func TestCompensate_T91_Signals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		signal run.SignalType
		app    run.Application
	}{
		{run.Pause, run.SignalNoop}, {run.RetryStep, run.SignalNotApply}, {run.SkipStep, run.SignalNotApply}, {run.Cancel, run.SignalNotApply},
	} {
		t.Run(string(c.signal), func(t *testing.T) {
			t.Parallel()
			// It is accepted before the log says that the run compensates.
			w := newWorld(t, undoable(steps("a", "b<a", "c<b"), "a"), calm).start()
			w.succeed("a")
			w.fail("b", "BROKEN")
			s := engine.Signal{ID: "X", Type: c.signal}
			if c.signal == run.RetryStep || c.signal == run.SkipStep {
				s.StepID = "b"
			}
			if d := w.accept(s); d.Outcome != run.Accept {
				t.Fatalf("it is judged %+v", d)
			}
			w.fire(interp.TimerRetryWindow)
			w.feed(interp.Signalled{At: w.now, Signals: w.signals})
			w.record()
			w.expectReceipt("X", c.app, run.CodeRunFinalizing, 0)
			if d := run.Judge(w.state, run.Signal{ID: "Y", Type: c.signal, StepID: s.StepID}); d.Code != run.CodeRunFinalizing {
				t.Errorf("a second one is judged %+v", d)
			}
			w.undo("a", 1, "")
			w.expectDone(run.Failed)
		})
	}
}

func TestCompensate_T91_EmergencyStop(t *testing.T) {
	t.Parallel()
	w := undoneD4(t)
	w.signal(run.EmergencyStop, "E", "")
	if w.hook == nil || !w.hook.cancelled || w.m.Done() {
		t.Fatalf("the hook in flight is %+v, done is %v", w.hook, w.m.Done())
	}
	w.undo("a", 1, "CANCELLED")
	w.expectDone(run.Cancelled)
	if diff := cmp.Diff([]string{"RunCompensationStarted(a b)", "SignalAccepted(E)", "StepCompensationFailed(a,1,CANCELLED)", "RunCancelled"}, without(w.story()[10:])); diff != "" {
		t.Error(diff)
	}
}

// T80, T192: what another hand ended is over.
func TestCompensate_T192_EndedByAnotherHand(t *testing.T) {
	t.Parallel()
	w := undoneD4(t)
	w.write(store.Append{Events: []run.Draft{{Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now, EmittedBy: run.ByControl}}})
	w.undo("a", 1, "")
	w.expectDone(run.Cancelled)
	if w.hook != nil {
		t.Error("the next hook runs")
	}
}

// T190: a result that the log does not take is left out; that the hook ran is not.
func TestCompensate_T190_RefusedResult(t *testing.T) {
	t.Parallel()
	w := undoneD4(t)
	w.refuse = func(d run.Draft) bool { return strings.Contains(string(d.Payload), "undone") }
	w.undo("a", 1, "")
	w.refuse = nil
	w.hook = nil
	w.feed(interp.Compensated{At: w.now, End: interp.CompensationEnd{StepID: "b", Attempts: 1, Compensated: true, Result: []byte(`{`)}})
	w.record()
	w.expectDone(run.Failed)
	for _, e := range w.log[11:13] {
		if p, _ := run.PayloadOf[run.CompensationPayload](e.Payload); !p.Compensated || p.Result != nil {
			t.Errorf("%s %s", tell(e), e.Payload)
		}
	}
}

// A run of the largest plan can still end: its last event has a room.
func TestCompensate_R188_TheSummaryIsBounded(t *testing.T) {
	t.Parallel()
	const n = 250
	specs := []string{"last"}
	for i := range n {
		specs = append(specs, fmt.Sprintf("%s%04d", strings.Repeat("x", 120), i))
		specs[0] = "last<" + strings.Join(specs[1:], ",")
	}
	w := newWorld(t, undoable(steps(specs...), specs[1:]...), with(calm, func(p *run.Policy) { noWindow(p); p.MaxParallelSteps = n })).start()
	for _, f := range slices.Clone(w.flights) {
		w.arrive(f)
		w.report(f, completed())
	}
	w.record()
	w.fail("last", "BROKEN")
	for w.hook != nil {
		id := w.hookOf()
		w.hook = nil
		w.feed(interp.Compensated{At: w.now, End: interp.CompensationEnd{
			StepID: id, Attempts: 2, ErrorCode: "STUCK", ErrorMessage: strings.Repeat("<", 1000),
		}})
		w.record()
	}
	w.expectDone(run.Failed)
	end := w.log[len(w.log)-1]
	p, err := run.PayloadOf[run.RunFailedPayload](end.Payload)
	if err != nil || len(p.Compensation) < 100 || p.CompensationOmitted == 0 || len(p.Compensation)+p.CompensationOmitted != n || len(end.Payload) > run.MaxPayloadBytes {
		t.Errorf("%d hooks, %d omitted, %d bytes, %v", len(p.Compensation), p.CompensationOmitted, len(end.Payload), err)
	}
}
