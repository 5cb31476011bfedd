package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const (
	beatEvery      = time.Second // T199
	beginRetry     = time.Second
	beginRetryMost = 5 * time.Second
	flushTimeout   = 10 * time.Second
	maxValueBytes  = 16 << 10
	maxMessage     = 2 << 10
)

// ErrStopping is returned for an execution that was cut short because its
// worker stops: the platform runs it again elsewhere.
var ErrStopping = errors.New("executor: the worker is stopping")

var errStepTimeout = errors.New("executor: step timeout")

// Runner runs executions of attempts on a worker. The zero values of the
// optional fields are their defaults. Safe for concurrent use.
type Runner struct {
	Journal   engine.Journal
	Executors map[plan.StepType]Executor
	// WorkspaceRoot holds the workspaces of runs, ProjectRoot is where relative
	// directories of plans resolve (T230). Both are absolute.
	WorkspaceRoot, ProjectRoot string
	Env                        map[string]string // Config.Env again: values that look secret are not shown
	Log                        *slog.Logger      // nothing is logged when nil
	Now                        func() time.Time  // time.Now when nil
}

// Dispatch is one execution that the platform asks for.
type Dispatch struct {
	RunID          string
	StepID         string
	LogicalAttempt int
	N              int // dispatch ordinal, echoed (T184)
	EngineAttempt  int // from 1
	PassFailing    bool
	SignalID       string
	// AwaitToken has a heavy step without a token wait here, for a platform that does
	// not take engine.EndThrottled.
	AwaitToken bool
	// StopCause is the cause of ctx that means that the worker stops; any other
	// end of ctx means that the step was asked to stop.
	StopCause error
}

// Run begins the attempt, does its work and reports how it ended. Begin is
// repeated until it is answered (T216). beat is called at once and every second
// from then on with the report so far, from a goroutine that ends before Run
// returns (T199). The work has the step's timeout from the moment Begin was
// answered. The error is ErrStopping, or store.ErrNotFound for a run that does
// not exist; everything else is in the StepEnd. What was printed is handed to
// the Journal at least once a second and flushed before Run returns, for at most
// 10 s.
func (r *Runner) Run(ctx context.Context, d Dispatch, beat func(sofar engine.StepEnd)) (engine.StepEnd, error) {
	end := engine.StepEnd{StepID: d.StepID, LogicalAttempt: d.LogicalAttempt, N: d.N, EngineAttempt: d.EngineAttempt}
	var sofar atomic.Pointer[engine.StepEnd]
	report := func(e engine.StepEnd) { sofar.Store(&e) }
	report(end)
	defer r.heartbeat(beat, &sofar)()

	begun, err := r.begin(ctx, d)
	if err != nil {
		return r.interrupted(ctx, d, end, err)
	}
	switch begun.Verdict {
	case store.BeginParked:
		end.Kind = engine.EndParked
		return end, nil
	case store.BeginThrottled:
		end.Kind, end.RetryAfter = engine.EndThrottled, begun.RetryAfter
		return end, nil
	case store.BeginRunTerminal:
		end.Kind = engine.EndRunTerminal
		return end, nil
	case store.BeginDone:
		return Stored(end, begun.Terminal), nil
	}
	end.StartedAt = r.now().UTC()
	report(end)
	return r.work(ctx, d, Task{
		Identity: begun.Identity, Step: begun.Step, Params: begun.Params, IdempotencyKey: strings.Join([]string{d.RunID, d.StepID, strconv.Itoa(d.LogicalAttempt)}, ":"),
	}, end)
}

func (r *Runner) heartbeat(beat func(engine.StepEnd), sofar *atomic.Pointer[engine.StepEnd]) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			beat(*sofar.Load())
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(quit); <-done }
}

func (r *Runner) begin(ctx context.Context, d Dispatch) (begun engine.Begun, err error) {
	var missing error
	err = persist(ctx, beginRetry, beginRetryMost, func() error {
		begun, err = r.Journal.Begin(ctx, store.Begin{
			RunID: d.RunID, StepID: d.StepID, LogicalAttempt: d.LogicalAttempt, EngineAttempt: d.EngineAttempt,
			EmittedAt: r.now().UTC(), PassFailing: d.PassFailing, SignalID: d.SignalID,
		})
		if errors.Is(err, store.ErrNotFound) {
			missing = err
			return nil
		}
		if err == nil && begun.Verdict == store.BeginThrottled && d.AwaitToken {
			return &store.OverloadedError{RetryAfter: begun.RetryAfter}
		}
		if err != nil {
			r.log().LogAttrs(ctx, slog.LevelWarn, "begin unanswered",
				slog.String("run", d.RunID), slog.String("step", d.StepID), slog.Int("la", d.LogicalAttempt), slog.Any("err", err))
		}
		return err
	})
	if missing != nil {
		return begun, fmt.Errorf("executor: begin: %w", missing)
	}
	return begun, err
}

// interrupted is the end of an execution whose ctx ended before it had a result.
func (r *Runner) interrupted(ctx context.Context, d Dispatch, end engine.StepEnd, err error) (engine.StepEnd, error) {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return end, err
	case d.StopCause != nil && errors.Is(cause, d.StopCause):
		return end, ErrStopping
	}
	end.Kind = engine.EndCancelled
	return end, nil
}

// Stored is what a terminal in the log says of an attempt: end, completed by it (T112).
func Stored(end engine.StepEnd, terminal *run.Event) engine.StepEnd {
	end.EngineAttempt = terminal.EngineAttempt
	switch terminal.Type {
	case run.StepCompletedEvent:
		p, _ := run.PayloadOf[run.StepCompletedPayload](terminal.Payload) // what can be read of it
		end.Kind, end.Completed = engine.EndCompleted, &p
	case run.StepFailedEvent:
		p, _ := run.PayloadOf[run.FailurePayload](terminal.Payload)
		end.Kind, end.Failed = engine.EndFailed, &p
	default: // skipped by a person: there is nothing to do
		end.Kind = engine.EndCancelled
	}
	return end
}

func (r *Runner) work(ctx context.Context, d Dispatch, t Task, end engine.StepEnd) (engine.StepEnd, error) {
	redact := redactor(r.Env, t.Step.Inputs)
	shipping, stopShipping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopShipping()
	out := newOutput(r.now, redact, func(ctx context.Context, lines []engine.LogLine) error {
		return r.Journal.Evidence(ctx, engine.Evidence{
			RunID: d.RunID, StepID: d.StepID, LogicalAttempt: d.LogicalAttempt, EngineAttempt: d.EngineAttempt, Lines: lines,
		})
	})
	go out.ship(shipping)
	for _, ref := range t.Step.SecretRefs {
		out.print("dvt", fmt.Sprintf("the step names the secret %q of %q, and this version gives secrets to no step: it runs without", ref.Key, ref.Provider))
	}

	working, stopWork := ctx, context.CancelFunc(func() {})
	if t.Step.Timeout > 0 {
		working, stopWork = context.WithTimeoutCause(ctx, t.Step.Timeout, errStepTimeout)
	}
	began := r.now()
	result, err := r.execute(working, d, t, &host{runner: r, dispatch: d, identity: t.Identity, out: out})
	timedOut := errors.Is(context.Cause(working), errStepTimeout) || errors.Is(ctx.Err(), context.DeadlineExceeded)
	stopWork()
	took := r.now().Sub(began)

	var failure *Failure
	var stop error
	switch {
	case err == nil:
		end.Kind = engine.EndCompleted
		end.Completed = &run.StepCompletedPayload{Result: small(result.Value), DurationMS: took.Milliseconds(), ArtifactRefs: result.Artifacts}
	case errors.As(err, &failure):
	case timedOut:
		failure = &Failure{Code: string(run.CodeTimeout), Retryable: true, Category: run.CategoryTimeout, Class: plan.ClassTimeout,
			Message: fmt.Sprintf("the attempt took longer than its timeout of %s", t.Step.Timeout)}
	case ctx.Err() != nil:
		end, stop = r.interrupted(ctx, d, end, err)
	default:
		failure = &Failure{Code: CodeUnknown, Message: err.Error(), Retryable: true, Category: run.CategorySystem}
	}
	if failure != nil {
		end.Kind, end.Class = engine.EndFailed, failure.Class
		end.Failed = &run.FailurePayload{
			ErrorCode: failure.Code, ErrorMessage: cutMessage(redact.Replace(failure.Message)),
			Retryable:       Retryable(t.Step.Retry, failure.Class, !failure.Retryable),
			FailureCategory: failure.Category, FailureSource: string(t.Step.Type),
			DurationMS: took.Milliseconds(), ArtifactRefs: failure.Artifacts,
		}
		out.print("dvt", end.Failed.ErrorCode+": "+end.Failed.ErrorMessage)
	}
	flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	out.close(flushing, stopShipping)
	return end, stop
}

func (r *Runner) execute(ctx context.Context, d Dispatch, t Task, h *host) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log().LogAttrs(ctx, slog.LevelError, "executor panicked", slog.String("run", d.RunID), slog.String("step", d.StepID),
				slog.String("type", string(t.Step.Type)), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			res, err = Result{}, &Failure{Code: "EXECUTOR_PANIC", Message: "the executor of this step type failed; the worker's log says where",
				Retryable: true, Category: run.CategoryPlatform}
		}
	}()
	x, ok := r.Executors[t.Step.Type]
	if !ok {
		return Result{}, &Failure{Code: CodeTypeUnsupported, Category: run.CategoryPlatform, Class: plan.ClassValidation,
			Message: fmt.Sprintf("this worker does not run steps of type %s", t.Step.Type)}
	}
	workspace := filepath.Join(r.WorkspaceRoot, filepath.Base(d.RunID))
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return Result{}, fmt.Errorf("workspace: %s", reason(err))
	}
	t.LogicalAttempt, t.EngineAttempt = d.LogicalAttempt, d.EngineAttempt
	t.Workspace, t.ProjectRoot = workspace, r.ProjectRoot
	return x.Execute(ctx, t, h)
}

// small is a result that fits the log; a larger one is replaced by a word about it.
func small(v json.RawMessage) json.RawMessage {
	if len(v) > maxValueBytes || len(v) > 0 && !json.Valid(v) {
		return json.RawMessage(fmt.Sprintf(`{"omitted":"the result has %d bytes, more than %d"}`, len(v), maxValueBytes))
	}
	return v
}

// cutMessage keeps the beginning and the end: a traceback says what is wrong in its last line.
func cutMessage(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > maxMessage {
		const half = maxMessage / 2
		s = strings.ToValidUTF8(s[:half], "") + " … " + strings.ToValidUTF8(s[len(s)-half:], "")
	}
	return s
}

func (r *Runner) now() time.Time {
	if r.Now != nil {
		return r.Now()
	}
	return time.Now()
}

func (r *Runner) log() *slog.Logger {
	if r.Log != nil {
		return r.Log
	}
	return slog.New(slog.DiscardHandler)
}
