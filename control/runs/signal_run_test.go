package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/control/controltest"
	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
	"github.com/dvt-engine/dvt/server/usecases"
	"github.com/dvt-engine/dvt/store"
)

// contract: G04
func TestSignalRun_ConcurrentDuplicatesHaveOneReceipt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("g04", "s1")
	var all sync.WaitGroup
	var mu sync.Mutex
	first := 0
	for range 10 {
		all.Go(func() {
			r, err := w.SignalRun(context.Background(), w.Engineer(), controltest.SignalOf(id, "u1", run.Pause))
			mu.Lock()
			defer mu.Unlock()
			if err != nil || r.Rejected || r.No != 1 {
				t.Errorf("the answer is %+v with the error %v, want the receipt with number 1", r, err)
			}
			if !r.Duplicate {
				first++
			}
		})
	}
	all.Wait()
	if first != 1 || w.CountEvents(id, run.SignalAccepted) != 1 {
		t.Errorf("%d answers are not duplicates, want 1; the log is %v", first, w.EventLog(id))
	}
	w.Spawn(func(ctx context.Context) error { return w.Deliver(ctx, "a") })
	controltest.Eventually(t, "delivered", func() bool { return len(w.Engine.SignalsTo(id)) == 1 })
}

// contract: G05
func TestSignalRun_AnIDOfAnotherSignalIsAConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("g05", "s1")
	w.Send(w.Engineer(), controltest.SignalOf(id, "u1", run.Pause))
	before := w.EventLog(id)
	other := controltest.SignalOf(id, "u1", run.Pause)
	other.Payload = json.RawMessage(`{"reason":"another"}`)
	for _, in := range []runs.SignalRun{controltest.SignalOf(id, "u1", run.Resume), controltest.SignalOf(id, "u1",
		run.RetryStep), other} {
		_, err := w.SignalRun(t.Context(), w.Engineer(), in)
		controltest.Refusal(t, err, run.CodeSignalConflict)
	}
	if diff := cmp.Diff(before, w.EventLog(id)); diff != "" {
		t.Errorf("the log changed:\n%s", diff)
	}
}

// contract: G06
func TestDeliver_DeliversInOrderAfterACrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("g06", "s1")
	for i, sig := range []run.SignalType{run.Pause, run.Resume, run.Pause} { // no Deliverer runs: the server dies here
		w.Send(w.Engineer(), controltest.SignalOf(id, fmt.Sprintf("u%d", i+1), sig))
	}
	fails := 2
	w.Engine.Set(func(e *controltest.FakeEngine) {
		e.OnSignal = func(run.Identity, engine.Signal) error {
			if fails--; fails >= 0 {
				return engine.ErrUnavailable
			}
			return nil
		}
	})
	next := usecases.New(w.Config)
	w.Spawn(func(ctx context.Context) error { return next.Deliver(ctx, "next") })
	controltest.Eventually(t, "three delivered", func() bool { return len(w.Engine.SignalsTo(id)) >= 3 })
	var got []string
	for _, s := range w.Engine.SignalsTo(id) {
		got = append(got, fmt.Sprintf("%d %s %s", s.No, s.ID, s.Type))
	}
	if diff := cmp.Diff([]string{"1 u1 PAUSE", "2 u2 RESUME", "3 u3 PAUSE"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r, err := next.SignalRun(t.Context(), w.Engineer(), controltest.SignalOf(id, "u1", run.Pause))
	if err != nil || !r.Duplicate || r.Application != run.SignalDelivered {
		t.Errorf("the repeated signal is answered %+v with the error %v, want the DELIVERED duplicate", r, err)
	}
}

// contract: G10
func TestSignalRun_RejectsWhatTheStateForbids(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rejected := func(id, sig string, in runs.SignalRun, code run.Code) {
		t.Helper()
		in.RunID, in.Signal.ID = id, sig
		r := w.Send(w.Engineer(), in)
		log := w.EventLog(id)
		if !r.Rejected || r.Rejection != code || r.No != 0 || !strings.HasSuffix(log[len(log)-1],
			"SignalRejected("+sig+")") {
			t.Errorf("%s is answered %+v, and the log ends with %s; want SignalRejected", sig, r, log[len(log)-1])
		}
		again := w.Send(w.Engineer(), in)
		if !again.Duplicate || again.Rejection != code || len(w.EventLog(id)) != len(log) {
			t.Errorf("the repeated %s is answered %+v, want a duplicate without an event", sig, again)
		}
	}
	queued := w.CreateQueued("g10-queued", "s1")
	rejected(queued, "a", controltest.SignalOf("", "", run.Pause), run.CodeInvalidRunState)

	id := w.CreateRunning("g10", "s1")
	w.AppendEvents(id, runtest.Draft(run.RunPaused, "", 1))
	// NOOPs are accepted and delivered: the engine decides again, because an earlier signal may not be applied yet.
	if r := w.Send(w.Engineer(), controltest.SignalOf(id, "twice", run.Pause)); r.Rejected || r.No != 1 {
		t.Errorf("PAUSE of a paused run is answered %+v, want it accepted with number 1", r)
	}
	w.AppendEvents(id, runtest.Draft(run.RunResumed, "", 1))
	if r := w.Send(w.Engineer(), controltest.SignalOf(id, "resume", run.Resume)); r.Rejected || r.No != 2 {
		t.Errorf("RESUME of a running run is answered %+v, want it accepted with number 2", r)
	}
	w.FinishStep(id, "s1", 1, run.StepCompletedEvent)
	w.AppendEvents(id, runtest.Draft(run.RunCompleted, "", 1))
	for _, sig := range []run.SignalType{run.Pause, run.Resume, run.RetryStep, run.SkipStep, run.Cancel} {
		rejected(id, "late-"+string(sig), controltest.SignalOf("", "", sig), run.CodeRunTerminal)
	}
	for _, sig := range []run.SignalType{run.UpdateParams, run.EmergencyStop} {
		r := w.Send(w.Principal("dev-admin"), controltest.SignalOf(id, "late-"+string(sig), sig))
		if r.Rejection != run.CodeRunTerminal {
			t.Errorf("%s of an ended run is answered %+v, want RUN_TERMINAL", sig, r)
		}
	}
	_, err := w.SignalRun(t.Context(), w.Engineer(), controltest.SignalOf(id, "dance", "DANCE"))
	controltest.Refusal(t, err, run.CodeNotSupported)
}

// contract: G19
func TestSignalRun_RejectsARetryAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("g19", "s1")
	w.FinishStep(id, "s1", 1, run.StepFailedEvent)
	w.AppendEvents(id, runtest.Draft(run.RunFailed, "", 1))
	before := w.StateOf(id)
	r := w.Send(w.Engineer(), controltest.SignalOf(id, "u1", run.RetryStep))
	after := w.StateOf(id)
	if r.Rejection != run.CodeRunTerminal || after.Status != run.Failed || after.Seq != before.Seq+1 {
		t.Errorf("the retry is answered %+v, and the run is %s at %d, was at %d; want RUN_TERMINAL and one event more",
			r, after.Status, after.Seq, before.Seq)
	}
	if log := w.EventLog(id); log[len(log)-1] != fmt.Sprintf("%d SignalRejected(u1)", after.Seq) {
		t.Errorf("the log is %v, want SignalRejected at its end", log)
	}
}

// contract: G21
func TestSignalRun_RejectsARetryOfAStepThatDidNotFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("g21", "s1", "b", "c<b", "d", "e")
	w.FinishStep(id, "s1", 1, run.StepCompletedEvent)
	w.BeginStep(id, "b", 1)
	w.FinishStep(id, "d", 1, run.StepFailedEvent, controltest.M{"retryable": false})
	w.FinishStep(id, "e", 1, run.StepFailedEvent)
	for i, c := range []struct {
		step  string
		force bool
		want  run.Code
	}{
		{"s1", false, run.CodeStepNotFailed}, {"b", false, run.CodeStepNotFailed}, {"c", false, run.CodeStepNotFailed},
		{"b", true, run.CodeStepNotFailed}, {"x", false, run.CodeStepNotFound}, {"x", true, run.CodeStepNotFound},
		{"d", false, run.CodeRetryDenied}, {"d", true, ""}, {"e", false, ""},
	} {
		in := controltest.SignalOf(id, fmt.Sprintf("u%d", i), run.RetryStep)
		in.Signal.StepID, in.Signal.Force = c.step, c.force
		r := w.Send(w.Engineer(), in)
		if r.Rejected != (c.want != "") || r.Rejection != c.want {
			t.Errorf("the retry of %s with force %t is answered %+v, want the rejection of the case",
				c.step, c.force, r)
		}
		if !r.Rejected && r.Signal.ExpectedAttempt != 1 {
			t.Errorf("%s: the retry means attempt %d, want the latest at acceptance (T58)", c.step, r.Signal.ExpectedAttempt)
		}
	}
	v := controltest.Must[control.RunView](t)(w.Run(t.Context(), w.Engineer(), id, nil))
	if diff := cmp.Diff(map[string]bool{"d": true, "e": true}, v.PendingRetry); diff != "" {
		t.Errorf("pending retries (-want +got):\n%s", diff)
	}
	actions := w.Actions(w.Engineer(), v)
	if a := actions.Steps["e"][0]; a.Outcome != "NOOP" {
		t.Errorf("the repeated retry of e is shown as %+v, want NOOP", a)
	}
	if a := actions.Steps["s1"][0]; a.Outcome != "REFUSED" || a.Code != run.CodeStepNotFailed {
		t.Errorf("the retry of s1 is shown as %+v, want STEP_NOT_FAILED", a)
	}
}

// contract: G08
func TestSignalRun_BoundsTheSizeOfThePayload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("g08", "s1")
	reason := strings.Repeat("x", 65536-len(`{"reason":""}`))
	in := controltest.SignalOf(id, "fits", run.Pause)
	in.Reason, in.Payload = reason, json.RawMessage(`{"reason":"`+reason+`"}`)
	if r := w.Send(w.Engineer(), in); r.Rejected || len(r.Payload) != 65536 {
		t.Errorf("a payload of 65,536 bytes is answered %s with %d stored bytes, want it accepted as it is",
			r.Rejection, len(r.Payload))
	}
	before := w.EventLog(id)
	in.Signal.ID, in.Payload = "large", json.RawMessage(`{"reason":"x`+reason+`"}`)
	_, err := w.SignalRun(t.Context(), w.Engineer(), in)
	if e := controltest.Refusal(t, err, run.CodeSignalTooLarge); e.Limit != 65536 {
		t.Errorf("the refusal has the limit %d, want 65,536", e.Limit)
	}
	if diff := cmp.Diff(before, w.EventLog(id)); diff != "" {
		t.Errorf("the log changed:\n%s", diff)
	}
	_, err = w.Receipt(t.Context(), w.Engineer(), id, "large")
	controltest.Refusal(t, err, run.CodeNotFound)
	for _, bad := range []string{"", ".x", "a b", strings.Repeat("x", 129)} {
		_, err := w.SignalRun(t.Context(), w.Engineer(), controltest.SignalOf(id, bad, run.Pause))
		if e := controltest.Refusal(t, err, run.CodeBadInput); len(e.Violations) != 1 || e.Violations[0].Path != "signalId" {
			t.Errorf("the signalId %q has the violations %+v, want one about signalId", bad, e.Violations)
		}
	}
}

func TestStoreDown_MutationsSaySo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.CreateRunning("down", "s1")
	eng := w.Engineer()
	if err := w.Raw.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := w.SignalRun(t.Context(), eng, controltest.SignalOf(id, "u1", run.Pause))
	e := controltest.Refusal(t, err, run.CodeStoreUnavailable)
	if e.RetryAfter <= 0 || strings.Contains(e.Message, "sql") || !errors.Is(e, store.ErrUnavailable) {
		t.Errorf("the error is %+v, want STORE_UNAVAILABLE with RetryAfter and without details", e)
	}
	_, err = w.StartRun(t.Context(), eng, controltest.StartOf("down-2", controltest.Document(nil, "s1")))
	controltest.Refusal(t, err, run.CodeStoreUnavailable)
	_, err = w.Run(t.Context(), eng, id, nil)
	controltest.Refusal(t, err, run.CodeStoreUnavailable)
}
