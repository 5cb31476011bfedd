package temporal_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// as sends a signal as the principal of a token, instead of the harness's engineer.
func (h *harness) as(token, runID string, sig run.Signal, payload string) runs.SignalReceipt {
	h.t.Helper()
	s, directory := h.server(h.store, h.engine)
	who, err := directory.Authenticate(token)
	must(h.t, err)
	sig.ID = uuid.NewString()
	r, err := s.SignalRun(h.t.Context(), who, runs.SignalRun{RunID: runID, Signal: sig,
		Payload: json.RawMessage(payload), Reason: "a test"})
	must(h.t, err)
	return r
}

// contract: G22
func TestSignals_ASkipOfAFailedStepSavesTheRun(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	h.steps.on("b", failing(1, failure("E", true, "")))
	id := h.start(document(600, step{id: "a"}, step{id: "b", deps: "a"}, step{id: "c", deps: "b"}))
	h.waitForEvent(id, "StepFailed(b,1)")
	r := h.signal(id, run.Signal{Type: run.SkipStep, StepID: "b"})
	if st := h.waitForEnd(id); st.Status != run.Completed {
		t.Errorf("the run ended %s, want COMPLETED", st.Status)
	}
	h.expect(id, 6, "StepFailed(b,1)", "SignalAccepted", "StepSkipped(b,2)", "StepStarted(c,1)", "StepCompleted(c,1)",
		"RunCompleted")
	if p := payload[run.StepSkippedPayload](h, id, "StepSkipped(b,2)"); p.ReasonCode != run.OperatorSkip ||
		p.SignalID != r.Signal.ID {
		t.Errorf("StepSkipped has %+v, want the reason %s and the signal", p, run.OperatorSkip)
	}
	if got := h.waitUntilApplied(id, r.Signal.ID); got.AppliedSeq != 8 {
		t.Errorf("receipt of the skip %+v, want it applied by event 8", got)
	}
}

// Signals that need no engine have numbers like all others. The workflow reads those that it did not receive, and
// continues with the next one.
// contract: T196
func TestSignals_OverlaysDoNotHoldUpOtherSignals(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	var mu sync.Mutex
	seen := map[string]string{}
	note := func(then func(context.Context, executor.Task) error) func(context.Context, executor.Task) error {
		return func(ctx context.Context, t executor.Task) error {
			in, err := plan.DecodeCommand(t.Step.Inputs)
			mu.Lock()
			seen[t.Step.StepID] = string(t.Params) + " " + in.Env["MODE"]
			mu.Unlock()
			if err != nil || then == nil {
				return err
			}
			return then(ctx, t)
		}
	}
	release := make(gate)
	h.steps.on("a", note(release.wait))
	h.steps.on("b", note(nil))
	h.steps.on("c", note(nil))
	id := h.start(document(0, step{id: "a"}, step{id: "b", deps: "a"}, step{id: "c", deps: "b"}))
	h.waitUntilRunning(id, "a")
	h.as("dev-admin", id, run.Signal{Type: run.UpdateParams}, `{"newParams":{"day":"tue"}}`)
	pause := h.signal(id, run.Signal{Type: run.Pause})
	h.as("dev-system", id, run.Signal{Type: run.EscalateAlert}, `{"level":"LOW"}`)
	h.as("dev-admin", id, run.Signal{Type: run.InjectOverride, StepID: "b"}, `{"override":{"env":{"MODE":"safe"}}}`)
	if r := h.waitUntilApplied(id, pause.Signal.ID); r.Application != run.SignalApplied || r.No != 2 {
		t.Errorf("receipt of the pause %+v, want number 2, APPLIED", r)
	}
	resume := h.signal(id, run.Signal{Type: run.Resume})
	close(release)
	if r := h.waitUntilApplied(id, resume.Signal.ID); r.Application != run.SignalApplied || r.No != 5 {
		t.Errorf("receipt of the resume %+v, want number 5, APPLIED", r)
	}
	if st := h.waitForEnd(id); st.Status != run.Completed {
		t.Errorf("the run ended %s, want COMPLETED", st.Status)
	}
	want := map[string]string{"a": " ", "b": `{"day":"tue"} safe`, "c": `{"day":"tue"} `}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("parameters and modes of the steps (-want +got):\n%s", diff)
	}
	if p := payload[run.StepStartedPayload](h, id, "StepStarted(c,1)"); p.ParamsSeq != 4 {
		t.Errorf("paramsSeq %d, want 4; log\n%v", p.ParamsSeq, h.log(id))
	}
}
