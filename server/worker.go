package server

import (
	"context"
	"log/slog"

	"github.com/dvt-engine/dvt/engine/temporal"
	"github.com/dvt-engine/dvt/store/remote"
)

// runDataWorker serves data queues. It holds no store credentials: the Journal
// of a server is all that it can reach (T203).
func runDataWorker(ctx context.Context, cfg Config, w temporal.WorkerConfig, log *slog.Logger) error {
	if err := need(cfg.Server, "server", string(cfg.WorkerToken), "worker-token (DVT_WORKER_TOKEN)"); err != nil {
		return err
	}
	journal, err := remote.NewClient(cfg.Server, string(cfg.WorkerToken))
	if err != nil {
		return err
	}
	c, err := temporal.Dial(cfg.Temporal, cfg.TemporalNamespace, log)
	if err != nil {
		return err
	}
	defer c.Close()
	return temporal.Run(ctx, c, w, journal, newRunner(cfg, journal, log))
}
