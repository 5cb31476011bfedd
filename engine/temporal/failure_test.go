package temporal_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/dvt-engine/dvt/control/runs"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// d4 returns the plan D4 of the contract without its first step: final waits for a and b.
func d4(window int) []byte {
	return document(window, step{id: "a"}, step{id: "b"}, step{id: "final", deps: "a b"})
}

// l3 returns the plan L3 of the contract: three steps in a row.
func l3(window int) []byte {
	return document(window, step{id: "s1"}, step{id: "s2", deps: "s1"}, step{id: "s3", deps: "s2"})
}

// contract: E-12, W-19
func TestFailure_StartsNoFurtherStep(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	openA, openB := make(gate), h.hold("b")
	h.steps.on("a", func(ctx context.Context, task executor.Task) error {
		if err := openA.wait(ctx, task); err != nil {
			return err
		}
		return failure("BROKEN", true, "")
	})
	id := h.start(d4(0))
	h.waitUntilRunning(id, "a", "b")
	close(openA)
	h.waitForEvent(id, "StepFailed(a,1)")
	openB()
	st := h.waitForEnd(id)
	h.expect(id, 5, "StepFailed(a,1)", "StepCompleted(b,1)", "StepSkipped(final,1)", "RunFailed")
	if p := payload[run.RunFailedPayload](h, id, "RunFailed"); p.RootCause == nil || p.RootCause.StepID != "a" ||
		p.ErrorCode != "BROKEN" {
		t.Errorf("RunFailed has %+v with the root cause %+v, want BROKEN of a", p, p.RootCause)
	}
	if p := payload[run.StepSkippedPayload](h, id, "StepSkipped(final,1)"); p.ReasonCode != run.DependencyFailed {
		t.Errorf("final was skipped for %s, want %s", p.ReasonCode, run.DependencyFailed)
	}
	if st.Status != run.Failed {
		t.Errorf("the run ended %s, want FAILED", st.Status)
	}
}

// contract: G17, G20
func TestFailure_OneOfTwoRetriesWithinTheWindowApplies(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	h.steps.on("s2", failing(1, failure("BROKEN", true, "")))
	id := h.start(l3(60))
	st := h.waitFor(id, "waiting for an operator", func(s run.State) bool { return s.RetryDeadline != nil })
	if st.Status != run.Running || st.Substatus() != run.AwaitingOperator {
		t.Errorf("the run is %s %s, want RUNNING AWAITING_OPERATOR", st.Status, st.Substatus())
	}
	h.expect(id, 5, "StepStarted(s2,1)", "StepFailed(s2,1)")
	ids := []string{uuid.NewString(), uuid.NewString()}
	var both sync.WaitGroup
	for _, signalID := range ids {
		both.Go(func() { h.signal(id, run.Signal{ID: signalID, Type: run.RetryStep, StepID: "s2"}) })
	}
	both.Wait()
	if st = h.waitForEnd(id); st.Status != run.Completed {
		t.Fatalf("the run ended %s, want COMPLETED", st.Status)
	}
	got := map[run.Application]int{}
	for _, signalID := range ids {
		got[h.waitUntilApplied(id, signalID).Application]++
	}
	if d := cmp.Diff(map[run.Application]int{run.SignalApplied: 1, run.SignalNoop: 1}, got); d != "" {
		t.Errorf("receipts by application (-want +got):\n%s", d)
	}
	if s2, _ := st.Step("s2"); len(s2.Attempts) != 2 || s2.Attempts[0].Status != run.StepFailed ||
		s2.Attempts[1].Status != run.StepSuccess {
		t.Errorf("attempts of s2 %+v, want a failure and a success", s2.Attempts)
	}
}

// contract: G18
func TestFailure_EndsTheRunWhenTheWindowExpires(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	h.steps.on("s2", failing(1, failure("BROKEN", true, "")))
	id := h.start(l3(2))
	h.waitForEnd(id)
	h.expect(id, 6, "StepFailed(s2,1)", "StepSkipped(s3,1)", "RunFailed")
	evs := h.events(id)
	over := evs[7]
	switch p := payload[run.FailurePayload](h, id, "StepFailed(s2,1)"); {
	case p.RetryDeadline == nil:
		t.Error("StepFailed has no retry deadline")
	case over.PersistedAt.Before(*p.RetryDeadline):
		t.Errorf("the run failed at %v, before its retry deadline %v", over.PersistedAt, p.RetryDeadline)
	}
	_, err := h.control.SignalRun(t.Context(), h.who, runs.SignalRun{
		RunID: id, Signal: run.Signal{ID: "late", Type: run.RetryStep, StepID: "s2"}, Payload: []byte(`{}`),
	})
	must(t, err)
	h.expect(id, 9, "SignalRejected") // a RETRY_STEP after the end
}

// contract: G21
func TestFailure_RejectsRetriesOfOtherSteps(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	open := h.hold("s2")
	begun := make(gate) // the failure must follow the start of s2, because no step starts after a failure
	h.steps.on("bad", func(ctx context.Context, t executor.Task) error {
		if err := begun.wait(ctx, t); err != nil {
			return err
		}
		return failing(1, failure("FINAL", false, ""))(ctx, t)
	})
	id := h.start(document(60, step{id: "s1"}, step{id: "s2", deps: "s1"}, step{id: "s3", deps: "s2"},
		step{id: "bad", deps: "s1"}))
	h.waitUntilRunning(id, "s2")
	close(begun)
	h.waitForEvent(id, "StepFailed(bad,1)")
	for stepID, code := range map[string]run.Code{
		"s1": run.CodeStepNotFailed, "s2": run.CodeStepNotFailed, "s3": run.CodeStepNotFailed,
		"nowhere": run.CodeStepNotFound, "bad": run.CodeRetryDenied,
	} {
		if r := h.signal(id, run.Signal{Type: run.RetryStep, StepID: stepID}); !r.Rejected || r.Rejection != code {
			t.Errorf("receipt of a retry of %s %+v, want it rejected with %s", stepID, r, code)
		}
	}
	r := h.signal(id, run.Signal{Type: run.RetryStep, StepID: "bad", Force: true})
	h.waitForEvent(id, "StepCompleted(bad,2)")
	open()
	h.waitForEnd(id)
	if got := h.waitUntilApplied(id, r.Signal.ID); got.Application != run.SignalApplied {
		t.Errorf("receipt of the forced retry %+v, want APPLIED", got)
	}
}

// A run whose plan cannot be loaded fails without steps, with a code for the reason.
// contract: T144
func TestFailure_NamesWhyAPlanCannotBeLoaded(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	write := func(name string, doc []byte) plan.Ref {
		path := filepath.Join(h.root, name)
		must(t, os.WriteFile(path, doc, 0o600))
		sum := sha256.Sum256(doc)
		return plan.Ref{URI: "file://" + path, SHA256: hex.EncodeToString(sum[:]), SchemaVersion: "v1.2", PlanID: "plan-3",
			PlanVersion: "1.0"}
	}
	good := write("good.json", l3(0))
	missing, other, outside := good, good, good
	missing.URI, missing.SHA256 = "file://"+filepath.Join(h.root, "gone.json"), strings.Repeat("1", 64)
	other.SHA256 = strings.Repeat("2", 64)
	outside.URI, outside.SHA256 = "file:///etc/passwd", strings.Repeat("3", 64)
	tests := map[string]struct {
		ref  plan.Ref
		code string // empty: the run completes
	}{
		"good":    {good, ""},
		"missing": {missing, "PLAN_FETCH_FAILED"},
		"other":   {other, "PLAN_HASH_MISMATCH"},
		"outside": {outside, "PLAN_FETCH_FAILED"},
		"newer": {write("newer.json", []byte(strings.ReplaceAll(string(l3(0)), `"v1.2"`, `"v9.0"`))),
			"PLAN_SCHEMA_UNSUPPORTED"},
		"nothing": {write("nothing.json", []byte(`{"schemaVersion":"v1.2"}`)), "PLAN_INVALID"},
	}
	ids := map[string]string{}
	for name, tt := range tests {
		out, err := h.control.StartRun(t.Context(), h.who, runs.StartRun{RequestID: name, ProjectID: "shop",
			EnvironmentID: "dev", Ref: &tt.ref})
		must(t, err)
		ids[name] = out.View.State.RunID
	}
	for name, tt := range tests {
		st := h.waitForEnd(ids[name])
		if tt.code == "" {
			if st.Status != run.Completed || len(st.Steps) != 3 {
				t.Errorf("%s: the run ended %s with %d steps, want COMPLETED with 3", name, st.Status, len(st.Steps))
			}
			continue
		}
		h.expect(ids[name], 1, "RunApproved", "RunStarted", "RunFailed")
		if st.Failure == nil || st.Failure.Code != tt.code || len(st.Steps) != 0 {
			t.Errorf("%s: failure %+v, want %s", name, st.Failure, tt.code)
		}
	}
}
