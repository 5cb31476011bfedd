package server

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/dvt-engine/dvt/server/config"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/dvt-engine/dvt/engine/executor"
	"github.com/dvt-engine/dvt/engine/temporal"
)

// runDataWorker serves data queues. It runs programs of tenants, so it holds no store credentials and reads and writes
// runs only through the Journal of a server (contract T203).
func runDataWorker(ctx context.Context, cfg config.Config, w temporal.WorkerConfig, log *slog.Logger) error {
	if err := need(cfg.Server, "server", string(cfg.WorkerToken)+cfg.WorkerTokenFile, "worker-token-file"); err != nil {
		return err
	}
	journal, err := newJournalClient(&cfg, log)
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
	to, err := temporalConnection(&cfg, log, true)
	if err != nil {
		return err
	}
	c, err := temporal.Connect(to, log)
	if err != nil {
		return err
	}
	defer c.Close()
	w.Metrics, w.Executions = registry, temporal.NewExecutions()
	reports := newWorkerReports(journal, w, box, secrets, runner.Workspaces, log)
	// temporal.Run gets no journal: without control queues only the runner writes events, through its own journal.
	return withMetrics(ctx, cfg, registry, log, func(ctx context.Context) error {
		return whileGranted(ctx, journal, log, func(ctx context.Context) error {
			return whileReporting(ctx, reports, func(ctx context.Context) error {
				return box.whileIsolated(ctx, func(ctx context.Context) error { return temporal.Run(ctx, c, w, nil, runner) })
			})
		})
	})
}

// workerConfig returns the settings that all workers of this process share. The caller adds the queues.
func workerConfig(c *config.Config) (temporal.WorkerConfig, error) {
	limits, err := c.Limits()
	return temporal.WorkerConfig{Namespace: c.TemporalNamespace, DataConcurrency: c.Concurrency, Limits: limits}, err
}

// withMetrics runs work, and serves the metrics of a worker on metrics-listen meanwhile. It returns the error of
// either.
func withMetrics(
	ctx context.Context, cfg config.Config, r *prometheus.Registry, log *slog.Logger, work func(context.Context) error,
) error {
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", livez)
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	g, ctx := errgroup.WithContext(ctx)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := serveObservers(ctx, cfg, mux, log, g); err != nil {
		return err
	}
	g.Go(func() error {
		defer stop()
		return work(ctx)
	})
	return g.Wait()
}
