package temporal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

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
	Metrics     prometheus.Registerer // none when nil
}

// Run serves the queues until ctx ends, then drains for at most StopTimeout and
// waits a few seconds more for what it cut short to end; the platform runs that
// elsewhere. It returns early with the reason when a worker cannot go on.
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
	fatal := make(chan error, 1)
	options := worker.Options{
		WorkerStopTimeout: cfg.StopTimeout,
		OnFatalError: func(err error) {
			select {
			case fatal <- err:
			default:
			}
		},
		DisableRegistrationAliasing:      true,
		MaxConcurrentActivityTaskPollers: 4 * partitions, MaxConcurrentWorkflowTaskPollers: 2 * partitions,
	}
	steps := &executeActivity{runner: r, beats: c}
	runs := &workflows{meter: newMeter(time.Now)}
	if cfg.Metrics != nil {
		if err := cfg.Metrics.Register(runs.meter); err != nil {
			return fmt.Errorf("temporal: metrics: %w", err)
		}
		defer cfg.Metrics.Unregister(runs.meter)
	}
	var workers []worker.Worker
	serve := func(queue string, slots int, workflows bool) worker.Worker {
		o := options
		o.DisableWorkflowWorker, o.MaxConcurrentActivityExecutionSize = !workflows, slots
		w := worker.New(c, queue, o)
		workers = append(workers, w)
		return w
	}
	for _, queue := range cfg.Control {
		w := serve(queue, cfg.ControlConcurrency, true)
		runs.register(w)
		steps.register(w)
		w = serve(logQueue(queue), logConcurrency, false)
		log := &controlActivities{journal: j, namespace: cfg.Namespace}
		w.RegisterActivityWithOptions(log.appendBatch, activity.RegisterOptions{Name: activityAppend})
		w.RegisterActivityWithOptions(log.signals, activity.RegisterOptions{Name: activitySignals})
		w.RegisterActivityWithOptions(log.skeleton, activity.RegisterOptions{Name: activitySkeleton})
		w.RegisterActivityWithOptions(log.start, activity.RegisterOptions{Name: activityStart})
	}
	for _, queue := range cfg.Data {
		w := serve(queue, cfg.DataConcurrency, false)
		steps.register(w)
	}
	if len(workers) == 0 {
		return errors.New("temporal: no queues to serve")
	}
	defer func() {
		stop(workers)
		steps.wait(cutShort)
	}()
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

// partitions is how many the platform makes of a queue unless it is told otherwise.
// A poll looks at one of them, and a task waits for seconds in one that nobody polls.
const partitions = 4

// logConcurrency is how many appends and reads of the log one worker does at once.
const logConcurrency = 100

// cutShort is how long executions have to end that StopTimeout cut short: what
// an executor gives a process, and a little to report it.
const cutShort = 6 * time.Second

// stop stops all at once, so that together they take no longer than one.
func stop(workers []worker.Worker) {
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(w.Stop)
	}
	all.Wait()
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
