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

// shareRetry is the longest wait of a step whose tenant holds all slots that it may: each dispatch costs the history of its
// workflow some events.
const shareRetry = time.Minute

// flights counts the executions of a worker.
type flights struct {
	mu     sync.Mutex
	active int
	idle   chan struct{} // closed when nothing is active and somebody waits
}

func (x *executeActivity) register(w worker.ActivityRegistry) {
	w.RegisterActivityWithOptions(x.execute, activity.RegisterOptions{Name: activityExecute})
	w.RegisterActivityWithOptions(x.compensate, activity.RegisterOptions{Name: activityCompensate})
}

func (x *flights) count(by int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.active += by
	if x.active == 0 && x.idle != nil {
		close(x.idle)
		x.idle = nil
	}
}

// wait returns when no execution is in flight, or after most. Nothing may begin
// any more.
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

// runFunc is what a Runner does with a dispatch.
type runFunc func(context.Context, executor.Dispatch, func(executor.Beat)) (engine.Return, error)

// work runs one execution or hook on the runner, reported alive. An execution whose tenant holds all slots that it may
// is declined before the Journal hears of it. A hook never is: a run has one hook at a time, and few tries for it.
func (x *executeActivity) work(ctx context.Context, run runFunc, in executeInput, hook bool) (engine.Return, error) {
	x.flights.count(1)
	defer x.flights.count(-1)
	info := activity.GetInfo(ctx)
	d := executor.Dispatch{
		RunID: in.RunID, StepID: in.StepID, LogicalAttempt: in.LA, N: in.N, EngineAttempt: in.Spent + int(info.Attempt),
		MaxEngineAttempts: in.Spent + in.MaxAttempts, Ticket: in.Ticket, StopCause: worker.ErrWorkerShutdown,
	}
	tenantID := tenantOf(info.WorkflowExecution.ID)
	if !x.tenants.take(tenantID, hook) {
		x.meter.declined.WithLabelValues(string(x.workload), declinedShare).Inc()
		return d.Declined(shareRetry), nil
	}
	defer x.tenants.release(tenantID)
	x.meter.begun.WithLabelValues(string(x.workload)).Inc()
	used := x.meter.used.WithLabelValues(string(x.workload))
	used.Inc()
	defer used.Dec()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p := &pulse{beats: x.beats, token: info.TaskToken, stop: stop, next: time.Now().Add(firstBeat)}
	out, err := run(ctx, d, func(b executor.Beat) { p.beat(context.WithoutCancel(ctx), b) })
	switch {
	case err == nil && out.Kind == engine.ReturnCancelled:
		return out, temporal.NewCanceledError()
	case err == nil && out.Kind == engine.ReturnDeclined:
		x.meter.declined.WithLabelValues(string(x.workload), declinedNotServed).Inc()
	case err == nil && out.Kind == engine.ReturnThrottled:
		x.meter.declined.WithLabelValues(string(x.workload), declinedHeavy).Inc()
	}
	if again, ok := errors.AsType[*executor.RetryError](err); ok {
		return out, temporal.NewApplicationError(again.Error(), again.Class)
	}
	return out, err
}
