package mock

import (
	"context"
	"errors"
	"time"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/run"
)

// hookAttempts and hookBackoff are the platform's retry policy for compensations (contract R186).
const (
	hookAttempts = 2
	hookBackoff  = time.Second
)

// hook is one dispatch of the compensation of a step.
type hook struct {
	x             *execution
	dispatch      interp.Compensate
	stepID        string
	engineAttempt int
	key           string
	over          bool
}

// compensate runs the hook of a step, with at most hookAttempts executions.
func (x *execution) compensate(c interp.Compensate) {
	x.undoing = &hook{x: x, dispatch: c, stepID: x.sk.Steps[c.Ord].StepID, engineAttempt: 1 + c.Spent}
	x.undoing.begin()
}

// begin reads the hook from the journal, like a worker, and schedules its end.
func (h *hook) begin() {
	x := h.x
	if h.over || x.closedAs != "" {
		return
	}
	of := ticket.Dispatch{
		RunID: x.id.RunID, StepID: h.stepID, LogicalAttempt: h.dispatch.LogicalAttempt, N: h.dispatch.N, Hook: true,
		Queue: x.sk.Steps[h.dispatch.Ord].CompensationQueue, Expires: x.e.now.Add(ticket.Life),
	}
	answer, err := x.e.cfg.Journal.Compensation(context.Background(), engine.StartAttempt{
		RunID: of.RunID, StepID: of.StepID, LogicalAttempt: of.LogicalAttempt, N: of.N, EngineAttempt: h.engineAttempt,
		EmittedAt: x.e.now,
		Ticket:    x.e.cfg.Tickets.Ticket(of),
	})
	switch {
	case errors.Is(err, engine.ErrRefused):
		h.handBack(engine.ReturnAbandoned)
		return
	case err != nil:
		x.retry(h.begin)
		return
	}
	h.key = answer.Key
	what := Attempt{}
	if x.e.cfg.Steps != nil {
		what = x.e.cfg.Steps.Attempt(Execution{RunID: x.id.RunID, StepID: h.stepID, LogicalAttempt: h.dispatch.LogicalAttempt,
			EngineAttempt: h.engineAttempt, Compensation: true})
	}
	x.e.schedule(what.Takes, func() { h.finish(what) })
}

// finish ends one execution of the hook, or schedules the next one after a failure.
func (h *hook) finish(what Attempt) {
	if h.over {
		return
	}
	failed := what.Fails
	if failed != nil && !failed.NotRetryable && h.engineAttempt < hookAttempts {
		h.engineAttempt++
		h.x.e.schedule(hookBackoff, h.begin)
		return
	}
	end := engine.End{Completed: &run.StepCompletedPayload{Result: what.Result}}
	if failed != nil {
		end = engine.End{Failed: &run.FailurePayload{ErrorCode: failed.Code, ErrorMessage: failed.Message}}
	}
	end.RunID, end.StepID, end.LogicalAttempt, end.N = h.x.id.RunID, h.stepID, h.dispatch.LogicalAttempt, h.dispatch.N
	end.EngineAttempt, end.Hook, end.Key = h.engineAttempt, true, h.key
	h.end(end)
}

// end writes the end of the hook and repeats the call until the journal answers.
func (h *hook) end(end engine.End) {
	if h.over || h.x.closedAs != "" {
		return
	}
	switch _, err := h.x.e.cfg.Journal.End(context.Background(), end); {
	case errors.Is(err, engine.ErrRefused):
		h.handBack(engine.ReturnAbandoned)
	case err != nil:
		h.x.retry(func() { h.end(end) })
	default:
		h.handBack(engine.ReturnEnded)
	}
}

// cancel stops the hook at once.
func (h *hook) cancel() { h.handBack(engine.ReturnCancelled) }

// handBack reports to the machine that the hook is no longer executed.
func (h *hook) handBack(kind engine.ReturnKind) {
	h.over, h.x.undoing = true, nil
	h.x.readLog(interp.HookReturned{At: h.x.e.now, Return: engine.Return{
		StepID: h.stepID, LogicalAttempt: h.dispatch.LogicalAttempt, N: h.dispatch.N, EngineAttempt: h.engineAttempt,
		Kind: kind,
	}})
}
