// Package installcmd has the commands that operate an installation with the settings of its processes: server, worker,
// migrate and store. They call no API.
package installcmd

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/server"
	"github.com/dvt-engine/dvt/server/config"
)

// ProcessCommand completes a command that runs one of dvt's processes until ctx ends. flags are the names of its
// settings. It loads the settings, removes secrets from the environment and protects the memory before it calls run.
func ProcessCommand(c *cobra.Command, dev bool, flags []string, run func(context.Context, config.Config,
	*slog.Logger) error) *cobra.Command {
	c.Args = cobra.NoArgs
	settings := pflag.NewFlagSet(c.Name(), pflag.ContinueOnError) // other flags of c are no settings
	config.Flags(settings, append(flags, "log-level", "log-format")...)
	settings.String("config", "", "YAML file with settings")
	c.Flags().AddFlagSet(settings)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cfg, err := config.Load(settings, dev)
		if err != nil {
			return cmdline.Usage(err)
		}
		cfg.Version = c.Root().Version
		reloader, err := config.NewReloader(settings, dev)
		if err != nil {
			return err
		}
		config.ForgetEnvironment()
		level := new(slog.LevelVar)
		if err := setLevel(level, cfg.LogLevel); err != nil {
			return err
		}
		log, flush, err := newLeveledLogger(os.Stderr, level, cfg.LogFormat)
		if err != nil {
			return err
		}
		defer flush()
		if !dev && cfg.SettingsFile != "" { // the end of a terminal ends dvt dev by the same signal
			defer reloadOnSignal(c.Context(), reloader, level, log)()
		}
		cfg.WarnOfReadableFiles(log, cfg.SettingsFile)
		if err := config.ProtectMemory(); err != nil {
			log.Warn("other processes of this user can read the memory of this one", slog.Any("error", err))
		}
		return run(c.Context(), cfg, log)
	}
	return c
}

// Server returns the command server.
func Server() *cobra.Command {
	return ProcessCommand(&cobra.Command{
		Use: "server", Short: "Start a server: the API, the UI and the background duties",
	}, false, []string{
		"listen", "store", "standby", "redis", "temporal", "temporal-namespace", "artifacts", "plan-roots", "control-queue",
		"data-queue", "isolation-queue", "isolation-tenants", "known-queues",
		"no-worker-after", "stop-within", "pause-drain-timeout", "recovery",
		"allowed-origins", "public-url", "trusted-proxies", "duties", "heartbeat",
		"write-budget", "rotate-after", "trace-runs", "trace-sample", "shutdown-delay",
		"allow-plaintext", "temporal-tls", "temporal-tls-ca", "temporal-tls-cert", "temporal-tls-key",
		"temporal-tls-server-name",
		"temporal-api-key-file", "store-password-file", "redis-tls-ca", "redis-tls-cert", "redis-tls-key",
		"redis-tls-server-name",
		"redis-password-file", "listen-tls-cert", "listen-tls-key", "listen-tls-client-ca", "payload-keys-file",
		"dispatch-keys-file", "subject-keys-file",
		"codec-origins", "metrics-listen", "audit-heads", "audit-heads-key", "audit-heads-interval",
		"destinations", "erasure-ledger",
	}, server.Run)
}

// Worker returns the command worker.
func Worker() *cobra.Command {
	return ProcessCommand(&cobra.Command{
		Use: "worker", Short: "Start a worker: it executes workflows (queues tq-control-*) or steps (tq-data-*)",
		Long: "A worker of control queues runs workflows and NOOP steps and connects to the store. A worker of other queues " +
			"runs steps of every\n" +
			"type. It has no store credentials and calls the Journal of a server with --worker-token-file. The names in " +
			"--queues are exact:\n" +
			"tq-data-prod serves the environment prod, tq-isolation-acme-prod the tenant acme there.",
	}, false, []string{
		"queues", "store", "standby", "redis",
		"temporal", "temporal-namespace", "artifacts", "workspace", "project-root", "dbt",
		"secrets",
		"server", "concurrency",
		"workspace-max", "workspace-life", "step-grace",
		"slots-by-type", "slots-by-tenant", "rate-by-type", "queue-rate-by-type", "metrics-listen",
		"control-queue", "data-queue", "isolation-queue", "isolation-tenants", "known-queues", "plan-roots", "allow-private",
		"write-budget",
		"allow-plaintext", "temporal-tls", "temporal-tls-ca", "temporal-tls-cert", "temporal-tls-key",
		"temporal-tls-server-name",
		"temporal-api-key-file", "store-password-file", "redis-tls-ca", "redis-tls-cert", "redis-tls-key",
		"redis-tls-server-name",
		"redis-password-file", "server-tls-ca", "server-tls-cert", "server-tls-key", "server-tls-name", "worker-token-file",
		"payload-keys-file", "dispatch-keys-file", "subject-keys-file", "erasure-ledger",
		"sandbox-runtime", "sandbox-image", "sandbox-memory", "sandbox-cpu", "sandbox-pids", "sandbox-disk", "sandbox-max",
		"sandbox-read", "sandbox-write", "sandbox-roots",
		"sandbox-allow-missing",
	}, server.RunWorker)
}
