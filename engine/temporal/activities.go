package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/interp"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/store"
)

// Inputs and results of the activities. Every result echoes its subject,
// because a replay compares ids and types only (T184).
type (
	appendInput struct {
		Batch  int          `json:"batch"`
		Append store.Append `json:"append"`
		// Bounded asks for an answer within the write budget, be it Unconfirmed.
		Bounded bool `json:"bounded,omitempty"`
		// UnlessPaused asks for an answer that may be HeldBack.
		UnlessPaused bool `json:"unlessPaused,omitempty"`
	}
	appendResult struct {
		Batch    int             `json:"batch"`
		Recorded interp.Recorded `json:"recorded"`
	}
	startResult struct {
		Skeleton engine.Skeleton `json:"skeleton"`
		Append   appendResult    `json:"append"`
	}
	signalsInput struct {
		RunID string `json:"runId"`
		After int64  `json:"after"`
	}
	signalsResult struct {
		After   int64           `json:"after"`
		Signals []engine.Signal `json:"signals"`
	}
	executeInput struct {
		RunID       string `json:"runId"`
		StepID      string `json:"stepId"`
		LA          int    `json:"la"`
		N           int    `json:"n"`
		PassFailing bool   `json:"passFailing,omitempty"`
		SignalID    string `json:"signalId,omitempty"`
		// Throttles says that the workflow takes engine.EndThrottled.
		Throttles bool `json:"throttles,omitempty"`
	}
)

// controlActivities reach the log on behalf of the workflow.
type controlActivities struct {
	journal   engine.Journal
	namespace string
}

func (c *controlActivities) appendBatch(ctx context.Context, in appendInput) (appendResult, error) {
	out := appendResult{Batch: in.Batch}
	if err := c.addRef(ctx, in.Append.Events); err != nil {
		return out, err
	}
	write := c.journal.Append
	if in.UnlessPaused {
		write = c.journal.AppendUnlessPaused
	}
	done, err := write(ctx, in.Append)
	if errors.Is(err, store.ErrNotFound) {
		return out, temporal.NewNonRetryableApplicationError("run not in the store", "NOT_FOUND", err)
	}
	var told bool
	if out.Recorded, told = interp.Outcome(interp.Append{Bounded: in.Bounded, UnlessPaused: in.UnlessPaused, Append: in.Append}, done, err); !told {
		return out, later(err)
	}
	return out, nil
}

// addRef says in RunStarted where the run is executed.
func (c *controlActivities) addRef(ctx context.Context, events []run.Draft) error {
	for i := range events {
		if events[i].Type != run.RunStarted {
			continue
		}
		p, err := run.PayloadOf[run.RunStartedPayload](events[i].Payload)
		if err != nil {
			return err
		}
		w := activity.GetInfo(ctx).WorkflowExecution
		p.Engine = run.EngineRunRef{
			Provider: "temporal", Namespace: c.namespace, WorkflowID: w.ID, EngineRunID: w.RunID, PauseAhead: p.Engine.PauseAhead,
		}
		if events[i].Payload, err = json.Marshal(p); err != nil {
			return err
		}
	}
	return nil
}

func (c *controlActivities) signals(ctx context.Context, in signalsInput) (signalsResult, error) {
	s, err := c.journal.Signals(ctx, in.RunID, in.After)
	return signalsResult{After: in.After, Signals: s}, later(err)
}

func (c *controlActivities) skeleton(ctx context.Context, runID string) (engine.Skeleton, error) {
	sk, err := c.journal.Skeleton(ctx, runID)
	if errors.Is(err, store.ErrNotFound) {
		return sk, temporal.NewNonRetryableApplicationError("run not in the store", "NOT_FOUND", err)
	}
	return sk, later(err)
}

// start reads the skeleton and then appends what a run begins with.
func (c *controlActivities) start(ctx context.Context, in appendInput) (out startResult, err error) {
	if out.Skeleton, err = c.skeleton(ctx, in.Append.RunID); err != nil {
		return out, err
	}
	out.Append, err = c.appendBatch(ctx, in)
	return out, err
}

// later has the platform try again when a full store says that it may have room
// (STORE_OVERLOADED), and by the usual policy after any other error.
func later(err error) error {
	full, ok := errors.AsType[*store.OverloadedError](err)
	if !ok {
		return err
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), string(run.CodeStoreOverloaded), temporal.ApplicationErrorOptions{
		NextRetryDelay: min(full.RetryAfter, longestRetry), Cause: err,
	})
}

// executeActivity runs steps, in control and data workers alike.
type executeActivity struct {
	runner *executor.Runner
	beats  heartbeats
	mu     sync.Mutex
	active int
	idle   chan struct{} // closed when nothing is active and somebody waits
}

func (x *executeActivity) register(w worker.ActivityRegistry) {
	w.RegisterActivityWithOptions(x.execute, activity.RegisterOptions{Name: activityExecute})
	w.RegisterActivityWithOptions(x.compensate, activity.RegisterOptions{Name: activityCompensate})
}

func (x *executeActivity) count(by int) {
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
func (x *executeActivity) wait(most time.Duration) {
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

func (x *executeActivity) execute(ctx context.Context, in executeInput) (engine.StepEnd, error) {
	end, err := x.work(ctx, x.runner.Run, executor.Dispatch{
		RunID: in.RunID, StepID: in.StepID, LogicalAttempt: in.LA, N: in.N, PassFailing: in.PassFailing, SignalID: in.SignalID,
		AwaitToken: !in.Throttles,
	})
	if err != nil || end.Kind != engine.EndFailed {
		return end, err
	}
	return end, failed(end, end)
}

// work runs one execution or hook on the runner, reported alive.
func (x *executeActivity) work(
	ctx context.Context, run func(context.Context, executor.Dispatch, func(engine.StepEnd)) (engine.StepEnd, error), d executor.Dispatch,
) (engine.StepEnd, error) {
	x.count(1)
	defer x.count(-1)
	info := activity.GetInfo(ctx)
	d.EngineAttempt, d.StopCause = int(info.Attempt), worker.ErrWorkerShutdown
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p := &pulse{beats: x.beats, token: info.TaskToken, stop: stop}
	return run(ctx, d, func(sofar engine.StepEnd) { p.beat(context.WithoutCancel(ctx), sofar) })
}

// failed has the platform try again, if the failure may be retried; details is
// what the workflow gets when it does not.
func failed(end engine.StepEnd, details any) error {
	return temporal.NewApplicationErrorWithOptions(end.Failed.ErrorMessage, end.Class, temporal.ApplicationErrorOptions{
		NonRetryable: !end.Failed.Retryable, Details: []any{details},
	})
}
