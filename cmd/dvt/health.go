package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

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
	metrics := ""
	c.Flags().StringVar(&metrics, "metrics", "",
		"host:port of the metrics-listen of a server: ask there, without a token, as a probe of a container does")
	c.RunE = func(c *cobra.Command, _ []string) error {
		var health client.ShowHealthHealth
		if metrics != "" {
			var err error
			if health, err = probe(c.Context(), metrics); err != nil {
				return cmdline.Failure(err)
			}
			s.server = metrics
		} else {
			out, err := client.ShowHealth(c.Context(), s.client)
			if err != nil {
				return cmdline.Failure(err)
			}
			health = out.Health
		}
		var err error
		if s.output.IsData() {
			err = s.print(health)
		} else if err = s.health(health); err == nil && metrics == "" {
			s.showRestrictions(c.Context())
		}
		if err == nil && health.Status == client.HealthStatusUnhealthy {
			return &cmdline.Error{Status: 1, Err: fmt.Errorf("dvt is %s", runtext.Words(health.Status))}
		}
		return err
	}
	return c
}

// probeTime bounds a probe, and maxProbe the bytes of its answer.
const (
	probeTime = 5 * time.Second
	maxProbe  = 1 << 20
)

// probe reads the health of a server from its listener of metrics, which asks for no token. It says less than the API:
// nothing about why a part is ill.
func probe(ctx context.Context, address string) (out client.ShowHealthHealth, err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/engine/health", nil)
	if err != nil {
		return out, cmdline.Usage(fmt.Errorf("--metrics is no host:port: %w", err))
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return out, &cmdline.Error{Status: 1, Err: fmt.Errorf("no dvt serves its metrics at %s: start it, or give its "+
			"metrics-listen: %w", address, err)}
	}
	defer answer.Body.Close()
	var doc struct {
		Status string
		Checks map[string]struct {
			Status    string
			LatencyMs *float64
		}
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxProbe)).Decode(&doc); err != nil || doc.Status == "" {
		return out, fmt.Errorf("%s answered %d, and not with the health of dvt: give the metrics-listen of a server", address,
			answer.StatusCode)
	}
	out.Status = client.HealthStatus(strings.ToUpper(doc.Status))
	for _, name := range slices.Sorted(maps.Keys(doc.Checks)) {
		check := doc.Checks[name]
		out.Checks = append(out.Checks, client.ShowHealthHealthChecksHealthCheck{Name: name,
			Status: client.HealthStatus(strings.ToUpper(check.Status)), LatencyMs: check.LatencyMs})
	}
	return out, nil
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
