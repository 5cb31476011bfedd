package retentioncmd

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/cmdline"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/console"
	"github.com/dvt-engine/dvt/cmd/dvt/internal/runtext"
)

// Holds returns the commands place, lift and list.
func Holds(session cmdline.Session) []*cobra.Command {
	s := commands{session}
	return []*cobra.Command{s.place(), s.lift(), s.listHolds()}
}

func (s commands) place() *cobra.Command {
	var run, plan, subject string
	var in client.PlaceHoldInput
	c := &cobra.Command{
		Use: "place", Short: "Keep a run, the runs of a plan or those of a person until the hold is lifted",
		Long: "Keep a run, the runs of a plan or those of a person until the hold is lifted: neither the run nor its logs\n" +
			"and artifacts are archived or deleted. Runs of a person are those that the person started, signalled, decided\n" +
			"about or wrote a note to.",
		Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			given := 0
			for kind, value := range map[client.HoldKind]string{client.HoldKindRun: run, client.HoldKindPlan: plan,
				client.HoldKindSubject: subject} {
				if value != "" {
					in.Kind, in.Subject = kind, value
					given++
				}
			}
			if given != 1 {
				return cmdline.Usage(errors.New("give one of --run, --plan and --subject"))
			}
			if in.RequestId == "" {
				in.RequestId = uuid.NewString()
			}
			out, err := client.PlaceHold(c.Context(), s.Client(), in)
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.printHold(out.PlaceHold.Hold, "is placed")
		},
	}
	c.Flags().StringVar(&run, "run", "", "the whole id of a run")
	c.Flags().StringVar(&plan, "plan", "", "the id of a plan")
	c.Flags().StringVar(&subject, "subject", "", "a person, as the audit names them")
	s.reason(c, &in.Reason, &in.RequestId)
	return c
}

func (s commands) reason(c *cobra.Command, reason, requestID *string) {
	c.Flags().StringVar(reason, "reason", "", "why; kept in the audit")
	c.Flags().StringVar(requestID, "request-id", "", "client key that makes repeating safe; default: a new one")
	_ = c.MarkFlagRequired("reason") // cannot fail: the flag exists
}

func (s commands) lift() *cobra.Command {
	var in client.LiftHoldInput
	c := &cobra.Command{
		Use: "lift HOLD", Short: "Lift a hold; the next pass archives and deletes runs that are old enough",
		Args: cmdline.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			in.Id = args[0]
			if in.RequestId == "" {
				in.RequestId = uuid.NewString()
			}
			out, err := client.LiftHold(c.Context(), s.Client(), in)
			if err != nil {
				return cmdline.Failure(err)
			}
			return s.printHold(out.LiftHold.Hold, "is lifted")
		},
	}
	s.reason(c, &in.Reason, &in.RequestId)
	return c
}

func (s commands) printHold(h client.LegalHoldRow, state string) error {
	if s.IsData() {
		return s.Print(h)
	}
	_, err := fmt.Fprintf(s.Out(), "hold %s on %s %s %s\n", h.Id, strings.ToLower(string(h.Kind)),
		console.OneLine(h.Subject), state)
	return err
}

func (s commands) listHolds() *cobra.Command {
	var all bool
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List open holds, newest first", Args: cmdline.ExactArgs(0),
		RunE: func(c *cobra.Command, _ []string) error {
			if limit < 1 || limit > maxPage {
				return cmdline.Usage(fmt.Errorf("--limit must be from 1 to %d", maxPage))
			}
			open := !all
			out, err := client.ListHolds(c.Context(), s.Client(), &open, &limit, nil)
			if err != nil {
				return cmdline.Failure(err)
			}
			rows := []client.LegalHoldRow{}
			for _, e := range out.LegalHolds.Edges {
				rows = append(rows, e.Node)
			}
			switch {
			case s.IsData():
				return s.Print(rows)
			case len(rows) == 0:
				fmt.Fprintln(s.Notes(), "No hold is open; --all also shows those that were lifted.")
				return nil
			}
			t := s.Table("HOLD", "ON", "WHICH", "SINCE", "BY", "WHY", "LIFTED", "BY")
			for _, h := range rows {
				t.Row(h.Id, strings.ToLower(string(h.Kind)), console.OneLine(h.Subject), s.When(&h.PlacedAt), h.PlacedBy,
					console.OneLine(h.Reason), s.When(h.LiftedAt), runtext.Deref(h.LiftedBy))
			}
			return s.end(t, out.LegalHolds.PageInfo.HasNextPage)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "also those that were lifted")
	c.Flags().IntVar(&limit, "limit", 50, fmt.Sprintf("greatest number of rows, up to %d", maxPage))
	return c
}
