package temporal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

type compensateInput struct {
	RunID  string `json:"runId"`
	StepID string `json:"stepId"`
	LA     int    `json:"la"` // the attempt that succeeded, whose log the hook writes to
}

// hookAttempts is how often the platform runs a hook at most (R186).
const hookAttempts = 2

// hookOptions are R186's, with the queue and the time limit that the plan gives.
func hookOptions(s plan.SkeletonStep, heartbeat time.Duration) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		ActivityID:          s.StepID + "/compensate",
		TaskQueue:           s.CompensationQueue,
		StartToCloseTimeout: s.CompensationTimeout + beginSlack,
		HeartbeatTimeout:    heartbeat,
		WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 10 * time.Second, MaximumAttempts: hookAttempts,
		},
	}
}

// compensate runs the hook of one step.
func (d *driver) compensate(e interp.Compensate) {
	s := d.skeleton.Steps[e.Ord]
	ctx, cancel := workflow.WithCancel(d.ctx)
	id := s.StepID + "/compensate"
	d.cancels[id] = cancel
	d.running = append(d.running, execution{ord: e.Ord, id: id})
	ctx = workflow.WithActivityOptions(ctx, hookOptions(s, time.Duration(d.in.HeartbeatTimeoutMS)*time.Millisecond))
	f := workflow.ExecuteActivity(ctx, activityCompensate, compensateInput{RunID: d.in.Identity.RunID, StepID: s.StepID, LA: e.LA})
	workflow.Go(d.ctx, func(ctx workflow.Context) {
		var end interp.CompensationEnd
		if err := f.Get(ctx, &end); err != nil {
			end = endOfHook(err, s.StepID)
		}
		if end.StepID != s.StepID {
			panic(fmt.Sprintf("the hook of step %s answered for %s", s.StepID, end.StepID))
		}
		delete(d.cancels, id)
		d.forget(id)
		d.hooks = append(d.hooks, end)
	})
}

// endOfHook says how a hook ended that returned no result.
func endOfHook(err error, stepID string) interp.CompensationEnd {
	var app *temporal.ApplicationError
	var end interp.CompensationEnd
	if errors.As(err, &app) && app.HasDetails() && app.Details(&end) == nil {
		return end
	}
	end = interp.CompensationEnd{
		StepID: stepID, Attempts: hookAttempts,
		ErrorCode: "ENGINE_ERROR", ErrorMessage: "the engine could not run this hook",
	}
	var timeout *temporal.TimeoutError
	var cancelled *temporal.CanceledError
	switch {
	case errors.As(err, &cancelled):
		end.Attempts, end.ErrorCode, end.ErrorMessage = 1, string(run.CodeCancelled), "the run was stopped while this hook ran"
	case errors.As(err, &timeout):
		end.ErrorCode, end.ErrorMessage = string(run.CodeTimeout), "the worker stopped answering while it ran this hook"
	}
	return end
}

// compensate is the activity.
func (x *executeActivity) compensate(ctx context.Context, in compensateInput) (interp.CompensationEnd, error) {
	end, err := x.work(ctx, x.runner.Compensate, executor.Dispatch{RunID: in.RunID, StepID: in.StepID, LogicalAttempt: in.LA})
	out := interp.CompensationEnd{StepID: in.StepID, Attempts: end.EngineAttempt, Compensated: end.Kind == engine.EndCompleted}
	switch {
	case err != nil:
		return out, err
	case end.Kind == engine.EndCompleted:
		out.Result = end.Completed.Result
		return out, nil
	case end.Kind == engine.EndFailed:
		out.ErrorCode, out.ErrorMessage = end.Failed.ErrorCode, end.Failed.ErrorMessage
		return out, failed(end, out)
	}
	out.ErrorCode, out.ErrorMessage = string(run.CodeCancelled), "the engine stopped this hook"
	return out, nil
}
