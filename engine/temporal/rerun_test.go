package temporal_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/run"
)

// contract: O2, T209
func TestRerun_ExecutesOnlyStepsThatDidNotSucceed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{rotateAfter: 1}) // the reused outputs also survive rotations
	var calls atomic.Int32
	h.steps.on("b", func(context.Context, executor.Task) error {
		if calls.Add(1) == 1 {
			return failure("BROKEN", false, "")
		}
		return nil
	})
	h.steps.result = []byte(`{"rows":7}`)
	parent := h.start(document(0, step{id: "a"}, step{id: "b", deps: "a d"}, step{id: "c", deps: "b"}, step{id: "d"}))
	if st := h.waitForEnd(parent); st.Status != run.Failed {
		t.Fatalf("the first run ended %s, want FAILED", st.Status)
	}
	from := len(h.steps.called())
	out, err := h.control.Rerun(t.Context(), h.who, runs.Rerun{RunID: parent, RequestID: "again", Failed: true})
	must(t, err)
	id := out.View.State.RunID
	if st := h.waitForEnd(id); st.Status != run.Completed || st.Counts.Success != 4 {
		t.Fatalf("the rerun ended %s with %+v, want COMPLETED with 4 successes; log %v", st.Status, st.Counts, h.log(id))
	}
	if ran := h.steps.called()[from:]; !slices.Equal(ran, []string{"b/1.1", "c/1.1"}) {
		t.Errorf("the rerun executed %v, want b and c", ran)
	}
	reused := 0
	for _, e := range h.events(id) {
		p, _ := run.PayloadOf[run.StepCompletedPayload](e.Payload)
		if e.Type != run.StepCompletedEvent || p.Reused == nil {
			continue
		}
		reused++
		if p.Reused.RunID != parent || p.Reused.Seq == 0 || string(p.Result) != `{"rows":7}` {
			t.Errorf("payload %s, want the result and the run that it was taken from", e.Payload)
		}
	}
	if log := h.log(id); reused != 2 {
		t.Errorf("%d steps were reused, want 2; log %v", reused, log)
	}
}
