package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/Khan/genqlient/graphql"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/destinationcmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/erasecmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/incidentcmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/installcmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/secretcmd"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/watchview"
)

func alertsCommand() *cobra.Command {
	s := &session{}
	return s.command("alerts", "States that need somebody's look: list, watch, take on, silence", s.alertsListCommand(),
		s.alertShowCommand(), s.alertsWatchCommand(), s.alertAckCommand(), s.silenceCommand(), s.silencesCommand())
}

func incidentsCommand() *cobra.Command {
	s := &session{}
	return s.command("incidents", "List incidents, take them on and close them", incidentcmd.All(s.shared())...)
}

func destinationsCommand() *cobra.Command {
	s := &session{}
	return s.command("destinations", "Systems that events and alerts are delivered to",
		destinationcmd.All(s.shared())...)
}

func secretsCommand() *cobra.Command {
	s := &session{}
	return s.command("secrets", "Secrets of steps: who read them, what can be read, and their revocation",
		secretcmd.All(s.shared())...)
}

func erasureCommand() *cobra.Command {
	s := &session{}
	return s.command("erasure", "Decide about requests to erase a tenant or a person", erasecmd.All(s.shared())...)
}

func subjectCommand() *cobra.Command {
	s := &session{}
	return s.command("subject", "Export or erase a person", installcmd.SubjectExport(&s.output),
		erasecmd.Subject(s.shared()))
}

// shared returns what commands of other packages need of the session, whose fields are set when a command runs.
func (s *session) shared() cmdline.Session {
	return cmdline.Session{
		Client: func() graphql.Client { return s.client }, Out: func() io.Writer { return s.out },
		Notes: func() io.Writer { return s.err }, IsData: func() bool { return s.output.IsData() }, Print: s.print,
		Table: s.table, When: s.when, Instant: instant,
	}
}

// alertFlags are the flags that select alerts.
type alertFlags struct {
	all, acknowledged                bool
	level, code, project, run, since string
}

func (f *alertFlags) add(c *cobra.Command) {
	c.Flags().BoolVar(&f.acknowledged, "acknowledged", false, "also those that somebody has taken on")
	c.Flags().BoolVar(&f.all, "all", false, "also those, and those that are resolved")
	c.Flags().StringVar(&f.level, "level", "", "only this level and more urgent ones: low, medium or high")
	c.Flags().StringVar(&f.code, "code", "", "only alerts with this code, such as NO_WORKER_FOR_QUEUE")
	c.Flags().StringVar(&f.project, "project", "", "only alerts of this project")
	c.Flags().StringVar(&f.run, "run", "", "only alerts about this run")
}

func (f *alertFlags) filter(now time.Time) (*client.AlertFilter, error) {
	out := &client.AlertFilter{Stages: []client.AlertStage{client.AlertStageOpen}, Code: orNil(strings.ToUpper(f.code)),
		ProjectId: orNil(f.project), RunId: orNil(f.run)}
	if f.acknowledged {
		out.Stages = append(out.Stages, client.AlertStageAcknowledged)
	}
	if f.all {
		out.Stages = nil
	}
	switch strings.ToLower(f.level) {
	case "", "low":
	case "medium":
		out.Levels = []client.AlertLevel{client.AlertLevelMedium, client.AlertLevelHigh}
	case "high":
		out.Levels = []client.AlertLevel{client.AlertLevelHigh}
	default:
		return nil, cmdline.Usage(fmt.Errorf("--level must be low, medium or high; not %q", f.level))
	}
	var err error
	out.Since, err = instant("--since", f.since, now)
	return out, err
}

func (s *session) alertsListCommand() *cobra.Command {
	var f alertFlags
	l := listing{none: "No alert is open; --acknowledged also shows those that somebody has taken on, --all every alert."}
	c := &cobra.Command{
		Use: "list", Short: "List open alerts, newest first", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			filter, err := f.filter(time.Now())
			if err != nil {
				return err
			}
			var all client.ListAlertsAlertsAlertConnection
			return s.list(c.Context(), l, &all, func(ctx context.Context, first int, after *string) (page, error) {
				out, err := client.ListAlerts(ctx, s.client, filter, &first, after)
				if err != nil {
					return page{}, err
				}
				before := all.Edges
				all = out.Alerts
				return prepend(before, &all.Edges, all.PageInfo), nil
			}, func() *console.Table {
				t := s.table("ALERT", "LEVEL", "STATE", "SINCE", "COUNT", "CODE", "ABOUT", "WHY")
				t.Flex, t.FlexLeast, t.Yield = "WHY", leastCause, []string{"COUNT", "CODE", "SINCE"}
				var ids []string
				for _, e := range all.Edges {
					ids = append(ids, e.Node.Id)
				}
				id := s.shortIDs(ids)
				for _, e := range all.Edges {
					a := e.Node
					t.Row(id(a.Id), runtext.Words(a.Level), alertState(a), s.when(&a.RaisedAt), a.Count, alertCode(a), alertAbout(a),
						console.OneLine(a.Note))
				}
				return t
			})
		},
	}
	f.add(c)
	c.Flags().StringVar(&f.since, "since", "", "only alerts raised since then: a time, or how long ago, such as 2h or 7d")
	l.flag(c, 50)
	return c
}

// alertCode names the code of an alert; a person's escalation has none.
func alertCode(a client.AlertLine) string { return cmp.Or(runtext.Deref(a.Code), "none") }

// alertState returns the stage of an alert in words, with its silence.
func alertState(a client.AlertLine) string {
	if a.SilencedUntil != nil && a.Stage != client.AlertStageResolved {
		return runtext.Words(a.Stage) + ", silenced"
	}
	return runtext.Words(a.Stage)
}

// alertAbout names what an alert is about.
func alertAbout(a client.AlertLine) string {
	switch {
	case a.Shared && a.Subject != nil:
		return *a.Subject
	case a.RunId != nil:
		return strings.Join(strings.Fields(runtext.Deref(a.PlanId)+" "+shortID(*a.RunId)+" "+runtext.Deref(a.StepId)), " ")
	case a.Installation:
		return "installation"
	}
	return cmp.Or(runtext.Deref(a.Subject), runtext.Deref(a.ProjectId), "tenant")
}

func (s *session) alertShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show ALERT", Short: "Show an alert: what happened, since when, why, and what to do", Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			out, err := client.ShowAlert(c.Context(), s.client, args[0])
			switch {
			case err != nil:
				return cmdline.Failure(err)
			case out.Alert == nil:
				return cmdline.NotFound("alert")
			}
			return s.printAlert(*out.Alert)
		},
	}
}

func (s *session) printAlert(a client.AlertLine) error {
	if s.output.IsData() {
		return s.print(a)
	}
	// Each line of a person's note is a line here too. It is indented, so that it cannot pass for a line of dvt.
	line := func(name, value string) {
		for text := range strings.Lines(value) {
			fmt.Fprintf(s.out, "%-14s %s\n", name, console.OneLine(text))
			name = ""
		}
	}
	line("alert", a.Id)
	line("state", alertState(a))
	line("level", runtext.Words(a.Level))
	line("code", alertCode(a))
	line("about", alertAbout(a))
	line("what happened", runtext.Deref(a.Meaning))
	line("why", a.Note)
	line("since", s.when(&a.RaisedAt))
	line("last found", fmt.Sprintf("%s, %s", s.when(&a.LastSeenAt), cmdline.Count(a.Count, "time")))
	line("raised by", a.Actor)
	line("what to do", cmp.Or(runtext.Deref(a.WhatToDo),
		"Read why: a person or program asks for help with it. Take the alert on with dvt alerts ack."))
	line("who can help", strings.Join(a.WhoCould, ", "))
	if a.AcknowledgedAt != nil {
		line("taken on", fmt.Sprintf("%s by %s %s", s.when(a.AcknowledgedAt), runtext.Deref(a.AcknowledgedBy),
			runtext.Deref(a.Acknowledgement)))
	}
	if a.SilencedUntil != nil {
		line("silenced", "until "+runtext.Moment(a.SilencedUntil))
	}
	if a.ResolvedAt != nil {
		line("resolved", s.when(a.ResolvedAt)+": "+runtext.Deref(a.Resolution))
	}
	line("page", strings.TrimSuffix(s.server, "/")+a.Page)
	return nil
}

func (s *session) alertsWatchCommand() *cobra.Command {
	var f alertFlags
	c := &cobra.Command{
		Use: "watch", Short: "Print each change of an alert until Ctrl-C", Args: cmdline.ExactArgs(0),
		Long: "Print the open alerts, then a line for each alert that is raised, taken on or resolved, until Ctrl-C.\n" +
			"It looks at the newest 200 alerts. With -o json or yaml each change is a document.",
		RunE: func(c *cobra.Command, _ []string) error { return s.watchAlerts(c.Context(), f) },
	}
	f.add(c)
	return c
}

// watchAlerts prints the alerts that changed since the last look, each time the server says that alerts have changed.
func (s *session) watchAlerts(ctx context.Context, f alertFlags) error {
	filter, err := f.filter(time.Now())
	if err != nil {
		return err
	}
	shown := *filter
	shown.Stages = nil // an alert that leaves its stage is a change
	said := map[string]string{}
	first := 200
	look := func(ctx context.Context) error {
		out, err := client.ListAlerts(ctx, s.client, &shown, &first, nil)
		if err != nil {
			return err
		}
		for i := len(out.Alerts.Edges) - 1; i >= 0; i-- {
			a := out.Alerts.Edges[i].Node
			before, known := said[a.Id]
			said[a.Id] = alertState(a)
			if before == said[a.Id] || !known && a.Stage == client.AlertStageResolved {
				continue
			}
			if s.output.IsData() {
				if err := s.print(a); err != nil {
					return watchview.Stop{Cause: err}
				}
				continue
			}
			fmt.Fprintf(s.out, "%s %s %s %s %s %s\n", runtext.Moment(&a.LastSeenAt), a.Id, alertState(a), alertCode(a),
				alertAbout(a), console.OneLine(cmp.Or(runtext.Deref(a.Resolution), a.Note)))
		}
		return nil
	}
	err = watchview.Follow(ctx, patience, client.Position{}, func(ctx context.Context, _ client.Position,
		took func(client.Position)) error {
		return s.client.WatchAlerts(ctx, func(client.WatchAlertsAlertUpdatesAlertUpdate) error {
			took(client.Position{})
			return look(ctx)
		})
	}, nil)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // Ctrl-C is the normal end
	}
	return cmdline.Failure(err)
}

func (s *session) alertAckCommand() *cobra.Command {
	var note string
	c := &cobra.Command{
		Use: "ack ALERT", Short: "Take an alert on, so that others know", Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			out, err := client.AcknowledgeAlert(c.Context(), s.client, client.AcknowledgeAlertInput{Id: args[0],
				RequestId: orNew(""), Note: orNil(note)})
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.printAlert(out.AcknowledgeAlert.Alert)
		},
	}
	c.Flags().StringVar(&note, "note", "", "what you are going to do, at most 1,000 bytes")
	return c
}

func (s *session) silenceCommand() *cobra.Command {
	var in client.SilenceAlertsInput
	var code, project, run, plan string
	var duration time.Duration
	c := &cobra.Command{
		Use: "silence", Short: "Keep alerts from asking for somebody for some time", Args: cmdline.ExactArgs(0),
		Long: "Keep alerts of the tenant from asking for somebody for some time. They are still raised and listed. Give at\n" +
			"least one of --code, --project, --run and --plan.",
		RunE: func(c *cobra.Command, _ []string) error {
			if code == "" && project == "" && run == "" && plan == "" {
				return cmdline.Usage(errors.New("give at least one of --code, --project, --run and --plan"))
			}
			in.Code, in.ProjectId, in.RunId, in.PlanId = orNil(strings.ToUpper(code)), orNil(project), orNil(run), orNil(plan)
			in.RequestId, in.Until = orNew(in.RequestId), time.Now().Add(duration)
			out, err := client.SilenceAlerts(c.Context(), s.client, in)
			if err != nil {
				return cmdline.Failure(err)
			}
			x := out.SilenceAlerts.Silence
			if s.output.IsData() {
				return s.print(x)
			}
			fmt.Fprintf(s.out, "%s silenced until %s\n", x.Id, runtext.Moment(&x.Until))
			return nil
		},
	}
	c.Flags().StringVar(&code, "code", "", "alerts with this code")
	c.Flags().StringVar(&project, "project", "", "alerts of this project")
	c.Flags().StringVar(&run, "run", "", "alerts about this run")
	c.Flags().StringVar(&plan, "plan", "", "alerts about runs of this plan")
	c.Flags().DurationVar(&duration, "for", time.Hour, "how long, up to 720h")
	c.Flags().StringVar(&in.Reason, "reason", "", "why, for the audit; required")
	c.Flags().StringVar(&in.RequestId, "request-id", "", "client key that makes repeating safe; default: a new one")
	return c
}

func (s *session) silencesCommand() *cobra.Command {
	var end string
	c := &cobra.Command{
		Use: "silences", Short: "List the silences that have not ended, or end one", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if end != "" {
				_, err := client.EndSilence(c.Context(), s.client, client.EndSilenceInput{Id: end, RequestId: orNew("")})
				return cmdline.Failure(err)
			}
			out, err := client.ListAlertSilences(c.Context(), s.client)
			if err != nil {
				return cmdline.Failure(err)
			}
			if s.output.IsData() {
				return s.print(out.AlertSilences)
			}
			t := s.table("SILENCE", "UNTIL", "CODE", "PROJECT", "RUN", "PLAN", "BY", "REASON")
			for _, x := range out.AlertSilences {
				t.Row(x.Id, runtext.Moment(&x.Until), runtext.Deref(x.Code), runtext.Deref(x.ProjectId), runtext.Deref(x.RunId),
					runtext.Deref(x.PlanId), x.Actor, console.OneLine(x.Reason))
			}
			return t.Print()
		},
	}
	c.Flags().StringVar(&end, "end", "", "end this silence")
	return c
}
