package executor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

const (
	endRetry     = 500 * time.Millisecond
	endRetryMost = 5 * time.Second
	// stopGrace is the time for which a stopping worker continues to write an end.
	stopGrace = 5 * time.Second
)

// RetryError is a failure that the engine should retry. It carries no message, because the engine's history must not
// hold the output of a step. The step's log has the message.
type RetryError struct {
	Class string // error class of the retry policy, may be empty
	Code  string
	// Try is the next try and Tries the last one, both from 1.
	Try, Tries int
}

func (e *RetryError) Error() string {
	return fmt.Sprintf("executor: the attempt failed with %s and may be tried again", e.Code)
}

// finish reports an outcome: to the Journal when it ends the execution, otherwise only to the engine.
func (r *Runner) finish(ctx context.Context, x execution, o outcome) (engine.Return, error) {
	switch {
	case o.completed == nil && o.failed == nil:
		return x.interruption(ctx)
	case o.failed == nil || !o.failed.Retryable || x.EngineAttempt >= x.MaxEngineAttempts:
		return r.end(ctx, x, o)
	case ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) || x.workerStops(ctx):
		return x.newReturn(""), &RetryError{Class: o.class, Code: o.failed.ErrorCode, Try: x.EngineAttempt + 1,
			Tries: x.MaxEngineAttempts}
	}
	// The engine asked to stop this execution, so it must not retry it.
	return x.newReturn(engine.ReturnCancelled), nil
}

// end asks the Journal to write the end of an execution and repeats the call until the Journal answers. The work is
// done, so a request to stop does not prevent the end. Only a stopping worker gives up with ErrStopping, and another
// worker repeats the work.
//
// The completion of a step waits for at most two write budgets. Then the step fails, so that its successors do not wait
// for a store that hangs (contract T120). A late write of the completion has no effect, because the first end wins.
func (r *Runner) end(ctx context.Context, x execution, o outcome) (engine.Return, error) {
	writing, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() {
		if x.workerStops(ctx) {
			time.AfterFunc(stopGrace, giveUp)
		}
	})()
	e := engine.End{
		RunID: x.RunID, StepID: x.StepID, LogicalAttempt: x.LogicalAttempt, N: x.N, EngineAttempt: x.EngineAttempt,
		Hook: x.hook, StartedSeq: x.startedSeq, Key: x.key, Completed: o.completed, Failed: o.failed,
		LostLines: o.lostLines,
	}
	silences, since := 0, r.now().UTC()
	defer x.blocked.Store(nil)
	var receipt engine.Receipt
	var answer error
	err := persist(writing, endRetry, endRetryMost, func() error {
		for {
			receipt, answer = r.Journal.End(writing, e)
			switch {
			case answer == nil, errors.Is(answer, engine.ErrRefused), errors.Is(answer, store.ErrNotFound):
				return nil
			case errors.Is(answer, run.ErrSchema):
				if !reword(&e) {
					return nil
				}
			case errors.Is(answer, engine.ErrUnanswered) && e.Completed != nil && !e.Hook:
				if silences++; silences > 1 {
					e.Completed, e.Failed = nil, budgetExceeded(*e.Completed)
				}
			default:
				by := blockedBy(answer)
				by.Since, by.Ended = since, true
				x.blocked.Store(by)
				r.warn(ctx, x.Dispatch, "end unanswered, trying again", answer)
				return answer
			}
			// Try again at once: the last try took the whole budget, or the next one has other content.
			r.warn(ctx, x.Dispatch, "end not written, trying again", answer)
		}
	})
	switch {
	case err != nil:
		return x.newReturn(""), ErrStopping
	case answer != nil:
		r.warn(ctx, x.Dispatch, "end refused", answer)
		return x.newReturn(engine.ReturnAbandoned), nil
	}
	back := x.newReturn(engine.ReturnEnded)
	back.Receipt = &receipt
	return back, nil
}

// reword drops content of an end that the log refuses. It returns false when nothing is left to drop.
func reword(e *engine.End) bool {
	switch {
	case e.Hook && e.Completed != nil && (len(e.Completed.Result) > 0 || len(e.Completed.ArtifactRefs) > 0):
		// The compensation succeeded, so the log must not record a failure because of its result.
		e.Completed = &run.StepCompletedPayload{DurationMS: e.Completed.DurationMS}
	case e.Completed != nil:
		e.Completed, e.Failed = nil, &run.FailurePayload{
			ErrorCode: string(run.CodeEventRejected), ErrorMessage: "The log rejected the result of the step.",
			FailureCategory: run.CategoryPlatform,
		}
	case e.Failed.ErrorMessage != "" || len(e.Failed.ArtifactRefs) > 0:
		f := *e.Failed
		f.ErrorMessage, f.ArtifactRefs = "", nil
		e.Failed = &f
	default:
		return false
	}
	return true
}

// budgetExceeded returns the failure of a step whose completion the store did not confirm in time.
func budgetExceeded(of run.StepCompletedPayload) *run.FailurePayload {
	return &run.FailurePayload{
		ErrorCode: string(run.CodeWriteBudget), ErrorMessage: "The step completed, but the log did not confirm it in time.",
		Retryable: true, FailureCategory: run.CategoryPlatform, FailureSource: "engine",
		DurationMS: of.DurationMS, ArtifactRefs: of.ArtifactRefs,
	}
}
