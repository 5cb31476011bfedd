package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/store"
)

// hooks answers Compensation with the step of a journal.
type hooks struct {
	*journal
	asked atomic.Int32
	fail  func(n int) error // nil: it is answered
}

func (h *hooks) Compensation(context.Context, string, string) (engine.Hook, error) {
	n := h.asked.Add(1)
	if h.fail != nil {
		if err := h.fail(int(n)); err != nil {
			return engine.Hook{}, err
		}
	}
	return engine.Hook{Identity: identity, Step: h.step}, nil
}

func compensator(t *testing.T, h *hooks, f scripted) *executor.Runner {
	r := scriptedWorker(t, h.journal, f)
	r.Journal = h
	return r
}

func TestCompensate_M04_R183_KeyAndLog(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, map[string]any{"env": map[string]string{"API_TOKEN": "sesame-street"}})
	h := &hooks{journal: j, fail: func(n int) error {
		if n < 2 {
			return fmt.Errorf("ask: %w", store.ErrUnavailable)
		}
		return nil
	}}
	var task executor.Task
	r := compensator(t, h, func(_ context.Context, got executor.Task, host executor.Host) (executor.Result, error) {
		task = got
		host.Print("stdout", "undone with sesame-street")
		return executor.Result{Value: json.RawMessage(`{"sent":"sesame-street"}`)}, nil
	})
	// The step printed in its second engine attempt, as the hook's attempt will be counted.
	if _, err := scriptedWorker(t, j, func(_ context.Context, _ executor.Task, host executor.Host) (executor.Result, error) {
		host.Print("stdout", "done")
		return executor.Result{}, nil
	}).Run(t.Context(), dispatch, quiet); err != nil {
		t.Fatal(err)
	}
	var beats atomic.Int32
	end, err := r.Compensate(t.Context(), dispatch, func(engine.StepEnd) { beats.Add(1) })
	if err != nil || end.Kind != engine.EndCompleted || end.StepID != "s1" || end.LogicalAttempt != 1 || end.EngineAttempt != 2 {
		t.Fatalf("%+v, %v", end, err)
	}
	if want := identity.RunID + ":s1:compensate"; task.IdempotencyKey != want {
		t.Errorf("key %q, want %q", task.IdempotencyKey, want)
	}
	if h.asked.Load() != 2 || beats.Load() == 0 {
		t.Errorf("asked %d times, %d heartbeats", h.asked.Load(), beats.Load())
	}
	if got := string(end.Completed.Result); got != `{"sent":"***"}` {
		t.Errorf("result %s", got)
	}
	if got := j.log(); !strings.Contains(got, "stdout: done\n") || !strings.Contains(got, "stdout: undone with ***\n") {
		t.Errorf("log:\n%s", got)
	}
}

func TestCompensate_M04_Ends(t *testing.T) {
	t.Parallel()
	fails := func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
		return executor.Result{}, &executor.Failure{Code: "BROKEN", Message: "no", Retryable: true}
	}
	h := &hooks{journal: newJournal(t, plan.Noop, struct{}{})}
	end, err := compensator(t, h, fails).Compensate(t.Context(), dispatch, quiet)
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, end, "BROKEN", true)

	h = &hooks{journal: newJournal(t, plan.Noop, struct{}{})}
	h.step.Timeout = 50 * time.Millisecond
	end, err = compensator(t, h, func(ctx context.Context, _ executor.Task, _ executor.Host) (executor.Result, error) {
		<-ctx.Done()
		return executor.Result{}, context.Cause(ctx)
	}).Compensate(t.Context(), dispatch, quiet)
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, end, "TIMEOUT", true)

	h = &hooks{journal: newJournal(t, plan.Noop, struct{}{}), fail: func(int) error { return store.ErrNotFound }}
	end, err = compensator(t, h, nothing).Compensate(t.Context(), dispatch, quiet)
	if err != nil {
		t.Fatal(err)
	}
	wantFailed(t, end, executor.CodeInputsInvalid, false)

	stopping := errors.New("stopping")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopping)
	h = &hooks{journal: newJournal(t, plan.Noop, struct{}{}), fail: func(int) error { return store.ErrUnavailable }}
	d := dispatch
	d.StopCause = stopping
	if _, err = compensator(t, h, nothing).Compensate(ctx, d, quiet); !errors.Is(err, executor.ErrStopping) {
		t.Errorf("a worker that stops: %v", err)
	}
}
