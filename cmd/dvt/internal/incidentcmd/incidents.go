// Package incidentcmd has the commands that list incidents and record what people do about them.
package incidentcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

// commands are the commands of a session.
type commands struct{ cmdline.Session }

// maxPage is the greatest number of rows of one page of the API.
const maxPage = 200

// All returns the commands list, show, ack, note, severity and close.
func All(session cmdline.Session) []*cobra.Command {
	s := commands{session}
	return []*cobra.Command{s.list(), s.show(),
		s.act("ack INCIDENT", "Take an incident on, so that others know", "what you are going to do", false,
			func(ctx context.Context, in client.IncidentNoteInput) (client.IncidentLine, error) {
				out, err := client.AcknowledgeIncident(ctx, s.Client(), in)
				if err != nil {
					return client.IncidentLine{}, err
				}
				return out.AcknowledgeIncident.Incident, nil
			}),
		s.act("note INCIDENT", "Add a note to an open incident", "what you found or did", true,
			func(ctx context.Context, in client.IncidentNoteInput) (client.IncidentLine, error) {
				out, err := client.NoteIncident(ctx, s.Client(), in)
				if err != nil {
					return client.IncidentLine{}, err
				}
				return out.NoteIncident.Incident, nil
			}),
		s.severity(),
		s.act("close INCIDENT", "Close an incident with its cause", "what the cause was", true,
			func(ctx context.Context, in client.IncidentNoteInput) (client.IncidentLine, error) {
				out, err := client.CloseIncident(ctx, s.Client(), in)
				if err != nil {
					return client.IncidentLine{}, err
				}
				return out.CloseIncident.Incident, nil
			}),
	}
}

func (s commands) list() *cobra.Command {
	var all bool
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List open incidents, newest first", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxPage {
				return cmdline.Usage(fmt.Errorf("--limit must be from 1 to %d", maxPage))
			}
			openOnly := !all
			out, err := client.ListIncidents(c.Context(), s.Client(), &openOnly, &limit, nil)
			if err != nil {
				return cmdline.Failure(err)
			}
			rows := []client.IncidentLine{}
			for _, e := range out.Incidents.Edges {
				rows = append(rows, e.Node)
			}
			switch {
			case s.IsData():
				err = s.Print(rows)
			case len(rows) == 0:
				fmt.Fprintln(s.Notes(), "No incident is open; --all also shows those that are closed.")
			default:
				t := s.Table("INCIDENT", "SEVERITY", "STATE", "SINCE", "ALERTS", "CODE", "WHAT")
				for _, i := range rows {
					t.Row(i.Id, runtext.Words(i.Severity), state(i), s.When(&i.OpenedAt), i.Alerts, code(i),
						console.OneLine(i.Title))
				}
				err = t.Print()
			}
			if err == nil && out.Incidents.PageInfo.HasNextPage {
				fmt.Fprintf(s.Notes(), "more rows exist; use --limit %d\n", maxPage)
			}
			return err
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also those that are closed")
	c.Flags().IntVar(&limit, "limit", 50, fmt.Sprintf("greatest number of rows, up to %d", maxPage))
	return c
}

func (s commands) show() *cobra.Command {
	return &cobra.Command{
		Use: "show INCIDENT", Short: "Show an incident with what people did about it", Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			out, err := client.ShowIncident(c.Context(), s.Client(), args[0])
			switch {
			case err != nil:
				return cmdline.Failure(err)
			case out.Incident == nil:
				return cmdline.NotFound("incident")
			}
			return s.print(*out.Incident)
		},
	}
}

// act returns a command that records what a person did. needsNote says that the note must not be empty.
func (s commands) act(use, short, what string, needsNote bool,
	do func(ctx context.Context, in client.IncidentNoteInput) (client.IncidentLine, error)) *cobra.Command {
	var note, requestID string
	c := &cobra.Command{
		Use: use, Short: short, Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if needsNote && note == "" {
				return cmdline.Usage(errors.New("--note must say " + what))
			}
			if requestID == "" {
				requestID = uuid.NewString()
			}
			i, err := do(c.Context(), client.IncidentNoteInput{Id: args[0], RequestId: requestID, Note: &note})
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.print(i)
		},
	}
	c.Flags().StringVar(&note, "note", "", what+", at most 1,000 bytes")
	c.Flags().StringVar(&requestID, "request-id", "", "client key that the audit has; default: a new one")
	return c
}

func (s commands) severity() *cobra.Command {
	var note, requestID string
	c := &cobra.Command{
		Use: "severity INCIDENT SEVERITY", Short: "Raise or lower the severity of an open incident",
		Long: "Raise or lower the severity of an open incident: " + strings.Join(severities(), ", ") + ". " +
			"The first is the worst; docs/runbooks says what each means.",
		Args: cmdline.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			severity := client.IncidentSeverity(strings.ToUpper(strings.ReplaceAll(args[1], "-", "_")))
			if !slices.Contains(client.AllIncidentSeverity, severity) {
				return cmdline.Usage(fmt.Errorf("SEVERITY must be one of %s", strings.Join(severities(), ", ")))
			}
			if note == "" {
				return cmdline.Usage(errors.New("--note must say why"))
			}
			if requestID == "" {
				requestID = uuid.NewString()
			}
			out, err := client.SetIncidentSeverity(c.Context(), s.Client(), client.IncidentSeverityInput{Id: args[0],
				RequestId: requestID, Severity: severity, Note: note})
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.print(out.SetIncidentSeverity.Incident)
		},
	}
	c.Flags().StringVar(&note, "note", "", "why, at most 1,000 bytes")
	c.Flags().StringVar(&requestID, "request-id", "", "client key that the audit has; default: a new one")
	return c
}

// severities returns the severities as people write them, the worst first.
func severities() (out []string) {
	for _, s := range client.AllIncidentSeverity {
		out = append(out, strings.ToLower(strings.ReplaceAll(string(s), "_", "-")))
	}
	return out
}

func (s commands) print(i client.IncidentLine) error {
	if s.IsData() {
		return s.Print(i)
	}
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(s.Out(), "%-14s %s\n", name, console.OneLine(value))
		}
	}
	line("incident", i.Id)
	line("severity", runtext.Words(i.Severity))
	line("state", state(i))
	line("code", code(i))
	line("run", runtext.Deref(i.RunId))
	line("what", i.Title)
	line("what to do", runtext.Deref(i.WhatToDo))
	line("runbook", i.Runbook)
	line("since", s.When(&i.OpenedAt))
	line("alerts", fmt.Sprintf("%d, and %d of them are open", i.Alerts, i.OpenAlerts))
	for _, n := range i.Notes {
		name := runtext.Words(n.Act)
		if n.Severity != nil {
			name = runtext.Words(*n.Severity)
		}
		line(name, fmt.Sprintf("%s by %s: %s", s.When(&n.At), n.Actor, n.Text))
	}
	return nil
}

// state returns what has become of an incident in words.
func state(i client.IncidentLine) string {
	switch {
	case i.ClosedAt != nil:
		return "closed"
	case i.AcknowledgedAt != nil:
		return "acknowledged by " + runtext.Deref(i.AcknowledgedBy)
	}
	return "open"
}

// code names the code of an incident; that of a person's escalation has none.
func code(i client.IncidentLine) string {
	if i.Code == nil {
		return "ESCALATE_ALERT"
	}
	return *i.Code
}
