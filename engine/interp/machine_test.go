package interp_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// l3 and d4 return plans of the acceptance checks: L3 has s1, s2 and s3 in a row; D4 is a diamond that ends in final.
func l3() plan.Skeleton { return steps("s1", "s2<s1", "s3<s2") }
func d4() plan.Skeleton { return steps("start", "a<start", "b<start", "final<a,b") }

func (w *world) expect(lines ...string) {
	w.tb.Helper()
	for i := range lines {
		lines[i] = strconv.Itoa(i+1) + " " + lines[i]
	}
	if diff := cmp.Diff(lines, w.logLines()); diff != "" {
		w.tb.Fatalf("log (-want +got):\n%s", diff)
	}
}

func (w *world) expectReceipt(id string, app run.Application, reason run.Code, seq run.Seq) {
	w.tb.Helper()
	if got, want := *w.receipts[id], (receipt{app, string(reason), seq}); got != want {
		w.tb.Fatalf("receipt of %s is %+v, want %+v", id, got, want)
	}
}

func (w *world) expectInFlight(want string) {
	w.tb.Helper()
	if got := w.inFlight(); got != want {
		w.tb.Fatalf("in flight: %q, want %q", got, want)
	}
}

func (w *world) expectDone(s run.Status) {
	w.tb.Helper()
	if !w.m.Done() || w.state.Status != s {
		w.tb.Fatalf("done is %v and the run is %s, want it done and %s; the log is\n%s", w.m.Done(), w.state.Status, s,
			strings.Join(w.logLines(), "\n"))
	}
}

// pendingTypes returns the types of the events of the pending Append.
func (w *world) pendingTypes() (types []run.EventType) {
	w.tb.Helper()
	if w.pending == nil {
		w.tb.Fatalf("no Append is pending")
	}
	for _, d := range w.pending.Events {
		types = append(types, d.Type)
	}
	return types
}

// expectReading checks that a ReadLog is outstanding.
func (w *world) expectReading() {
	w.tb.Helper()
	if !w.reading {
		w.tb.Fatalf("no ReadLog is outstanding, want one")
	}
}

// withRetries sets the maximum number of executions of each attempt.
func withRetries(sk plan.Skeleton, attempts int) plan.Skeleton {
	for i := range sk.Steps {
		sk.Steps[i].Retry.MaxAttempts = attempts
	}
	return sk
}

func with(p run.Policy, change func(*run.Policy)) run.Policy {
	change(&p)
	return p
}

func noWindow(p *run.Policy) { p.RetryWindowMS = 0 }

func TestStep_ALinearPlanRunsInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.succeed("s1", "s2", "s3")
	w.expect("RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)",
		"StepCompleted(s2,1)", "StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")
	w.expectDone(run.Completed)
}

func TestStep_AnEmptyPlanCompletes(t *testing.T) {
	t.Parallel()
	newWorld(t, steps(), basePolicy).start().expectDone(run.Completed)
}

func TestStep_AJoinWaitsForEachPredecessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, d4(), basePolicy).start()
	w.succeed("start")
	w.expectInFlight("a b")
	w.succeed("b")
	w.expectInFlight("a")
	w.succeed("a")
	w.expectInFlight("final")
	w.succeed("final")
	w.expectDone(run.Completed)
}

// contract: E-01
func TestStep_ReadyStepsAreDispatchedInCanonicalOrder(t *testing.T) {
	t.Parallel()
	sk := steps("A", "B", "_x", "a", "b", "s10", "s2") // plan.Skeleton's order is canonical
	w := newWorld(t, sk, basePolicy).start()
	w.expectInFlight("A B _x a b s10 s2")

	w = newWorld(t, sk, with(basePolicy, func(p *run.Policy) { p.MaxParallelSteps = 2 })).start()
	w.expectInFlight("A B")
	w.succeed("B")
	w.expectInFlight("A _x")
	w.succeed("A", "_x")
	w.expectInFlight("a b")
}

// contract: E-01
func TestStep_AnUnlockedStepIsDispatchedInItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a<z", "m", "n", "z"), with(basePolicy, func(p *run.Policy) { p.MaxParallelSteps = 1 })).start()
	var order []string
	for len(w.flights) > 0 {
		id := w.flights[0].stepID
		order = append(order, id)
		w.succeed(id)
	}
	if got := strings.Join(order, " "); got != "m n z a" {
		t.Fatalf("the steps are dispatched in the order %q, want m n z a", got)
	}
}

// An end counts when the machine observes it in the log. An attacker who can only reach the engine cannot forge one.
//
// contract: T191
func TestStep_AnEndCountsWhenTheLogHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b", "c", "d<a", "e<b,c"), basePolicy).start()
	w.begin("a", "b", "c")
	w.writeEnd(w.flight("a"), completed())
	w.writeEnd(w.flight("c"), completed())
	w.expectInFlight("a b c") // the machine has not observed the ends
	w.observe()
	w.flights = slices.DeleteFunc(w.flights, func(f *flight) bool { return f.ended })
	w.expectInFlight("b d")
	if w.pending != nil {
		t.Fatalf("the machine writes %+v, want nothing, because the log has the ends", w.pending.Append)
	}
	w.succeed("b")
	w.expectInFlight("d e")
}

// An end that the machine has observed counts once. A return that the engine reports after it has no effect.
//
// contract: T184, T191
func TestStep_AReturnAfterAnObservedEndHasNoEffect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.begin("s1")
	f := w.flight("s1")
	w.writeEnd(f, completed())
	w.observe() // before the engine reports the end
	for _, kind := range []engine.ReturnKind{engine.ReturnEnded, engine.ReturnLost, engine.ReturnCancelled,
		engine.ReturnRunTerminal} {
		if got := w.m.Step(
			interp.Returned{At: w.now, Return: engine.Return{StepID: "s1", LogicalAttempt: 1, N: 1, Kind: kind}}); len(got) > 0 {
			t.Fatalf("the return %s after the observed end has the effects %#v, want none", kind, got)
		}
	}
	w.flights = w.flights[1:]
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
}

// The machine writes a failure for a lost worker, but the worker writes its completion first. The completion counts.
//
// contract: T10, T191
func TestStep_TheFirstEndCounts(t *testing.T) {
	t.Parallel()
	for _, window := range []int64{0, 60_000} {
		w := newWorld(t, l3(), with(basePolicy, func(p *run.Policy) { p.RetryWindowMS = window })).start()
		w.begin("s1")
		f := w.flight("s1")
		w.comeBack(f, engine.Return{Kind: engine.ReturnLost, EngineAttempt: 1})
		if w.pending == nil || len(w.pending.Events) != 1 || w.pending.Events[0].Type != run.StepFailedEvent {
			t.Fatalf("the machine writes %+v, want the failure of s1", w.pending)
		}
		w.writeEnd(f, completed())
		w.record()
		if w.head.Gate != 0 {
			t.Fatalf("the gate is %b, want it open", w.head.Gate)
		}
		w.succeed("s2", "s3")
		w.expectDone(run.Completed)
	}
}

// The engine attempt in an event about the run counts the executions of the workflow, the one in an event about a step
// the executions of the step.
//
// contract: T61
func TestStep_EventsHaveTheirEngineAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRetries(steps("a"), 2), with(basePolicy, noWindow))
	w.cfg.EngineAttempt = 3
	w.m = interp.New(w.sk, w.cfg)
	w.start()
	w.begin("a")
	w.lose("a")
	w.lose("a")
	last := w.log[len(w.log)-2:]
	if last[0].Type != run.StepFailedEvent || last[0].EngineAttempt != 2 || last[1].Type != run.RunFailed ||
		last[1].EngineAttempt != 3 {
		t.Fatalf("the log ends with %s of engine attempt %d and %s of %d, want StepFailed of 2 and RunFailed of 3",
			last[0].Type, last[0].EngineAttempt, last[1].Type, last[1].EngineAttempt)
	}
}

// When the log refuses the run's own events, or the failure that replaces a refused result, the machine can write
// nothing else. It ends, and control ends the run.
//
// contract: T190
func TestStep_AMachineEndsWhenTheLogRefusesItsEvents(t *testing.T) {
	t.Parallel()
	for _, refused := range []run.EventType{run.RunStarted, run.StepFailedEvent, run.RunPaused} {
		m := interp.New(steps("a"), interp.Config{Policy: basePolicy})
		effects := m.Step(interp.Init{At: epoch})
		effects = append(effects, m.Step(
			interp.Signalled{At: epoch, Signals: []engine.Signal{{No: 1, ID: "P", Type: run.Pause}}})...)
		for range 20 {
			if len(effects) == 0 {
				break
			}
			e := effects[0]
			effects = effects[1:]
			switch e := e.(type) {
			case interp.Append:
				r := interp.Recorded{At: epoch, Batch: e.Batch}
				bad := slices.ContainsFunc(e.Events, func(d run.Draft) bool {
					return d.Type == refused ||
						d.Type == run.StepCompletedEvent
				})
				for i := range e.Events {
					r.Ends = append(r.Ends, interp.RecordedEvent{Seq: run.Seq(i + 1), Rejected: bad})
				}
				effects = append(effects, m.Step(r)...)
				begun := engine.Tail{Seq: 10, Head: store.Head{LastSeq: 10, Running: 1},
					Events: []engine.LogEvent{{Seq: 10, Type: run.StepStartedEvent, StepID: "a", LogicalAttempt: 1}}}
				effects = append(effects, m.Step(interp.Observed{At: epoch, Tail: begun})...)
				effects = append(
					effects, m.Step(
						interp.Returned{At: epoch, Return: engine.Return{StepID: "a", LogicalAttempt: 1, N: 1,
							Kind: engine.ReturnLost}})...)
				effects = append(
					effects, m.Step(interp.Signalled{At: epoch, Signals: []engine.Signal{{No: 2, ID: "R", Type: run.Resume}}})...)
			case interp.ReadLog:
				effects = append(
					effects, m.Step(
						interp.Observed{At: epoch, Tail: engine.Tail{Seq: 20, Head: store.Head{LastSeq: 20, SignalNo: 9}}})...)
			case interp.Finish:
				if e.Status != "" {
					t.Errorf("%s is refused: Finish has the status %q, want none", refused, e.Status)
				}
			}
		}
		if !m.Done() {
			t.Errorf("%s is refused: the machine is not done", refused)
		}
	}
}

// When a step meets a gate that an unknown signal has closed, the machine fetches the signals.
//
// contract: T185
func TestStep_AClosedGateMakesTheMachineFetchTheSignal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy).start()
	w.accept(engine.Signal{ID: "C", Type: run.Cancel}) // in the log, not delivered
	w.begin("s1")
	w.expectInFlight("")
	if diff := cmp.Diff([]int64{0}, w.fetch); diff != "" {
		t.Fatalf("fetched (-want +got):\n%s", diff)
	}
	w.fetch = nil
	w.feed(interp.Signalled{At: w.now, Signals: w.signals})
	w.record()
	w.expect("RunApproved", "RunStarted", "SignalAccepted(C)", "RunCancelled")
	w.expectDone(run.Cancelled)
}

// contract: T192
func TestStep_TheMachineEndsWhenAnotherWriterEndsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b"), basePolicy).start()
	w.begin("a")
	w.write(store.Append{
		Events: []run.Draft{{Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now,
			EmittedBy: run.ByControl}}})
	w.begin("b")
	w.expectDone(run.Cancelled)

	w = newWorld(t, steps("a", "b"), basePolicy).start()
	w.begin("a")
	w.write(store.Append{
		Events: []run.Draft{{Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now,
			EmittedBy: run.ByControl}}})
	w.end("a", completed())
	w.expectDone(run.Cancelled)
}

func TestStep_StaleInputsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), basePolicy)
	for _, in := range []interp.Input{
		interp.Recorded{At: epoch, Batch: 1}, interp.Returned{At: epoch}, interp.HookReturned{At: epoch},
		interp.Observed{At: epoch}, interp.Fired{At: epoch, Timer: interp.TimerDrain}, nil,
	} {
		if got := w.m.Step(in); len(got) > 0 {
			t.Fatalf("%#v before Init has the effects %#v, want none", in, got)
		}
	}
	w.start()
	w.begin("s1")
	w.observe()
	for _, in := range []interp.Input{
		interp.Init{At: epoch}, interp.Recorded{At: epoch, Batch: 1}, interp.Recorded{At: epoch, Batch: 7},
		interp.Fired{At: epoch, Timer: interp.TimerRetryWindow}, interp.Fired{At: epoch, Timer: "other"},
		interp.Returned{At: epoch, Return: engine.Return{StepID: "s1", LogicalAttempt: 1, Kind: engine.ReturnLost}},
		interp.Returned{At: epoch, Return: engine.Return{StepID: "nobody", LogicalAttempt: 1, N: 1}},
		interp.HookReturned{At: epoch, Return: engine.Return{StepID: "s1", LogicalAttempt: 1, N: 1}},
		interp.Observed{At: epoch}, interp.Observed{At: epoch, Tail: engine.Tail{Seq: 1, Head: store.Head{LastSeq: 1},
			Events: []engine.LogEvent{
				{Seq: 1, Type: run.StepCompletedEvent, StepID: "s1", LogicalAttempt: 1}, // the machine has observed it before
			}}},
		interp.Signalled{At: epoch}, interp.Signalled{At: epoch, Signals: []engine.Signal{{No: 0, Type: run.Pause}}},
	} {
		if got := w.m.Step(in); len(got) > 0 {
			t.Fatalf("the stale %#v has the effects %#v, want none", in, got)
		}
	}
	w.succeed("s1", "s2", "s3")
	w.expectDone(run.Completed)
	w.feed(interp.Init{At: epoch})
}

func TestStep_ReadsALongLogInParts(t *testing.T) {
	t.Parallel()
	var specs []string
	for i := range 400 {
		specs = append(specs, "s"+strconv.Itoa(i))
	}
	w := newWorld(t, steps(specs...), with(basePolicy, func(p *run.Policy) { p.MaxParallelSteps = 400 })).start()
	for _, f := range slices.Clone(w.flights) {
		w.arrive(f)
		w.writeEnd(f, completed())
	}
	w.deliverTail(w.read()) // the first part
	w.expectReading()
	w.record()
	w.expectDone(run.Completed)
}

func TestStep_TheEndOfARunMayNeedSeveralBatches(t *testing.T) {
	t.Parallel()
	specs := []string{"a"}
	for i := range 1200 {
		specs = append(specs, "s"+strconv.Itoa(i)+"<a")
	}
	w := newWorld(t, steps(specs...), with(basePolicy, noWindow)).start()
	w.fail("a", "BROKEN")
	w.expectDone(run.Failed)
	if got := w.state.Counts.Skipped; got != 1200 {
		t.Fatalf("%d steps are skipped, want 1200", got)
	}
}
