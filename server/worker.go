package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/authz"
	"github.com/dvt-engine/dvt/control"
	"github.com/dvt-engine/dvt/engine"
	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/internal/contain"
	"github.com/dvt-engine/dvt/plan"
	"github.com/dvt-engine/dvt/run"
	"github.com/dvt-engine/dvt/server/config"
	"github.com/dvt-engine/dvt/server/connect"
)

// RunWorker is `dvt worker`. A worker of control queues accesses the store directly. A worker of data queues runs
// programs of tenants, so it only gets the Journal of a server (contract T203). One process cannot serve both kinds.
func RunWorker(ctx context.Context, cfg config.Config, log *slog.Logger) error {
	if err := need(cfg.Temporal, "temporal"); err != nil {
		return err
	}
	if len(cfg.Queues) == 0 {
		return errors.New("--queues is missing: name the queues to serve, like tq-control-dev or tq-data-dev")
	}
	w, err := workerConfig(&cfg)
	if err != nil {
		return err
	}
	for _, q := range cfg.Queues {
		if strings.ContainsAny(q, "{}") {
			return fmt.Errorf("--queues %s: name the queue itself, such as %s, not a template", q,
				plan.DefaultQueues().For("acme", "prod").Data)
		}
		if strings.HasPrefix(q, plan.ControlPrefix) {
			w.Control = append(w.Control, q)
		} else {
			w.Data = append(w.Data, q)
		}
	}
	if len(w.Control) > 0 && len(w.Data) > 0 {
		return errors.New("a worker serves control queues or data queues, not both, because only a worker of control queues " +
			"may hold store credentials: start one worker for each kind")
	}
	log.Info("dvt worker starts", slog.Any("queues", cfg.Queues))
	defer logStop(ctx, log, "dvt worker")()
	return acrossRoles(ctx, log, func() error {
		if len(w.Control) > 0 {
			return runControlWorker(ctx, cfg, w, log)
		}
		return runDataWorker(ctx, cfg, w, log)
	})
}

func runControlWorker(ctx context.Context, cfg config.Config, w temporal.WorkerConfig, log *slog.Logger) error {
	if err := errors.Join(need(cfg.Store, "store", cfg.Redis, "redis"), cfg.RequireTicketKeys()); err != nil {
		return err
	}
	p, err := assemble(ctx, cfg, nil, log)
	if err != nil {
		return err
	}
	defer p.close()
	return withMetrics(ctx, cfg, p.registry, log, func(ctx context.Context, serving func()) error {
		w.OnServing = serving
		if p.site.standby {
			log.WarnContext(ctx, "this site is a standby: the worker serves no queues until it is a primary")
			return p.site.watch(ctx)
		}
		return p.runControl(ctx, w, p.journal)
	})
}

// runControl serves control queues with the duties that belong to them.
func (p *parts) runControl(ctx context.Context, w temporal.WorkerConfig, j engine.Journal) error {
	if err := p.control.LoadPolicy(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.site.watch(ctx) })
	p.executions = executor.NewMeter(p.registry)
	w.Metrics, w.Tickets, w.ControlSteps = p.registry, p.tickets, p.controlSteps(w.Control)
	panics := contain.New(p.registry, p.log)
	// the engine's mode may halt the projector
	g.Go(func() error { return panics.Loop(ctx, "clock", p.followClock) })
	g.Go(func() error { return panics.Loop(ctx, "policy", p.control.FollowPolicy) })
	g.Go(func() error { return panics.Loop(ctx, "project", p.projector.Run) })
	g.Go(func() error { return panics.Loop(ctx, "namespaces", p.namespaces.Run) })
	g.Go(func() error {
		return panics.Loop(ctx, "heartbeats", func(ctx context.Context) error {
			return p.control.Beat(ctx, p.owner, control.DutyControlWorker)
		})
	})
	client, served := p.temporal.Workers(&p.cfg, w)
	g.Go(func() error { return temporal.Run(ctx, client, served, j, w.ControlSteps) })
	return g.Wait()
}

// controlSteps returns the runner for steps of control queues in this process. It declines a step that was dispatched
// to another queue, because anybody with access to Temporal can schedule the step here with the ticket of its own
// dispatch.
func (p *parts) controlSteps(queues []string) *executor.Runner {
	j := p.journal.For(authz.Worker{ID: string(run.ByEngine), Serves: []string{"*"}, Queues: queues})
	return &executor.Runner{Journal: j, WorkspaceRoot: p.cfg.Workspace, Log: p.log, Executors: executor.Light(),
		Meter: p.executions}
}

// runDataWorker serves data queues. It runs programs of tenants, so it holds no store credentials and reads and writes
// runs only through the Journal of a server (contract T203).
func runDataWorker(ctx context.Context, cfg config.Config, w temporal.WorkerConfig, log *slog.Logger) error {
	if err := need(cfg.Server, "server", string(cfg.WorkerToken)+cfg.WorkerTokenFile, "worker-token-file"); err != nil {
		return err
	}
	journal, err := connect.Journal(&cfg, log)
	if err != nil {
		return err
	}
	if err := closeWorkspaces(cfg.Workspace); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	box, err := openIsolation(&cfg, log, registry)
	if err != nil {
		return err
	}
	defer box.close()
	secrets, err := openSecrets(cfg, registry, log)
	if err != nil {
		return err
	}
	runner, err := newRunner(ctx, cfg, journal, w.Data, box, executor.NewMeter(registry), secrets, registry, log)
	if err != nil {
		return err
	}
	if err := checkJournal(ctx, journal, log); err != nil {
		return err
	}
	to, err := connect.Temporal(&cfg, log, true)
	if err != nil {
		return err
	}
	clients, err := connect.Clients(&cfg, to, log)
	if err != nil {
		return err
	}
	defer clients.Close()
	w.Metrics, w.Executions = registry, temporal.NewExecutions()
	reports := newWorkerReports(journal, cfg.Version, w, box, secrets, runner.Workspaces, log)
	c, served := clients.Workers(&cfg, w)
	// temporal.Run gets no journal: without control queues only the runner writes events, through its own journal.
	return withMetrics(ctx, cfg, registry, log, func(ctx context.Context, serving func()) error {
		served.OnServing = serving
		awaitPrimary(ctx, journal, log)
		return whileGranted(ctx, journal, log, func(ctx context.Context) error {
			return whileReporting(ctx, reports, func(ctx context.Context) error {
				return box.whileIsolated(ctx, func(ctx context.Context) error { return temporal.Run(ctx, c, served, nil, runner) })
			})
		})
	})
}

// workerConfig returns the settings that all workers of this process share. The caller adds the queues.
func workerConfig(c *config.Config) (temporal.WorkerConfig, error) {
	limits, err := c.Limits()
	return temporal.WorkerConfig{Namespace: c.TemporalNamespace, DataConcurrency: c.Concurrency, Limits: limits,
		StopTimeout: c.StepGrace}, err
}

// withMetrics runs work, and serves the probes and metrics of a worker on metrics-listen until work returns, also while
// its last steps end. It returns the error of either. work calls serving once the worker serves its queues: /readyz
// answers 200 from then on, and 503 again once ctx has ended. A rolling upgrade therefore takes no old worker away
// before a new one works, and stops at a version that does not.
func withMetrics(ctx context.Context, cfg config.Config, r *prometheus.Registry, log *slog.Logger,
	work func(ctx context.Context, serving func()) error) error {
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", livez)
	var serving atomic.Bool
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if ctx.Err() != nil || !serving.Load() {
			http.Error(w, "the worker does not serve its queues", http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	g, working := errgroup.WithContext(ctx)
	observed, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	if err := serveObservers(observed, cfg, mux, log, g); err != nil {
		return err
	}
	g.Go(func() error {
		defer stop()
		return work(working, func() { serving.Store(true) })
	})
	return g.Wait()
}

// workerJournal is the Journal as a data worker needs it.
type workerJournal interface {
	engine.AttemptJournal
	engine.SecretDispatcher
}

// newRunner returns the runner for steps of data queues in this process. Until ctx ends it ends the leases of secrets
// that killed workers held, carries out orders about secrets, and removes old workspaces.
func newRunner(ctx context.Context, cfg config.Config, j workerJournal, queues []string, box *isolation,
	m *executor.Meter, secrets *secretsWatch, metrics prometheus.Registerer, log *slog.Logger) (*executor.Runner, error) {
	guard, err := newGuard(&cfg, cfg.AllowPrivate, log)
	if err != nil {
		return nil, err
	}
	x := executor.Config{DBTPath: cfg.DBT, AllowAnyDir: cfg.Dev, Egress: guard}
	box.configure(&x)
	executor.SweepSecrets()
	go secrets.watch(ctx)
	go secrets.Sweep(ctx, func(err error) {
		log.Warn("leases of secrets of a killed worker were not ended; they end by their life at the latest",
			slog.Any("error", err))
	})
	orders := &secretOrders{to: j, secrets: secrets.Resolver, worker: box.worker, queues: queues, log: log}
	go orders.run(ctx)
	most, err := cfg.WorkspaceBytes()
	if err != nil {
		return nil, err
	}
	workspaces := executor.NewWorkspaces(cfg.Workspace, executor.WorkspaceLimits{Bytes: most, Life: cfg.WorkspaceLife},
		metrics, log)
	go workspaces.Run(ctx)
	return &executor.Runner{
		Journal: j, WorkspaceRoot: cfg.Workspace, Workspaces: workspaces, ProjectRoot: cfg.ProjectRoot, Log: log,
		Executors: executor.New(x),
		Secrets:   secrets.Resolver, Meter: m, Worker: box.worker,
	}, nil
}
