package executor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/internal/pace"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

type scripted func(ctx context.Context, t executor.Task, h executor.Host) (executor.Result, error)

func (f scripted) Execute(ctx context.Context, t executor.Task, h executor.Host) (executor.Result, error) {
	return f(ctx, t, h)
}

func scriptedWorker(t *testing.T, j *journal, f scripted) *executor.Runner {
	r := worker(t, j, executor.Config{})
	r.Executors = map[plan.StepType]executor.Executor{plan.Noop: f}
	return r
}

func nothing(context.Context, executor.Task, executor.Host) (executor.Result, error) {
	return executor.Result{}, nil
}

func TestRunner_T216_BeginIsRepeatedUntilAnswered(t *testing.T) {
	t.Parallel()
	var worked, beats atomic.Int32
	j := newJournal(t, plan.Noop, struct{}{})
	j.begin = func(n int) (engine.Begun, error) {
		if n < 3 || beats.Load() < 2 { // it is reported alive while Begin is not answered
			return engine.Begun{}, fmt.Errorf("begin: %w", store.ErrUnavailable)
		}
		return engine.Begun{Begun: store.Begun{Verdict: store.BeginRun}}, nil
	}
	r := scriptedWorker(t, j, func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
		worked.Add(1)
		return executor.Result{Value: json.RawMessage(`{"ok":true}`)}, nil
	})
	end, err := r.Run(t.Context(), dispatch, func(engine.StepEnd) { beats.Add(1) })
	if err != nil || end.Kind != engine.EndCompleted || worked.Load() != 1 || len(j.begins) < 3 {
		t.Errorf("%s, %v; %d executions after %d begins", end.Kind, err, worked.Load(), len(j.begins))
	}
	b := j.begins[0]
	if b.EngineAttempt != 2 || b.LogicalAttempt != 1 || b.StepID != "s1" || b.EmittedAt.IsZero() {
		t.Errorf("begin %+v", b)
	}
}

func TestRunner_T185_Verdicts(t *testing.T) {
	t.Parallel()
	payload := func(v any) json.RawMessage { raw, _ := json.Marshal(v); return raw }
	for name, c := range map[string]struct {
		begun store.Begun
		kind  engine.StepEndKind
		ea    int
	}{
		"parked":   {store.Begun{Verdict: store.BeginParked}, engine.EndParked, 2},
		"no token": {store.Begun{Verdict: store.BeginThrottled, RetryAfter: 7 * time.Second}, engine.EndThrottled, 2},
		"run over": {store.Begun{Verdict: store.BeginRunTerminal}, engine.EndRunTerminal, 2},
		"completed": {store.Begun{Verdict: store.BeginDone, Terminal: &run.Event{Type: run.StepCompletedEvent, EngineAttempt: 1,
			Payload: payload(run.StepCompletedPayload{Result: json.RawMessage(`{"n":1}`)})}}, engine.EndCompleted, 1},
		"failed": {store.Begun{Verdict: store.BeginDone, Terminal: &run.Event{Type: run.StepFailedEvent, EngineAttempt: 1,
			Payload: payload(run.FailurePayload{ErrorCode: "X"})}}, engine.EndFailed, 1},
		"skipped": {store.Begun{Verdict: store.BeginDone, Terminal: &run.Event{Type: run.StepSkippedEvent, EngineAttempt: 2}}, engine.EndCancelled, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t, plan.Noop, struct{}{})
			j.begin = func(int) (engine.Begun, error) { return engine.Begun{Begun: c.begun}, nil }
			r := scriptedWorker(t, j, func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
				t.Error("it worked")
				return executor.Result{}, nil
			})
			end, err := r.Run(t.Context(), dispatch, quiet)
			if err != nil || end.Kind != c.kind || end.EngineAttempt != c.ea {
				t.Errorf("%+v, %v", end, err)
			}
			if end.RetryAfter != c.begun.RetryAfter || !end.StartedAt.IsZero() {
				t.Errorf("again after %v, began %v", end.RetryAfter, end.StartedAt)
			}
			if c.kind == engine.EndCompleted && string(end.Completed.Result) != `{"n":1}` || c.kind == engine.EndFailed && end.Failed.ErrorCode != "X" {
				t.Errorf("stored terminal: %+v %+v", end.Completed, end.Failed)
			}
		})
	}
}

// A platform that does not take THROTTLED has the step wait here.
func TestRunner_T113_AwaitToken(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, struct{}{})
	j.begin = func(n int) (engine.Begun, error) {
		if n == 1 {
			return engine.Begun{Begun: store.Begun{Verdict: store.BeginThrottled, RetryAfter: 10 * time.Millisecond}}, nil
		}
		return engine.Begun{Begun: store.Begun{Verdict: store.BeginRun}}, nil
	}
	d := dispatch
	d.AwaitToken = true
	end, err := scriptedWorker(t, j, nothing).Run(t.Context(), d, quiet)
	if err != nil || end.Kind != engine.EndCompleted || len(j.begins) != 2 {
		t.Errorf("%+v, %v after %d begins", end, err, len(j.begins))
	}
}

func TestRunner_UnknownRunIsAnError(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, struct{}{})
	j.begin = func(int) (engine.Begun, error) { return engine.Begun{}, store.ErrNotFound }
	if _, err := scriptedWorker(t, j, nothing).Run(t.Context(), dispatch, quiet); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v, want ErrNotFound", err)
	}
}

func TestRunner_E11_TimeoutCountsFromBegin(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Sleep, plan.SleepInputs{MS: 60_000})
	j.step.Timeout = 100 * time.Millisecond
	j.begin = func(n int) (engine.Begun, error) {
		if n == 1 {
			return engine.Begun{}, store.ErrUnavailable // longer than the timeout passes before the begin
		}
		return engine.Begun{Begun: store.Begun{Verdict: store.BeginRun}}, nil
	}
	end := execute(t, t.Context(), worker(t, j, executor.Config{}))
	wantFailed(t, end, "TIMEOUT", true)
	if end.Class != plan.ClassTimeout || end.Failed.FailureCategory != run.CategoryTimeout || end.Failed.DurationMS < 100 || end.StartedAt.IsZero() {
		t.Errorf("%+v %+v", end, end.Failed)
	}

	j = newJournal(t, plan.Command, sh("trap 'exit 0' TERM; while :; do sleep 0.1; done"))
	j.step.Timeout = 200 * time.Millisecond
	j.step.Retry.RetryableErrors = []string{plan.ClassTransport}
	wantFailed(t, execute(t, t.Context(), worker(t, j, executor.Config{})), "TIMEOUT", false) // T205
}

func TestRunner_CancelAndStopDiffer(t *testing.T) {
	t.Parallel()
	shutdown := errors.New("worker shutdown")
	hang := func(ctx context.Context, _ executor.Task, h executor.Host) (executor.Result, error) {
		<-ctx.Done()
		return executor.Result{}, context.Cause(ctx)
	}
	d := dispatch
	d.StopCause = shutdown
	for name, c := range map[string]struct {
		cause error
		begin func(int) (engine.Begun, error)
		want  error
	}{
		"cancel":                {cause: context.Canceled},
		"stop":                  {cause: shutdown, want: executor.ErrStopping},
		"cancel before a begin": {cause: context.Canceled, begin: func(int) (engine.Begun, error) { return engine.Begun{}, store.ErrUnavailable }},
		"stop before a begin":   {cause: shutdown, begin: func(int) (engine.Begun, error) { return engine.Begun{}, store.ErrUnavailable }, want: executor.ErrStopping},
	} {
		j := newJournal(t, plan.Noop, struct{}{})
		j.begin = c.begin
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(50*time.Millisecond, func() { cancel(c.cause) })
		end, err := scriptedWorker(t, j, hang).Run(ctx, d, quiet)
		if !errors.Is(err, c.want) || c.want == nil && end.Kind != engine.EndCancelled {
			t.Errorf("%s: %q, %v", name, end.Kind, err)
		}
	}
}

func TestRunner_T51_SuccessInSpiteOfCancelCounts(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, struct{}{})
	ctx, cancel := context.WithCancel(t.Context())
	end := execute(t, ctx, scriptedWorker(t, j, func(ctx context.Context, _ executor.Task, _ executor.Host) (executor.Result, error) {
		cancel()
		return executor.Result{}, nil
	}))
	if end.Kind != engine.EndCompleted {
		t.Errorf("%s, want COMPLETED", end.Kind)
	}
}

func TestRunner_FailuresWithoutAName(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, struct{}{})
	wantFailed(t, execute(t, t.Context(), scriptedWorker(t, j, func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
		panic("canary")
	})), "EXECUTOR_PANIC", true)
	if strings.Contains(j.log(), "canary") {
		t.Error("the panic's text reached the log of the step")
	}
	end := execute(t, t.Context(), scriptedWorker(t, j, func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
		return executor.Result{}, errors.New(strings.Repeat("é", 10_000))
	}))
	wantFailed(t, end, "UNKNOWN", true)
	if len(end.Failed.ErrorMessage) > 3<<10 {
		t.Errorf("a message of %d bytes", len(end.Failed.ErrorMessage))
	}
	end = execute(t, t.Context(), scriptedWorker(t, j, func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
		return executor.Result{Value: json.RawMessage(`"` + strings.Repeat("x", 20<<10) + `"`)}, nil
	}))
	if len(end.Completed.Result) > 1<<10 || !json.Valid(end.Completed.Result) {
		t.Errorf("a result of %d bytes", len(end.Completed.Result))
	}
	r := worker(t, newJournal(t, plan.Manual, struct{}{}), executor.Config{})
	wantFailed(t, execute(t, t.Context(), r), executor.CodeTypeUnsupported, false)
}

func TestRunner_AStepWithoutItsSecretsSaysSo(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, struct{}{})
	j.step.SecretRefs = []plan.SecretRef{{Provider: "vault", Key: "db/password"}}
	execute(t, t.Context(), worker(t, j, executor.Config{}))
	if !strings.Contains(j.log(), `dvt: the step names the secret "db/password" of "vault"`) {
		t.Errorf("the log is:\n%s", j.log())
	}
}

func TestRunner_T229_LinesAreShippedWhileItWorks(t *testing.T) {
	t.Parallel()
	j := newJournal(t, plan.Noop, struct{}{})
	execute(t, t.Context(), scriptedWorker(t, j, func(_ context.Context, _ executor.Task, h executor.Host) (executor.Result, error) {
		h.Print("stdout", "early")
		eventually(t, "the line is kept while the step works", func() bool { return j.log() == "stdout: early\n" })
		return executor.Result{}, nil
	}))
}

func TestRunner_T229_BoundedWhileTheJournalIsSilent(t *testing.T) {
	t.Parallel()
	const half = 5000
	j := newJournal(t, plan.Noop, struct{}{})
	var silent atomic.Bool
	silent.Store(true)
	j.fail = func(engine.Evidence) error {
		if silent.Load() {
			return store.ErrUnavailable
		}
		return nil
	}
	execute(t, t.Context(), scriptedWorker(t, j, func(_ context.Context, _ executor.Task, h executor.Host) (executor.Result, error) {
		began := time.Now()
		for i := range 20_000 {
			h.Print("stdout", fmt.Sprint("line ", i))
		}
		if took := time.Since(began); took > pace.Of(5*time.Second) {
			t.Errorf("printing waited for the journal: %s", took)
		}
		silent.Store(false)
		eventually(t, "what was held is kept", func() bool { return strings.Count(j.log(), "\n") == 2*half })
		return executor.Result{}, nil
	}))
	if len(j.lines) != 2*half || j.lines[half-1].Text != "line 4999" || j.lines[half].Stream != "dvt" ||
		!strings.Contains(j.lines[half].Text, "10001 lines were dropped") || j.lines[2*half-1].Text != "line 19999" {
		t.Errorf("%d lines; in the middle %+v, at the end %+v", len(j.lines), j.lines[min(half, len(j.lines)-1)], j.lines[len(j.lines)-1])
	}
	for i, l := range j.lines {
		if l.No != int64(i+1) {
			t.Fatalf("line %d has No %d", i+1, l.No)
		}
	}
}

// Lines that come faster than they are kept are waited for: none is lost, however many there are. Time is that of the bubble: a journal
// that no core is given to would be one that does not answer.
func TestRunner_T229_NothingIsLostToAJournalThatAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		j := newJournal(t, plan.Noop, struct{}{})
		var most atomic.Int64
		j.fail = func(e engine.Evidence) error {
			most.Store(max(most.Load(), int64(len(e.Lines))))
			time.Sleep(time.Millisecond)
			return nil
		}
		const printers, each = 2, 50_000
		execute(t, t.Context(), scriptedWorker(t, j, func(_ context.Context, _ executor.Task, h executor.Host) (executor.Result, error) {
			var all sync.WaitGroup
			for p := range printers {
				all.Go(func() {
					for i := range each {
						h.Print("stdout", fmt.Sprint(p, " ", i))
					}
				})
			}
			all.Wait()
			return executor.Result{}, nil
		}))
		if len(j.lines) != printers*each || most.Load() > 2000 {
			t.Fatalf("%d lines of %d are kept, at most %d at once", len(j.lines), printers*each, most.Load())
		}
		var next [printers]int
		for i, l := range j.lines {
			var p, n int
			if _, err := fmt.Sscan(l.Text, &p, &n); err != nil || l.No != int64(i+1) || n != next[p] {
				t.Fatalf("line %d has No %d and says %q, %v", i+1, l.No, l.Text, err)
			}
			next[p]++
		}
	})
}

func TestRetryable_T67_T68_T205(t *testing.T) {
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
		if got := executor.Retryable(c.policy, c.class, c.never); got != c.want {
			t.Errorf("Retryable(%v, %q, %t) = %t", c.policy.RetryableErrors, c.class, c.never, got)
		}
	}
}

// A long message keeps its beginning and its end, where a traceback says what is wrong.
func TestRunner_ALongMessageKeepsBothEnds(t *testing.T) {
	t.Parallel()
	long := "Traceback\n" + strings.Repeat("  é in a file\n", 1000) + "KeyError: 'amount'"
	r := scriptedWorker(t, newJournal(t, plan.Noop, struct{}{}), func(context.Context, executor.Task, executor.Host) (executor.Result, error) {
		return executor.Result{}, &executor.Failure{Code: "BROKEN", Message: long}
	})
	said := execute(t, t.Context(), r).Failed.ErrorMessage
	if len(said) > 2100 || !utf8.ValidString(said) || !strings.HasPrefix(said, "Traceback\n") || !strings.HasSuffix(said, "KeyError: 'amount'") {
		t.Errorf("%d bytes: %q", len(said), said)
	}
}
