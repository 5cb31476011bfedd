package interp_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// sent is the types of the events of the pending Append.
func (w *world) sent() (types []run.EventType) {
	w.tb.Helper()
	if w.pending == nil {
		w.tb.Fatalf("nothing is pending")
	}
	for _, d := range w.pending.Events {
		types = append(types, d.Type)
	}
	return types
}

// unheard begins a step, ends it and lets the budget of its append run out so
// many times; what each of them wrote is on its way.
func (w *world) unheard(stepID string, times int) {
	w.tb.Helper()
	w.begin(stepID)
	w.report(w.flight(stepID), completed())
	for range times {
		w.silence()
		w.deliver()
	}
}

// B03: the completion is in the log and its answer lost: it is said again as it
// was, found, and the run goes on.
func TestRecorded_B03_AnswerLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b<a"), with(calm, noWindow)).start()
	w.unheard("a", 1)
	first := w.late[0].Events
	w.land(w.late[0])
	if diff := cmp.Diff(first, w.pending.Events); diff != "" {
		t.Fatalf("said again otherwise (-first +again):\n%s", diff)
	}
	w.record()
	w.expectInFlight("b")
	w.succeed("b")
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepCompleted(a,1)", "StepStarted(b,1)", "StepCompleted(b,1)", "RunCompleted")
	w.expectDone(run.Completed)
}

// B04: nothing came to the log and nobody answers: the step fails, with as many
// tries as it takes, and can be retried.
func TestRecorded_B04_NeverConfirmed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b<a"), calm).start()
	w.begin("a")
	end := completed()
	end.Completed = &run.StepCompletedPayload{DurationMS: 7, ArtifactRefs: []run.ArtifactRef{{URI: "artifact:x", Kind: "log", SHA256: strings.Repeat("a", 64)}}}
	w.report(w.flight("a"), end)
	for range 2 {
		if diff := cmp.Diff([]run.EventType{run.StepStartedEvent, run.StepCompletedEvent}, w.sent()); diff != "" || !w.pending.Bounded {
			t.Fatalf("bounded %v (-want +got):\n%s", w.pending.Bounded, diff)
		}
		w.silence()
		w.deliver()
	}
	if w.pending.Bounded {
		t.Fatal("the failure has a budget too")
	}
	if w.pending.SetGate&run.GateFailing == 0 {
		t.Error("T185: the failure does not close the gate")
	}
	w.record()
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepFailed(a,1,STATE_WRITE_BUDGET_EXCEEDED)")
	f, _ := run.PayloadOf[run.FailurePayload](w.log[3].Payload)
	if !f.Retryable || f.FailureCategory != run.CategoryPlatform || f.DurationMS != 7 || len(f.ArtifactRefs) != 1 {
		t.Errorf("failure %+v", f)
	}
	w.signal(run.RetryStep, "R", "a")
	w.begin("a")
	w.land(w.late[0]) // both come after the failure, and find it
	w.land(w.late[0])
	w.succeed("a", "b")
	w.expectDone(run.Completed)
}

func TestRecorded_B04_WithoutAWindowTheRunFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b<a"), with(calm, noWindow)).start()
	w.unheard("a", 2)
	w.record()
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepFailed(a,1,STATE_WRITE_BUDGET_EXCEEDED)",
		"StepSkipped(b,1,DEPENDENCY_FAILED)", "RunFailed(a,1,STATE_WRITE_BUDGET_EXCEEDED)")
	w.expectDone(run.Failed)
}

// T10, T120: a completion that comes to the log before the failure is adopted,
// and nothing of the failure stays.
func TestRecorded_T120_LateCompletionIsAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b<a"), calm).start()
	w.unheard("a", 2)
	w.land(w.late[1])
	w.record()
	w.expectInFlight("b")
	w.succeed("b")
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepCompleted(a,1)", "StepStarted(b,1)", "StepCompleted(b,1)", "RunCompleted")
	w.expectDone(run.Completed)
	if w.head.Gate != 0 {
		t.Errorf("gate %b", w.head.Gate)
	}
}

// T10: a failure that was confirmed stands, whatever the completion does later.
func TestRecorded_T120_FailureFirst(t *testing.T) {
	t.Parallel()
	for _, delivered := range []bool{false, true} {
		w := newWorld(t, steps("a", "b<a"), with(calm, noWindow)).start()
		w.unheard("a", 2)
		w.commit()
		if delivered {
			w.deliver()
		}
		w.land(w.late[0])
		w.record()
		w.expectDone(run.Failed)
	}
}

// T191: while nobody knows what is in the log, signals wait, successors wait, and
// what else ended waits for the next batch, whose budget is its own.
func TestRecorded_T191_NothingOnAGuess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b", "c<a", "d<b"), calm).start()
	w.begin("b")
	w.unheard("a", 1)
	w.accept(engine.Signal{ID: "P", Type: run.Pause})
	w.feed(interp.Signalled{At: w.now, Signals: w.signals})
	w.report(w.flight("b"), completed())
	if diff := cmp.Diff([]run.EventType{run.StepStartedEvent, run.StepCompletedEvent}, w.sent()); diff != "" {
		t.Fatal(diff)
	}
	w.silence()
	w.deliver()
	if diff := cmp.Diff([]run.EventType{run.StepStartedEvent, run.StepFailedEvent}, w.sent()); diff != "" {
		t.Fatal(diff)
	}
	w.expectInFlight("")
	w.record()
	w.expect("RunApproved", "RunStarted", "StepStarted(b,1)", "StepStarted(a,1)", "SignalAccepted(P)",
		"StepFailed(a,1,STATE_WRITE_BUDGET_EXCEEDED)", "StepCompleted(b,1)", "RunPaused(1)")
	w.expectReceipt("P", run.SignalApplied, "", 8)
	w.expectInFlight("")
}

// A batch of several facts keeps all but the completions, which come last, so
// that nothing of it stands behind the failures that it did not cause.
func TestRecorded_T120_ABatchOfManyFacts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b", "c", "d"), with(calm, noWindow)).start()
	w.begin("a", "b", "d")
	w.report(w.flight("d"), completed()) // keeps the others together
	w.report(w.flight("a"), completed())
	w.report(w.flight("c"), failed("LOST", true)) // it never began
	w.report(w.flight("b"), completed())
	w.commit()
	w.deliver()
	first := []run.EventType{
		run.StepStartedEvent, run.StepCompletedEvent, run.StepStartedEvent, run.StepFailedEvent, run.StepStartedEvent, run.StepCompletedEvent,
	}
	if diff := cmp.Diff(first, w.sent()); diff != "" {
		t.Fatal(diff)
	}
	w.silence()
	w.deliver()
	if diff := cmp.Diff(first, w.sent()); diff != "" {
		t.Fatal(diff)
	}
	w.silence()
	w.deliver()
	if diff := cmp.Diff([]run.EventType{
		run.StepStartedEvent, run.StepFailedEvent, run.StepStartedEvent, run.StepFailedEvent, run.StepStartedEvent, run.StepFailedEvent,
	}, w.sent()); diff != "" {
		t.Fatal(diff)
	}
	if first := w.pending.Events[0]; first.StepID != "c" || w.pending.IfStarted {
		t.Errorf("first event of %s, ifStarted %v", first.StepID, w.pending.IfStarted)
	}
	w.record()
	w.expectDone(run.Failed)
	if f, _ := run.PayloadOf[run.RunFailedPayload](w.log[len(w.log)-1].Payload); f.ErrorCode != "LOST" {
		t.Errorf("the run failed with %+v", f)
	}
}

// A failure on its way into the log keeps others from starting, as any does (T214).
func TestRecorded_T214_TheFailureArmsFailFast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b", "c"), with(calm, func(p *run.Policy) { p.MaxParallelSteps = 1 })).start()
	w.begin("a")
	w.report(w.flight("a"), completed())
	w.expectInFlight("b")
	w.arrive(w.flight("b"))
	for range 2 {
		w.silence()
		w.deliver()
	}
	w.report(w.flight("b"), completed())
	w.expectInFlight("")
	w.record()
	w.expectInFlight("")
	w.signal(run.RetryStep, "R", "a")
	w.succeed("a", "c")
	w.expectDone(run.Completed)
}

// A result that the log refuses is refused however often it is asked (T190).
func TestRecorded_T190_RefusedWhenSaidAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a"), with(calm, noWindow)).start()
	w.refuse = func(d run.Draft) bool { return d.Type == run.StepCompletedEvent }
	w.unheard("a", 1)
	w.record()
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepFailed(a,1,EVENT_REJECTED)", "RunFailed(a,1,EVENT_REJECTED)")
	w.expectDone(run.Failed)
}

// What does not say that a step completed has no budget: it is tried until it is
// answered. The run that ended meanwhile by another hand ends here too.
func TestRecorded_T120_OnlyCompletionsHaveABudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a"), with(calm, noWindow))
	w.feed(interp.Begin{At: w.now})
	for w.pending != nil || w.answer != nil {
		if w.pending != nil {
			if w.pending.Bounded {
				t.Fatalf("bounded: %v", w.sent())
			}
			w.commit()
		}
		w.deliver()
	}
	w.begin("a")
	w.report(w.flight("a"), failed("BROKEN", true))
	if w.pending.Bounded {
		t.Fatalf("bounded: %v", w.sent())
	}
	w.record()
	w.expectDone(run.Failed)

	w = newWorld(t, steps("a"), calm).start()
	w.unheard("a", 2)
	w.now = w.now.Add(time.Second)
	w.write(store.Append{Events: []run.Draft{{Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now, EmittedBy: run.ByControl}}})
	w.record()
	w.expectDone(run.Cancelled)
}
