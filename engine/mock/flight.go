package mock

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// flight is one dispatch of an attempt, with the platform's retries.
type flight struct {
	x         *execution
	ord       run.Ord
	step      plan.SkeletonStep
	dispatch  interp.Execute
	ea        int
	began     time.Time // of the work, zero before
	what      Attempt
	cancelled bool
	over      bool
}

func (x *execution) execute(e interp.Execute) {
	f := &flight{x: x, ord: e.Ord, step: x.sk.Steps[e.Ord], dispatch: e, ea: 1}
	x.flights = append(x.flights, f)
	f.begin()
}

// begin asks the log whether to work, as a worker does.
func (f *flight) begin() {
	x := f.x
	if f.over || x.closedAs != "" {
		return
	}
	begun, err := x.e.cfg.Journal.Begin(context.Background(), store.Begin{
		RunID: x.id.RunID, StepID: f.step.StepID, LogicalAttempt: f.dispatch.LA, EngineAttempt: f.ea,
		EmittedAt: x.e.now, PassFailing: f.dispatch.PassFailing, SignalID: f.dispatch.SignalID,
	})
	if err != nil {
		x.e.later(again, f.begin)
		return
	}
	switch begun.Verdict {
	case store.BeginParked:
		f.end(engine.StepEnd{Kind: engine.EndParked})
		return
	case store.BeginThrottled:
		f.end(engine.StepEnd{Kind: engine.EndThrottled, RetryAfter: begun.RetryAfter})
		return
	case store.BeginRunTerminal:
		f.end(engine.StepEnd{Kind: engine.EndRunTerminal})
		return
	case store.BeginDone:
		f.end(executor.Stored(engine.StepEnd{}, begun.Terminal))
		return
	}
	f.began, f.what = x.e.now, Attempt{}
	if x.e.cfg.Steps != nil {
		f.what = x.e.cfg.Steps.Attempt(Execution{
			RunID: x.id.RunID, StepID: f.step.StepID, LogicalAttempt: f.dispatch.LA, EngineAttempt: f.ea,
		})
	}
	if f.what.Held != nil {
		x.e.held = append(x.e.held, f)
		return
	}
	ea := f.ea
	x.e.later(f.takes(), func() {
		if f.ea == ea {
			f.finish()
		}
	})
}

func (f *flight) takes() time.Duration {
	if f.step.Timeout > 0 {
		return min(f.what.Takes, f.step.Timeout)
	}
	return f.what.Takes
}

// finish is the end of one execution: of the flight, or of its try.
func (f *flight) finish() {
	if f.over {
		return
	}
	if f.cancelled {
		f.end(engine.StepEnd{Kind: engine.EndCancelled})
		return
	}
	end := engine.StepEnd{Kind: engine.EndCompleted, Completed: &run.StepCompletedPayload{
		Result: f.what.Result, DurationMS: f.x.e.now.Sub(f.began).Milliseconds(),
	}}
	if failure := f.failure(); failure != nil {
		end = engine.StepEnd{Kind: engine.EndFailed, Failed: failure, Class: f.class()}
		if failure.Retryable && f.ea < max(1, f.step.Retry.MaxAttempts) {
			wait := backoff(f.step.Retry, f.ea)
			f.ea++
			f.x.e.later(wait, f.retry)
			return
		}
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

func (f *flight) class() string {
	switch {
	case f.timedOut():
		return plan.ClassTimeout
	case f.what.Fails != nil:
		return f.what.Fails.Class
	}
	return ""
}

func (f *flight) failure() *run.FailurePayload {
	p := &run.FailurePayload{
		FailureCategory: run.CategorySystem, FailureSource: string(f.step.Type), DurationMS: f.x.e.now.Sub(f.began).Milliseconds(),
	}
	failed := f.what.Fails
	switch {
	case f.timedOut():
		p.ErrorCode, p.FailureCategory = string(run.CodeTimeout), run.CategoryTimeout
		p.ErrorMessage = "the attempt took longer than its timeout of " + f.step.Timeout.String()
	case failed != nil:
		p.ErrorCode, p.ErrorMessage = failed.Code, failed.Message
	default:
		return nil
	}
	p.Retryable = executor.Retryable(f.step.Retry, f.class(), !f.timedOut() && failed.NotRetryable)
	return p
}

// backoff is how long the platform waits after engine attempt ea (E-10).
func backoff(r plan.Retry, ea int) time.Duration {
	ms := float64(r.InitialBackoffMS) * math.Pow(max(1, r.BackoffMultiplier), float64(ea-1))
	return time.Duration(min(ms, float64(r.MaxBackoffMS))) * time.Millisecond
}

// end reports the flight to the machine.
func (f *flight) end(end engine.StepEnd) {
	x := f.x
	f.over = true
	x.flights = slices.DeleteFunc(x.flights, func(o *flight) bool { return o == f })
	end.StepID, end.LogicalAttempt, end.N = f.step.StepID, f.dispatch.LA, f.dispatch.N
	if end.EngineAttempt == 0 {
		end.EngineAttempt = f.ea
	}
	end.StartedAt = f.began
	x.feed(interp.StepEnded{At: x.e.now, End: end})
}

// hookAttempts and hookBackoff are the platform's policy for compensations (R186).
const (
	hookAttempts = 2
	hookBackoff  = time.Second
)

// compensate runs the hook of a step, twice at most.
func (x *execution) compensate(c interp.Compensate) { x.hook(c, 1) }

func (x *execution) hook(c interp.Compensate, ea int) {
	what := Attempt{}
	stepID := x.sk.Steps[c.Ord].StepID
	if x.e.cfg.Steps != nil {
		what = x.e.cfg.Steps.Attempt(Execution{RunID: x.id.RunID, StepID: stepID, LogicalAttempt: c.LA, EngineAttempt: ea, Compensation: true})
	}
	x.hooked = c.Ord
	x.undoing = x.e.later(what.Takes, func() {
		x.undoing = nil
		end := interp.CompensationEnd{StepID: stepID, Attempts: ea, Compensated: what.Fails == nil, Result: what.Result}
		if failed := what.Fails; failed != nil {
			if !failed.NotRetryable && ea < hookAttempts {
				x.undoing = x.e.later(hookBackoff, func() { x.hook(c, ea+1) })
				return
			}
			end.ErrorCode, end.ErrorMessage = failed.Code, failed.Message
		}
		x.feed(interp.Compensated{At: x.e.now, End: end})
	})
}
