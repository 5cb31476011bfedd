package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
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

var artifacts = []run.ArtifactRef{{URI: "artifact:t1/x", Kind: "report"}}

// works is a step that takes a second, succeeds and leaves an artifact.
func works(context.Context, executor.Task, executor.Host) (executor.Result, error) {
	time.Sleep(time.Second)
	return executor.Result{Value: json.RawMessage(`{"a":1}`), Artifacts: artifacts}, nil
}

// fails is a step that takes a second, prints a line and fails with a retryable error.
func fails(_ context.Context, _ executor.Task, h executor.Host) (executor.Result, error) {
	time.Sleep(time.Second)
	h.Print("stdout", "canary")
	return executor.Result{}, &executor.Failure{Code: "BROKEN", Message: "canary", Retryable: true,
		Class:    plan.ClassTransient,
		Category: run.CategoryUser, Artifacts: artifacts}
}

// virtual runs f in virtual time, with a runner that does the work.
func virtual(t *testing.T, work scripted, f func(t *testing.T, j *journal, r *executor.Runner)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, plan.Noop, struct{}{})
		f(t, j, scriptedWorker(t, j, work))
	})
}

func TestEnd_FollowsTheOutputAndPrecedesTheReturn(t *testing.T) {
	t.Parallel()
	virtual(t, fails, func(t *testing.T, j *journal, r *executor.Runner) {
		// The fixture refuses evidence after the end.
		end := execute(t, t.Context(), r)
		if want := "stdout: canary\ndvt: BROKEN: canary\n"; j.log() != want {
			t.Errorf("log %q, want %q", j.log(), want)
		}
		end.Key = ""
		want := engine.End{RunID: identity.RunID, StepID: "s1", LogicalAttempt: 1, N: 7, EngineAttempt: 2,
			Failed: &run.FailurePayload{
				ErrorCode: "BROKEN", ErrorMessage: "canary", Retryable: true, FailureCategory: run.CategoryUser,
				FailureSource: "NOOP",
				DurationMS:    1000, ArtifactRefs: artifacts,
			}}
		if diff := cmp.Diff(want, end); diff != "" {
			t.Errorf("end (-want +got):\n%s", diff)
		}
	})
}

// The engine's history must not hold the output of a step, so the error names only the code of the failure.
func TestEnd_AFailureThatTheEngineRetriesIsNotInTheLog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		attempt, most int
		failure       executor.Failure
		retry         bool
	}{
		"an attempt is left":           {2, 3, executor.Failure{Retryable: true}, true},
		"it is the last attempt":       {3, 3, executor.Failure{Retryable: true}, false},
		"it cannot be retried":         {1, 3, executor.Failure{}, false},
		"its class cannot be retried":  {1, 3, executor.Failure{Retryable: true, Class: plan.ClassValidation}, false},
		"the plan does not retry it":   {1, 3, executor.Failure{Retryable: true, Class: plan.ClassTimeout}, false},
		"the engine names no attempts": {1, 0, executor.Failure{Retryable: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.failure.Code, c.failure.Message = "BROKEN", "canary"
			j := newJournal(t, plan.Noop, struct{}{})
			j.step.Retry.RetryableErrors = []string{plan.ClassTransport}
			r := scriptedWorker(t, j, func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
				return executor.Result{}, &c.failure
			})
			d := dispatch
			d.EngineAttempt, d.MaxEngineAttempts, d.Try = c.attempt, c.most, 2
			j.step.Retry.InitialBackoffMS, j.step.Retry.BackoffMultiplier, j.step.Retry.MaxBackoffMS = 2_000, 2, 30_000
			back, err := r.Run(t.Context(), d, quiet)
			if !c.retry {
				if err != nil || back.Kind != engine.ReturnEnded {
					t.Errorf("the execution returned %q, %v, want ENDED", back.Kind, err)
				}
				if strings.Contains(j.log(), "starts in") {
					t.Errorf("the step's log promises a try that will not come:\n%s", j.log())
				}
				wantFailed(t, j.onlyEnd(t), "BROKEN", executor.IsRetryable(j.step.Retry, c.failure.Class, !c.failure.Retryable))
				return
			}
			retry, ok := errors.AsType[*executor.RetryError](err)
			if !ok {
				t.Fatalf("the execution returned %q, %v, want a RetryError", back.Kind, err)
			}
			if diff := cmp.Diff(&executor.RetryError{Code: "BROKEN", Class: c.failure.Class, Try: 3,
				Tries: 3}, retry); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error holds output of the step: %v", err)
			}
			if len(j.tries) != 0 {
				t.Errorf("the worker wrote an end: %+v", j.tries)
			}
			if !strings.Contains(j.log(), "try 3 of 3 starts in 4 s") {
				t.Errorf("the step's log does not say when it is tried again:\n%s", j.log())
			}
			if !strings.Contains(j.log(), "BROKEN: canary") {
				t.Errorf("the step's log does not say why it failed:\n%s", j.log())
			}
		})
	}
}

// The engine must not retry an execution that somebody cancelled. It retries one whose worker stopped, and one that
// reached a time limit of the engine.
func TestEnd_AFailureAfterACancelIsNotRetried(t *testing.T) {
	t.Parallel()
	stopping := errors.New("stopping")
	for name, c := range map[string]struct {
		end   func(context.Context) (context.Context, context.CancelFunc)
		retry bool
	}{
		"asked to stop": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, false},
		"the worker stops": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(stopping)
			return ctx, func() {}
		}, true},
		"out of the engine's time": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 0)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.Noop, struct{}{})
			ctx, cancel := c.end(t.Context())
			defer cancel()
			d := dispatch
			d.MaxEngineAttempts, d.StopCause = 3, stopping
			back, err := scriptedWorker(t, j, fails).Run(ctx, d, quiet)
			if _, ok := errors.AsType[*executor.RetryError](err); ok != c.retry {
				t.Fatalf("the execution returned %q, %v, want a RetryError: %t", back.Kind, err, c.retry)
			}
			if !c.retry {
				wantReturn(t, back, err, engine.ReturnCancelled)
			}
			if len(j.tries) != 0 {
				t.Errorf("the worker wrote an end: %+v", j.tries)
			}
		})
	}
}

// contract: T120
func TestEnd_WaitsForAStoreThatIsDown(t *testing.T) {
	t.Parallel()
	var beats atomic.Int32
	virtual(t, works, func(t *testing.T, j *journal, r *executor.Runner) {
		down := time.Now().Add(3 * time.Minute)
		j.end = func(int, engine.End) error {
			if time.Now().Before(down) {
				return fmt.Errorf("end: %w", store.ErrUnavailable)
			}
			return nil
		}
		before := beats.Load()
		back, err := r.Run(t.Context(), dispatch, func(executor.Heartbeat) { beats.Add(1) })
		wantReturn(t, back, err, engine.ReturnEnded)
		if end := j.onlyEnd(t); end.Completed == nil || string(end.Completed.Result) != `{"a":1}` {
			t.Errorf("the log has %+v %+v, want the unchanged completion", end.Completed, end.Failed)
		}
		if n := beats.Load() - before; n < 170 {
			t.Errorf("%d heartbeats in three minutes, want one a second", n)
		}
		if n := len(j.tries); n < 30 || n > 100 {
			t.Errorf("the worker tried %d times in three minutes, want every 5 s or so", n)
		}
	})
}

func TestEnd_WaitsAsLongAsAFullStoreAsks(t *testing.T) {
	t.Parallel()
	virtual(t, works, func(t *testing.T, j *journal, r *executor.Runner) {
		var tried []time.Time
		j.end = func(n int, _ engine.End) error {
			tried = append(tried, time.Now())
			if n == 1 {
				return &store.OverloadedError{RetryAfter: 20 * time.Second}
			}
			return nil
		}
		execute(t, t.Context(), r)
		if len(tried) != 2 || tried[1].Sub(tried[0]) < 20*time.Second {
			t.Errorf("tries at %v, want the second 20 s after the first", tried)
		}
	})
}

// contract: B01, T120
func TestEnd_CompletionHasTwoWriteBudgets(t *testing.T) {
	t.Parallel()
	const budget = 3 * time.Second
	for name, c := range map[string]struct {
		answers []error // of the first tries; nil follows
		fails   bool
	}{
		"one silence":  {answers: []error{engine.ErrUnanswered}},
		"two silences": {answers: []error{engine.ErrUnanswered, engine.ErrUnanswered}, fails: true},
		"a silent failure is repeated": {answers: []error{engine.ErrUnanswered, engine.ErrUnanswered, engine.ErrUnanswered,
			store.ErrUnavailable, engine.ErrUnanswered}, fails: true},
		"a store that is down is not silent": {answers: []error{store.ErrUnavailable, engine.ErrUnanswered,
			store.ErrUnavailable, store.ErrUnavailable}},
		"the store is down between silences": {answers: []error{engine.ErrUnanswered, store.ErrUnavailable,
			engine.ErrUnanswered}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtual(t, works, func(t *testing.T, j *journal, r *executor.Runner) {
				began := time.Now()
				var failedAfter time.Duration
				j.end = func(n int, e engine.End) error {
					if e.Failed != nil && failedAfter == 0 {
						failedAfter = time.Since(began) - time.Second
					}
					if n > len(c.answers) {
						return nil
					}
					if errors.Is(c.answers[n-1], engine.ErrUnanswered) {
						time.Sleep(budget)
					}
					return c.answers[n-1]
				}
				end := execute(t, t.Context(), r)
				if !c.fails {
					if diff := cmp.Diff(&run.StepCompletedPayload{Result: json.RawMessage(`{"a":1}`), DurationMS: 1000,
						ArtifactRefs: artifacts}, end.Completed); diff != "" {
						t.Errorf("completion (-want +got):\n%s", diff)
					}
					return
				}
				want := &run.FailurePayload{
					ErrorCode: "STATE_WRITE_BUDGET_EXCEEDED", ErrorMessage: "The step completed, but the log did not confirm " +
						"it in time.",
					Retryable: true, FailureCategory: run.CategoryPlatform, FailureSource: "engine", DurationMS: 1000,
					ArtifactRefs: artifacts,
				}
				if diff := cmp.Diff(want, end.Failed); diff != "" {
					t.Errorf("failure (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(j.tries[0], j.tries[1]); diff != "" {
					t.Errorf("the second try differs from the first (-first +second):\n%s", diff)
				}
				if name == "two silences" && failedAfter != 2*budget {
					t.Errorf("the failure was written after %s, want two budgets", failedAfter)
				}
			})
		})
	}
}

func TestEnd_RefusedIsAbandoned(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]error{
		"refused":             fmt.Errorf("%w: another attempt is next", engine.ErrRefused),
		"not served":          fmt.Errorf("end: %w", store.ErrNotFound),
		"nothing left to say": &run.SchemaError{Violations: []plan.Violation{{Path: "/", Message: "no end at all"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtual(t, works, func(t *testing.T, j *journal, r *executor.Runner) {
				j.end = func(int, engine.End) error { return refusal }
				log := captureLog(r)
				back, err := r.Run(t.Context(), dispatch, quiet)
				wantReturn(t, back, err, engine.ReturnAbandoned)
				if got := log.String(); strings.Count(got, `msg="end refused"`) != 1 || !strings.Contains(got, refusal.Error()) {
					t.Errorf("want one line with the reason, got:\n%s", got)
				}
				if name != "nothing left to say" && len(j.tries) != 1 {
					t.Errorf("the worker tried %d times, want once", len(j.tries))
				}
			})
		})
	}
}

// contract: T190
func TestEnd_ContentThatTheLogRefusesIsDropped(t *testing.T) {
	t.Parallel()
	virtual(t, works, func(t *testing.T, j *journal, r *executor.Runner) {
		j.end = func(_ int, e engine.End) error {
			if e.Completed != nil {
				return fmt.Errorf("end: %w", &run.SchemaError{})
			}
			return nil
		}
		want := &run.FailurePayload{ErrorCode: "EVENT_REJECTED",
			ErrorMessage: "The log rejected the result of the step.", FailureCategory: run.CategoryPlatform}
		if diff := cmp.Diff(want, execute(t, t.Context(), r).Failed); diff != "" {
			t.Errorf("failure (-want +got):\n%s", diff)
		}
	})
	virtual(t, fails, func(t *testing.T, j *journal, r *executor.Runner) {
		j.end = func(_ int, e engine.End) error {
			if e.Failed.ErrorMessage != "" || len(e.Failed.ArtifactRefs) > 0 {
				return &run.SchemaError{}
			}
			return nil
		}
		want := &run.FailurePayload{ErrorCode: "BROKEN", Retryable: true, FailureCategory: run.CategoryUser,
			FailureSource: "NOOP", DurationMS: 1000}
		if diff := cmp.Diff(want, execute(t, t.Context(), r).Failed); diff != "" {
			t.Errorf("failure (-want +got):\n%s", diff)
		}
	})
}

// The work is done, so a cancellation while its end is being written has no effect.
func TestEnd_ACancelDuringTheEndHasNoEffect(t *testing.T) {
	t.Parallel()
	virtual(t, works, func(t *testing.T, j *journal, r *executor.Runner) {
		ctx, cancel := context.WithCancel(t.Context())
		j.end = func(n int, _ engine.End) error {
			cancel()
			if n < 10 {
				return store.ErrUnavailable
			}
			return nil
		}
		if end := execute(t, ctx, r); end.Completed == nil {
			t.Errorf("the log has %+v, want the completion", end.Failed)
		}
	})
}

func TestEnd_AWorkerThatStopsGivesUpAfterItsGrace(t *testing.T) {
	t.Parallel()
	stopping := errors.New("stopping")
	for name, c := range map[string]struct {
		down  time.Duration // how long the store stays down after the worker was told to stop
		hangs bool          // the store does not answer, and the call returns only at the end of its context
		stops bool
	}{
		"the store is back in time": {down: time.Second},
		"the store is not back":     {down: 10 * time.Minute, stops: true},
		"the store does not answer": {hangs: true, stops: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			virtual(t, works, func(t *testing.T, j *journal, r *executor.Runner) {
				ctx, cancel := context.WithCancelCause(t.Context())
				var stopped time.Time
				j.end = func(n int, _ engine.End) error {
					switch {
					case n == 8: // the delay between tries has grown
						stopped = time.Now()
						cancel(stopping)
					case stopped.IsZero(), time.Since(stopped) < c.down:
					default:
						return nil
					}
					return store.ErrUnavailable
				}
				if c.hangs {
					r.Journal = &hanging{j}
					time.AfterFunc(30*time.Second, func() { stopped = time.Now(); cancel(stopping) })
				}
				d := dispatch
				d.StopCause = stopping
				back, err := r.Run(ctx, d, quiet)
				if !c.stops {
					wantReturn(t, back, err, engine.ReturnEnded)
					return
				}
				if !errors.Is(err, executor.ErrStopping) {
					t.Errorf("the execution returned %q, %v, want ErrStopping", back.Kind, err)
				}
				if took := time.Since(stopped); took < 5*time.Second || took > 6*time.Second {
					t.Errorf("the worker gave up %s after it was asked to stop, want 5 s", took)
				}
			})
		})
	}
}

// hanging is a journal whose End does not return before its context ends.
type hanging struct{ *journal }

func (*hanging) End(ctx context.Context, _ engine.End) (engine.Receipt, error) {
	<-ctx.Done()
	return engine.Receipt{}, ctx.Err()
}
