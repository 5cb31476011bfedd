// Command dvt is the control plane for workflow runs: every process of it and
// the commands that speak to its API.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set when a release is built.
var version = "dev"

func main() { os.Exit(execute()) }

func execute() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := root().ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	status := exitStatus(err)
	var e *exitError
	if said := errors.As(err, &e) && e.said || status == interrupted; !said {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	return status
}

// interrupted is the exit status of what Ctrl-C or SIGTERM ended before it was done.
const interrupted = 130

// exitError gives a failure its exit status (api.md §1): 1 failed, 2 usage, 3
// refused, 4 not found.
type exitError struct {
	status int
	err    error
	said   bool // the output says it already
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error { return &exitError{status: 2, err: err} }

func root() *cobra.Command {
	c := &cobra.Command{
		Use: "dvt", Short: "The control plane for workflow runs", Version: version, SilenceUsage: true, SilenceErrors: true,
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	c.AddCommand(devCommand(), serverCommand(), workerCommand(), migrateCommand(), storeCommand(), runCommand(), manualCommand(), planCommand(), workflowCommand(), deadLettersCommand(), auditCommand(), tokenCommand(), policyCommand(), quotaCommand(), queueCommand(), serviceCommand(), tenantCommand(), contextCommand(), whoamiCommand())
	return c
}

func logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usage(fmt.Errorf("log-level must be debug, info, warn or error, not %q", level))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l})), nil
}
