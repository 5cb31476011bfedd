// Command dvt is the control plane for workflow runs. One binary holds the server, the worker, the commands for a store
// and the client commands of the API.
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

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/internal/privatenet"
	"github.com/dvt-engine/dvt/sandbox"
)

// version is set by the linker when a release is built.
var version = "dev"

func main() {
	sandbox.Main()    // does not return in the child process that sets a sandbox up
	privatenet.Main() // does not return in the child process that sets a private network up
	os.Exit(execute())
}

func execute() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := root()
	c.SetOut(console.NewCleanWriter(os.Stdout))
	c.SetErr(console.NewCleanWriter(os.Stderr))
	err := c.ExecuteContext(ctx)
	return report(c, err)
}

// report prints the error of a command and returns the exit status. It prints nothing for an error that the output
// shows already, and for Ctrl-C.
func report(c *cobra.Command, err error) int {
	if err == nil {
		return 0
	}
	status := cmdline.ExitStatus(err)
	var e *cmdline.Error
	if said := errors.As(err, &e) && e.Said || status == cmdline.Interrupted; !said {
		fmt.Fprintln(c.ErrOrStderr(), "error:", err)
	}
	return status
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use: "dvt", Short: "The control plane for workflow runs", Version: version, SilenceUsage: true, SilenceErrors: true,
	}
	c.AddCommand(devCommand(), serverCommand(), workerCommand(), migrateCommand(), storeCommand(), runCommand(),
		manualCommand(), planCommand(), workflowCommand(), bulkCommand(), deadLettersCommand(), auditCommand(),
		tokenCommand(), policyCommand(), quotaCommand(), queueCommand(), serviceCommand(), tenantCommand(), contextCommand(),
		whoamiCommand(), healthCommand(), versionCommand(), completionCommand())
	cmdline.Guide(c)
	cmdline.AddExamples(c)
	return c
}

func logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, cmdline.Usage(fmt.Errorf("log-level must be debug, info, warn or error, not %q", level))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l})), nil
}
