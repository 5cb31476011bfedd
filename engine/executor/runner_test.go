package executor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// scripted is an executor in a test.
type scripted func(ctx context.Context, t executor.Task, h executor.Host) (executor.Result, error)

func (f scripted) Execute(ctx context.Context, t executor.Task, h executor.Host) (executor.Result, error) {
	return f(ctx, t, h)
}

// scriptedWorker returns a Runner on j that runs only NOOP steps, with f.
func scriptedWorker(t *testing.T, j *journal, f scripted) *executor.Runner {
	r := worker(t, j, executor.Config{})
	r.Executors = map[plan.StepType]executor.Executor{plan.Noop: f}
	return r
}

// contract: T216
func TestRunner_RepeatsTheStartUntilTheJournalAnswers(t *testing.T) {
	t.Parallel()
	var worked, beats atomic.Int32
	j := newJournal(t, plan.Noop, struct{}{})
	j.begin = func(n int) (engine.AttemptStarted, error) {
		if n < 3 || beats.Load() < 2 { // heartbeats continue while the start is unanswered
			return engine.AttemptStarted{}, fmt.Errorf("begin: %w", []error{store.ErrUnavailable, engine.ErrUnanswered}[n%2])
		}
		return engine.AttemptStarted{AttemptStarted: store.AttemptStarted{Verdict: store.StartGranted}}, nil
	}
	r := scriptedWorker(t, j, func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
		worked.Add(1)
		return executor.Result{Value: json.RawMessage(`{"ok":true}`)}, nil
	})
	back, err := r.Run(t.Context(), dispatch, func(executor.Heartbeat) { beats.Add(1) })
	wantReturn(t, back, err, engine.ReturnEnded)
	if worked.Load() != 1 || len(j.begins) < 3 {
		t.Errorf("%d executions after %d starts, want 1 after at least 3", worked.Load(), len(j.begins))
	}
	if string(j.onlyEnd(t).Completed.Result) != `{"ok":true}` {
		t.Errorf("the log has the result %s, want that of the executor", j.ends[0].Completed.Result)
	}
	got := j.begins[0]
	if got.EmittedAt.IsZero() {
		t.Error("the start has no EmittedAt")
	}
	got.EmittedAt = time.Time{}
	want := engine.StartAttempt{RunID: identity.RunID, StepID: "s1", LogicalAttempt: 1, N: 7, EngineAttempt: 2,
		Ticket: "the ticket", SelectsNodes: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("start (-want +got):\n%s", diff)
	}
}

// contract: T185
func TestRunner_OtherVerdictsThanRunStartNoWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begun store.AttemptStarted
		kind  engine.ReturnKind
	}{
		"parked": {store.AttemptStarted{Verdict: store.StartParked}, engine.ReturnParked},
		"no token": {store.AttemptStarted{Verdict: store.StartThrottled, RetryAfter: 7 * time.Second},
			engine.ReturnThrottled},
		"run over": {store.AttemptStarted{Verdict: store.StartRunTerminal}, engine.ReturnRunTerminal},
		"done": {store.AttemptStarted{Verdict: store.StartDone, Terminal: &run.Event{Type: run.StepFailedEvent,
			EngineAttempt: 1}},
			engine.ReturnEnded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.Noop, struct{}{})
			j.begin = func(int) (engine.AttemptStarted, error) { return engine.AttemptStarted{AttemptStarted: c.begun}, nil }
			back, err := scriptedWorker(t, j, mustNotWork(t)).Run(t.Context(), dispatch, quiet)
			wantReturn(t, back, err, c.kind)
			if back.RetryAfter != c.begun.RetryAfter {
				t.Errorf("RetryAfter %v, want %v", back.RetryAfter, c.begun.RetryAfter)
			}
			if len(j.tries) != 0 {
				t.Errorf("the worker wrote an end: %+v", j.tries)
			}
		})
	}
}

// mustNotWork is an executor that fails the test.
func mustNotWork(t *testing.T) scripted {
	return func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
		t.Error("the executor was called")
		return executor.Result{}, nil
	}
}

// captureLog returns the buffer into which r logs warnings. The test may read it after r has returned.
func captureLog(r *executor.Runner) *bytes.Buffer {
	var buf bytes.Buffer
	r.Log = slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return &buf
}

// A Journal that refuses the start, or denies it to this worker, is called once.
func TestRunner_DoesNotRepeatARefusedStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer error
		kind   engine.ReturnKind
		again  bool
		cause  engine.WaitCause
	}{
		"not served": {fmt.Errorf("begin: %w", store.ErrNotFound), engine.ReturnDeclined, true, ""},
		"denied":     {fmt.Errorf("begin: %w", engine.ErrDenied), engine.ReturnDeclined, true, engine.WaitJournal},
		"refused":    {fmt.Errorf("%w: the ticket expired", engine.ErrRefused), engine.ReturnAbandoned, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.Noop, struct{}{})
			j.begin = func(int) (engine.AttemptStarted, error) { return engine.AttemptStarted{}, c.answer }
			r := scriptedWorker(t, j, mustNotWork(t))
			log := captureLog(r)
			late := dispatch
			late.N = 20
			back, err := r.Run(t.Context(), late, quiet)
			back.N = dispatch.N
			if back.Cause != c.cause {
				t.Errorf("the return has the cause %q, want %q", back.Cause, c.cause)
			}
			back.Cause = ""
			wantReturn(t, back, err, c.kind)
			if most := 5 * time.Second; back.RetryAfter > most { // another worker may be able to serve the step
				t.Errorf("dispatch 20 has RetryAfter %v, want at most %v", back.RetryAfter, most)
			}
			if back.RetryAfter > 0 != c.again {
				t.Errorf("RetryAfter %v, want a delay: %t", back.RetryAfter, c.again)
			}
			if len(j.begins) != 1 {
				t.Errorf("the worker called the journal %d times, want once", len(j.begins))
			}
			if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, c.answer.Error()) {
				t.Errorf("want one line with the reason, got:\n%s", got)
			}
		})
	}
}

// Each dispatch adds events to the engine's history, so the delay doubles up to a minute. It varies by a fifth.
func TestDispatch_DeclinedDoublesTheDelay(t *testing.T) {
	t.Parallel()
	for n, most := range map[int]time.Duration{
		0: 2 * time.Second, 1: 2 * time.Second, 2: 4 * time.Second, 3: 8 * time.Second, 5: 32 * time.Second, 6: time.Minute,
		1 << 40: time.Minute,
	} {
		d := executor.Dispatch{RunID: "r", StepID: "s", LogicalAttempt: 2, N: n, EngineAttempt: 3}
		for range 100 {
			back := d.DeclineReturn(time.Minute)
			after := back.RetryAfter
			if after > most || after < most-most/5 {
				t.Fatalf("dispatch %d has RetryAfter %v, want %v less up to a fifth", n, after, most)
			}
			back.RetryAfter = 0
			want := engine.Return{StepID: "s", LogicalAttempt: 2, N: n, EngineAttempt: 3, Kind: engine.ReturnDeclined}
			if diff := cmp.Diff(want, back); diff != "" {
				t.Fatalf("the answer (-want +got):\n%s", diff)
			}
		}
	}
}

func TestRunner_HeartbeatsContainTheStartOfTheWork(t *testing.T) {
	t.Parallel()
	var beats []executor.Heartbeat
	began := make(chan struct{})
	j := newJournal(t, plan.Noop, struct{}{})
	j.begin = func(int) (engine.AttemptStarted, error) {
		<-began
		return engine.AttemptStarted{AttemptStarted: store.AttemptStarted{Verdict: store.StartGranted}}, nil
	}
	beat := func(b executor.Heartbeat) {
		beats = append(beats, b)
		if len(beats) == 1 {
			close(began)
		}
	}
	r := scriptedWorker(t, j, func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
		time.Sleep(1100 * time.Millisecond)
		return executor.Result{}, nil
	})
	back, err := r.Run(t.Context(), dispatch, beat)
	wantReturn(t, back, err, engine.ReturnEnded)
	if len(beats) < 2 || !beats[0].StartedAt.IsZero() || beats[len(beats)-1].StartedAt.IsZero() ||
		beats[0].EngineAttempt != 2 {
		t.Errorf("heartbeats %+v, want the first without a start and the last with it, each of engine attempt 2", beats)
	}
}

// contract: E-11
func TestRunner_TimeoutRunsFromTheAnswerToTheStart(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, struct{}{})
	j.step.Timeout = 100 * time.Millisecond
	j.begin = func(n int) (engine.AttemptStarted, error) {
		if n == 1 {
			return engine.AttemptStarted{}, store.ErrUnavailable // the delay before the next start is longer than the timeout
		}
		return engine.AttemptStarted{AttemptStarted: store.AttemptStarted{Verdict: store.StartGranted}}, nil
	}
	end := execute(t, t.Context(), scriptedWorker(t, j, untilStopped))
	wantFailed(t, end, "TIMEOUT", true)
	if end.Failed.FailureCategory != run.CategoryTimeout || end.Failed.DurationMS < 90 {
		t.Errorf("%+v, want category TIMEOUT after about 100 ms", end.Failed)
	}

	j = newJournal(t, plan.Command, sh("trap 'exit 0' TERM; while :; do sleep 0.1; done"))
	j.step.Timeout = 200 * time.Millisecond
	j.step.Retry.RetryableErrors = []string{plan.ClassTransport}
	// The policy of this step does not retry timeouts.
	wantFailed(t, execute(t, t.Context(), worker(t, j, executor.Config{})), "TIMEOUT", false)
}

func untilStopped(ctx context.Context, _ executor.Task, _ executor.Host) (executor.Result, error) {
	<-ctx.Done()
	return executor.Result{}, context.Cause(ctx)
}

func TestRunner_CancelAndStopDiffer(t *testing.T) {
	t.Parallel()
	shutdown := errors.New("worker shutdown")
	d := dispatch
	d.StopCause = shutdown
	silent := func(int) (engine.AttemptStarted, error) { return engine.AttemptStarted{}, store.ErrUnavailable }
	for name, c := range map[string]struct {
		cause error
		begin func(int) (engine.AttemptStarted, error)
		stops bool
	}{
		"cancel":                {cause: context.Canceled},
		"the engine forgot it":  {cause: errors.New("execution not found")},
		"stop":                  {cause: shutdown, stops: true},
		"cancel before a start": {cause: context.Canceled, begin: silent},
		"stop before a start":   {cause: shutdown, begin: silent, stops: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.Noop, struct{}{})
			j.begin = c.begin
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(50*time.Millisecond, func() { cancel(c.cause) })
			back, err := scriptedWorker(t, j, untilStopped).Run(ctx, d, quiet)
			if c.stops {
				if !errors.Is(err, executor.ErrStopping) {
					t.Errorf("the execution returned %q, %v, want ErrStopping", back.Kind, err)
				}
			} else {
				wantReturn(t, back, err, engine.ReturnCancelled)
			}
			if len(j.tries) != 0 {
				t.Errorf("the worker wrote an end: %+v", j.tries)
			}
		})
	}
}

// contract: T51
func TestRunner_SuccessAfterACancelCounts(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, struct{}{})
	ctx, cancel := context.WithCancel(t.Context())
	end := execute(t, ctx, scriptedWorker(t, j, func(ctx context.Context, _ executor.Task,
		_ executor.Host) (executor.Result, error) {
		cancel()
		return executor.Result{}, nil
	}))
	if end.Completed == nil {
		t.Errorf("the log has %+v, want a completion", end.Failed)
	}
}

func TestRunner_GivesUnexpectedFailuresACode(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, struct{}{})
	wantFailed(t, execute(
		t, t.Context(), scriptedWorker(t, j, func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
			panic("canary")
		})), "EXECUTOR_PANIC", true)
	if strings.Contains(j.log(), "canary") {
		t.Error("the panic's text reached the log of the step")
	}
	end := execute(t, t.Context(), scriptedWorker(t, j, func(context.Context, executor.Task,
		executor.Host) (executor.Result, error) {
		return executor.Result{}, errors.New(strings.Repeat("é", 10_000))
	}))
	wantFailed(t, end, "UNKNOWN", true)
	if len(end.Failed.ErrorMessage) > 3<<10 {
		t.Errorf("the message has %d bytes, want at most 3 KiB", len(end.Failed.ErrorMessage))
	}
	end = execute(t, t.Context(), scriptedWorker(t, j, func(context.Context, executor.Task,
		executor.Host) (executor.Result, error) {
		return executor.Result{Value: json.RawMessage(`"` + strings.Repeat("x", 20<<10) + `"`)}, nil
	}))
	if len(end.Completed.Result) > 6<<10 || !json.Valid(end.Completed.Result) {
		t.Errorf("the result has %d bytes, want a preview in JSON", len(end.Completed.Result))
	}
	r := worker(t, newJournal(t, plan.Manual, struct{}{}), executor.Config{})
	wantFailed(t, execute(t, t.Context(), r), executor.CodeTypeUnsupported, false)
	r = worker(t, newJournal(t, plan.Sleep, plan.SleepInputs{MS: 1}), executor.Config{})
	wantFailed(t, execute(t, t.Context(), r), executor.CodeTypeUnsupported, false) // a SLEEP is a timer of the engine
}

// The value of a panic may quote an input. The worker's own log hides secrets too, and names the attempt.
func TestRunner_TheLogOfAPanicHasTheAttemptAndNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-of-the-step"
	j := newJournal(t, plan.Command, plan.CommandInputs{Argv: []string{"x"}, Env: map[string]string{"PASSWORD": secret}})
	var log bytes.Buffer
	r := worker(t, j, executor.Config{})
	r.Log = slog.New(slog.NewTextHandler(&log, nil))
	r.Executors = map[plan.StepType]executor.Executor{plan.Command: scripted(func(context.Context, executor.Task,
		executor.Host) (executor.Result, error) {
		panic("cannot use " + secret)
	})}
	wantFailed(t, execute(t, t.Context(), r), "EXECUTOR_PANIC", true)
	if text := log.String(); strings.Contains(text, secret) || !strings.Contains(text, "cannot use") {
		t.Errorf("the log of the panic is %q; want its value without the secret", text)
	}
	if !strings.Contains(log.String(), "attemptId=1.") {
		t.Errorf("the log of the panic is %q; want the attempt", log.String())
	}
}

func TestLight_RunsOnlyNoop(t *testing.T) {
	t.Parallel()
	for _, typ := range []plan.StepType{plan.Noop, plan.Command, plan.HTTPNotify, plan.DBTCompile, plan.DBTRun,
		plan.DBTTest, plan.Sleep, plan.Manual} {
		if _, ok := executor.Light()[typ]; ok != (typ == plan.Noop) {
			t.Errorf("Light has an executor of %s: %t, want only NOOP", typ, ok)
		}
	}
}

// contract: T67, T68, T205
func TestRetryable_FollowsThePolicyAndTheClass(t *testing.T) {
	t.Parallel()
	listed := plan.Retry{RetryableErrors: []string{plan.ClassTransport}}
	for _, c := range []struct {
		policy plan.Retry
		class  string
		never  bool
		want   bool
	}{
		{plan.Retry{}, "", false, true},
		{plan.Retry{}, "", true, false},
		{plan.Retry{}, plan.ClassTimeout, false, true},
		{plan.Retry{}, plan.ClassValidation, false, false},
		{plan.Retry{RetryableErrors: []string{plan.ClassValidation}}, plan.ClassValidation, false, false},
		{listed, plan.ClassTransport, false, true},
		{listed, plan.ClassTransport, true, false},
		{listed, plan.ClassTimeout, false, false},
		{listed, plan.ClassTransient, false, false},
		{listed, "", false, true},
		{listed, "never heard of", false, true},
	} {
		if got := executor.IsRetryable(c.policy, c.class, c.never); got != c.want {
			t.Errorf("Retryable(%v, %q, %t) = %t, want %t", c.policy.RetryableErrors, c.class, c.never, got, c.want)
		}
	}
}

// A long message keeps its beginning and its end, because the last line of a traceback names the error.
func TestRunner_ALongMessageKeepsBothEnds(t *testing.T) {
	t.Parallel()
	long := "Traceback\n" + strings.Repeat("  é in a file\n", 1000) + "KeyError: 'amount'"
	r := scriptedWorker(t, newJournal(t, plan.Noop, struct{}{}), func(context.Context, executor.Task,
		executor.Host) (executor.Result, error) {
		return executor.Result{}, &executor.Failure{Code: "BROKEN", Message: long}
	})
	message := execute(t, t.Context(), r).Failed.ErrorMessage
	if len(message) > 2100 || !utf8.ValidString(message) || !strings.HasPrefix(message, "Traceback\n") ||
		!strings.HasSuffix(message, "KeyError: 'amount'") {
		t.Errorf("the message has %d bytes, want both ends of the text in 2100: %q", len(message), message)
	}
}

// A worker that cannot connect to its server hands a dispatch back for another worker, unless a delivered call may have
// started the attempt.
func TestRunner_HandsBackADispatchThatItCannotStart(t *testing.T) {
	t.Parallel()
	away := fmt.Errorf("%w: %w", store.ErrUnavailable, engine.ErrUndelivered)
	for name, c := range map[string]struct {
		first error
		kind  engine.ReturnKind
	}{
		"no call was delivered":   {away, engine.ReturnDeclined},
		"a call may have arrived": {store.ErrUnavailable, engine.ReturnCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				j := newJournal(t, plan.Noop, struct{}{})
				j.begin = func(n int) (engine.AttemptStarted, error) {
					if n == 1 {
						return engine.AttemptStarted{}, c.first
					}
					return engine.AttemptStarted{}, away
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				back, err := scriptedWorker(t, j, mustNotWork(t)).Run(ctx, dispatch, quiet)
				if away := back.Cause == engine.WaitJournal; away != (c.kind == engine.ReturnDeclined) {
					t.Errorf("the return has the cause %q, want JOURNAL only if the server was not reached", back.Cause)
				}
				back.Cause = ""
				wantReturn(t, back, err, c.kind)
				took := time.Since(began)
				if c.kind == engine.ReturnDeclined && (took > 20*time.Second || back.RetryAfter <= 0 ||
					back.RetryAfter > 15*time.Second) {
					t.Errorf("held for %v, RetryAfter %v; want at most 20 s and 15 s", took, back.RetryAfter)
				}
				if c.kind == engine.ReturnCancelled && took < time.Minute {
					t.Errorf("handed back after %v, although the attempt may have started", took)
				}
			})
		})
	}
}
