package executor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/trace"
	"github.com/dvt-engine/dvt/store"
)

const (
	// beatEvery is the interval of heartbeats. An execution sees its cancellation by them (contract T199).
	beatEvery      = time.Second
	beginRetry     = time.Second
	beginRetryMost = 5 * time.Second
	// flushTimeout is the time to store the rest of the output of an execution that was stopped, patientFlush that of any
	// other. The end of the attempt waits for it: a server that does not answer could not write the end either.
	flushTimeout = 10 * time.Second
	patientFlush = 2 * time.Minute
	// handBackAfter is the time for which a dispatch waits for a server that its worker cannot connect to. The worker then
	// hands it back, because another worker may reach the server. noServerRetry bounds the delay of the next dispatch.
	handBackAfter = 10 * time.Second
	noServerRetry = 15 * time.Second
	// declinedRetry is the delay after the first dispatch of an attempt that a worker declined.
	declinedRetry = 2 * time.Second
	// notServedRetry bounds this delay for a worker that may not serve the step. It is short, because the engine may give
	// several dispatches to this worker before another worker of the queue, which may serve the step, gets one.
	notServedRetry = 5 * time.Second
	maxMessage     = 2 << 10 // bytes of an error message
)

// ErrStopping is returned for an execution that ended early because its worker stops. The engine runs it again on
// another worker.
var ErrStopping = errors.New("executor: the worker is stopping")

var errStepTimeout = errors.New("executor: step timeout")

// Runner runs executions of attempts on a worker. Env, Log and Now are optional. Safe for concurrent use; the fields
// must not change after the first call.
type Runner struct {
	Journal   engine.AttemptJournal
	Executors map[plan.StepType]Executor
	// WorkspaceRoot is the parent of the workspaces of runs. ProjectRoot is the directory to which relative paths of plans
	// refer. Both are absolute.
	WorkspaceRoot, ProjectRoot string
	Workspaces                 *Workspaces       // bounds and removes workspaces; nil: they stay
	Env                        map[string]string // Config.Env, whose secret values the Runner redacts
	Secrets                    Secrets           // nil: no provider, so a step that names a secret fails
	Log                        *slog.Logger      // nil: no log
	Now                        func() time.Time  // nil: time.Now
	Meter                      *Meter            // nil: no metrics
	// Worker is the name of this process in the records of engine attempts. Without a name none are kept.
	Worker string

	masks runMasks
}

// Dispatch identifies one execution that the engine asks for.
type Dispatch struct {
	RunID          string
	StepID         string
	LogicalAttempt int // of a hook: the attempt that succeeded
	N              int // dispatch ordinal, repeated in the Return (contract T184)
	EngineAttempt  int // from 1
	// Try counts the tries of this dispatch, from 1. The delay of the engine before the next one grows with it.
	Try int
	// MaxEngineAttempts is the last engine attempt that the engine will make; 0 means 1. Before it, a retryable failure
	// ends in a *RetryError instead of an end in the log.
	MaxEngineAttempts int
	Ticket            string
	Epoch             string // see engine.StartAttempt
	// StopCause is the cause of ctx when the worker stops. Any other cause means that somebody asked the execution to
	// stop, or that the engine no longer knows it.
	StopCause error
}

// Heartbeat is the state of a running execution that the engine receives with each heartbeat.
type Heartbeat struct {
	StartedAt     time.Time // of the work; zero before the Journal has permitted it
	EngineAttempt int
	// Blocked says what keeps the Journal from answering the start or the end; nil when nothing does. Its StepID is empty.
	Blocked *engine.StepWait
}

// Run starts the attempt in the Journal, does its work, and writes its end to the Journal before it returns. It repeats
// the start until the Journal answers, because an attempt must not run without an answer (contract T216). The step's
// timeout runs from that answer. Run ships the output at least once a second, and flushes it for at most two minutes
// before it writes the end, which says how many lines are lost.
//
// Run calls beat at once and then every second, from a goroutine that ends before Run returns (contract T199).
//
// The kind of the Return is ENDED when the log has an end of the attempt. It is DECLINED when the Journal does not know
// the run, denies access to this worker, or cannot be reached. Otherwise it is the reason why the log has no end.
// Errors: *RetryError for a failure that the engine should retry and that the log does not have; ErrStopping.
func (r *Runner) Run(ctx context.Context, d Dispatch, beat func(Heartbeat)) (engine.Return, error) {
	var startedAt atomic.Pointer[time.Time]
	var blocked atomic.Pointer[engine.StepWait]
	beaten := &beats{}
	defer r.heartbeat(d, beaten.note(r.now, beat), &startedAt, &blocked)()

	var begun engine.AttemptStarted
	back, err := r.begin(ctx, d, &blocked, func(b engine.StartAttempt) (err error) {
		// The answer has the context of the trace. The call itself must have one too; servers do not read its flag.
		begun, err = r.Journal.StartAttempt(engine.WithTraceparent(ctx,
			trace.Parent(d.RunID, d.StepID, d.LogicalAttempt, 0)), b)
		return err
	})
	if err != nil || back.Kind != "" {
		return back, err
	}
	switch begun.Verdict {
	case store.StartParked:
		return d.newReturn(engine.ReturnParked), nil
	case store.StartThrottled:
		back = d.newReturn(engine.ReturnThrottled)
		back.RetryAfter = begun.RetryAfter
		return back, nil
	case store.StartRunTerminal:
		return d.newReturn(engine.ReturnRunTerminal), nil
	case store.StartDone:
		back = d.newReturn(engine.ReturnEnded)
		back.Receipt = begun.Receipt
		return back, nil
	}
	started := r.now().UTC()
	startedAt.Store(&started)

	x := execution{Dispatch: d, identity: begun.Identity, startedSeq: begun.StartedSeq, key: begun.Key,
		beats: beaten, blocked: &blocked}
	ctx = engine.WithTraceparent(ctx, begun.Traceparent)
	return r.finish(ctx, x, r.work(ctx, x, Task{
		Identity: begun.Identity, Step: begun.Step, Params: begun.Params, SandboxCeiling: begun.SandboxCeiling,
		Traceparent: begun.Traceparent, Nodes: begun.Nodes, State: begun.State, readState: r.stateOf(x),
		IdempotencyKey: strings.Join([]string{d.RunID, d.StepID, strconv.Itoa(d.LogicalAttempt)}, ":"),
	}))
}

// heartbeat calls beat from a goroutine until stop is called. stop waits for the goroutine.
func (r *Runner) heartbeat(d Dispatch, beat func(Heartbeat), startedAt *atomic.Pointer[time.Time],
	blocked *atomic.Pointer[engine.StepWait]) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(beatEvery)
		defer tick.Stop()
		for {
			b := Heartbeat{EngineAttempt: d.EngineAttempt, Blocked: blocked.Load()}
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

// begin repeats the call that starts an execution until the Journal answers. A Return with a Kind, or an error, means
// that there is nothing to execute. Meanwhile blocked says what keeps the Journal from answering.
func (r *Runner) begin(ctx context.Context, d Dispatch, blocked *atomic.Pointer[engine.StepWait],
	call func(engine.StartAttempt) error) (engine.Return, error) {
	var answer error
	// After a delivered call the attempt may have started even if the answer was lost, so it must not be handed back.
	began, delivered := time.Now(), false
	err := persist(ctx, beginRetry, beginRetryMost, func() error {
		answer = call(engine.StartAttempt{
			RunID: d.RunID, StepID: d.StepID, LogicalAttempt: d.LogicalAttempt, N: d.N, EngineAttempt: d.EngineAttempt,
			EmittedAt: r.now().UTC(), Ticket: d.Ticket, SelectsNodes: true, Epoch: d.Epoch,
		})
		if answer == nil || errors.Is(answer, engine.ErrRefused) || errors.Is(answer, engine.ErrDenied) ||
			errors.Is(answer, store.ErrNotFound) {
			return nil
		}
		if delivered = delivered || !errors.Is(answer, engine.ErrUndelivered); !delivered &&
			time.Since(began) > handBackAfter {
			return nil
		}
		blocked.Store(blockedBy(answer))
		r.warn(ctx, d, "start unanswered, trying again", answer)
		return answer
	})
	blocked.Store(nil)
	switch {
	case err != nil:
		return d.interruption(ctx)
	case errors.Is(answer, engine.ErrUndelivered):
		r.warn(ctx, d, "dispatch handed back: another worker may reach the server", answer)
		return declinedBy(d.DeclineReturn(noServerRetry), answer), nil
	case errors.Is(answer, engine.ErrRefused):
		r.warn(ctx, d, "start refused", answer)
		return d.newReturn(engine.ReturnAbandoned), nil
	case errors.Is(answer, engine.ErrDenied):
		r.warn(ctx, d, "dispatch declined: this worker has no access to the journal, another may have", answer)
		return declinedBy(d.DeclineReturn(notServedRetry), answer), nil
	case errors.Is(answer, store.ErrNotFound):
		r.warn(ctx, d, "dispatch declined: the account of this worker serves another tenant or queue", answer)
		return d.DeclineReturn(notServedRetry), nil
	}
	return engine.Return{}, nil
}

// blockedBy returns what keeps a Journal from answering, by the error of a call that is tried again.
func blockedBy(err error) *engine.StepWait {
	if _, full := errors.AsType[*store.OverloadedError](err); full || errors.Is(err, engine.ErrUnanswered) {
		return &engine.StepWait{Cause: engine.WaitStore}
	}
	w := &engine.StepWait{Cause: engine.WaitJournal}
	if denied, ok := errors.AsType[*engine.DeniedError](err); ok {
		w.Status = denied.Status
	}
	return w
}

// declinedBy adds the Journal's error to the answer to a dispatch that has no access to the Journal.
func declinedBy(back engine.Return, err error) engine.Return {
	back.Cause = engine.WaitJournal
	if denied, ok := errors.AsType[*engine.DeniedError](err); ok {
		back.Status = denied.Status
	}
	return back
}

// DeclineReturn returns the answer to a dispatch that this worker does not start. It uses no engine attempt. The delay
// before the next dispatch doubles with each dispatch of the attempt up to most, and is shortened by up to a fifth at
// random, so that steps that were declined together are not dispatched together again.
func (d Dispatch) DeclineReturn(most time.Duration) engine.Return {
	delay := min(declinedRetry<<min(max(d.N-1, 0), 10), most)
	back := d.newReturn(engine.ReturnDeclined)
	back.RetryAfter = delay - rand.N(delay/5)
	return back
}

// newReturn returns a Return about this dispatch.
func (d Dispatch) newReturn(kind engine.ReturnKind) engine.Return {
	return engine.Return{StepID: d.StepID, LogicalAttempt: d.LogicalAttempt, N: d.N, EngineAttempt: d.EngineAttempt,
		Kind: kind}
}

// interruption returns the answer for an execution whose context ended before it had a result.
func (d Dispatch) interruption(ctx context.Context) (engine.Return, error) {
	if d.workerStops(ctx) {
		return d.newReturn(""), ErrStopping
	}
	return d.newReturn(engine.ReturnCancelled), nil
}

// workerStops reports whether ctx ended because the worker stops.
func (d Dispatch) workerStops(ctx context.Context) bool {
	return d.StopCause != nil && errors.Is(context.Cause(ctx), d.StopCause)
}

// outcome is the result of the work of an execution. Neither completed nor failed is set when ctx ended before there
// was a result.
type outcome struct {
	completed *run.StepCompletedPayload
	failed    *run.FailurePayload
	class     string // of the failure
	lostLines int64  // lines of output that could not be stored
}

// work executes a task within the step's timeout and ships its output. It returns when the output is flushed, or after
// flushTimeout.
func (r *Runner) work(ctx context.Context, x execution, t Task) (o outcome) {
	working, stopWork := ctx, context.CancelFunc(func() {})
	if t.Step.Timeout > 0 {
		working, stopWork = context.WithTimeoutCause(ctx, t.Step.Timeout, errStepTimeout)
	}
	began := r.now()
	set, secrets, err := r.resolve(working, x, t)
	t.secrets, t.masker = secrets, r.masks.join(r.WorkspaceRoot, x.RunID, valuesOf(secrets))
	redact := newRedactor(r.Env, t.Step.Inputs, t.Params, t.masker)
	defer r.masks.watch(x.RunID, redact.later)()
	shipping, stopShipping := context.WithCancel(context.WithoutCancel(ctx))
	defer stopShipping()
	keeper := &evidence{runner: r, of: x}
	out := newOutput(r.now, redact, keeper.lines)
	go out.ship(shipping)
	endLeases := keepLeases(ctx, set, out)
	running := &host{evidence: keeper, out: out, nodes: newNodeReports(keeper.nodes, t.Nodes)}
	go running.nodes.ship(shipping)
	var result Result
	if err == nil {
		result, err = r.executeRotating(working, x, t, running, set)
	}
	var kept []run.ArtifactRef
	if err == nil {
		result.Value, kept, err = running.keepResult(working, result.Value)
	}
	endLeases()
	if len(secrets) > 0 || r.masks.has(x.RunID) {
		result.Value = redactJSON(redact, result.Value)
	}
	timedOut := errors.Is(context.Cause(working), errStepTimeout) || errors.Is(ctx.Err(), context.DeadlineExceeded)
	stopWork()
	took := r.now().Sub(began)
	if _, known := r.Executors[t.Step.Type]; known { // a plan may name any type, and a label must be bounded
		r.Meter.observe(t.Step.Type, x.RunID, took)
	}

	var failure *Failure
	switch {
	case err == nil:
		o.completed = &run.StepCompletedPayload{Result: result.Value, DurationMS: took.Milliseconds(),
			ArtifactRefs: append(result.Artifacts, kept...)}
	case errors.As(err, &failure):
	case timedOut:
		failure = &Failure{Code: string(run.CodeTimeout), Retryable: true, Category: run.CategoryTimeout,
			Class: plan.ClassTimeout,
			Message: fmt.Sprintf("the attempt took longer than its timeout of %s",
				plan.DurationWords(t.Step.Timeout))}
	case ctx.Err() != nil:
	default:
		failure = &Failure{Code: CodeUnknown, Message: err.Error(), Retryable: true, Category: run.CategorySystem}
	}
	if failure != nil {
		o.class = failure.Class
		message, line := quote(failure, redact.Replace(failure.Message), out)
		o.failed = &run.FailurePayload{
			ErrorCode: failure.Code, ErrorMessage: cutMessage(maskForms(message)), ErrorLine: line,
			Retryable:       IsRetryable(t.Step.Retry, failure.Class, !failure.Retryable),
			FailureCategory: failure.Category, FailureSource: string(t.Step.Type),
			DurationMS: took.Milliseconds(), ArtifactRefs: failure.Artifacts,
		}
		out.print("dvt", o.failed.ErrorCode+": "+o.failed.ErrorMessage)
		if o.failed.Retryable && !x.hook && x.EngineAttempt < x.MaxEngineAttempts && ctx.Err() == nil {
			// The UI reads this sentence (web/src/logs/tries.ts): no event says that a step waits for its next try.
			out.print("dvt", fmt.Sprintf("try %d of %d starts in %s", x.EngineAttempt+1, x.MaxEngineAttempts,
				plan.DurationWords(delayBefore(t.Step.Retry, x.Try))))
		}
	}
	flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.flushTimeout(ctx, x))
	defer cancel()
	if lost := running.nodes.close(flushing); lost > 0 {
		r.log().LogAttrs(ctx, slog.LevelWarn, "reports about nodes of a step are lost: nothing could store them",
			slog.String("runId", x.RunID), slog.String("stepId", x.StepID), slog.Int("nodes", lost))
	}
	o.lostLines = out.close(flushing, stopShipping)
	if o.lostLines > 0 {
		r.log().LogAttrs(ctx, slog.LevelWarn, "lines of a step are lost: nothing could store them",
			slog.String("runId", x.RunID), slog.String("stepId", x.StepID), slog.Int64("lines", o.lostLines))
	}
	if r.Worker != "" {
		r.keepTry(flushing, keeper, r.record(ctx, running, began, o))
	}
	return o
}

// flushTimeout returns the time to store the rest of the output. It is short when the worker stops or nobody waits for
// the execution any more.
func (r *Runner) flushTimeout(ctx context.Context, x execution) time.Duration {
	if ctx.Err() != nil || x.workerStops(ctx) {
		return flushTimeout
	}
	return patientFlush
}

// quote puts the line of the output that names the error before the message of a failure that asks for it. It returns
// the line's number, 0 if it quotes none or does not know the number. The line comes first because lists cut the end.
func quote(f *Failure, message string, out *output) (string, int64) {
	line, ok := out.errorLine()
	switch {
	case !f.Quote || !ok:
		return message, 0
	case strings.Contains(message, line.Text):
		return message, line.No
	case f.Message != "" && strings.Contains(message, "\n"): // a report of its own, which the log does not quote
		return message, 0
	case !line.Named:
		return line.Text + " (last line; " + message + ")", line.No
	}
	return line.Text + " (" + message + ")", line.No
}

// execute calls the executor of the step's type in the run's workspace. It returns the *Failure EXECUTOR_PANIC when the
// executor panics, so that one step cannot end the worker.
func (r *Runner) execute(ctx context.Context, x execution, t Task, h *host) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			// The value of the panic may be an input of the step, and so may arguments in the stack.
			h.stack = h.out.redact.Replace(string(debug.Stack()))
			r.log().LogAttrs(ctx, slog.LevelError, "executor panicked", slog.String("runId", x.RunID),
				slog.String("stepId", x.StepID), slog.String("attemptId", x.attemptID()),
				slog.String("type", string(t.Step.Type)), slog.String("panic", h.out.redact.Replace(fmt.Sprint(p))),
				slog.String("stack", h.stack))
			res, err = Result{}, &Failure{Code: "EXECUTOR_PANIC",
				Message:   "the executor of this step type panicked; the worker's log has the stack trace",
				Retryable: true, Category: run.CategoryPlatform}
		}
	}()
	executor, ok := r.Executors[t.Step.Type]
	if !ok {
		return Result{}, &Failure{Code: CodeTypeUnsupported, Category: run.CategoryPlatform, Class: plan.ClassValidation,
			Message: fmt.Sprintf("this worker does not run steps of type %s", t.Step.Type)}
	}
	t.LogicalAttempt, t.EngineAttempt = x.LogicalAttempt, x.storedAttempt()
	if t.Step.Type == plan.Noop { // it needs no files, and servers run it too
		return executor.Execute(ctx, t, h)
	}
	workspace, release, err := openWorkspace(r.WorkspaceRoot, x.RunID)
	if err != nil {
		return Result{}, err
	}
	defer release()
	t.Workspace, t.ProjectRoot = workspace, r.ProjectRoot
	return r.Workspaces.within(ctx, x.RunID, workspace, func(ctx context.Context) (Result, error) {
		return executor.Execute(ctx, t, h)
	})
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

// warn logs an error of the Journal about a dispatch.
func (r *Runner) warn(ctx context.Context, d Dispatch, msg string, err error) {
	//nolint:sloglint // each caller gives a constant
	r.log().LogAttrs(ctx, slog.LevelWarn, msg, slog.String("runId", d.RunID), slog.String("stepId", d.StepID),
		slog.String("attemptId", d.attemptID()), slog.Any("error", err))
}

// attemptID returns the attempt as log lines name it: the logical and the engine attempt.
func (d Dispatch) attemptID() string { return fmt.Sprintf("%d.%d", d.LogicalAttempt, d.EngineAttempt) }

func (r *Runner) log() *slog.Logger {
	if r.Log != nil {
		return r.Log
	}
	return slog.New(slog.DiscardHandler)
}
