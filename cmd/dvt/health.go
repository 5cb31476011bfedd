package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/Khan/genqlient/graphql"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/document"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/smokecmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/tracecmd"
)

func healthCommand() *cobra.Command {
	s := &session{}
	c := s.command("health", "Show the health of dvt and its dependencies; status 1 when it is UNHEALTHY")
	c.Args = cmdline.ExactArgs(0)
	c.RunE = func(c *cobra.Command, _ []string) error {
		out, err := client.ShowHealth(c.Context(), s.client)
		if err != nil {
			return cmdline.Failure(err)
		}
		if s.output.IsData() {
			err = s.print(out.Health)
		} else if err = s.health(out.Health); err == nil {
			s.showRestrictions(c.Context())
		}
		if err == nil && out.Health.Status == client.HealthStatusUnhealthy {
			return &cmdline.Error{Status: 1, Err: fmt.Errorf("dvt is %s", runtext.Words(out.Health.Status))}
		}
		return err
	}
	return c
}

var healthStyles = map[client.HealthStatus]console.Style{client.HealthStatusHealthy: console.Good,
	client.HealthStatusDegraded:  console.Warn,
	client.HealthStatusUnhealthy: console.Bad}

func (s *session) health(h client.ShowHealthHealth) error {
	fmt.Fprintln(s.out, s.display.Render(console.Line{{Text: string(h.Status), Style: healthStyles[h.Status]},
		{Text: ", at " + s.server, Style: console.Plain}}))
	t := s.table("PART", "STATUS", "TOOK", "WHAT")
	for _, c := range h.Checks {
		took := "-"
		if c.LatencyMs != nil {
			took = runtext.Milliseconds(*c.LatencyMs)
		}
		t.Row(c.Name, console.Span{Text: string(c.Status), Style: healthStyles[c.Status]}, took, runtext.Deref(c.Message))
	}
	return t.Print()
}

// showRestrictions says what keeps runs from starting while all parts of dvt work: a freeze, or the mode. It prints
// nothing when the service does not say it.
func (s *session) showRestrictions(ctx context.Context) {
	out, err := client.ShowService(ctx, s.client)
	if err != nil {
		return
	}
	r := out.Service
	r.ActiveRuns = nil
	lines := serviceLines(r)
	if r.Mode == client.EngineModeNormal {
		lines = lines[1:]
	}
	for _, line := range lines {
		fmt.Fprintln(s.out, line)
	}
}

func versionCommand() *cobra.Command {
	var output document.Format
	c := &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			about := map[string]string{"version": version, "go": runtime.Version(), "platform": runtime.GOOS + "/" +
				runtime.GOARCH}
			if info, ok := debug.ReadBuildInfo(); ok {
				for _, setting := range info.Settings {
					if setting.Key == "vcs.revision" {
						about["revision"] = setting.Value
					}
				}
			}
			if output.IsData() {
				return output.Write(c.OutOrStdout(), about)
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "dvt %s (%s, %s)\n", about["version"], about["go"], about["platform"])
			return err
		},
	}
	document.AddFlag(c, &output)
	return c
}

func traceCommand() *cobra.Command {
	s := &session{}
	return s.command("trace", "Export the traces of runs", tracecmd.Export(tracecmd.Session{Version: version,
		Client: func() graphql.Client { return s.client }, Out: func() io.Writer { return s.out }}))
}

func smokeCommand() *cobra.Command {
	s := &session{}
	return smokecmd.Configure(s.command("smoke", smokecmd.Short), s.shared())
}
