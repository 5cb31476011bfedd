package temporal

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/plan"
)

// executeActivity runs the steps of one workload of one queue, in control and data workers alike.
type executeActivity struct {
	runner   *executor.Runner
	beats    heartbeats
	workload plan.Workload
	tenants  *tenantSlots
	meter    *slotMeter
	running  *Executions
	drains   bool // steps go back to the queue while running is drained
}

// shareRetry bounds the delay of a step whose tenant holds its whole share of slots. Each dispatch adds events to the
// history of the workflow, so the delay grows up to this bound.
const shareRetry = time.Minute

// drainRetry bounds the delay of a step that an open poll brought to a drained worker.
const drainRetry = 5 * time.Second

func (x *executeActivity) register(w worker.ActivityRegistry) {
	w.RegisterActivityWithOptions(x.execute, activity.RegisterOptions{Name: activityExecute})
	w.RegisterActivityWithOptions(x.compensate, activity.RegisterOptions{Name: activityCompensate})
}

func (x *executeActivity) execute(ctx context.Context, in executeInput) (engine.Return, error) {
	return x.work(ctx, x.runner.Run, in, false)
}

func (x *executeActivity) compensate(ctx context.Context, in executeInput) (engine.Return, error) {
	return x.work(ctx, x.runner.Compensate, in, true)
}

// runFunc is Runner.Run or Runner.Compensate.
type runFunc func(context.Context, executor.Dispatch, func(executor.Heartbeat)) (engine.Return, error)

// work runs one execution or hook on the runner and sends its heartbeats. It declines an execution whose tenant holds
// its whole share of slots, and any execution while the worker is drained, before any call of the Journal. It never
// declines a hook, because a run has only one hook
// at a time and few tries for it.
func (x *executeActivity) work(ctx context.Context, run runFunc, in executeInput, hook bool) (engine.Return, error) {
	info := activity.GetInfo(ctx)
	tenantID := tenantOf(info.WorkflowExecution.ID)
	defer x.running.begin(engine.WorkerStep{TenantID: tenantID, RunID: in.RunID, StepID: in.StepID, Since: time.Now()})()
	d := executor.Dispatch{
		RunID: in.RunID, StepID: in.StepID, LogicalAttempt: in.LogicalAttempt, N: in.N,
		EngineAttempt: in.Spent + int(info.Attempt), Try: int(info.Attempt), MaxEngineAttempts: in.Spent + in.MaxAttempts,
		Ticket: in.Ticket, Epoch: in.Epoch, StopCause: worker.ErrWorkerShutdown,
	}
	if !hook && x.drains && x.running.isDrained() {
		x.meter.declined.WithLabelValues(string(x.workload), declinedDrained).Inc()
		back := d.DeclineReturn(drainRetry)
		back.Cause = engine.WaitWorker
		return back, nil
	}
	if !x.tenants.take(tenantID, hook) {
		x.meter.declined.WithLabelValues(string(x.workload), declinedShare).Inc()
		back := d.DeclineReturn(shareRetry)
		back.Cause = engine.WaitWorker
		return back, nil
	}
	defer x.tenants.release(tenantID)
	x.meter.begun.WithLabelValues(string(x.workload)).Inc()
	used := x.meter.used.WithLabelValues(string(x.workload))
	used.Inc()
	defer used.Dec()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p := &pulse{beats: x.beats, token: info.TaskToken, stop: stop, stepID: in.StepID, next: time.Now().Add(firstBeat)}
	out, err := run(ctx, d, func(b executor.Heartbeat) { p.beat(context.WithoutCancel(ctx), b) })
	switch {
	case err == nil && out.Kind == engine.ReturnCancelled:
		return out, temporal.NewCanceledError()
	case err == nil && out.Kind == engine.ReturnDeclined:
		x.meter.declined.WithLabelValues(string(x.workload), declinedNotServed).Inc()
	case err == nil && out.Kind == engine.ReturnThrottled:
		x.meter.declined.WithLabelValues(string(x.workload), declinedHeavy).Inc()
	}
	if again, ok := errors.AsType[*executor.RetryError](err); ok {
		// Benign: the SDK logs it at DEBUG, because the step failed, not the worker.
		return out, temporal.NewApplicationErrorWithOptions(again.Error(), again.Class,
			temporal.ApplicationErrorOptions{Category: temporal.ApplicationErrorCategoryBenign,
				Details: []any{nextTry{StepID: in.StepID, Try: again.Try, Tries: again.Tries}}})
	}
	return out, err
}
