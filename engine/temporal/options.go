package temporal

import (
	"errors"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
)

// beginSlack is added to a step's timeout: the runner enforces the timeout from
// the moment Begin was answered, and a Begin that the store does not answer is
// waited for, not failed (T216). Heartbeats find a dead worker long before.
const beginSlack = 24 * time.Hour

// longestRetry is the most that a full store may ask to wait.
const longestRetry = 30 * time.Second

// logQueue is the queue of the activities that reach the log for the runs of a
// control queue. It is their own, so that an append never waits behind steps.
func logQueue(control string) string { return control + "-log" }

// controlOptions are those of the activities that reach the log: they are
// retried without end, because nothing else can record what happened (T120).
func controlOptions(ctx workflow.Context, id string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		ActivityID:          id,
		TaskQueue:           logQueue(workflow.GetInfo(ctx).TaskQueueName),
		StartToCloseTimeout: 10 * time.Second,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 100 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 5 * time.Second,
		},
	}
}

// executeOptions turn a step's policy into Temporal's (T55, T65, T66, T205).
func executeOptions(id string, s plan.SkeletonStep, heartbeat time.Duration) workflow.ActivityOptions {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	p := &temporal.RetryPolicy{
		InitialInterval:    ms(s.Retry.InitialBackoffMS),
		BackoffCoefficient: s.Retry.BackoffMultiplier,
		MaximumInterval:    ms(s.Retry.MaxBackoffMS),
		MaximumAttempts:    int32(s.Retry.MaxAttempts),
	}
	if !retriesTimeouts(s.Retry) {
		p.NonRetryableErrorTypes = []string{"TemporalTimeout:StartToClose", "TemporalTimeout:Heartbeat"}
	}
	return workflow.ActivityOptions{
		ActivityID:          id,
		TaskQueue:           s.TaskQueue,
		StartToCloseTimeout: s.Timeout + beginSlack,
		HeartbeatTimeout:    heartbeat,
		WaitForCancellation: true,
		RetryPolicy:         p,
	}
}

func retriesTimeouts(r plan.Retry) bool {
	return len(r.RetryableErrors) == 0 || slices.Contains(r.RetryableErrors, plan.ClassTimeout)
}

// endOfError says how an execution ended that returned no result. What the
// runner knew is in the error's details, or in those of the last heartbeat (T198).
func endOfError(err error, s plan.SkeletonStep, e interp.Execute) engine.StepEnd {
	end := engine.StepEnd{}
	var app *temporal.ApplicationError
	if errors.As(err, &app) && app.HasDetails() && app.Details(&end) == nil {
		return end
	}
	var timeout *temporal.TimeoutError
	if errors.As(err, &timeout) && timeout.HasLastHeartbeatDetails() {
		_ = timeout.LastHeartbeatDetails(&end) // none: the attempt never began
	}
	var cancelled *temporal.CanceledError
	if errors.As(err, &cancelled) && cancelled.HasDetails() {
		_ = cancelled.Details(&end)
	}
	end.StepID, end.LogicalAttempt, end.N = s.StepID, e.LA, e.N
	end.EngineAttempt = max(1, end.EngineAttempt)
	var activity *temporal.ActivityError
	if errors.As(err, &activity) && activity.RetryState() == enumspb.RETRY_STATE_MAXIMUM_ATTEMPTS_REACHED {
		end.EngineAttempt = max(end.EngineAttempt, s.Retry.MaxAttempts)
	}
	if cancelled != nil {
		end.Kind = engine.EndCancelled
		return end
	}
	end.Kind = engine.EndFailed
	switch {
	case timeout != nil:
		end.Class = plan.ClassTimeout
		end.Failed = &run.FailurePayload{
			ErrorCode: string(run.CodeTimeout), Retryable: true, FailureCategory: run.CategoryTimeout, FailureSource: "engine",
			ErrorMessage: "the worker stopped answering while it ran this step",
		}
	default:
		end.Failed = &run.FailurePayload{
			ErrorCode: "ENGINE_ERROR", Retryable: true, FailureCategory: run.CategoryPlatform, FailureSource: "engine",
			ErrorMessage: "the engine could not run this step",
		}
	}
	return end
}
