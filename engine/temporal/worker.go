package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
)

// Client is a connection to one namespace.
type Client = client.Client

// Dial makes a client of one namespace. It connects when it is first used, so
// that a server starts, reads and streams while Temporal is down.
func Dial(hostPort, namespace string, log *slog.Logger) (Client, error) {
	c, err := client.NewLazyClient(client.Options{HostPort: hostPort, Namespace: namespace, Logger: sdklog.NewStructuredLogger(log)})
	if err != nil {
		return nil, fmt.Errorf("temporal: client: %w", err)
	}
	return c, nil
}

// WorkerConfig says what one worker process runs.
type WorkerConfig struct {
	Namespace string
	// Control are queues that run workflows, the activities that reach the log,
	// and steps; Data are queues that run steps only (T203).
	Control, Data []string
	// ControlConcurrency and DataConcurrency bound the executions at once on one
	// queue; defaults 50 and 4 (T199).
	ControlConcurrency, DataConcurrency int
	// StopTimeout is how long executions in flight may go on after Run's context
	// ended; default 30 s (T226).
	StopTimeout time.Duration
}

// Run serves the queues until ctx ends, then drains for at most StopTimeout. It
// returns early with the reason when a worker cannot go on.
func Run(ctx context.Context, c Client, cfg WorkerConfig, j engine.Journal, r *executor.Runner) error {
	if cfg.ControlConcurrency == 0 {
		cfg.ControlConcurrency = 50
	}
	if cfg.DataConcurrency == 0 {
		cfg.DataConcurrency = 4
	}
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = 30 * time.Second
	}
	fatal := make(chan error, len(cfg.Control)+len(cfg.Data))
	options := worker.Options{
		WorkerStopTimeout: cfg.StopTimeout,
		// A cancellation is seen with a heartbeat, so heartbeats are not held back long (T199).
		MaxHeartbeatThrottleInterval: 2 * time.Second,
		OnFatalError:                 func(err error) { fatal <- err },
		DisableRegistrationAliasing:  true,
	}
	var workers []worker.Worker
	defer func() {
		for _, w := range workers {
			w.Stop()
		}
	}()
	for _, queue := range cfg.Control {
		o := options
		// Appends must not wait behind steps, so the room for activities is shared generously.
		o.MaxConcurrentActivityExecutionSize = 4 * cfg.ControlConcurrency
		w := worker.New(c, queue, o)
		w.RegisterWorkflowWithOptions(runWorkflow, workflow.RegisterOptions{Name: workflowName})
		ca := &controlActivities{journal: j, namespace: cfg.Namespace}
		w.RegisterActivityWithOptions(ca.appendBatch, activity.RegisterOptions{Name: activityAppend})
		w.RegisterActivityWithOptions(ca.signals, activity.RegisterOptions{Name: activitySignals})
		w.RegisterActivityWithOptions(ca.skeleton, activity.RegisterOptions{Name: activitySkeleton})
		w.RegisterActivityWithOptions((&executeActivity{runner: r}).execute, activity.RegisterOptions{Name: activityExecute})
		workers = append(workers, w)
	}
	for _, queue := range cfg.Data {
		o := options
		o.DisableWorkflowWorker = true
		o.MaxConcurrentActivityExecutionSize = cfg.DataConcurrency
		w := worker.New(c, queue, o)
		w.RegisterActivityWithOptions((&executeActivity{runner: r}).execute, activity.RegisterOptions{Name: activityExecute})
		workers = append(workers, w)
	}
	if len(workers) == 0 {
		return errors.New("temporal: no queues to serve")
	}
	for _, w := range workers {
		if err := w.Start(); err != nil {
			return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
		}
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-fatal:
		return fmt.Errorf("temporal: worker: %w", err)
	}
}

// Ping asks whether a frontend serves a namespace.
func Ping(ctx context.Context, hostPort, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{HostPort: hostPort, Namespace: namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
	defer c.Close()
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	return translate(err)
}
