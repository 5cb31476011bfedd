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

// chain is all executions of a run, oldest first.
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

// replays checks that every execution of a run replays, and returns them.
func (h *harness) replays(runID string) []generation {
	h.t.Helper()
	all := h.chain(runID)
	for i, g := range all {
		if err := replay(g.history); err != nil {
			h.t.Errorf("replay of execution %d: %v", i+1, err)
		}
	}
	return all
}

// row is a plan of n steps, each after the one before.
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
func TestRotate_Linear120(t *testing.T) {
	h := newHarness(t, options{})
	h.patience = 2 * time.Minute
	id := h.start(document(0, row(120)...))
	if st := h.ended(id); st.Status != run.Completed || st.Counts.Success != 120 {
		t.Fatalf("run ended as %s with %d successes", st.Status, st.Counts.Success)
	}
	h.closed(id)
	got := h.tally(id)
	if got[run.RunStarted] != 1 || got[run.StepCompletedEvent] != 120 || got[run.StepStartedEvent] != 120 {
		t.Errorf("events %v", got)
	}
	all := h.replays(id)
	if len(all) != 3 {
		t.Errorf("%d executions, want 3", len(all))
	}
	for i, g := range all {
		t.Logf("execution %d: %d steps, input of %d bytes, %d events", i+1, len(g.scheduled), g.input, len(g.history.Events))
		if g.input > 64<<10 || len(g.scheduled) > 50 {
			t.Errorf("execution %d scheduled %d steps, its input has %d bytes", i+1, len(g.scheduled), g.input)
		}
	}
	if ref := payload[run.RunStartedPayload](h, id, "RunStarted").Engine; ref.EngineRunID != all[0].runID {
		t.Errorf("the run's reference is %+v, not that of the first execution", ref)
	}
	evs := h.events(id)
	if last := evs[len(evs)-1]; last.Type != run.RunCompleted || last.EngineAttempt != 3 {
		t.Errorf("%s of engine attempt %d, want 3 (T61)", last.Type, last.EngineAttempt)
	}
	h.verify()
}

// contract: E-06, T105
func TestRotate_Wide200(t *testing.T) {
	h := newHarness(t, options{})
	h.patience = 2 * time.Minute
	var wide []step
	for i := range 200 {
		wide = append(wide, step{id: fmt.Sprintf("w%03d", i), extra: spare})
	}
	id := h.start(document(0, wide...))
	if st := h.ended(id); st.Status != run.Completed || st.Counts.Success != 200 {
		t.Fatalf("run ended as %s with %d successes", st.Status, st.Counts.Success)
	}
	h.closed(id)
	all := h.replays(id)
	if len(all) != 4 {
		t.Errorf("%d executions, want 4", len(all))
	}
	seen := map[string]bool{}
	for i, g := range all {
		if len(g.scheduled) > 50 {
			t.Errorf("execution %d scheduled %d steps", i+1, len(g.scheduled))
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
		t.Errorf("%d StepCompleted, %d dispatches", got, len(seen))
	}
}

// update sends UPDATE_PARAMS, as one who may, and returns its id.
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
func TestRotate_SignalsInFlight(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{rotateAfter: 3})
	steps := row(9)
	open := h.hold("s002")
	id := h.start(document(0, steps...))
	h.running(id, "s002")
	pausing := h.signal(id, run.Signal{Type: run.Pause}).Signal.ID
	open()
	time.Sleep(5 * time.Millisecond)
	updating := h.update(id)
	if r := h.applied(id, updating); r.Application != run.SignalApplied || r.AppliedSeq != r.AcceptedSeq {
		t.Errorf("update %+v", r)
	}
	if r := h.applied(id, pausing); r.Application != run.SignalApplied {
		t.Fatalf("pause %+v", r)
	}
	time.Sleep(time.Second)
	resumed := h.resume(id)
	if st := h.ended(id); st.Status != run.Completed {
		t.Fatalf("run ended as %s", st.Status)
	}
	if r := h.applied(id, resumed); r.Application != run.SignalApplied {
		t.Errorf("resume %+v", r)
	}
	h.closed(id)
	got := h.tally(id)
	if got[run.RunPaused] != 1 || got[run.RunResumed] != 1 || got[run.RunStarted] != 1 ||
		got[run.StepCompletedEvent] != 9 {
		t.Errorf("events %v", got)
	}
	done := slices.DeleteFunc(h.log(id), func(e string) bool { return !strings.HasPrefix(e, "StepCompleted") })
	for i, s := range steps {
		if i >= len(done) || done[i] != "StepCompleted("+s.id+",1)" {
			t.Fatalf("steps completed as %v", done)
		}
	}
	if all := h.replays(id); len(all) < 3 {
		t.Errorf("%d executions", len(all))
	} else if st := h.until(id, "there", func(run.State) bool { return true }); st.Engine.EngineRunID != all[0].runID ||
		st.Engine.WorkflowID != temporal.WorkflowID(h.identity(id)) {
		t.Errorf("the run's reference is %+v", st.Engine)
	}
	h.verify()
}

// TestRotate_Interleavings sends signals at random moments around rotations.
// contract: E-05
func TestRotate_Interleavings(t *testing.T) {
	h := newHarness(t, options{rotateAfter: 2, slots: 16})
	h.patience = 3 * time.Minute
	h.steps.on("s003", failing(1, failure("BROKEN", true, "")))
	doc := document(600, row(8)...)
	runs := testtime.Rounds(12)
	if testing.Short() {
		runs = 6
	}
	var wait sync.WaitGroup
	places := make(chan struct{}, 8)
	for i := range runs {
		wait.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			h.interleave(doc, rand.New(rand.NewPCG(7, uint64(i))))
		})
	}
	wait.Wait()
	h.verify()
}

// interleave runs a plan whose s003 fails once, with two pauses and one retry.
func (h *harness) interleave(doc []byte, dice *rand.Rand) {
	id := h.start(doc)
	h.until(id, "started", func(s run.State) bool { return s.Status == run.Running })
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
		for !accepted(run.Resume) { // the pause is not in the log yet
			time.Sleep(20 * time.Millisecond)
		}
	}
	h.until(id, "failed at s003", func(s run.State) bool {
		st, ok := s.Step("s003")
		return ok && st.Status == run.StepFailed
	})
	time.Sleep(time.Duration(dice.IntN(200)) * time.Millisecond)
	sent = append(sent, h.signal(id, run.Signal{Type: run.RetryStep, StepID: "s003"}).Signal.ID)
	st := h.ended(id)
	for _, s := range sent {
		h.applied(id, s)
	}
	h.closed(id)
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
					h.t.Errorf("pause %d has epoch %d", epoch, e.LogicalAttempt)
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
			h.t.Errorf("signal %s has %d effects; log:\n%s", s, n, strings.Join(h.log(id), "\n"))
		}
	}
	if st.Status != run.Completed || completed != 8 {
		h.t.Errorf("run ended as %s with %d steps completed; log:\n%s", st.Status, completed, strings.Join(h.log(id), "\n"))
	}
	if all := h.replays(id); len(all) < 4 {
		h.t.Errorf("%d executions", len(all))
	}
}

// contract: E-07, T107
func TestRotate_CancelAndSignalAfterRotation(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{rotateAfter: 2})
	h.hold("s004")
	id := h.start(document(0, row(6)...))
	h.running(id, "s004")
	if n := len(h.chain(id)); n != 3 {
		t.Errorf("%d executions", n)
	}
	d, err := h.engine.Describe(t.Context(), h.identity(id))
	if err != nil || !d.Open {
		t.Errorf("described as %+v, %v", d, err)
	}
	paused := h.pause(id)
	// It is delivered again, to whatever execution there is now.
	must(t, h.engine.Signal(t.Context(), h.identity(id), engine.Signal{No: 1, ID: paused, Type: run.Pause}))
	h.cancelled(id)
	if got := h.tally(id)[run.RunPaused]; got != 1 {
		t.Errorf("%d pauses", got)
	}
	h.closed(id)
	if err := h.engine.Signal(t.Context(), h.identity(id), engine.Signal{No: 9}); err == nil {
		t.Error("a signal of a closed chain was taken")
	}
	h.replays(id)
	for known, err := range h.engine.Runs(t.Context()) {
		must(t, err)
		if known.Identity.RunID == id {
			return
		}
	}
	t.Error("the last execution has lost its search attributes")
}

// TestRotate_WorkerLostAtTheBarrier stops the worker while the barrier waits
// for its steps; another one runs them again and rotates.
// contract: T195
func TestRotate_WorkerLostAtTheBarrier(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{rotateAfter: 2, workers: -1, heartbeat: 3 * time.Second})
	stop := h.worker(0)
	open := make(gate)
	for _, s := range []string{"a", "b"} {
		h.steps.on(s, open.wait)
	}
	id := h.start(document(0, step{id: "a", extra: spare}, step{id: "b", extra: spare}, step{id: "c", extra: spare},
		step{id: "d", deps: "c", extra: spare}))
	h.running(id, "a", "b")
	stop()
	h.worker(0)
	h.until(id, "running again", func(run.State) bool { return h.steps.count("a") > 1 && h.steps.count("b") > 1 })
	if h.steps.count("c") > 0 {
		t.Error("c was dispatched before the barrier fell")
	}
	close(open)
	if st := h.ended(id); st.Status != run.Completed || st.Counts.Success != 4 {
		t.Fatalf("run ended as %s", st.Status)
	}
	h.closed(id)
	if got := h.tally(id); got[run.StepStartedEvent] != 4 || got[run.StepCompletedEvent] != 4 {
		t.Errorf("events %v", got)
	}
	if all := h.replays(id); len(all) != 2 {
		t.Errorf("%d executions", len(all))
	}
}

// TestRotate_PauseAndWindowAreState rotates right before a pause and a retry
// window, which are carried as what they are.
// contract: T195
func TestRotate_PauseAndWindowAreState(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{rotateAfter: 1})
	open := h.hold("s001")
	h.steps.on("s002", failing(1, failure("BROKEN", true, "")))
	id := h.start(document(60, row(4)...))
	h.running(id, "s001")
	h.pause(id)
	open()
	h.logs(id, "StepCompleted(s001,1)")
	h.until(id, "rotated while paused", func(run.State) bool { return len(h.chain(id)) == 3 })
	h.resume(id)
	h.until(id, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	h.signal(id, run.Signal{Type: run.RetryStep, StepID: "s002"})
	if st := h.ended(id); st.Status != run.Completed {
		t.Fatalf("run ended as %s", st.Status)
	}
	h.closed(id)
	h.replays(id)
}

// TestRotate_Size_500 is the size that a suite has time for; bench runs 5,000.
func TestRotate_Size_500(t *testing.T) {
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
	if st := h.ended(id); st.Status != run.Completed || st.Counts.Success != 500 {
		t.Fatalf("run ended as %s with %d successes", st.Status, st.Counts.Success)
	}
	h.closed(id)
	t.Logf("500 steps in layers of 100: %s, %d executions", time.Since(began), len(h.chain(id)))
}
