package mock

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// flight is one dispatch of an attempt with its platform retries.
type flight struct {
	x             *execution
	ord           run.Ord
	step          plan.SkeletonStep
	dispatch      interp.Execute
	engineAttempt int
	began         time.Time // when the work began; zero before
	key           string
	startedSeq    run.Seq
	what          Attempt
	cancelled     bool
	over          bool
}

func (x *execution) execute(e interp.Execute) {
	f := &flight{x: x, ord: e.Ord, step: x.sk.Steps[e.Ord], dispatch: e, engineAttempt: 1 + e.Spent}
	x.flights = append(x.flights, f)
	f.begin()
}

// begin asks the journal whether to work, like a worker.
func (f *flight) begin() {
	x := f.x
	if f.over || x.closedAs != "" {
		return
	}
	begun, err := x.e.cfg.Journal.StartAttempt(context.Background(), engine.StartAttempt{
		RunID: x.id.RunID, StepID: f.step.StepID, LogicalAttempt: f.dispatch.LogicalAttempt, N: f.dispatch.N,
		EngineAttempt: f.engineAttempt,
		EmittedAt:     x.e.now, Ticket: x.e.cfg.Tickets.Ticket(ticket.Dispatch{
			RunID: x.id.RunID, StepID: f.step.StepID, LogicalAttempt: f.dispatch.LogicalAttempt, N: f.dispatch.N,
			Queue:       f.step.TaskQueue,
			PassFailing: f.dispatch.PassFailing, SignalID: f.dispatch.SignalID, Expires: x.e.now.Add(ticket.Life),
		}),
	})
	switch {
	case errors.Is(err, engine.ErrRefused):
		f.handBack(engine.Return{Kind: engine.ReturnAbandoned})
		return
	case err != nil:
		x.retry(f.begin)
		return
	}
	switch begun.Verdict {
	case store.StartParked:
		f.handBack(engine.Return{Kind: engine.ReturnParked})
		return
	case store.StartThrottled:
		f.handBack(engine.Return{Kind: engine.ReturnThrottled, RetryAfter: begun.RetryAfter})
		return
	case store.StartRunTerminal:
		f.handBack(engine.Return{Kind: engine.ReturnRunTerminal})
		return
	case store.StartDone:
		f.handBack(engine.Return{Kind: engine.ReturnEnded, Receipt: begun.Receipt})
		return
	}
	f.key, f.startedSeq = begun.Key, begun.StartedSeq
	f.began, f.what = x.e.now, Attempt{}
	if x.e.cfg.Steps != nil {
		f.what = x.e.cfg.Steps.Attempt(Execution{
			RunID: x.id.RunID, StepID: f.step.StepID, LogicalAttempt: f.dispatch.LogicalAttempt, EngineAttempt: f.engineAttempt,
		})
	}
	if f.what.Held != nil {
		x.e.held = append(x.e.held, f)
		return
	}
	engineAttempt := f.engineAttempt
	x.e.schedule(f.takes(), func() {
		if f.engineAttempt == engineAttempt {
			f.finish()
		}
	})
}

// takes returns the virtual duration of the execution, which ends at the step's timeout.
func (f *flight) takes() time.Duration {
	if f.step.Timeout > 0 {
		return min(f.what.Takes, f.step.Timeout)
	}
	return f.what.Takes
}

// finish ends one execution. It schedules the next try after a failure that the platform retries; any other end is the
// end of the dispatch.
func (f *flight) finish() {
	if f.over {
		return
	}
	if f.cancelled {
		f.handBack(engine.Return{Kind: engine.ReturnCancelled})
		return
	}
	failure := f.failure()
	if failure != nil && failure.Retryable && f.engineAttempt < max(1, f.step.Retry.MaxAttempts) {
		wait := backoff(f.step.Retry, f.engineAttempt)
		f.engineAttempt++
		f.x.e.schedule(wait, f.retry)
		return
	}
	end := engine.End{Failed: failure}
	if failure == nil {
		end.Completed = &run.StepCompletedPayload{Result: f.what.Result, DurationMS: f.x.e.now.Sub(f.began).Milliseconds()}
	}
	f.end(end)
}

func (f *flight) retry() {
	if f.cancelled {
		f.finish()
		return
	}
	f.begin()
}

func (f *flight) timedOut() bool { return f.step.Timeout > 0 && f.what.Takes > f.step.Timeout }

// class returns the error class for the retry policy, or "".
func (f *flight) class() string {
	switch {
	case f.timedOut():
		return plan.ClassTimeout
	case f.what.Fails != nil:
		return f.what.Fails.Class
	}
	return ""
}

// failure returns the failure of the execution, or nil if it succeeded.
func (f *flight) failure() *run.FailurePayload {
	p := &run.FailurePayload{
		FailureCategory: run.CategorySystem, FailureSource: string(f.step.Type),
		DurationMS: f.x.e.now.Sub(f.began).Milliseconds(),
	}
	failed := f.what.Fails
	switch {
	case f.timedOut():
		p.ErrorCode, p.FailureCategory = string(run.CodeTimeout), run.CategoryTimeout
		p.ErrorMessage = "the attempt took longer than its timeout of " + plan.DurationWords(f.step.Timeout)
	case failed != nil:
		p.ErrorCode, p.ErrorMessage = failed.Code, failed.Message
	default:
		return nil
	}
	p.Retryable = executor.IsRetryable(f.step.Retry, f.class(), !f.timedOut() && failed.NotRetryable)
	return p
}

// backoff is the platform's delay after an engine attempt (contract E-10).
func backoff(r plan.Retry, engineAttempt int) time.Duration {
	ms := float64(r.InitialBackoffMS) * math.Pow(max(1, r.BackoffMultiplier), float64(engineAttempt-1))
	return time.Duration(min(ms, float64(r.MaxBackoffMS))) * time.Millisecond
}

// end writes the end of the attempt and repeats the call until the journal answers.
func (f *flight) end(end engine.End) {
	x := f.x
	if f.over || x.closedAs != "" {
		return
	}
	end.RunID, end.StepID, end.LogicalAttempt, end.N = x.id.RunID, f.step.StepID, f.dispatch.LogicalAttempt, f.dispatch.N
	end.EngineAttempt, end.StartedSeq, end.Key = f.engineAttempt, f.startedSeq, f.key
	receipt, err := x.e.cfg.Journal.End(context.Background(), end)
	var schema *run.SchemaError
	switch {
	case errors.As(err, &schema):
		end.Completed, end.Failed = nil, &run.FailurePayload{
			ErrorCode: string(run.CodeEventRejected), ErrorMessage: "The log rejected the result of the step.",
			FailureCategory: run.CategoryPlatform,
		}
		x.e.schedule(0, func() { f.end(end) })
	case errors.Is(err, engine.ErrRefused):
		f.handBack(engine.Return{Kind: engine.ReturnAbandoned})
	case err != nil:
		x.retry(func() { f.end(end) })
	default:
		f.handBack(engine.Return{Kind: engine.ReturnEnded, Receipt: &receipt})
	}
}

// handBack reports to the machine that the dispatch is no longer executed. Without a valid receipt the machine reads
// the log first, as for a worker whose answer proves nothing.
func (f *flight) handBack(r engine.Return) {
	x := f.x
	f.over = true
	x.flights = slices.DeleteFunc(x.flights, func(o *flight) bool { return o == f })
	r.StepID, r.LogicalAttempt, r.N, r.EngineAttempt = f.step.StepID, f.dispatch.LogicalAttempt, f.dispatch.N,
		f.engineAttempt
	if proven := r.Receipt; proven != nil && x.e.cfg.Tickets.VerifySeal(proven.Proof, engine.ReceiptPurpose,
		proven.Text(x.id.RunID, r.StepID, r.LogicalAttempt, false)) {
		x.feed(interp.Ended{At: x.e.now, StepID: r.StepID, LogicalAttempt: r.LogicalAttempt, Receipt: *proven})
		return
	}
	x.readLog(interp.Returned{At: x.e.now, Return: r})
}
