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

// Plans of the acceptance checks: L3 is s1, s2, s3 in a row; D4 is a diamond
// that ends in final.
func l3() plan.Skeleton { return steps("s1", "s2<s1", "s3<s2") }
func d4() plan.Skeleton { return steps("start", "a<start", "b<start", "final<a,b") }

func (w *world) expect(lines ...string) {
	w.tb.Helper()
	for i := range lines {
		lines[i] = strconv.Itoa(i+1) + " " + lines[i]
	}
	if diff := cmp.Diff(lines, w.story()); diff != "" {
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
		w.tb.Fatalf("done is %v, the log says %s, want %s; the log is\n%s", w.m.Done(), w.state.Status, s,
			strings.Join(w.story(), "\n"))
	}
}

// pendingTypes is the types of the events of the pending Append.
func (w *world) pendingTypes() (types []run.EventType) {
	w.tb.Helper()
	if w.pending == nil {
		w.tb.Fatalf("nothing is pending")
	}
	for _, d := range w.pending.Events {
		types = append(types, d.Type)
	}
	return types
}

// expectReading says that the machine asks for the log.
func (w *world) expectReading() {
	w.tb.Helper()
	if !w.reading {
		w.tb.Fatalf("the machine does not ask for the log")
	}
}

// retrying lets the engine execute each attempt so often, where its worker is lost.
func retrying(sk plan.Skeleton, attempts int) plan.Skeleton {
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

func TestStep_Linear(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), calm).start()
	w.succeed("s1", "s2", "s3")
	w.expect("RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)",
		"StepCompleted(s2,1)", "StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")
	w.expectDone(run.Completed)
}

func TestStep_EmptyPlanCompletes(t *testing.T) {
	t.Parallel()
	newWorld(t, steps(), calm).start().expectDone(run.Completed)
}

func TestStep_Join(t *testing.T) {
	t.Parallel()
	w := newWorld(t, d4(), calm).start()
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
func TestStep_CanonicalOrder(t *testing.T) {
	t.Parallel()
	sk := steps("A", "B", "_x", "a", "b", "s10", "s2") // plan.Skeleton's order is canonical
	w := newWorld(t, sk, calm).start()
	w.expectInFlight("A B _x a b s10 s2")

	w = newWorld(t, sk, with(calm, func(p *run.Policy) { p.MaxParallelSteps = 2 })).start()
	w.expectInFlight("A B")
	w.succeed("B")
	w.expectInFlight("A _x")
	w.succeed("A", "_x")
	w.expectInFlight("a b")
}

// contract: E-01
func TestStep_UnlockedStepsTakeTheirPlaceInOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a<z", "m", "n", "z"), with(calm, func(p *run.Policy) { p.MaxParallelSteps = 1 })).start()
	var order []string
	for len(w.flights) > 0 {
		id := w.flights[0].stepID
		order = append(order, id)
		w.succeed(id)
	}
	if got := strings.Join(order, " "); got != "m n z a" {
		t.Fatalf("order %q", got)
	}
}

// An end counts when the machine observes it in the log. Access to the engine is not enough to forge one.
//
// contract: T191
func TestStep_AnEndCountsWhenTheLogHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b", "c", "d<a", "e<b,c"), calm).start()
	w.begin("a", "b", "c")
	w.writeEnd(w.flight("a"), completed())
	w.writeEnd(w.flight("c"), completed())
	w.expectInFlight("a b c") // nobody has told the machine
	w.observe()
	w.flights = slices.DeleteFunc(w.flights, func(f *flight) bool { return f.ended })
	w.expectInFlight("b d")
	if w.pending != nil {
		t.Fatalf("the machine writes %+v, want nothing: the log has it", w.pending.Append)
	}
	w.succeed("b")
	w.expectInFlight("d e")
}

// An execution that the machine believes in flight may have ended, or be another's: what came back before changes
// nothing, and what the log has counts once.
//
// contract: T184, T191
func TestStep_ReturnOfAnEndThatWasObserved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), calm).start()
	w.begin("s1")
	f := w.flight("s1")
	w.writeEnd(f, completed())
	w.observe() // long before the engine says so
	for _, kind := range []engine.ReturnKind{engine.ReturnEnded, engine.ReturnLost, engine.ReturnCancelled,
		engine.ReturnRunTerminal} {
		if got := w.m.Step(
			interp.Returned{At: w.now, Return: engine.Return{StepID: "s1", LogicalAttempt: 1, N: 1, Kind: kind}}); len(got) > 0 {
			t.Fatalf("%s of an end that was observed: %#v", kind, got)
		}
	}
	w.flights = w.flights[1:]
	w.succeed("s2", "s3")
	w.expectDone(run.Completed)
}

// The machine writes a failure for a worker that was lost, and the worker its completion first.
//
// contract: T10, T191
func TestStep_TheOutcomeThatWonCounts(t *testing.T) {
	t.Parallel()
	for _, window := range []int64{0, 60_000} {
		w := newWorld(t, l3(), with(calm, func(p *run.Policy) { p.RetryWindowMS = window })).start()
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

// The events about a run have the attempt of its workflow, those about a step that of the execution.
//
// contract: T61
func TestStep_EngineAttemptsOfEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, retrying(steps("a"), 2), with(calm, noWindow))
	w.who.EngineAttempt = 3
	w.m = interp.New(w.sk, w.who)
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

// A log that refuses the run's own events, or a failure after the result, leaves
// nothing to say: the machine ends and leaves the run to the sweeper.
// contract: T190
func TestStep_RefusedForGood(t *testing.T) {
	t.Parallel()
	for _, refused := range []run.EventType{run.RunStarted, run.StepFailedEvent, run.RunPaused} {
		m := interp.New(steps("a"), interp.Config{Policy: calm})
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
					t.Errorf("%s: Finish %q", refused, e.Status)
				}
			}
		}
		if !m.Done() {
			t.Errorf("%s: not done", refused)
		}
	}
}

// T185: a parked step goes back to ready with the same attempt, and asks what
// closed the gate when the machine does not know.
// contract: T185
func TestStep_ParkedByAnUnknownStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), calm).start()
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
func TestStep_RunTerminalEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b"), calm).start()
	w.begin("a")
	w.write(store.Append{
		Events: []run.Draft{{Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now,
			EmittedBy: run.ByControl}}})
	w.begin("b")
	w.expectDone(run.Cancelled)

	w = newWorld(t, steps("a", "b"), calm).start()
	w.begin("a")
	w.write(store.Append{
		Events: []run.Draft{{Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now,
			EmittedBy: run.ByControl}}})
	w.end("a", completed())
	w.expectDone(run.Cancelled)
}

func TestStep_StaleInputsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), calm)
	for _, in := range []interp.Input{
		interp.Recorded{At: epoch, Batch: 1}, interp.Returned{At: epoch}, interp.HookReturned{At: epoch},
		interp.Observed{At: epoch}, interp.Fired{At: epoch, Timer: interp.TimerDrain}, nil,
	} {
		if got := w.m.Step(in); len(got) > 0 {
			t.Fatalf("%#v before Begin: %#v", in, got)
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
				{Seq: 1, Type: run.StepCompletedEvent, StepID: "s1", LogicalAttempt: 1}, // it was observed before
			}}},
		interp.Signalled{At: epoch}, interp.Signalled{At: epoch, Signals: []engine.Signal{{No: 0, Type: run.Pause}}},
	} {
		if got := w.m.Step(in); len(got) > 0 {
			t.Fatalf("%#v: %#v", in, got)
		}
	}
	w.succeed("s1", "s2", "s3")
	w.expectDone(run.Completed)
	w.feed(interp.Init{At: epoch})
}

func TestStep_MoreEndsThanOneReadGives(t *testing.T) {
	t.Parallel()
	var specs []string
	for i := range 400 {
		specs = append(specs, "s"+strconv.Itoa(i))
	}
	w := newWorld(t, steps(specs...), with(calm, func(p *run.Policy) { p.MaxParallelSteps = 400 })).start()
	for _, f := range slices.Clone(w.flights) {
		w.arrive(f)
		w.writeEnd(f, completed())
	}
	w.hand(w.read()) // a part of it
	w.expectReading()
	w.record()
	w.expectDone(run.Completed)
}

func TestStep_MoreThanOneBatchAtTheEnd(t *testing.T) {
	t.Parallel()
	specs := []string{"a"}
	for i := range 1200 {
		specs = append(specs, "s"+strconv.Itoa(i)+"<a")
	}
	w := newWorld(t, steps(specs...), with(calm, noWindow)).start()
	w.fail("a", "BROKEN")
	w.expectDone(run.Failed)
	if got := w.state.Counts.Skipped; got != 1200 {
		t.Fatalf("%d steps are skipped", got)
	}
}
