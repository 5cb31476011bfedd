package temporal_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
)

// generation is one execution of a run's chain.
type generation struct {
	runID     string // Temporal's
	history   *historypb.History
	input     int // bytes
	scheduled []string
}

// chain returns all executions of a run, oldest first.
func (h *harness) chain(runID string) (out []generation) {
	h.t.Helper()
	at := temporal.WorkflowID(h.identity(runID))
	about, err := h.client.DescribeWorkflowExecution(h.t.Context(), at, "")
	must(h.t, err)
	next := about.GetWorkflowExecutionInfo().GetFirstRunId()
	for next != "" {
		g := generation{runID: next, history: &historypb.History{}}
		next = ""
		it := h.client.GetWorkflowHistory(h.t.Context(), at, g.runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for it.HasNext() {
			e, err := it.Next()
			must(h.t, err)
			g.history.Events = append(g.history.Events, e)
			if s := e.GetWorkflowExecutionStartedEventAttributes(); s != nil {
				g.input = len(s.GetInput().GetPayloads()[0].GetData())
			}
			if a := e.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == "dvt.execute" {
				g.scheduled = append(g.scheduled, a.GetActivityId())
			}
			if c := e.GetWorkflowExecutionContinuedAsNewEventAttributes(); c != nil {
				next = c.GetNewExecutionRunId()
			}
		}
		out = append(out, g)
	}
	return out
}

// wantReplays checks that every execution of a run replays, and returns them.
func (h *harness) wantReplays(runID string) []generation {
	h.t.Helper()
	all := h.chain(runID)
	for i, g := range all {
		if err := replay(g.history); err != nil {
			h.t.Errorf("replay of execution %d: %v", i+1, err)
		}
	}
	return all
}

// row returns n steps in a line.
func row(n int) (steps []step) {
	for i := range n {
		s := step{id: fmt.Sprintf("s%03d", i), extra: spare}
		if i > 0 {
			s.deps = steps[i-1].id
		}
		steps = append(steps, s)
	}
	return steps
}

// tally counts the events of a log by type.
func (h *harness) tally(runID string) map[run.EventType]int {
	out := map[run.EventType]int{}
	for _, e := range h.events(runID) {
		out[e.Type]++
	}
	return out
}

// contract: E-04, T108
func TestRotate_LongPlanRunsInSeveralExecutions(t *testing.T) {
	h := newHarness(t, options{})
	h.patience = 2 * time.Minute
	id := h.start(document(0, row(120)...))
	if st := h.waitForEnd(id); st.Status != run.Completed || st.Counts.Success != 120 {
		t.Fatalf("the run ended %s with %d successes, want COMPLETED", st.Status, st.Counts.Success)
	}
	h.waitUntilClosed(id)
	got := h.tally(id)
	if got[run.RunStarted] != 1 || got[run.StepCompletedEvent] != 120 || got[run.StepStartedEvent] != 120 {
		t.Errorf("events %v, want one RunStarted, and 120 starts and completions", got)
	}
	all := h.wantReplays(id)
	if len(all) != 3 {
		t.Errorf("%d executions, want 3", len(all))
	}
	for i, g := range all {
		t.Logf("execution %d: %d steps, input of %d bytes, %d events", i+1, len(g.scheduled), g.input, len(g.history.Events))
		if g.input > 64<<10 || len(g.scheduled) > 50 {
			t.Errorf("execution %d scheduled %d steps with an input of %d bytes, want at most 50 and 64 KiB", i+1,
				len(g.scheduled), g.input)
		}
	}
	if ref := payload[run.RunStartedPayload](h, id, "RunStarted").Engine; ref.EngineRunID != all[0].runID {
		t.Errorf("the run's reference is %+v, want that of the first execution", ref)
	}
	evs := h.events(id)
	if last := evs[len(evs)-1]; last.Type != run.RunCompleted || last.EngineAttempt != 3 {
		t.Errorf("the last event is %s of engine attempt %d, want RunCompleted of 3", last.Type, last.EngineAttempt)
	}
	h.verify()
}

// contract: E-06, T105
func TestRotate_WidePlanLeavesNoStepBehind(t *testing.T) {
	h := newHarness(t, options{})
	h.patience = 2 * time.Minute
	var wide []step
	for i := range 200 {
		wide = append(wide, step{id: fmt.Sprintf("w%03d", i), extra: spare})
	}
	id := h.start(document(0, wide...))
	if st := h.waitForEnd(id); st.Status != run.Completed || st.Counts.Success != 200 {
		t.Fatalf("the run ended %s with %d successes, want COMPLETED", st.Status, st.Counts.Success)
	}
	h.waitUntilClosed(id)
	all := h.wantReplays(id)
	if len(all) != 4 {
		t.Errorf("%d executions, want 4", len(all))
	}
	seen := map[string]bool{}
	for i, g := range all {
		if len(g.scheduled) > 50 {
			t.Errorf("execution %d scheduled %d steps, want at most 50", i+1, len(g.scheduled))
		}
		for _, s := range g.scheduled {
			if seen[s] {
				t.Errorf("%s was scheduled twice", s)
			}
			seen[s] = true
		}
		open := map[int64]string{}
		for _, e := range g.history.Events {
			if a := e.GetActivityTaskScheduledEventAttributes(); a != nil {
				open[e.EventId] = a.ActivityId
			}
			delete(open, e.GetActivityTaskCompletedEventAttributes().GetScheduledEventId())
		}
		if len(open) > 0 {
			t.Errorf("execution %d left %v behind", i+1, open)
		}
	}
	if got := h.tally(id)[run.StepCompletedEvent]; got != 200 || len(seen) != 200 {
		t.Errorf("%d StepCompleted and %d dispatches, want 200 of each", got, len(seen))
	}
}

// update sends UPDATE_PARAMS as an administrator and returns the signal's id.
func (h *harness) update(runID string) string {
	h.t.Helper()
	directory, err := authz.NewDirectory(authz.DevAccounts(func(name string) string { return name }), time.Now)
	must(h.t, err)
	admin, err := directory.Authenticate("dev-admin")
	must(h.t, err)
	r, err := h.control.SignalRun(h.t.Context(), admin, runs.SignalRun{
		RunID: runID, Signal: run.Signal{ID: uuid.NewString(), Type: run.UpdateParams},
		Payload: []byte(`{"newParams":{"color":"red"}}`), Reason: "a test",
	})
	must(h.t, err)
	return r.Signal.ID
}

// contract: W-14
func TestRotate_LosesNoSignalInFlight(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{rotateAfter: 3})
	steps := row(9)
	open := h.hold("s002")
	id := h.start(document(0, steps...))
	h.waitUntilRunning(id, "s002")
	pausing := h.signal(id, run.Signal{Type: run.Pause}).Signal.ID
	open()
	time.Sleep(5 * time.Millisecond)
	updating := h.update(id)
	if r := h.waitUntilApplied(id, updating); r.Application != run.SignalApplied || r.AppliedSeq != r.AcceptedSeq {
		t.Errorf("receipt of the update %+v, want it applied at its acceptance", r)
	}
	if r := h.waitUntilApplied(id, pausing); r.Application != run.SignalApplied {
		t.Fatalf("receipt of the pause %+v, want APPLIED", r)
	}
	time.Sleep(time.Second)
	resumed := h.resume(id)
	if st := h.waitForEnd(id); st.Status != run.Completed {
		t.Fatalf("the run ended %s, want COMPLETED", st.Status)
	}
	if r := h.waitUntilApplied(id, resumed); r.Application != run.SignalApplied {
		t.Errorf("receipt of the resume %+v, want APPLIED", r)
	}
	h.waitUntilClosed(id)
	got := h.tally(id)
	if got[run.RunPaused] != 1 || got[run.RunResumed] != 1 || got[run.RunStarted] != 1 ||
		got[run.StepCompletedEvent] != 9 {
		t.Errorf("events %v, want one start, pause and resume, and 9 completions", got)
	}
	done := slices.DeleteFunc(h.log(id), func(e string) bool { return !strings.HasPrefix(e, "StepCompleted") })
	for i, s := range steps {
		if i >= len(done) || done[i] != "StepCompleted("+s.id+",1)" {
			t.Fatalf("completions %v, want all steps in order", done)
		}
	}
	if all := h.wantReplays(id); len(all) < 3 {
		t.Errorf("%d executions, want at least 3", len(all))
	} else if st := h.operator().State(id); st.Engine.EngineRunID != all[0].runID ||
		st.Engine.WorkflowID != temporal.WorkflowID(h.identity(id)) {
		t.Errorf("the run's reference is %+v, want that of the first execution", st.Engine)
	}
	h.verify()
}

// Signals that arrive at random times around rotations have one effect each.
// contract: E-05
func TestRotate_SignalsAtAnyTimeApplyOnce(t *testing.T) {
	h := newHarness(t, options{rotateAfter: 2, slots: 16})
	h.patience = 3 * time.Minute
	h.steps.on("s003", failing(1, failure("BROKEN", true, "")))
	doc := document(600, row(8)...)
	runs := testtime.Rounds(12)
	if testing.Short() {
		runs = 6
	}
	var wait sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range runs {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			h.interleave(doc, rand.New(rand.NewPCG(7, uint64(i))))
		})
	}
	wait.Wait()
	h.verify()
}

// interleave runs a plan whose s003 fails once, with two pauses and one retry.
func (h *harness) interleave(doc []byte, dice *rand.Rand) {
	id := h.start(doc)
	h.waitFor(id, "started", func(s run.State) bool { return s.Status == run.Running })
	var sent []string
	accepted := func(t run.SignalType) bool {
		r := h.signal(id, run.Signal{Type: t})
		if !r.Rejected {
			sent = append(sent, r.Signal.ID)
		}
		return !r.Rejected
	}
	for range 2 {
		time.Sleep(time.Duration(dice.IntN(400)) * time.Millisecond)
		if !accepted(run.Pause) {
			continue
		}
		time.Sleep(time.Duration(dice.IntN(300)) * time.Millisecond)
		sent = append(sent, h.update(id))
		for !accepted(run.Resume) { // dvt rejects a resume until the pause is in the log
			time.Sleep(20 * time.Millisecond)
		}
	}
	h.waitFor(id, "failed at s003", func(s run.State) bool {
		st, ok := s.Step("s003")
		return ok && st.Status == run.StepFailed
	})
	time.Sleep(time.Duration(dice.IntN(200)) * time.Millisecond)
	sent = append(sent, h.signal(id, run.Signal{Type: run.RetryStep, StepID: "s003"}).Signal.ID)
	st := h.waitForEnd(id)
	for _, s := range sent {
		h.waitUntilApplied(id, s)
	}
	h.waitUntilClosed(id)
	effects, epoch, completed := map[string]int{}, 0, 0
	for _, e := range h.events(id) {
		switch e.Type {
		case run.RunPaused, run.RunResumed:
			p, err := run.PayloadOf[run.PausePayload](e.Payload)
			if err != nil {
				h.t.Error(err)
			}
			effects[p.SignalID]++
			if e.Type == run.RunPaused {
				if epoch++; e.LogicalAttempt != epoch {
					h.t.Errorf("pause %d has the epoch %d", epoch, e.LogicalAttempt)
				}
			}
		case run.StepStartedEvent:
			if p, _ := run.PayloadOf[run.StepStartedPayload](e.Payload); p.SignalID != "" {
				effects[p.SignalID]++
			}
		case run.StepCompletedEvent:
			completed++
		}
	}
	for s, n := range effects {
		if n != 1 {
			h.t.Errorf("signal %s has %d effects, want 1; log:\n%s", s, n, strings.Join(h.log(id), "\n"))
		}
	}
	if st.Status != run.Completed || completed != 8 {
		h.t.Errorf("the run ended %s with %d completions, want COMPLETED with 8; log:\n%s", st.Status, completed,
			strings.Join(h.log(id), "\n"))
	}
	if all := h.wantReplays(id); len(all) < 4 {
		h.t.Errorf("%d executions, want at least 4", len(all))
	}
}

// contract: E-07, T107
func TestRotate_SignalsReachTheCurrentExecution(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{rotateAfter: 2})
	h.hold("s004")
	id := h.start(document(0, row(6)...))
	h.waitUntilRunning(id, "s004")
	if n := len(h.chain(id)); n != 3 {
		t.Errorf("%d executions, want 3", n)
	}
	d, err := h.engine.Describe(t.Context(), h.identity(id))
	if err != nil || !d.Open {
		t.Errorf("Describe returned %+v, %v; want an open execution", d, err)
	}
	paused := h.pause(id)
	// The second delivery reaches the current execution, which may be another one.
	must(t, h.engine.Signal(t.Context(), h.identity(id), engine.Signal{No: 1, ID: paused, Type: run.Pause}))
	h.cancel(id)
	if got := h.tally(id)[run.RunPaused]; got != 1 {
		t.Errorf("%d RunPaused, want 1", got)
	}
	h.waitUntilClosed(id)
	if err := h.engine.Signal(t.Context(), h.identity(id), engine.Signal{No: 9}); err == nil {
		t.Error("a signal to a closed chain succeeded, want ErrClosed")
	}
	h.wantReplays(id)
	for known, err := range h.engine.Runs(t.Context()) {
		must(t, err)
		if known.Identity.RunID == id {
			return
		}
	}
	t.Error("Runs does not list the last execution, whose search attributes must be those of the run")
}

// The worker stops while the run waits for its steps before a rotation. Another worker runs them again, and the run
// rotates.
// contract: T195
func TestRotate_WaitsForStepsOfALostWorker(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{rotateAfter: 2, workers: -1, heartbeat: 3 * time.Second})
	stop := h.worker(0)
	open := make(gate)
	for _, s := range []string{"a", "b"} {
		h.steps.on(s, open.wait)
	}
	id := h.start(document(0, step{id: "a", extra: spare}, step{id: "b", extra: spare}, step{id: "c", extra: spare},
		step{id: "d", deps: "c", extra: spare}))
	h.waitUntilRunning(id, "a", "b")
	stop()
	h.worker(0)
	h.waitFor(id, "running again", func(run.State) bool { return h.steps.count("a") > 1 && h.steps.count("b") > 1 })
	if h.steps.count("c") > 0 {
		t.Error("c was dispatched before the rotation")
	}
	close(open)
	if st := h.waitForEnd(id); st.Status != run.Completed || st.Counts.Success != 4 {
		t.Fatalf("the run ended %s, want COMPLETED", st.Status)
	}
	h.waitUntilClosed(id)
	if got := h.tally(id); got[run.StepStartedEvent] != 4 || got[run.StepCompletedEvent] != 4 {
		t.Errorf("events %v, want 4 starts and 4 completions", got)
	}
	if all := h.wantReplays(id); len(all) != 2 {
		t.Errorf("%d executions, want 2", len(all))
	}
}

// The run rotates during a pause and during a retry window. Both are part of the carried state.
// contract: T195
func TestRotate_KeepsAPauseAndARetryWindow(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{rotateAfter: 1})
	open := h.hold("s001")
	h.steps.on("s002", failing(1, failure("BROKEN", true, "")))
	id := h.start(document(60, row(4)...))
	h.waitUntilRunning(id, "s001")
	h.pause(id)
	open()
	h.waitForEvent(id, "StepCompleted(s001,1)")
	h.waitFor(id, "rotated while paused", func(run.State) bool { return len(h.chain(id)) == 3 })
	h.resume(id)
	h.waitFor(id, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	h.signal(id, run.Signal{Type: run.RetryStep, StepID: "s002"})
	if st := h.waitForEnd(id); st.Status != run.Completed {
		t.Fatalf("the run ended %s, want COMPLETED", st.Status)
	}
	h.waitUntilClosed(id)
	h.wantReplays(id)
}

// 500 steps are the most for which a test suite has time. The benchmarks run 5,000.
func TestRotate_CompletesAPlanOfFiveHundredSteps(t *testing.T) {
	if testing.Short() {
		t.Skip("the long plan takes a minute")
	}
	h := newHarness(t, options{})
	h.patience = 5 * time.Minute
	var steps []step
	for i := range 500 { // layers of 100
		s := step{id: fmt.Sprintf("s%03d", i), extra: spare}
		if i >= 100 {
			s.deps = steps[i-100].id + " " + steps[i/100*100-100+(i+1)%100].id
		}
		steps = append(steps, s)
	}
	began := time.Now()
	id := h.start(document(0, steps...))
	if st := h.waitForEnd(id); st.Status != run.Completed || st.Counts.Success != 500 {
		t.Fatalf("the run ended %s with %d successes, want COMPLETED", st.Status, st.Counts.Success)
	}
	h.waitUntilClosed(id)
	t.Logf("500 steps in layers of 100: %s, %d executions", time.Since(began), len(h.chain(id)))
}
