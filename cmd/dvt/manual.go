package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dvt-engine/dvt/client"
)

func manualCommand() *cobra.Command {
	s := &session{}
	return s.command("manual", "Steps that wait for a person: list them, complete them", s.tasksCommand(), s.completeCommand())
}

func (s *session) tasksCommand() *cobra.Command {
	var runID string
	var limit int
	c := &cobra.Command{
		Use: "list", Short: "List what waits for a person, the longest wait first", Args: exact(0),
		RunE: func(c *cobra.Command, _ []string) error {
			var of *string
			if runID != "" {
				of = &runID
			}
			out, err := client.ListManualTasks(c.Context(), s.client, of, &limit, nil)
			if err != nil {
				return failure(err)
			}
			for i := range out.ManualTasks.Edges { // who may complete a step reads its token when completing it
				out.ManualTasks.Edges[i].Node.Token = nil
			}
			if s.output.data() {
				return s.print(out.ManualTasks)
			}
			w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "RUN\tSTEP\tATTEMPT\tSINCE\tUNTIL\tYOU\tWHAT TO DO")
			for _, e := range out.ManualTasks.Edges {
				t := e.Node
				you := "may complete it"
				if t.Action.Outcome != client.ActionOutcomeApply {
					you = deref(t.Action.Code)
				}
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", t.RunId, t.StepId, t.LogicalAttemptId, moment(&t.Since), moment(t.Deadline), you,
					strings.Join(strings.Fields(deref(t.Instructions)), " "))
			}
			if err := w.Flush(); err != nil {
				return err
			}
			if out.ManualTasks.PageInfo.HasNextPage {
				fmt.Fprintf(s.out, "… more: use --limit\n")
			}
			return nil
		},
	}
	c.Flags().StringVar(&runID, "run", "", "only those of this run")
	c.Flags().IntVar(&limit, "limit", 50, "at most so many, up to 200")
	return c
}

// maxTasks is the most tasks that one page has.
const maxTasks = 200

func (s *session) completeCommand() *cobra.Command {
	var outcome, notes string
	var evidence []string
	var how sending
	c := &cobra.Command{
		Use: "complete RUN STEP", Short: "Say how a step that waits for a person ended", Args: exact(2),
		RunE: func(c *cobra.Command, args []string) error {
			as := client.ManualOutcome(strings.ToUpper(outcome))
			switch as {
			case client.ManualOutcomeSucceeded, client.ManualOutcomeFailed, client.ManualOutcomeCancelled:
			default:
				return usage(errors.New("--outcome must be succeeded, failed or cancelled"))
			}
			token, err := s.tokenOf(c, args[0], args[1])
			if err != nil {
				return err
			}
			in := client.CompleteManualStepInput{RunId: args[0], StepId: args[1], Token: token, Outcome: as, EvidenceRefs: evidence}
			if notes != "" {
				in.Notes = &notes
			}
			out, err := client.CompleteManualStep(c.Context(), s.client, in)
			if err != nil {
				return failure(err)
			}
			return s.receipt(c.Context(), out.CompleteManualStep.Signal.Receipt, how)
		},
	}
	c.Flags().StringVar(&outcome, "outcome", "", "succeeded, failed or cancelled")
	c.Flags().StringVar(&notes, "notes", "", "what others should know; kept in the log")
	c.Flags().StringArrayVar(&evidence, "evidence", nil, "address of what proves it; may be given again")
	how.flags(c)
	return c
}

// tokenOf reads the token of a task; an error says why there is none.
func (s *session) tokenOf(c *cobra.Command, runID, stepID string) (string, error) {
	limit := maxTasks
	var after *string
	for {
		out, err := client.ListManualTasks(c.Context(), s.client, &runID, &limit, after)
		if err != nil {
			return "", failure(err)
		}
		for _, e := range out.ManualTasks.Edges {
			t := e.Node
			if t.StepId != stepID {
				continue
			}
			if t.Token != nil {
				return *t.Token, nil
			}
			return "", failure(&client.Error{Code: deref(t.Action.Code), Message: deref(t.Action.Reason), Denial: client.Denial{WhoCould: t.Action.WhoCould}})
		}
		if !out.ManualTasks.PageInfo.HasNextPage {
			return "", failure(&client.Error{Code: "MANUAL_NOT_WAITING", Message: fmt.Sprintf("step %s of run %s does not wait for a person", stepID, runID)})
		}
		after = out.ManualTasks.PageInfo.EndCursor
	}
}
