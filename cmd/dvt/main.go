// Command dvt is the control plane for workflow runs. One binary holds the server, the worker, the commands for a store
// and the client commands of the API.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/installcmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/plancmd"
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
	ran, err := c.ExecuteContextC(ctx)
	return report(ran, err, os.Args[1:])
}

// usageStatus is the exit status of a wrong command line.
const usageStatus = 2

// report prints the error of the command that ran, as a document with -o json and -o yaml, and returns the exit
// status. It prints nothing for an error that the output shows already, and for Ctrl-C. args are those of the program:
// behind an unknown command or flag, -o was not parsed.
func report(ran *cobra.Command, err error, args []string) int {
	if err == nil {
		return 0
	}
	status := cmdline.ExitStatus(err)
	var e *cmdline.Error
	if said := errors.As(err, &e) && e.Said || status == cmdline.Interrupted; said {
		return status
	}
	format := document.FormatOf(ran)
	if status == usageStatus && !format.IsData() {
		format = document.FormatIn(args)
	}
	if format.IsData() {
		if format.Write(ran.ErrOrStderr(), cmdline.DescribeFailure(err)) == nil {
			return status
		}
	}
	fmt.Fprintln(ran.ErrOrStderr(), "error:", err)
	return status
}

// groups are the commands in the help of dvt, by what people want to do.
var groups = []struct {
	title    string
	commands func() []*cobra.Command
}{
	{"Start here:", func() []*cobra.Command {
		return []*cobra.Command{devCommand(), contextCommand(), whoamiCommand(), completionCommand(), versionCommand()}
	}},
	{"Runs:", func() []*cobra.Command {
		return []*cobra.Command{runCommand(), dbtCommand(), bulkCommand(), manualCommand(), queueCommand(), alertsCommand(),
			incidentsCommand(), doctorCommand()}
	}},
	{"Plans:", func() []*cobra.Command { return []*cobra.Command{plancmd.Plan(noteReceiver), workflowCommand()} }},
	{"Administration of a tenant:", func() []*cobra.Command {
		return []*cobra.Command{policyCommand(), quotaCommand(), retentionCommand(), holdCommand(), breakGlassCommand(),
			tokenCommand(), tenantCommand(), subjectCommand(), erasureCommand(), secretsCommand(), auditCommand(),
			exportCommand()}
	}},
	{"Operation of an installation:", func() []*cobra.Command {
		return []*cobra.Command{installcmd.Preflight(), installcmd.Config(), installcmd.Server(),
			installcmd.Worker(), installcmd.Migrate(), installcmd.Store(), installcmd.DR(), installcmd.Temporal(),
			smokeCommand(), serviceCommand(), healthCommand(), deadLettersCommand(), destinationsCommand(), traceCommand()}
	}},
}

func root() *cobra.Command {
	c := &cobra.Command{
		Use: "dvt", Short: "The control plane for workflow runs", Version: version, SilenceUsage: true, SilenceErrors: true,
		Long: `The control plane for workflow runs. Begin with these:

  dvt dev                               run everything here, with a sample
  dvt run start nightly.yaml --watch    start a run and watch it
  dvt run list --attention              what needs somebody, and what failed
  dvt run show @failed                  the run that failed last, and why
  dvt run retry @failed                 retry the step that failed in it

RUN in a usage line is the id of a run, its first 4 or more characters, @last
(the newest run that you started) or @failed (the newest that failed).

Exit status: 0 done, 1 failed, 2 wrong command line or document, 3 refused,
4 not found, 130 interrupted. docs/cli.md in the repository describes each
command.`,
	}
	for _, g := range groups {
		c.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, sub := range g.commands() {
			sub.GroupID = g.title
			c.AddCommand(sub)
		}
	}
	cmdline.Guide(c)
	c.SetHelpCommandGroupID(groups[0].title)
	cmdline.AddExamples(c)
	return c
}
