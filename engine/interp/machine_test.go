package interp_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
		w.tb.Fatalf("done is %v, the log says %s, want %s; the log is\n%s", w.m.Done(), w.state.Status, s, strings.Join(w.story(), "\n"))
	}
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

func TestStep_E01_CanonicalOrder(t *testing.T) {
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

func TestStep_E01_UnlockedStepsTakeTheirPlaceInOrder(t *testing.T) {
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

// T191: a completion unlocks nothing until it is recorded, and what arrives
// meanwhile goes into the next batch.
func TestStep_T191_OneAppendOutstanding(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b", "c", "d<a", "e<b,c"), calm).start()
	w.begin("a", "b", "c")
	w.report(w.flight("a"), completed())
	if w.pending == nil || len(w.pending.Events) != 2 {
		t.Fatalf("the first completion is not appended: %+v", w.pending)
	}
	w.report(w.flight("c"), completed())
	w.report(w.flight("b"), completed())
	w.expectInFlight("")
	w.commit()
	w.deliver()
	w.expectInFlight("d")
	if got := len(w.pending.Events); got != 4 {
		t.Fatalf("the second batch has %d events, want 4", got)
	}
	w.record()
	w.expectInFlight("d e")
}

func TestStep_T191_TheOutcomeThatWonCounts(t *testing.T) {
	t.Parallel()
	cause := run.FailurePayload{ErrorCode: "TIMEOUT", Retryable: true, FailureCategory: run.CategoryTimeout}
	t.Run("a failure", func(t *testing.T) {
		t.Parallel()
		m := interp.New(l3(), interp.Config{Policy: with(calm, noWindow)})
		m.Step(interp.Begin{At: epoch})
		m.Step(interp.Recorded{At: epoch, Batch: 1, Ends: []interp.RecordedEvent{{Seq: 1}}})
		m.Step(interp.StepEnded{At: epoch, End: engine.StepEnd{StepID: "s1", LogicalAttempt: 1, N: 1, StartedAt: epoch, Kind: engine.EndCompleted}})
		got := m.Step(interp.Recorded{At: epoch, Batch: 2, Ends: []interp.RecordedEvent{{Seq: 2}, {Seq: 3, Won: run.StepFailedEvent, Failure: &cause}}})
		// Nobody closed the gate for that failure: it is closed before anything else.
		want := []interp.Effect{interp.Append{Batch: 3, Append: store.Append{SetGate: run.GateFailing}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		got = m.Step(interp.Recorded{At: epoch, Batch: 3})
		if a := got[0].(interp.Append); len(a.Events) != 3 || a.Events[2].Type != run.RunFailed || !strings.Contains(string(a.Events[2].Payload), "TIMEOUT") {
			t.Fatalf("then %+v", a.Events)
		}
	})
	t.Run("a success", func(t *testing.T) {
		t.Parallel()
		m := interp.New(l3(), interp.Config{Policy: calm})
		m.Step(interp.Begin{At: epoch})
		m.Step(interp.Recorded{At: epoch, Batch: 1, Ends: []interp.RecordedEvent{{Seq: 1}}})
		m.Step(interp.StepEnded{At: epoch, End: engine.StepEnd{StepID: "s1", LogicalAttempt: 1, N: 1, StartedAt: epoch, Kind: engine.EndFailed, Failed: &cause}})
		got := m.Step(interp.Recorded{At: epoch, Batch: 2, Ends: []interp.RecordedEvent{{Seq: 2}, {Seq: 3, Won: run.StepCompletedEvent}}})
		want := []interp.Effect{interp.Execute{Ord: 1, LA: 1, N: 1}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// T112, T61: the terminal goes together with StepStarted, with the attempt of
// the platform that ended it.
func TestStep_T112_TerminalBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a"), calm)
	w.who.EngineAttempt = 3
	w.m = interp.New(w.sk, w.who)
	w.start()
	w.begin("a")
	f := w.flight("a")
	w.now = w.now.Add(2 * time.Second)
	w.feed(interp.StepEnded{At: w.now, End: engine.StepEnd{
		StepID: "a", LogicalAttempt: 1, N: 1, EngineAttempt: 2, StartedAt: f.began,
		Kind: engine.EndCompleted, Completed: &run.StepCompletedPayload{Result: []byte(`{"rows":1}`)},
	}})
	want := []run.Draft{
		{Type: run.StepStartedEvent, StepID: "a", LogicalAttempt: 1, EngineAttempt: 2, EmittedAt: f.began, EmittedBy: run.ByEngine, Payload: []byte(`{}`)},
		{Type: run.StepCompletedEvent, StepID: "a", LogicalAttempt: 1, EngineAttempt: 2, EmittedAt: w.now, EmittedBy: run.ByEngine, Payload: []byte(`{"result":{"rows":1}}`)},
	}
	if diff := cmp.Diff(want, w.pending.Events); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	w.flights = nil
	w.record()
	if last := w.log[len(w.log)-1]; last.Type != run.RunCompleted || last.EngineAttempt != 3 {
		t.Fatalf("last event %s ea %d", last.Type, last.EngineAttempt)
	}
}

// T190: the result that the log does not take is a failure of the step, and what
// else was in the batch is said again.
func TestStep_T190_RefusedResult(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b"), with(calm, noWindow)).start()
	w.begin("a", "b")
	w.refuse = func(d run.Draft) bool { return d.Type == run.StepCompletedEvent && d.StepID == "a" }
	w.feed(interp.Signalled{At: w.now}) // nothing
	w.report(w.flight("b"), completed())
	w.report(w.flight("a"), completed())
	w.record()
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepStarted(b,1)", "StepCompleted(b,1)",
		"StepFailed(a,1,EVENT_REJECTED)", "RunFailed(a,1,EVENT_REJECTED)")
	w.expectDone(run.Failed)
}

// A log that refuses the run's own events, or a failure after the result, leaves
// nothing to say: the machine ends and leaves the run to the sweeper.
func TestStep_T190_RefusedForGood(t *testing.T) {
	t.Parallel()
	for _, refused := range []run.EventType{run.RunStarted, run.StepFailedEvent, run.RunPaused} {
		m := interp.New(steps("a"), interp.Config{Policy: calm})
		effects := m.Step(interp.Begin{At: epoch})
		effects = append(effects, m.Step(interp.Signalled{At: epoch, Signals: []engine.Signal{{No: 1, ID: "P", Type: run.Pause}}})...)
		for range 20 {
			if len(effects) == 0 {
				break
			}
			e := effects[0]
			effects = effects[1:]
			switch e := e.(type) {
			case interp.Append:
				r := interp.Recorded{At: epoch, Batch: e.Batch}
				bad := slices.ContainsFunc(e.Events, func(d run.Draft) bool { return d.Type == refused || d.Type == run.StepCompletedEvent })
				for i := range e.Events {
					r.Ends = append(r.Ends, interp.RecordedEvent{Seq: run.Seq(i + 1), Rejected: bad})
				}
				effects = append(effects, m.Step(r)...)
				effects = append(effects, m.Step(interp.StepEnded{At: epoch, End: engine.StepEnd{StepID: "a", LogicalAttempt: 1, N: 1, StartedAt: epoch, Kind: engine.EndCompleted}})...)
				effects = append(effects, m.Step(interp.Signalled{At: epoch, Signals: []engine.Signal{{No: 2, ID: "R", Type: run.Resume}}})...)
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

func TestStep_T190_ResultThatIsNoJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a"), with(calm, noWindow)).start()
	w.end("a", engine.StepEnd{Kind: engine.EndCompleted, Completed: &run.StepCompletedPayload{Result: []byte(`{`)}})
	w.expect("RunApproved", "RunStarted", "StepStarted(a,1)", "StepFailed(a,1,EVENT_REJECTED)", "RunFailed(a,1,EVENT_REJECTED)")
}

// T185: a parked step goes back to ready with the same attempt, and asks what
// closed the gate when the machine does not know.
func TestStep_T185_ParkedByAnUnknownStop(t *testing.T) {
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

func TestStep_T192_RunTerminalEndsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, steps("a", "b"), calm).start()
	w.begin("a")
	w.write(store.Append{Events: []run.Draft{{Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now, EmittedBy: run.ByControl}}})
	w.begin("b")
	w.expectDone(run.Cancelled)

	w = newWorld(t, steps("a", "b"), calm).start()
	w.begin("a")
	w.write(store.Append{Events: []run.Draft{{Type: run.RunCancelled, LogicalAttempt: 1, EngineAttempt: 1, EmittedAt: w.now, EmittedBy: run.ByControl}}})
	w.end("a", completed())
	w.expectDone(run.Cancelled)
}

func TestStep_StaleInputsChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, l3(), calm)
	for _, in := range []interp.Input{
		interp.Recorded{At: epoch, Batch: 1}, interp.StepEnded{At: epoch}, interp.Fired{At: epoch, Timer: interp.TimerDrain}, nil,
	} {
		if got := w.m.Step(in); len(got) > 0 {
			t.Fatalf("%#v before Begin: %#v", in, got)
		}
	}
	w.start()
	w.begin("s1")
	end := completed()
	end.StepID, end.LogicalAttempt, end.StartedAt = "s1", 1, epoch
	for _, in := range []interp.Input{
		interp.Begin{At: epoch}, interp.Recorded{At: epoch, Batch: 1}, interp.Recorded{At: epoch, Batch: 7},
		interp.Fired{At: epoch, Timer: interp.TimerRetryWindow}, interp.Fired{At: epoch, Timer: "other"},
		interp.StepEnded{At: epoch, End: end}, // n 0
		interp.StepEnded{At: epoch, End: engine.StepEnd{StepID: "nobody", LogicalAttempt: 1, N: 1}},
		interp.Signalled{At: epoch}, interp.Signalled{At: epoch, Signals: []engine.Signal{{No: 0, Type: run.Pause}}},
	} {
		if got := w.m.Step(in); len(got) > 0 {
			t.Fatalf("%#v: %#v", in, got)
		}
	}
	w.succeed("s1", "s2", "s3")
	w.expectDone(run.Completed)
	w.feed(interp.Begin{At: epoch})
}

func TestStep_MoreCompletionsThanOneBatchTakes(t *testing.T) {
	t.Parallel()
	var specs []string
	for i := range 400 {
		specs = append(specs, "s"+strconv.Itoa(i))
	}
	w := newWorld(t, steps(specs...), with(calm, func(p *run.Policy) { p.MaxParallelSteps = 400 })).start()
	for _, f := range slices.Clone(w.flights) {
		w.arrive(f)
		w.report(f, completed())
	}
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
