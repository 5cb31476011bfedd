package temporal_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/run"
)

// pause pauses a run, waits until the signal is applied, and returns its id.
func (h *harness) pause(runID string) string {
	h.t.Helper()
	id := h.signal(runID, run.Signal{Type: run.Pause}).Signal.ID
	if r := h.waitUntilApplied(runID, id); r.Application != run.SignalApplied {
		h.t.Fatalf("receipt of the pause %+v, want APPLIED", r)
	}
	return id
}

func (h *harness) resume(runID string) string {
	h.t.Helper()
	return h.signal(runID, run.Signal{Type: run.Resume}).Signal.ID
}

// contract: W-5, P06, G01
func TestPause_TheSecondPauseHasItsOwnKey(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	open1, open2 := h.hold("s1"), h.hold("s2")
	id := h.start(l3(0))
	h.waitUntilRunning(id, "s1")
	a := h.pause(id)
	open1()
	h.waitForEvent(id, "StepCompleted(s1,1)")
	b := h.resume(id)
	h.waitUntilRunning(id, "s2")
	c := h.pause(id)
	open2()
	h.waitForEvent(id, "StepCompleted(s2,1)")
	d := h.resume(id)
	h.waitForEnd(id)
	h.expect(id, 1, "RunApproved", "RunStarted",
		"StepStarted(s1,1)", "SignalAccepted", "RunPaused(1)", "StepCompleted(s1,1)", "SignalAccepted", "RunResumed(1)",
		"StepStarted(s2,1)", "SignalAccepted", "RunPaused(2)", "StepCompleted(s2,1)", "SignalAccepted", "RunResumed(2)",
		"StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")
	evs := h.events(id)
	for seq, epoch := range map[int]string{5: "1", 11: "2"} {
		sum := sha256.Sum256([]byte(id + "|RUN|" + epoch + "|RunPaused|plan-3|1.0"))
		if got := string(evs[seq-1].Key); got != hex.EncodeToString(sum[:]) {
			t.Errorf("event %d has the key %s, want that of epoch %s", seq, got, epoch)
		}
	}
	for signal, seq := range map[string]run.Seq{a: 5, b: 8, c: 11, d: 14} {
		if r := h.waitUntilApplied(id, signal); r.Application != run.SignalApplied || r.AppliedSeq != seq {
			t.Errorf("receipt %+v, want APPLIED at %d", r, seq)
		}
	}
	if p := payload[run.PausePayload](h, id, "RunPaused(1)"); p.SignalID != a || p.PauseRequestedBy != h.who.ID ||
		p.Reason != "a test" {
		t.Errorf("RunPaused has %+v, want the signal, its actor and its reason", p)
	}
}

// contract: W-6, G16
func TestPause_ARetryWhilePausedStartsAfterTheResume(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	open := make(gate)
	h.steps.on("s2", func(ctx context.Context, task executor.Task) error {
		if task.LogicalAttempt > 1 {
			return nil
		}
		if err := open.wait(ctx, task); err != nil {
			return err
		}
		return failure("DB_CONNECTION_FAILED", false, "")
	})
	id := h.start(l3(0))
	h.waitUntilRunning(id, "s2")
	h.pause(id)
	close(open)
	st := h.waitFor(id, "failed", func(s run.State) bool { return s.FailedSteps() == 1 })
	if st.Status != run.Paused || st.Substatus() != "" {
		t.Errorf("the run is %s %q, want PAUSED without a substatus", st.Status, st.Substatus())
	}
	retry := h.signal(id, run.Signal{Type: run.RetryStep, StepID: "s2", Force: true})
	h.resume(id)
	st = h.waitForEnd(id)
	h.expect(id, 1, "RunApproved", "RunStarted", "StepStarted(s1,1)", "StepCompleted(s1,1)", "StepStarted(s2,1)",
		"SignalAccepted", "RunPaused(1)",
		"StepFailed(s2,1)", "SignalAccepted", "SignalAccepted", "RunResumed(1)", "StepStarted(s2,2)", "StepCompleted(s2,2)",
		"StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")
	s2, _ := st.Step("s2")
	if len(s2.Attempts) != 2 || s2.Attempts[0].Status != run.StepFailed || s2.Attempts[1].Status != run.StepSuccess ||
		st.FailedSteps() != 0 {
		t.Errorf("attempts of s2 %+v, want a failure and a success", s2.Attempts)
	}
	if r := h.waitUntilApplied(id, retry.Signal.ID); r.Application != run.SignalApplied || r.AppliedSeq != 12 {
		t.Errorf("receipt of the retry %+v, want it applied by event 12", r)
	}
}

// contract: G04
func TestPause_TenEqualSignalsPauseOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	open := h.hold("s1")
	id := h.start(l3(0))
	h.waitUntilRunning(id, "s1")
	sig := run.Signal{ID: uuid.NewString(), Type: run.Pause}
	var all sync.WaitGroup
	var mu sync.Mutex
	duplicates := 0
	for range 10 {
		all.Go(func() {
			if h.signal(id, sig).Duplicate {
				mu.Lock()
				duplicates++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	h.waitUntilApplied(id, sig.ID)
	open()
	h.waitForEvent(id, "StepCompleted(s1,1)")
	h.resume(id)
	h.waitForEnd(id)
	h.expect(id, 3, "StepStarted(s1,1)", "SignalAccepted", "RunPaused(1)", "StepCompleted(s1,1)", "SignalAccepted",
		"RunResumed(1)",
		"StepStarted(s2,1)", "StepCompleted(s2,1)", "StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")
	if duplicates != 9 {
		t.Errorf("%d duplicates, want 9", duplicates)
	}
}

// Signals reach the workflow twice, late, and one before its predecessor. Each is applied once.
// contract: G07, T196
func TestPause_RepeatedDeliveriesHaveNoEffect(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{noDeliveries: true})
	open := h.hold("s1")
	id := h.start(l3(0))
	h.waitUntilRunning(id, "s1")
	deliver := func(no int64, sig run.Signal) {
		must(t, h.engine.Signal(t.Context(), h.identity(id), engine.Signal{No: no, ID: sig.ID, Type: sig.Type,
			Applied: no == 1}))
	}
	first, second := h.signal(id, run.Signal{Type: run.Pause}), h.signal(id, run.Signal{Type: run.Pause})
	deliver(2, second.Signal) // the workflow fetches the missing first signal
	if r := h.waitUntilApplied(id, first.Signal.ID); r.Application != run.SignalApplied {
		t.Errorf("receipt of the first pause %+v, want APPLIED", r)
	}
	if r := h.waitUntilApplied(id, second.Signal.ID); r.Application != run.SignalNoop {
		t.Errorf("receipt of the second pause %+v, want NOOP", r)
	}
	deliver(1, first.Signal)
	open()
	h.waitForEvent(id, "StepCompleted(s1,1)")
	resume := h.signal(id, run.Signal{Type: run.Resume})
	deliver(3, resume.Signal)
	deliver(3, resume.Signal)
	deliver(1, first.Signal)
	deliver(2, second.Signal)
	h.waitForEnd(id)
	h.expect(id, 3, "StepStarted(s1,1)", "SignalAccepted", "RunPaused(1)", "SignalAccepted", "StepCompleted(s1,1)",
		"SignalAccepted", "RunResumed(1)",
		"StepStarted(s2,1)", "StepCompleted(s2,1)", "StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")
}

// contract: G11
func TestPause_DrainsRunningSteps(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	openA, openB := h.hold("a"), h.hold("b")
	id := h.start(d4(0))
	h.waitUntilRunning(id, "a", "b")
	h.pause(id)
	draining := func(n int, count string) {
		t.Helper()
		st := h.waitFor(id, "draining "+count, func(s run.State) bool { return s.RunningSteps() == n })
		if st.Status != run.Paused || (st.Substatus() == run.Draining) != (n > 0) || n > 0 &&
			!strings.Contains(st.Message(), count) {
			t.Errorf("the run is %s %s with the message %q, want PAUSED and %d draining steps", st.Status, st.Substatus(),
				st.Message(), n)
		}
	}
	draining(2, "2")
	openA()
	draining(1, "1")
	openB()
	draining(0, "")
	h.resume(id)
	h.waitForEnd(id)
	if log := strings.Join(h.log(id), " "); strings.Count(log, "RunPaused") != 1 ||
		!strings.HasSuffix(log, "RunResumed(1) StepStarted(final,1) StepCompleted(final,1) RunCompleted") {
		t.Errorf("log %s, want one RunPaused, and final after RunResumed", log)
	}
}

// contract: G12
func TestPause_ResumeWaitsForTheRunningSteps(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{}) // the drain timeout is longer than the test
	openA, openB := h.hold("a"), h.hold("b")
	id := h.start(d4(0))
	h.waitUntilRunning(id, "a", "b")
	h.pause(id)
	resume := h.signal(id, run.Signal{Type: run.Resume})
	h.waitUntilDelivered(id, resume.Signal.ID)
	openA()
	h.waitForEvent(id, "StepCompleted(a,1)")
	if got := h.operator().Receipt(id, resume.Signal.ID); got.Application.Final() {
		t.Errorf("the receipt of the resume is %s while b runs, want one that is not final", got.Application)
	}
	openB()
	if got := h.waitUntilApplied(id, resume.Signal.ID); got.Application != run.SignalApplied {
		t.Errorf("the receipt of the resume is %s, want APPLIED", got.Application)
	}
	if st := h.waitForEnd(id); st.Status != run.Completed {
		t.Errorf("the run ended %s, want COMPLETED", st.Status)
	}
	if log := strings.Join(h.log(id), " "); !strings.HasSuffix(log, "RunPaused(1) SignalAccepted StepCompleted(a,1) "+
		"StepCompleted(b,1) RunResumed(1) StepStarted(final,1) StepCompleted(final,1) RunCompleted") {
		t.Errorf("log %s, want RunResumed directly after the end of b", log)
	}
}

// contract: G12
func TestPause_ResumeWaitsAtMostForTheDrainTimeout(t *testing.T) {
	t.Parallel()
	const drain = time.Second
	h := newHarness(t, options{policy: run.Policy{DrainTimeoutMS: drain.Milliseconds()}})
	openA, openB := h.hold("a"), h.hold("b")
	id := h.start(d4(0))
	h.waitUntilRunning(id, "a", "b")
	h.pause(id)
	h.resume(id)
	h.waitForEvent(id, "RunResumed(1)")
	events := h.events(id)
	accepted, resumed := events[len(events)-2], events[len(events)-1]
	if accepted.Type != run.SignalAccepted || resumed.Type != run.RunResumed ||
		resumed.PersistedAt.Sub(accepted.PersistedAt) < drain {
		t.Errorf("the log ends with %s and %v later %s, want the acceptance of the resume and RunResumed after the drain "+
			"timeout of %v", accepted.Notation(), resumed.PersistedAt.Sub(accepted.PersistedAt), resumed.Notation(), drain)
	}
	openA()
	openB()
	if st := h.waitForEnd(id); st.Status != run.Completed || st.Counts.Success != 3 {
		t.Errorf("the run ended %s with %d successes, want COMPLETED with 3: late ends count", st.Status, st.Counts.Success)
	}
}

// contract: G13
func TestPause_ARunStaysPausedWhenItsLastStepEnds(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	open := h.hold("s3")
	id := h.start(l3(0))
	h.waitUntilRunning(id, "s3")
	h.pause(id)
	open()
	h.waitForEvent(id, "StepCompleted(s3,1)")
	if st := h.waitFor(id, "drained", func(s run.State) bool { return s.RunningSteps() == 0 }); st.Status != run.Paused {
		t.Errorf("the run is %s, want PAUSED", st.Status)
	}
	h.resume(id)
	h.waitForEnd(id)
	h.expect(id, 7, "StepStarted(s3,1)", "SignalAccepted", "RunPaused(1)", "StepCompleted(s3,1)", "SignalAccepted",
		"RunResumed(1)", "RunCompleted")
}

// A pause is in the log, but the workflow learns of it only when it wants to end the run. The end waits for the RESUME.
// contract: G14, T43
func TestPause_HoldsBackTheEndOfTheRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{noDeliveries: true})
	open := h.hold("s3")
	id := h.start(l3(0))
	h.waitUntilRunning(id, "s3")
	r := h.signal(id, run.Signal{Type: run.Pause})
	if r.Application != run.SignalApplied || r.AppliedSeq != 9 {
		t.Errorf("receipt %+v, want it applied by event 9", r)
	}
	open()
	h.waitForEvent(id, "StepCompleted(s3,1)")
	resume := h.signal(id, run.Signal{Type: run.Resume})
	// The workflow fetches the signal before it too.
	must(t, h.engine.Signal(t.Context(), h.identity(id), engine.Signal{No: resume.No, ID: resume.Signal.ID,
		Type: run.Resume}))
	if st := h.waitForEnd(id); st.Status != run.Completed {
		t.Errorf("the run ended %s, want COMPLETED", st.Status)
	}
	h.expect(id, 7, "StepStarted(s3,1)", "SignalAccepted", "RunPaused(1)", "StepCompleted(s3,1)", "SignalAccepted",
		"RunResumed(1)", "RunCompleted")
	h.waitUntilClosed(id)
	must(t, replay(h.history(id)))
}

// A PAUSE follows a signal that the workflow has not received, so it cannot be applied ahead of the engine. The run
// ends before the workflow learns of it.
// contract: G14, T44
func TestPause_ThatTheWorkflowNeverGetsIsNotApplied(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{noDeliveries: true})
	open := h.hold("s3")
	id := h.start(l3(0))
	h.waitUntilRunning(id, "s3")
	h.signal(id, run.Signal{Type: run.Resume})
	r := h.signal(id, run.Signal{Type: run.Pause})
	open()
	if st := h.waitForEnd(id); st.Status != run.Completed {
		t.Errorf("the run ended %s, want COMPLETED", st.Status)
	}
	h.expect(id, 7, "StepStarted(s3,1)", "SignalAccepted", "SignalAccepted", "StepCompleted(s3,1)", "RunCompleted")
	if got := h.waitUntilApplied(id, r.Signal.ID); got.Application != run.SignalNotApply ||
		got.ApplicationReason != string(run.CodeRunTerminal) {
		t.Errorf("receipt %+v, want NOT_APPLIED because the run has ended", got)
	}
}

// contract: G15
func TestPause_CancelsAStepThatAllowsIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	h.steps.on("s2", func(ctx context.Context, task executor.Task) error {
		if task.LogicalAttempt > 1 {
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	})
	dispatch := map[string]any{"dispatch": map[string]any{"resourceClass": "heavy", "cancellable": true,
		"allowCancelOnPause": true}}
	id := h.start(document(0, step{id: "s1"}, step{id: "s2", deps: "s1", extra: dispatch}, step{id: "s3", deps: "s2"}))
	h.waitUntilRunning(id, "s2")
	h.pause(id)
	st := h.waitFor(id, "drained", func(s run.State) bool { return s.RunningSteps() == 0 })
	if s2, _ := st.Step("s2"); st.Status != run.Paused || s2.Attempts[0].Error.Code != "CANCELLED_BY_PAUSE" {
		t.Errorf("the run is %s, attempts of s2 %+v; want PAUSED and CANCELLED_BY_PAUSE", st.Status, s2.Attempts)
	}
	h.resume(id)
	if st = h.waitForEnd(id); st.Status != run.Completed {
		t.Errorf("the run ended %s, want COMPLETED", st.Status)
	}
	h.expect(id, 5, "StepStarted(s2,1)", "SignalAccepted", "RunPaused(1)", "StepFailed(s2,1)", "SignalAccepted",
		"RunResumed(1)",
		"StepStarted(s2,2)", "StepCompleted(s2,2)", "StepStarted(s3,1)", "StepCompleted(s3,1)", "RunCompleted")
}
