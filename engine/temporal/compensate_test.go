package temporal_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/artifact"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/internal/testtime"
	"github.com/dvt-engine/dvt/run"
)

// undone has the fields of a step with a hook.
var undone = map[string]any{
	"retry":        spare["retry"],
	"compensation": map[string]any{"operation": "HTTP_NOTIFY", "input": map[string]any{"url": "https://example.com/undo"}},
}

// hooked records the executions of hooks. fails, if set, returns the error of a try of a step's hook.
type hooked struct {
	mu    sync.Mutex
	keys  []string
	at    []time.Time
	fails func(step string, try int) error
}

// on scripts steps that succeed and whose hooks are recorded. A hook differs from its step by the type HTTP_NOTIFY.
func (k *hooked) on(h *harness, steps ...string) {
	for _, id := range steps {
		h.steps.on(id, func(_ context.Context, t executor.Task) error {
			if t.Step.Type != "HTTP_NOTIFY" {
				return nil
			}
			k.mu.Lock()
			defer k.mu.Unlock()
			try := 1
			for _, key := range k.keys {
				if key == t.IdempotencyKey {
					try++
				}
			}
			k.keys, k.at = append(k.keys, t.IdempotencyKey), append(k.at, time.Now())
			if k.fails != nil {
				return k.fails(t.Step.StepID, try)
			}
			return nil
		})
	}
}

// contract: M04, R185, R186, R187
func TestCompensate_RunsHooksInReverseOrderOfCompletion(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{})
	k := &hooked{fails: func(step string, try int) error {
		switch {
		case step == "s2" && try == 1:
			return failure("ONCE", true, "")
		case step == "s3":
			return failure("NEVER", true, "")
		}
		return nil
	}}
	k.on(h, "s1", "s2", "s3")
	h.steps.on("s4", failing(9, failure("BROKEN", false, "")))
	id := h.start(document(0, step{id: "s1", extra: undone}, step{id: "s2", deps: "s1", extra: undone},
		step{id: "s3", deps: "s2", extra: undone}, step{id: "s4", deps: "s3"}))
	if st := h.waitForEnd(id); st.Status != run.Failed {
		t.Fatalf("the run ended %s, want FAILED", st.Status)
	}
	h.expect(id, 9, "StepStarted(s4,1)", "StepFailed(s4,1)", "RunCompensationStarted",
		"StepCompensationFailed(s3,1)", "StepCompensated(s2,1)", "StepCompensated(s1,1)", "RunFailed")
	key := func(step string) string { return id + ":" + step + ":compensate" }
	if d := cmp.Diff([]string{key("s3"), key("s3"), key("s2"), key("s2"), key("s1")}, k.keys); d != "" {
		t.Errorf("hooks (-want +got):\n%s", d)
	} else if gap := k.at[1].Sub(k.at[0]); gap < 900*time.Millisecond || gap > testtime.Of(5*time.Second) {
		t.Errorf("the second try followed after %s, want 1 s", gap)
	}
	summary := payload[run.RunFailedPayload](h, id, "RunFailed").Compensation
	if len(summary) != 3 || summary[0].Compensated || summary[0].Attempts != 2 || summary[0].ErrorCode != "NEVER" ||
		!summary[1].Compensated || summary[1].Attempts != 2 || !summary[2].Compensated || summary[2].Attempts != 1 {
		t.Errorf("summary %+v, want failed tries of s3, success of s2 at its second try and of s1", summary)
	}
	h.waitUntilClosed(id)
	if err := replay(h.history(id)); err != nil {
		t.Error(err)
	}
	page, err := h.evidence.Read(t.Context(), artifact.AttemptID{TenantID: "acme", RunID: id, StepID: "s1",
		LogicalAttempt: 1}, 1, 10)
	must(t, err)
	var lines []string
	for _, l := range page.Lines {
		lines = append(lines, l.Text)
	}
	if want := []string{"running s1", "running s1"}; !slices.Equal(lines, want) {
		t.Errorf("the log of s1 is %q, want a line of the step and one of its hook", lines)
	}
	h.verify()
}

// The worker that runs a hook is lost. Another worker runs the hook again with the same key.
// contract: R186
func TestCompensate_AHookSurvivesTheLossOfItsWorker(t *testing.T) {
	t.Parallel()
	h := newHarness(t, options{workers: -1, heartbeat: 3 * time.Second})
	stop := h.worker(0)
	var mu sync.Mutex
	var keys []string
	begun := make(chan struct{}, 2)
	h.steps.on("s1", func(ctx context.Context, task executor.Task) error {
		if task.Step.Type != "HTTP_NOTIFY" {
			return nil
		}
		mu.Lock()
		keys = append(keys, task.IdempotencyKey)
		first := len(keys) == 1
		mu.Unlock()
		begun <- struct{}{}
		if first {
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return nil
	})
	h.steps.on("s2", failing(9, failure("BROKEN", false, "")))
	id := h.start(document(0, step{id: "s1", extra: undone}, step{id: "s2", deps: "s1"}))
	<-begun
	stop()
	h.worker(0)
	h.waitForEnd(id)
	h.expect(id, 7, "RunCompensationStarted", "StepCompensated(s1,1)", "RunFailed")
	if len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("the keys of the hook's executions are %v, want the same key twice", keys)
	}
	if p := payload[run.CompensationPayload](h, id, "StepCompensated(s1,1)"); p.Attempts != 2 {
		t.Errorf("StepCompensated has %+v, want two attempts", p)
	}
}
