package temporal

import (
	"context"
	"errors"
	"sync"
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
	flights  *flights
}

// shareRetry bounds the delay of a step whose tenant holds its whole share of slots. Each dispatch adds events to the
// history of the workflow, so the delay grows up to this bound.
const shareRetry = time.Minute

// flights counts the running executions of a worker, so that Run can wait for them. It is safe for concurrent use; only
// one goroutine may wait.
type flights struct {
	mu     sync.Mutex
	active int
	idle   chan struct{} // non-nil while a goroutine waits; closed when no execution is active
}

func (x *executeActivity) register(w worker.ActivityRegistry) {
	w.RegisterActivityWithOptions(x.execute, activity.RegisterOptions{Name: activityExecute})
	w.RegisterActivityWithOptions(x.compensate, activity.RegisterOptions{Name: activityCompensate})
}

// count adds by to the number of running executions.
func (x *flights) count(by int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.active += by
	if x.active == 0 && x.idle != nil {
		close(x.idle)
		x.idle = nil
	}
}

// wait returns when no execution is running, or after most. No further execution may begin.
func (x *flights) wait(most time.Duration) {
	x.mu.Lock()
	if x.active == 0 {
		x.mu.Unlock()
		return
	}
	idle := make(chan struct{})
	x.idle = idle
	x.mu.Unlock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
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
// its whole share of slots, before any call of the Journal. It never declines a hook, because a run has only one hook
// at a time and few tries for it.
func (x *executeActivity) work(ctx context.Context, run runFunc, in executeInput, hook bool) (engine.Return, error) {
	x.flights.count(1)
	defer x.flights.count(-1)
	info := activity.GetInfo(ctx)
	d := executor.Dispatch{
		RunID: in.RunID, StepID: in.StepID, LogicalAttempt: in.LogicalAttempt, N: in.N,
		EngineAttempt: in.Spent + int(info.Attempt), Try: int(info.Attempt), MaxEngineAttempts: in.Spent + in.MaxAttempts,
		Ticket: in.Ticket, StopCause: worker.ErrWorkerShutdown,
	}
	tenantID := tenantOf(info.WorkflowExecution.ID)
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
			temporal.ApplicationErrorOptions{Category: temporal.ApplicationErrorCategoryBenign})
	}
	return out, err
}
