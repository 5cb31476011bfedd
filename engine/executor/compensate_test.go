package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// compensate runs the hook of the dispatch and returns the end that the log has of it.
func compensate(t *testing.T, r *executor.Runner) engine.End {
	t.Helper()
	j := r.Journal.(*journal)
	j.ends = nil
	back, err := r.Compensate(t.Context(), dispatch, quiet)
	wantReturn(t, back, err, engine.ReturnEnded)
	end := j.onlyEnd(t)
	if !end.Hook {
		t.Error("the end lacks the mark of a hook")
	}
	return end
}

// contract: M04, R183
func TestCompensate_UsesTheKeyAndTheLogOfTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, plan.Noop, map[string]any{"env": map[string]string{"API_TOKEN": "sesame-street"}})
		// The step prints in engine attempt 2, which is also the engine attempt of the hook.
		execute(t, t.Context(), scriptedWorker(t, j, func(_ context.Context, _ executor.Task,
			host executor.Host) (executor.Result, error) {
			host.Print("stdout", "done")
			return executor.Result{}, nil
		}))
		j.begins = nil
		j.hook = func(n int) error {
			if n < 2 {
				return fmt.Errorf("ask: %w", store.ErrUnavailable)
			}
			return nil
		}
		var task executor.Task
		var kept run.ArtifactRef
		r := scriptedWorker(t, j, func(ctx context.Context, got executor.Task, host executor.Host) (res executor.Result,
			err error) {
			task = got
			host.Print("stdout", "undone with sesame-street")
			kept, err = host.Keep(ctx, "report", "report.json", []byte(`{}`))
			return executor.Result{Value: json.RawMessage(`{"sent":"sesame-street"}`)}, err
		})
		var beats []executor.Heartbeat
		j.ends = nil
		back, err := r.Compensate(t.Context(), dispatch, func(b executor.Heartbeat) { beats = append(beats, b) })
		wantReturn(t, back, err, engine.ReturnEnded)
		if want := identity.RunID + ":s1:compensate"; task.IdempotencyKey != want {
			t.Errorf("idempotency key %q, want %q", task.IdempotencyKey, want)
		}
		if len(j.begins) != 2 || j.begins[1].Ticket != "the ticket" || j.begins[1].EngineAttempt != 2 ||
			j.begins[1].EmittedAt.IsZero() {
			t.Errorf("starts %+v, want two with the ticket for engine attempt 2", j.begins)
		}
		if len(beats) == 0 || !beats[0].StartedAt.IsZero() {
			t.Errorf("heartbeats %+v, want the first one before the hook started", beats)
		}
		end := j.onlyEnd(t)
		if !end.Hook || end.EngineAttempt != 2 {
			t.Errorf("end %+v, want that of a hook in engine attempt 2", end)
		}
		if got := string(end.Completed.Result); got != `{"sent":"***"}` {
			t.Errorf("result %s, want it without the secret", got)
		}
		if want := "artifact:t1/" + identity.RunID + "/s1/1/12/report.json"; kept.URI != want {
			t.Errorf("the artifact is %s, want %s, after those of the step", kept.URI, want)
		}
		if got := j.log(); !strings.Contains(got, "stdout: done\n") || !strings.Contains(got, "stdout: undone with ***\n") {
			t.Errorf("want the lines of the step and of the hook, got:\n%s", got)
		}
	})
}

// contract: M04
func TestCompensate_EndsLikeAnAttempt(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, struct{}{})
	r := scriptedWorker(t, j, fails)
	wantFailed(t, compensate(t, r), "BROKEN", true)

	first := dispatch
	first.EngineAttempt = 1
	j.tries = nil
	_, err := r.Compensate(t.Context(), first, quiet)
	if retry, ok := errors.AsType[*executor.RetryError](err); !ok || retry.Code != "BROKEN" || len(j.tries) != 0 {
		t.Errorf("the first of two attempts returned %v and wrote %d ends, want a RetryError and none", err, len(j.tries))
	}

	j = newJournal(t, plan.Noop, struct{}{})
	j.step.Timeout = 50 * time.Millisecond
	wantFailed(t, compensate(t, scriptedWorker(t, j, untilStopped)), "TIMEOUT", true)

	for name, c := range map[string]struct {
		answer error
		kind   engine.ReturnKind
	}{
		"not served": {store.ErrNotFound, engine.ReturnDeclined},
		"refused":    {engine.ErrRefused, engine.ReturnAbandoned},
	} {
		j = newJournal(t, plan.Noop, struct{}{})
		j.hook = func(int) error { return c.answer }
		back, err := scriptedWorker(t, j, mustNotWork(t)).Compensate(t.Context(), dispatch, quiet)
		t.Log(name)
		wantReturn(t, back, err, c.kind)
	}

	stopping := errors.New("stopping")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopping)
	j = newJournal(t, plan.Noop, struct{}{})
	j.hook = func(int) error { return store.ErrUnavailable }
	d := dispatch
	d.StopCause = stopping
	if _, err = scriptedWorker(t, j, mustNotWork(t)).Compensate(ctx, d, quiet); !errors.Is(err, executor.ErrStopping) {
		t.Errorf("a worker that stops returned %v, want ErrStopping", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	back, err := scriptedWorker(t, newJournal(t, plan.Noop, struct{}{}), untilStopped).Compensate(ctx, dispatch, quiet)
	wantReturn(t, back, err, engine.ReturnCancelled)
}

// The hook has compensated the step, so neither a slow store nor a result that the log rejects makes it a failure.
func TestCompensate_NeverTurnsASuccessIntoAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, plan.Noop, struct{}{})
		j.end = func(n int, e engine.End) error {
			switch {
			case n <= 5:
				return engine.ErrUnanswered
			case len(e.Completed.Result) > 0:
				return &run.SchemaError{}
			}
			return nil
		}
		end := compensate(
			t, scriptedWorker(t, j, func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
				time.Sleep(time.Second)
				return executor.Result{Value: json.RawMessage(`{"a":1}`)}, nil
			}))
		if diff := cmp.Diff(&run.StepCompletedPayload{DurationMS: 1000}, end.Completed); diff != "" {
			t.Errorf("completion (-want +got):\n%s", diff)
		}
	})
}
