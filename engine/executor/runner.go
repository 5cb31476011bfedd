package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
	// handBackAfter is how long a dispatch waits for a server that its worker cannot connect to. It is then handed back,
	// because another worker may reach the server, and returns after noServerRetry at the latest.
	handBackAfter = 10 * time.Second
	noServerRetry = 15 * time.Second
	// declinedRetry is when to dispatch a step again for the first time that a worker declined.
	declinedRetry = 2 * time.Second
	// notServedRetry is the longest wait that this grows to where this worker may not serve the step. Another worker of
	// the queue may, and may be the last of its pollers to get the step: several dispatches come here before.
	notServedRetry = 5 * time.Second
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
	Journal   engine.AttemptJournal
	Executors map[plan.StepType]Executor
	// WorkspaceRoot holds the workspaces of runs, ProjectRoot is where relative
	// directories of plans resolve (T230). Both are absolute.
	WorkspaceRoot, ProjectRoot string
	Env                        map[string]string // Config.Env again: values that look secret are not shown
	Log                        *slog.Logger      // nothing is logged when nil
	Now                        func() time.Time  // time.Now when nil
}

// Dispatch is one execution that the engine asks for.
type Dispatch struct {
	RunID          string
	StepID         string
	LogicalAttempt int // of a hook: the attempt that succeeded
	N              int // dispatch ordinal, echoed (contract T184)
	EngineAttempt  int // from 1
	// MaxEngineAttempts is the last engine attempt that the engine will make; 0 means 1. A failure before it is
	// left to the engine where it may be retried.
	MaxEngineAttempts int
	Ticket            string
	// StopCause is the cause of ctx that means that the worker stops. Any other end of ctx means that the
	// execution was asked to stop, or that the engine no longer knows it.
	StopCause error
}

// Beat is the state of a running execution that the engine receives with each heartbeat.
type Beat struct {
	StartedAt     time.Time // zero: not begun
	EngineAttempt int
}

// Run begins the attempt, does its work and has the Journal write how it ended
// before it returns. Begin is repeated until it is answered (contract T216). The work has
// the step's timeout from the moment Begin was answered. Its output is handed
// to the Journal at least once a second and flushed before the end is written,
// for at most 10 s.
//
// beat is called at once and every second from then on, from a goroutine that
// ends before Run returns (contract T199).
//
// The Return says ENDED when the log has an end of the attempt, and otherwise why
// there is none. The error is a *RetryError for a failure that the engine
// should try again, which no log has, or ErrStopping.
func (r *Runner) Run(ctx context.Context, d Dispatch, beat func(Beat)) (engine.Return, error) {
	var startedAt atomic.Pointer[time.Time]
	defer r.heartbeat(d, beat, &startedAt)()

	var begun engine.AttemptStarted
	back, err := r.begin(ctx, d, func(b engine.StartAttempt) (err error) {
		begun, err = r.Journal.StartAttempt(ctx, b)
		return err
	})
	if err != nil || back.Kind != "" {
		return back, err
	}
	switch begun.Verdict {
	case store.StartParked:
		return d.returned(engine.ReturnParked), nil
	case store.StartThrottled:
		back = d.returned(engine.ReturnThrottled)
		back.RetryAfter = begun.RetryAfter
		return back, nil
	case store.StartRunTerminal:
		return d.returned(engine.ReturnRunTerminal), nil
	case store.StartDone:
		back = d.returned(engine.ReturnEnded)
		back.Receipt = begun.Receipt
		return back, nil
	}
	started := r.now().UTC()
	startedAt.Store(&started)

	x := execution{Dispatch: d, identity: begun.Identity, startedSeq: begun.StartedSeq, key: begun.Key}
	return r.finish(ctx, x, r.work(ctx, x, Task{
		Identity: begun.Identity, Step: begun.Step, Params: begun.Params, SandboxCeiling: begun.SandboxCeiling,
		IdempotencyKey: strings.Join([]string{d.RunID, d.StepID, strconv.Itoa(d.LogicalAttempt)}, ":"),
	}))
}

func (r *Runner) heartbeat(d Dispatch, beat func(Beat), startedAt *atomic.Pointer[time.Time]) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			b := Beat{EngineAttempt: d.EngineAttempt}
			if at := startedAt.Load(); at != nil {
				b.StartedAt = *at
			}
			beat(b)
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(quit); <-done }
}

// begin repeats a call that begins an execution until the Journal answers it.
// A Return with a Kind, or an error, means that there is nothing to execute.
func (r *Runner) begin(ctx context.Context, d Dispatch, call func(engine.StartAttempt) error) (engine.Return, error) {
	var answer error
	// a call that was delivered may have begun the attempt, although its answer was lost
	began, delivered := time.Now(), false
	err := persist(ctx, beginRetry, beginRetryMost, func() error {
		answer = call(engine.StartAttempt{
			RunID: d.RunID, StepID: d.StepID, LogicalAttempt: d.LogicalAttempt, N: d.N, EngineAttempt: d.EngineAttempt,
			EmittedAt: r.now().UTC(), Ticket: d.Ticket,
		})
		if answer == nil || errors.Is(answer, engine.ErrRefused) || errors.Is(answer, engine.ErrDenied) ||
			errors.Is(answer, store.ErrNotFound) {
			return nil
		}
		if delivered = delivered || !errors.Is(answer, engine.ErrUndelivered); !delivered &&
			time.Since(began) > handBackAfter {
			return nil
		}
		r.warn(ctx, d, "begin unanswered", answer)
		return answer
	})
	switch {
	case err != nil:
		return d.interrupted(ctx)
	case errors.Is(answer, engine.ErrUndelivered):
		r.warn(ctx, d, "dispatch handed back: another worker may reach the server", answer)
		return d.Declined(noServerRetry), nil
	case errors.Is(answer, engine.ErrRefused):
		r.warn(ctx, d, "begin refused", answer)
		return d.returned(engine.ReturnAbandoned), nil
	case errors.Is(answer, engine.ErrDenied):
		r.warn(ctx, d, "dispatch declined: another worker may be set up right", answer)
		return d.Declined(notServedRetry), nil
	case errors.Is(answer, store.ErrNotFound):
		r.warn(ctx, d, "dispatch declined: the account of this worker serves another tenant or queue", answer)
		return d.Declined(notServedRetry), nil
	}
	return engine.Return{}, nil
}

// Declined is the answer to a dispatch that this worker does not begin now. Nothing is spent by it. It is to come back
// after a delay that doubles with each dispatch of the attempt, up to most, less up to a fifth at random, so that steps
// that were declined together do not come back together.
func (d Dispatch) Declined(most time.Duration) engine.Return {
	delay := min(declinedRetry<<min(max(d.N-1, 0), 10), most)
	back := d.returned(engine.ReturnDeclined)
	back.RetryAfter = delay - rand.N(delay/5)
	return back
}

func (d Dispatch) returned(kind engine.ReturnKind) engine.Return {
	return engine.Return{StepID: d.StepID, LogicalAttempt: d.LogicalAttempt, N: d.N, EngineAttempt: d.EngineAttempt,
		Kind: kind}
}

// interrupted returns the answer for an execution whose context ended before it had a result.
func (d Dispatch) interrupted(ctx context.Context) (engine.Return, error) {
	if d.workerStops(ctx) {
		return d.returned(""), ErrStopping
	}
	return d.returned(engine.ReturnCancelled), nil
}

// workerStops reports whether ctx ended because the worker stops.
func (d Dispatch) workerStops(ctx context.Context) bool {
	return d.StopCause != nil && errors.Is(context.Cause(ctx), d.StopCause)
}

// outcome is how the work of an execution went. Neither completed nor failed is set
// when ctx ended before there was a result.
type outcome struct {
	completed *run.StepCompletedPayload
	failed    *run.FailurePayload
	class     string // of the failure
}

func (r *Runner) work(ctx context.Context, x execution, t Task) (o outcome) {
	redact := redactor(r.Env, t.Step.Inputs)
	shipping, stopShipping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopShipping()
	keeper := &evidence{runner: r, of: x}
	out := newOutput(r.now, redact, keeper.lines)
	go out.ship(shipping)
	for _, ref := range t.Step.SecretRefs {
		out.print("dvt", fmt.Sprintf(
			"the step names the secret %q of %q, and this version gives secrets to no step: it runs without", ref.Key,
			ref.Provider))
	}

	working, stopWork := ctx, context.CancelFunc(func() {})
	if t.Step.Timeout > 0 {
		working, stopWork = context.WithTimeoutCause(ctx, t.Step.Timeout, errStepTimeout)
	}
	began := r.now()
	result, err := r.execute(working, x, t, &host{evidence: keeper, out: out})
	timedOut := errors.Is(context.Cause(working), errStepTimeout) || errors.Is(ctx.Err(), context.DeadlineExceeded)
	stopWork()
	took := r.now().Sub(began)

	var failure *Failure
	switch {
	case err == nil:
		o.completed = &run.StepCompletedPayload{Result: small(result.Value), DurationMS: took.Milliseconds(),
			ArtifactRefs: result.Artifacts}
	case errors.As(err, &failure):
	case timedOut:
		failure = &Failure{Code: string(run.CodeTimeout), Retryable: true, Category: run.CategoryTimeout,
			Class:   plan.ClassTimeout,
			Message: fmt.Sprintf("the attempt took longer than its timeout of %s", t.Step.Timeout)}
	case ctx.Err() != nil:
	default:
		failure = &Failure{Code: CodeUnknown, Message: err.Error(), Retryable: true, Category: run.CategorySystem}
	}
	if failure != nil {
		o.class = failure.Class
		o.failed = &run.FailurePayload{
			ErrorCode: failure.Code, ErrorMessage: cutMessage(redact.Replace(failure.Message)),
			Retryable:       Retryable(t.Step.Retry, failure.Class, !failure.Retryable),
			FailureCategory: failure.Category, FailureSource: string(t.Step.Type),
			DurationMS: took.Milliseconds(), ArtifactRefs: failure.Artifacts,
		}
		out.print("dvt", o.failed.ErrorCode+": "+o.failed.ErrorMessage)
	}
	flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	out.close(flushing, stopShipping)
	return o
}

func (r *Runner) execute(ctx context.Context, x execution, t Task, h *host) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log().LogAttrs(ctx, slog.LevelError, "executor panicked", slog.String("run", x.RunID),
				slog.String("step", x.StepID),
				slog.String("type", string(t.Step.Type)), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
			res, err = Result{}, &Failure{Code: "EXECUTOR_PANIC",
				Message:   "the executor of this step type failed; the worker's log says where",
				Retryable: true, Category: run.CategoryPlatform}
		}
	}()
	executor, ok := r.Executors[t.Step.Type]
	if !ok {
		return Result{}, &Failure{Code: CodeTypeUnsupported, Category: run.CategoryPlatform, Class: plan.ClassValidation,
			Message: fmt.Sprintf("this worker does not run steps of type %s", t.Step.Type)}
	}
	workspace := filepath.Join(r.WorkspaceRoot, filepath.Base(x.RunID))
	if err := os.MkdirAll(workspace, 0o700); err != nil {
		return Result{}, fmt.Errorf("workspace: %s", reason(err))
	}
	t.LogicalAttempt, t.EngineAttempt = x.LogicalAttempt, x.storedAttempt()
	t.Workspace, t.ProjectRoot = workspace, r.ProjectRoot
	return executor.Execute(ctx, t, h)
}

// small is a result that fits the log; a larger one is replaced by a word about it.
func small(v json.RawMessage) json.RawMessage {
	if len(v) > maxValueBytes || len(v) > 0 && !json.Valid(v) {
		return json.RawMessage(fmt.Sprintf(`{"omitted":"the result has %d bytes, more than %d"}`, len(v), maxValueBytes))
	}
	return v
}

// cutMessage keeps the beginning and the end, because the last line of a traceback names the error.
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

func (r *Runner) warn(ctx context.Context, d Dispatch, msg string, err error) {
	//nolint:sloglint // each caller gives a constant
	r.log().LogAttrs(ctx, slog.LevelWarn, msg, slog.String("run", d.RunID), slog.String("step", d.StepID),
		slog.Int("la", d.LogicalAttempt), slog.Int("ea", d.EngineAttempt), slog.Any("err", err))
}

func (r *Runner) log() *slog.Logger {
	if r.Log != nil {
		return r.Log
	}
	return slog.New(slog.DiscardHandler)
}
