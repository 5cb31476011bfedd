package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/server"
)

// process makes a command that runs one of dvt's processes until it is told to end.
func process(c *cobra.Command, dev bool, flags []string, run func(context.Context, server.Config, *slog.Logger) error) *cobra.Command {
	c.Args = cobra.NoArgs
	server.Flags(c.Flags(), append(flags, "log-level")...)
	c.Flags().String("config", "", "YAML file with settings")
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := server.Load(c.Flags(), dev)
		if err != nil {
			return usage(err)
		}
		log, err := logger(cfg.LogLevel)
		if err != nil {
			return err
		}
		return run(c.Context(), cfg, log)
	}
	return c
}

func devCommand() *cobra.Command {
	return process(&cobra.Command{Use: "dev", Short: "Run everything here, with a sample, for a newcomer"}, true, []string{
		"listen", "data", "no-sample", "store", "redis", "temporal", "temporal-namespace", "temporal-binary", "artifacts",
		"project-root", "dbt", "plan-roots", "concurrency", "heartbeat", "write-budget", "rotate-after",
	}, func(ctx context.Context, cfg server.Config, log *slog.Logger) error {
		return server.RunDev(ctx, cfg, log, os.Stdout)
	})
}

func serverCommand() *cobra.Command {
	return process(&cobra.Command{Use: "server", Short: "Serve the API and carry out its duties"}, false, []string{
		"listen", "store", "redis", "temporal", "temporal-namespace", "artifacts", "plan-roots", "control-queue", "data-queue", "known-queues",
		"allowed-origins", "public-url", "trusted-proxies", "duties", "heartbeat", "write-budget", "rotate-after",
	}, server.Run)
}

func workerCommand() *cobra.Command {
	return process(&cobra.Command{
		Use: "worker", Short: "Run workflows (queues tq-control-*) or steps (tq-data-*)",
		Long: "A worker of control queues runs workflows and reaches the store. A worker of data queues runs steps only: it holds no\n" +
			"store credentials and reaches the Journal of a server with DVT_WORKER_TOKEN.",
	}, false, []string{
		"queues", "store", "redis", "temporal", "temporal-namespace", "artifacts", "workspace", "project-root", "dbt", "server", "concurrency",
		"control-queue", "data-queue", "known-queues", "plan-roots", "allow-private", "write-budget",
	}, server.RunWorker)
}

func migrateCommand() *cobra.Command {
	return process(&cobra.Command{
		Use: "migrate", Short: "Bring the database's schema up to this version",
		Long: "Connects as the owner of the database. With --app-role it also gives the role that servers connect as what they need, each time\n" +
			"anew; that role can then neither change nor delete events and audit rows.",
	}, false, []string{"store", "app-role"}, server.Migrate)
}
