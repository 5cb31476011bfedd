package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/ticket"
	"github.com/dvt-engine/dvt/plan"
)

// Client is a connection to one namespace.
type Client = client.Client

// Served are the queues that a worker serves in one namespace. Client must be connected to it.
type Served struct {
	Client        Client
	Namespace     string
	Control, Data []string
}

// WorkerConfig configures one worker process. At least one queue is required.
type WorkerConfig struct {
	Namespace string
	// Control lists the queues that run workflows, the activities that reach the log, and steps. Data lists the queues
	// that run only steps (contract T203).
	Control, Data []string
	// Elsewhere are further namespaces that the worker serves. Its numbers of slots hold for each queue in each namespace.
	Elsewhere []Served
	// ControlSteps runs the steps of control queues; nil means the runner of Run. A process with credentials of the store
	// must set a runner with the executors of executor.Light, because the programs and addresses of a plan are untrusted.
	ControlSteps *executor.Runner
	// DataConcurrency is the number of COMMAND steps, and also of dbt steps, that run at once on one queue; default 4.
	DataConcurrency int
	// Limits are further bounds. Limits.Slots has precedence over DataConcurrency.
	Limits Limits
	// StopTimeout is the time for which running executions may continue after the end of Run's context; default 30 s
	// (contract T226).
	StopTimeout time.Duration
	Metrics     prometheus.Registerer // nil: no metrics
	// OnServing, if set, is called once every queue is served. It must not block.
	OnServing func()
	// Executions, if set, are told what this process runs, and can drain its data queues.
	Executions *Executions
	// Tickets sign the dispatches of control workers; required if Control is not empty.
	Tickets ticket.Keys
}

// Run serves the queues until ctx ends, and then returns nil. Running executions may continue for StopTimeout. Run then
// stops them and waits at most cutShort for their ends; Temporal dispatches them again to other workers. Errors:
// engine.ErrUnavailable if a worker cannot start; other errors report a wrong cfg or a worker that cannot continue.
func Run(ctx context.Context, c Client, cfg WorkerConfig, j engine.Journal, r *executor.Runner) error {
	if cfg.DataConcurrency == 0 {
		cfg.DataConcurrency = 4
	}
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = 30 * time.Second
	}
	places := append([]Served{{Client: c, Namespace: cfg.Namespace, Control: cfg.Control, Data: cfg.Data}},
		cfg.Elsewhere...)
	if cfg.Tickets.Empty() && slices.ContainsFunc(places, func(p Served) bool { return len(p.Control) > 0 }) {
		return errors.New(
			"temporal: a worker of control queues needs keys for tickets: without them every step would be refused")
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
		DisableRegistrationAliasing: true,
		// The SDK would hold back the tries of a plan for most of loadSilence, and people are shown them.
		MaxHeartbeatThrottleInterval:     loadBeat,
		MaxConcurrentActivityTaskPollers: ActivityPollers, MaxConcurrentWorkflowTaskPollers: WorkflowPollers,
	}
	slots, running := newSlotMeter(), cfg.Executions
	if running == nil {
		running = NewExecutions()
	}
	running.serve()
	var workers []worker.Worker
	serve := func(p Served, queue string, o worker.Options) worker.Worker {
		w := worker.New(p.Client, queue, o)
		workers = append(workers, w)
		return w
	}
	steps := func(p Served, queue string, w plan.Workload, r *executor.Runner, drains bool) worker.Worker {
		o := options
		o.DisableWorkflowWorker = w != plan.NoopWorkload
		cfg.bound(&o, w)
		if drains {
			running.addSlots(cfg.slots(w))
			running.drainable(&o, cfg.slots(w))
		}
		x := &executeActivity{
			runner: r, beats: p.Client, workload: w, tenants: newTenantSlots(cfg.slots(w), cfg.Limits), meter: slots,
			running: running, drains: drains,
		}
		slots.serves(w, x.tenants)
		out := serve(p, w.TaskQueue(queue), o)
		x.register(out)
		return out
	}
	collectors := slots.collectors()
	for _, p := range places {
		log := &logActivities{journal: j, keys: cfg.Tickets, namespace: p.Namespace}
		runs := &workflows{meter: newMeter(p.Namespace, time.Now), log: log, keys: cfg.Tickets}
		collectors = append(collectors, runs.meter)
		for _, queue := range p.Control {
			runs.register(steps(p, queue, plan.NoopWorkload, cmp.Or(cfg.ControlSteps, r), false))
			o := options
			o.DisableWorkflowWorker, o.MaxConcurrentActivityExecutionSize = true, logConcurrency
			log.register(serve(p, logQueue(queue), o))
		}
		for _, queue := range p.Data {
			for _, w := range plan.WorkloadsOf(queue) {
				steps(p, queue, w, r, true)
			}
		}
	}
	if len(workers) == 0 {
		return errors.New("temporal: no queues to serve")
	}
	unregister, err := register(cfg.Metrics, collectors...)
	defer unregister()
	if err != nil {
		return fmt.Errorf("temporal: metrics: %w", err)
	}
	defer func() {
		stop(workers)
		running.wait(cutShort)
	}()
	for _, w := range workers {
		if err := w.Start(); err != nil {
			return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
		}
	}
	if cfg.OnServing != nil {
		cfg.OnServing()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-fatal:
		return fmt.Errorf("temporal: worker: %w", err)
	}
}

// partitions is Temporal's default number of partitions of a task queue. A poll waits at one partition, and a task in a
// partition without a poll waits for seconds.
const partitions = 4

// The numbers of open polls of one worker at one queue.
const (
	ActivityPollers = 4 * partitions
	WorkflowPollers = 2 * partitions
)

// logConcurrency is the number of appends and reads of the log that one worker does at once.
const logConcurrency = 100

// cutShort is the time in which executions must end after StopTimeout. It is the default executor.Config.Grace and one
// second for the report.
const cutShort = 6 * time.Second

// stop stops all workers in parallel, because each may take StopTimeout.
func stop(workers []worker.Worker) {
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(w.Stop)
	}
	all.Wait()
}

// ErrNoNamespace is returned by Ping when the server answers but does not know the namespace.
var ErrNoNamespace = errors.New("the namespace is not found")

// pingID is a workflow id that does not exist, because the ids of runs begin with workflowPrefix.
const pingID = "ping"

// Ping reports whether a server serves a namespace: it describes the namespace, and a workflow that does not exist. The
// second call uses the namespace cache and a history shard, like every call for a run; the first one does not reach
// them. ctx bounds both. Errors: ErrNoNamespace, otherwise engine.ErrUnavailable, with
// context.DeadlineExceeded when the server did not answer in time.
func Ping(ctx context.Context, hostPort, namespace string) error {
	return Connection{HostPort: hostPort, Namespace: namespace}.Ping(ctx)
}

// Ping is the function Ping for any connection.
func (to Connection) Ping(ctx context.Context) error {
	err := to.ping(ctx)
	var missing *serviceerror.NamespaceNotFound
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing):
		return fmt.Errorf("%w: %s", ErrNoNamespace, to.Namespace)
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err())
	default:
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
}

func (to Connection) ping(ctx context.Context) error {
	c, err := client.DialContext(ctx, to.options(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: to.Namespace})
	if err != nil {
		return err
	}
	_, err = c.DescribeWorkflowExecution(ctx, pingID, "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return nil
	}
	return err
}
