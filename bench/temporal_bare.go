package main

import (
	"context"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/run/runtest"
)

const (
	bareRun   = "bench.bare"
	bareNoop  = "bench.noop"
	bareQueue = "tq-bare-bench"
)

// bareInput describes the same shape as layers: Steps activities, each after the activity Width positions before it.
type bareInput struct{ Steps, Width int }

// bareWorkflow is the lower bound for a plan of NOOP steps on Temporal: the same activities, with the options of a
// step, in the same order, and nothing else. It keeps no log, and its activities do nothing.
func bareWorkflow(ctx workflow.Context, in bareInput) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: time.Minute + 24*time.Hour, HeartbeatTimeout: 30 * time.Second, WaitForCancellation: true,
		Priority: sdktemporal.Priority{FairnessKey: runtest.ID.TenantID},
		RetryPolicy: &sdktemporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: time.Minute, MaximumAttempts: 1,
		},
	})
	var failed error
	lanes := workflow.NewWaitGroup(ctx)
	for lane := range in.Width {
		lanes.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer lanes.Done()
			for step := lane; step < in.Steps; step += in.Width {
				if err := workflow.ExecuteActivity(ctx, bareNoop).Get(ctx, nil); err != nil {
					failed = err
					return
				}
			}
		})
	}
	lanes.Wait(ctx)
	return failed
}

// startBare serves bareWorkflow in this process, with the options by which temporal.Run serves a control queue.
func (b *bed) startBare() (stop func(), err error) {
	w := worker.New(b.client, bareQueue, worker.Options{
		DisableRegistrationAliasing: true, MaxConcurrentActivityExecutionSize: controlSlots,
		MaxConcurrentActivityTaskPollers: temporal.ActivityPollers,
		MaxConcurrentWorkflowTaskPollers: temporal.WorkflowPollers,
	})
	w.RegisterWorkflowWithOptions(bareWorkflow, workflow.RegisterOptions{Name: bareRun})
	w.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: bareNoop})
	return w.Stop, w.Start()
}

// controlSlots is the default number of steps that a control worker executes at once.
const controlSlots = 50

// bare returns a contender that executes bareWorkflow, with the start options of dvt's runs.
func (b *bed) bare(steps, width int) contender {
	return contender{
		create: func(_ context.Context, n int) ([]run.Identity, error) {
			ids := make([]run.Identity, n)
			for i := range ids {
				ids[i] = b.newIdentity(runtest.ID.TenantID)
			}
			return ids, nil
		},
		start: func(ctx context.Context, id run.Identity) error {
			_, err := b.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
				ID: temporal.WorkflowID(id), TaskQueue: bareQueue, EnableEagerStart: true,
				Priority:                 sdktemporal.Priority{FairnessKey: id.TenantID},
				WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
				WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			}, bareRun, bareInput{Steps: steps, Width: width})
			return err
		},
		check: func(context.Context, run.Identity) error { return nil },
	}
}
