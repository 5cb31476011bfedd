package destinationcmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

const (
	maxPage = 200 // rows of one page of the API
	// manyMessages is the number of messages above which a replay needs --yes.
	manyMessages = 1000
)

func (s commands) replay() *cobra.Command {
	var reason, requestID, since, until string
	var yes bool
	var f client.DeliveryFilter
	var levels []string
	c := &cobra.Command{
		Use: "replay DESTINATION", Short: "Send the messages of a range of time again",
		Long: "Send the messages of a range of time again, with the same ids and marked as replayed. The route of the\n" +
			"destination selects them, and the flags narrow it. New messages of other runs do not wait for them. Look first:\n" +
			"--preview counts them. More than 1,000 need --yes.",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			now := time.Now()
			from, err := s.Instant("--since", since, now)
			if err != nil {
				return err
			}
			if from == nil {
				return cmdline.Usage(errors.New("--since must say from when on, such as 2h or 2026-11-28T06:00:00Z"))
			}
			to, err := s.Instant("--until", until, now)
			if err != nil {
				return err
			}
			if f.Levels, err = cmdline.Words("--level", levels, client.AllAlertLevel); err != nil {
				return err
			}
			if !yes || cmdline.IsPreview(c) {
				if goOn, err := s.previewReplay(c, args[0], *from, to, f); err != nil || !goOn {
					return err
				}
			}
			out, err := client.ReplayDestination(c.Context(), s.Client(), client.ReplayDestinationInput{Name: args[0],
				RequestId: orNew(requestID), Reason: reason, Since: *from, Until: to, Filter: &f})
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.ordered(args[0], out.ReplayDestination.Order, out.ReplayDestination)
		},
	}
	c.Flags().StringVar(&since, "since", "", "from this time on, or from a duration ago: 2h, 2026-11-28T06:00:00Z")
	c.Flags().StringVar(&until, "until", "", "before this time, or before a duration ago; default: now")
	c.Flags().StringSliceVar(&f.Topics, "topic", nil, "only events, or only alerts")
	c.Flags().StringSliceVar(&f.Tenants, "tenant", nil, "only messages of these tenants")
	c.Flags().StringSliceVar(&f.Projects, "project", nil, "only messages of these projects")
	c.Flags().StringSliceVar(&f.Types, "type", nil, "only messages of these types, such as StepFailed")
	c.Flags().StringSliceVar(&levels, "level", nil, "only alerts with these levels: low, medium, high")
	c.Flags().StringSliceVar(&f.Codes, "code", nil, "only alerts with these codes")
	c.Flags().BoolVar(&yes, "yes", false, "also when there are more than 1,000 messages")
	reasonFlags(c, &reason, &requestID)
	cmdline.AddPreview(c)
	return c
}

// previewReplay says what a replay would send. It returns whether the replay may go on, and an error when it is large.
func (s commands) previewReplay(c *cobra.Command, name string, since time.Time, until *time.Time,
	f client.DeliveryFilter) (bool, error) {
	out, err := client.PreviewReplay(c.Context(), s.Client(), name, since, until, &f)
	if err != nil {
		return false, cmdline.Failure(err)
	}
	p := out.PreviewReplay
	count := cmdline.Count(p.Messages, "message")
	if p.More {
		count = "more than " + count
	}
	switch {
	case cmdline.IsPreview(c) && s.IsData():
		return false, s.Print(p)
	case cmdline.IsPreview(c):
		fmt.Fprintf(s.Out(), "%s would get %s again", name, count)
		if p.First != nil {
			fmt.Fprintf(s.Out(), ", from %s to %s", s.When(p.First), s.When(p.Last))
		}
		fmt.Fprintln(s.Out())
		return false, nil
	case p.Messages == 0 && !p.More:
		fmt.Fprintln(s.Notes(), "no message of this range goes to the destination; nothing was done")
		return false, nil
	case p.Messages > manyMessages || p.More:
		return false, fmt.Errorf("%s would get %s again. Narrow the range, or repeat the command with --yes", name, count)
	}
	return true, nil
}

func (s commands) deadLetters() *cobra.Command {
	var limit int
	c := &cobra.Command{
		Use: "dead-letters DESTINATION", Short: "List the messages that a destination did not accept, newest first",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 1 || limit > maxPage {
				return cmdline.Usage(fmt.Errorf("--limit must be from 1 to %d", maxPage))
			}
			out, err := client.ListDeadDeliveries(c.Context(), s.Client(), args[0], &limit, nil)
			if err != nil {
				return cmdline.Failure(err)
			}
			edges := out.DeadDeliveries.Edges
			switch {
			case s.IsData():
				rows := make([]any, len(edges))
				for i, e := range edges {
					rows[i] = e.Node
				}
				err = s.Print(rows)
			case len(edges) == 0:
				fmt.Fprintln(s.Notes(), "No message is a dead letter.")
			default:
				t := s.Table("LETTER", "AT", "TYPE", "RUN", "TRIED", "ERROR")
				for _, e := range edges {
					d := e.Node
					t.Row(d.Id, s.When(&d.At), d.Type, runtext.Deref(d.RunId), d.Tries, console.OneLine(d.Error))
				}
				err = t.Print()
			}
			if err == nil && out.DeadDeliveries.PageInfo.HasNextPage {
				fmt.Fprintf(s.Notes(), "more rows exist; use --limit %d\n", maxPage)
			}
			return err
		},
	}
	c.Flags().IntVar(&limit, "limit", 50, fmt.Sprintf("greatest number of rows, up to %d", maxPage))
	return c
}

func (s commands) redrive() *cobra.Command {
	var reason, requestID string
	var all bool
	c := &cobra.Command{
		Use: "redrive DESTINATION [LETTER...]", Short: "Send dead letters again, with the same ids",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmdline.Usage(errors.New("give DESTINATION"))
			}
			name, ids := args[0], args[1:]
			if all == (len(ids) > 0) {
				return cmdline.Usage(errors.New("give either numbers of dead letters or --all"))
			}
			if cmdline.IsPreview(c) {
				return s.previewRedrive(c, name, ids)
			}
			out, err := client.RedriveDeliveries(c.Context(), s.Client(), client.RedriveDeliveriesInput{Name: name,
				RequestId: orNew(requestID), Reason: reason, Ids: ids, All: &all})
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.ordered(name, out.RedriveDeliveries.Order, out.RedriveDeliveries)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "all dead letters of the destination")
	reasonFlags(c, &reason, &requestID)
	cmdline.AddPreview(c)
	return c
}

// previewRedrive says how many dead letters would be sent again.
func (s commands) previewRedrive(c *cobra.Command, name string, ids []string) error {
	out, err := client.ShowDestination(c.Context(), s.Client(), name)
	switch {
	case err != nil:
		return cmdline.Failure(err)
	case out.Destination == nil:
		return notFound()
	case s.IsData():
		return s.Print(out.Destination)
	}
	n := out.Destination.DeadLetters
	if len(ids) > 0 {
		n = len(ids)
	}
	fmt.Fprintf(s.Out(), "%s would get %s again\n", name, cmdline.Count(n, "dead letter"))
	return nil
}

// ordered prints an order that was taken.
func (s commands) ordered(name string, o client.DeliveryOrderLine, doc any) error {
	if s.IsData() {
		return s.Print(doc)
	}
	fmt.Fprintf(s.Out(), "%s of %s is ordered: %s\n", runtext.Words(o.Kind), name, o.Id)
	fmt.Fprintf(s.Notes(), "see how far it is: dvt destinations show %s\n", name)
	return nil
}
