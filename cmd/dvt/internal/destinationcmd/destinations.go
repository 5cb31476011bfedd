// Package destinationcmd has the commands about deliveries to other systems.
package destinationcmd

import (
	"cmp"
	"fmt"
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

// All returns the commands about destinations.
func All(session cmdline.Session) []*cobra.Command {
	s := commands{session}
	return []*cobra.Command{s.list(), s.show(), s.test(), s.enable(), s.disable(), s.replay(), s.deadLetters(),
		s.redrive()}
}

func (s commands) list() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List destinations with what they do now", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			out, err := client.ListDestinations(c.Context(), s.Client())
			switch {
			case err != nil:
				return cmdline.Failure(err)
			case s.IsData():
				return s.Print(out.Destinations)
			case len(out.Destinations) == 0:
				fmt.Fprintln(s.Notes(), "No destination is known. Name a file of destinations in the setting destinations of the "+
					"servers with the duty notify.")
				return nil
			}
			t := s.Table("DESTINATION", "KIND", "STATE", "SENT", "LAST SENT", "WAITING", "DEAD LETTERS", "ADDRESS")
			for _, d := range out.Destinations {
				t.Row(d.Name, kindOf(d), runtext.Words(d.State), d.Sent, s.When(d.LastSentAt), d.Waiting, d.DeadLetters,
					cmp.Or(runtext.Deref(d.Address), "-"))
			}
			return t.Print()
		},
	}
}

func (s commands) show() *cobra.Command {
	return &cobra.Command{
		Use: "show DESTINATION", Short: "Show a destination with what was asked of it", Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			out, err := client.ShowDestination(c.Context(), s.Client(), args[0])
			switch {
			case err != nil:
				return cmdline.Failure(err)
			case out.Destination == nil:
				return notFound()
			case s.IsData():
				return s.Print(out.Destination)
			}
			s.print(out.Destination.DestinationLine)
			if len(out.Destination.Orders) == 0 {
				return nil
			}
			fmt.Fprintln(s.Out())
			t := s.Table("ASKED", "WHAT", "STATE", "MESSAGES", "SENT", "FAILED", "BY", "ERROR")
			for _, o := range out.Destination.Orders {
				t.Row(s.When(&o.At), runtext.Words(o.Kind), runtext.Words(o.State), o.Messages, o.Sent, o.Failed, o.Actor,
					console.OneLine(runtext.Deref(o.Error)))
			}
			return t.Print()
		},
	}
}

func (s commands) test() *cobra.Command {
	var requestID string
	c := &cobra.Command{
		Use: "test DESTINATION", Short: "Send a message that says that it is a test, and wait for the answer",
		Long: "Send a message that says that it is a test, whatever the route of the destination, also while it is disabled.\n" +
			"The command waits up to 15 seconds. It fails when the destination does not accept the message.",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			out, err := client.TestDestination(c.Context(), s.Client(), client.TestDestinationInput{Name: args[0],
				RequestId: orNew(requestID)})
			if err != nil {
				return cmdline.Failure(err)
			}
			o := out.TestDestination.Order
			if s.IsData() {
				if err := s.Print(out.TestDestination); err != nil {
					return err
				}
			}
			switch o.State {
			case client.DeliveryOrderStateDone:
				if !s.IsData() {
					fmt.Fprintf(s.Out(), "%s accepted the test\n", args[0])
				}
			case client.DeliveryOrderStateFailed:
				return fmt.Errorf("%s did not accept the test: %s\nCorrect its entry in the file of destinations or the "+
					"system behind it, then: dvt destinations test %s", args[0], runtext.Deref(o.Error), args[0])
			default:
				fmt.Fprintf(s.Notes(), "no answer has come within 15 s; look later: dvt destinations show %s\n", args[0])
			}
			return nil
		},
	}
	requestFlag(c, &requestID)
	return c
}

func (s commands) enable() *cobra.Command {
	var reason, requestID string
	c := &cobra.Command{
		Use: "enable DESTINATION", Short: "Send messages to a destination again, from where it stood",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if cmdline.IsPreview(c) {
				return s.previewSwitch(c, args[0], true)
			}
			out, err := client.EnableDestination(c.Context(), s.Client(), client.SwitchDestinationInput{Name: args[0],
				RequestId: orNew(requestID), Reason: reason})
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.switched(out.EnableDestination.Destination, out.EnableDestination.Change != nil, out.EnableDestination)
		},
	}
	reasonFlags(c, &reason, &requestID)
	cmdline.AddPreview(c)
	return c
}

func (s commands) disable() *cobra.Command {
	var reason, requestID string
	c := &cobra.Command{
		Use: "disable DESTINATION", Short: "Send nothing to a destination until somebody enables it",
		Long: "Send nothing to a destination until somebody enables it. Its messages wait: events as long as their runs are\n" +
			"kept, changes of alerts for 7 days.",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if cmdline.IsPreview(c) {
				return s.previewSwitch(c, args[0], false)
			}
			out, err := client.DisableDestination(c.Context(), s.Client(), client.SwitchDestinationInput{Name: args[0],
				RequestId: orNew(requestID), Reason: reason})
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.switched(out.DisableDestination.Destination, out.DisableDestination.Change != nil,
				out.DisableDestination)
		},
	}
	reasonFlags(c, &reason, &requestID)
	cmdline.AddPreview(c)
	return c
}

// previewSwitch says what enable or disable would do.
func (s commands) previewSwitch(c *cobra.Command, name string, enable bool) error {
	out, err := client.ShowDestination(c.Context(), s.Client(), name)
	switch {
	case err != nil:
		return cmdline.Failure(err)
	case out.Destination == nil:
		return notFound()
	case s.IsData():
		return s.Print(out.Destination)
	}
	isDisabled := out.Destination.State == client.DestinationStateDisabled
	what := fmt.Sprintf("%s would get no messages until somebody enables it. They wait.", name)
	switch {
	case enable && !isDisabled, !enable && isDisabled && out.Destination.DisabledBy != nil:
		what = "Nothing would change."
	case enable:
		what = fmt.Sprintf("%s would get the messages since %s, and then new ones.", name,
			s.When(out.Destination.BeginsAt))
	}
	fmt.Fprintln(s.Out(), what)
	s.print(out.Destination.DestinationLine)
	return nil
}

// switched prints the destination after enable or disable.
func (s commands) switched(d client.DestinationLine, isChanged bool, doc any) error {
	if s.IsData() {
		return s.Print(doc)
	}
	if !isChanged {
		fmt.Fprintln(s.Notes(), "nothing changed: it was already so")
	}
	s.print(d)
	return nil
}

// print prints what is known about a destination.
func (s commands) print(d client.DestinationLine) {
	line := func(name, value string) {
		if value != "" && value != "-" {
			fmt.Fprintf(s.Out(), "%-14s %s\n", name, console.OneLine(value))
		}
	}
	line("destination", d.Name)
	line("kind", kindOf(d))
	line("address", runtext.Deref(d.Address))
	line("state", runtext.Words(d.State))
	line("why", d.Why)
	line("since", s.When(d.Since))
	line("disabled by", runtext.Deref(d.DisabledBy))
	line("begins at", s.When(d.BeginsAt))
	line("sent", fmt.Sprintf("%d, and %d tries failed", d.Sent, d.Failed))
	line("last sent", s.When(d.LastSentAt))
	line("last error", runtext.Deref(d.LastError))
	line("waiting", fmt.Sprint(d.Waiting))
	line("oldest", s.When(d.OldestWaitingAt))
	line("dead letters", fmt.Sprintf("%d, and %d fell out", d.DeadLetters, d.DroppedDeadLetters))
	if d.MissedRuns > 0 {
		line("missed", fmt.Sprintf("%d runs were deleted before it took all their messages", d.MissedRuns))
	}
	if d.Route != nil {
		line("route", d.Route.Text)
	}
	if d.DeadLetters > 0 {
		fmt.Fprintf(s.Notes(), "look at the dead letters: dvt destinations dead-letters %s\n", d.Name)
	}
}

func kindOf(d client.DestinationLine) string {
	if d.Kind == nil {
		return "-"
	}
	return strings.ToLower(string(*d.Kind))
}

func notFound() error { return cmdline.NotFound("destination") }

func orNew(requestID string) string {
	if requestID == "" {
		return uuid.NewString()
	}
	return requestID
}

func requestFlag(c *cobra.Command, requestID *string) {
	c.Flags().StringVar(requestID, "request-id", "", "client key that makes repeating safe; default: a new one")
}

// reasonFlags adds the flags of a change that is kept in the audit.
func reasonFlags(c *cobra.Command, reason, requestID *string) {
	c.Flags().StringVar(reason, "reason", "", "why; kept in the audit")
	requestFlag(c, requestID)
	cmdline.RequireReason(c)
}
